/** What the command line exits with. */

/** Scripts tell outcomes apart by these, so they are stable. */
export const ExitCode = {
  done: 0,
  /** The answer is no: there is no such record, a limit refuses, a semaphore has no room. */
  refused: 1,
  /** The command, an argument or the configuration is wrong: nothing was sent. */
  usage: 2,
  /** The server has refused the call, or failed. */
  server: 3,
  /** The server could not be reached, did not answer in time, or the connection was lost. */
  connection: 4,
  /** A fault of the command line itself. */
  fault: 70,
  /** Ended by SIGINT, as Ctrl-C sends it. */
  interrupted: 130,
  /** Ended by SIGTERM. */
  terminated: 143,
} as const;

/** One of `ExitCode`, or that of a command which was run. */
export type ExitCode = number;
