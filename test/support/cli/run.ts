/** The command line in this process, with streams of its own. */
import { Clients } from "../../../src/cli/connection.ts";
import { ExitCode } from "../../../src/cli/exit-code.ts";
import { carryOut } from "../../../src/cli/program.ts";
import { fakeHost, type FakeHostOptions } from "./host.ts";

/** What a command line has printed, and its exit code. */
export interface Ran {
  readonly exitCode: number;
  readonly out: string;
  readonly err: string;
}

/** Runs a command line to its end. */
export async function runCli(args: readonly string[], options: FakeHostOptions): Promise<Ran> {
  const host = fakeHost(options);
  const clients = new Clients();
  const signal = new AbortController().signal;
  const exitCode = await carryOut(args, {
    host,
    clients,
    flags: {},
    signal,
    renewSignal: () => signal,
    isPrompt: false,
    exitCode: ExitCode.done,
  });
  await clients.close();
  return { exitCode, ...host.printed };
}
