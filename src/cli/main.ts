#!/usr/bin/env node
/**
 * The entry point of `throttr-edge`: connects the command line with the process.
 *
 * Everything that only a process has is here: signals, a closed pipe, the exit code. The rest takes it from `Host`.
 */
import { deploy, STAND_ALONE } from "../base/deployment.ts";
import { endWithoutReaders, endWithReader } from "./closed-output.ts";
import { Clients } from "./connection.ts";
import { ExitCode } from "./exit-code.ts";
import { processHost } from "./host.ts";
import { Interruption } from "./interruption.ts";
import { completeLanguage } from "./node-20.ts";
import { carryOut } from "./program.ts";

// Before anything else runs: modules that were imported above use it in functions only.
completeLanguage();
// The servers that it checks, starts and deploys are Workers of their own: their variables have no prefix.
deploy(STAND_ALONE);

endWithReader(process);

// Listens before the first command runs, so that no signal is lost.
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
  // An input pipe that its writer keeps open would keep the process alive.
  process.stdin.destroy();
  endWithoutReaders(process);
}
