#!/usr/bin/env node
/** `throttr-edge`: the command line of Throttr Edge, as a process. */
import { Clients } from "./connection.ts";
import { ExitCode } from "./exit-code.ts";
import { processHost } from "./host.ts";
import { Interruption } from "./interruption.ts";
import { completeLanguage } from "./node-20.ts";
import { carryOut } from "./program.ts";

completeLanguage();

// Whoever reads has seen enough: as with `| head`.
process.stdout.on("error", (error: NodeJS.ErrnoException) => {
  if (error.code !== "EPIPE") throw error;
  process.exit(ExitCode.done);
});

const ending = new Interruption();
const clients = new Clients();
try {
  const exitCode = await carryOut(process.argv.slice(2), {
    host: processHost,
    clients,
    flags: {},
    signal: ending.signal,
    renewSignal: () => ending.renew(),
    isPrompt: false,
    exitCode: ExitCode.done,
  });
  process.exitCode = exitCode === ExitCode.interrupted ? ending.exitCode : exitCode;
} finally {
  ending.stop();
  await clients.close();
  // A pipe that nobody has ended must not keep the process.
  process.stdin.destroy();
}
