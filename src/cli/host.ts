/**
 * The surroundings of the command line: its streams and its environment.
 *
 * Commands never use `process` directly, so tests run them in memory with streams of their own.
 */
import type { Readable, Writable } from "node:stream";

/** A stream to read input from. */
export type Input = Readable & { readonly isTTY?: boolean };
/** A stream to write output to. `columns` and `rows` are set on terminals only. */
export type Sink = Writable & {
  readonly isTTY?: boolean;
  readonly columns?: number;
  readonly rows?: number;
};

/** What a process has and a test replaces. */
export interface Host {
  readonly stdin: Input;
  readonly stdout: Sink;
  readonly stderr: Sink;
  readonly environment: Readonly<Record<string, string | undefined>>;
}

/** The host of the real command line. */
export const processHost: Host = {
  stdin: process.stdin,
  stdout: process.stdout,
  stderr: process.stderr,
  environment: process.env,
};

/** Whether a person can be asked a question: input and output both are a terminal. */
export function isInteractive({ stdin, stdout }: Host): boolean {
  return stdin.isTTY === true && stdout.isTTY === true;
}
