/**
 * Exit codes of the command line.
 *
 * Scripts tell outcomes apart by them, so they are stable: a code never changes its meaning. docs/cli.md lists them.
 */

import { constants } from "node:os";

export const ExitCode = {
  /** The command did what it says. */
  done: 0,
  /** The answer is no: the record does not exist, a limit refused, a semaphore has no room, or a port is taken. */
  refused: 1,
  /** The command, an argument or the configuration is invalid. Nothing was sent. */
  usage: 2,
  /** The server refused the call, or failed. */
  server: 3,
  /** The server could not be reached, did not answer in time, or the connection was lost. */
  connection: 4,
  /** A fault of the command line itself. */
  fault: 70,
  /** Ended by SIGINT, which Ctrl-C sends: 128 + 2, as shells report it. */
  interrupted: 130,
  /** Ended by SIGTERM: 128 + 15. */
  terminated: 143,
} as const;

/** One of `ExitCode`, or the exit code of a program that `acquire -- PROGRAM` ran. */
export type ExitCode = number;

/** What shells add to the number of the signal that ended a program. */
const SIGNALLED = 128;

/** The exit code of a child process: its own, or, as shells report it, 128 and the number of its signal. */
export function childExitCode(code: number | null, signal: NodeJS.Signals | null): ExitCode {
  return code ?? SIGNALLED + (signal === null ? 0 : constants.signals[signal]);
}
