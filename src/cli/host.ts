/** What surrounds the command line: its streams and its environment. */
import type { Readable, Writable } from "node:stream";

/** Where input comes from. */
export type Input = Readable & { readonly isTTY?: boolean };
/** Where output goes. */
export type Sink = Writable & {
  readonly isTTY?: boolean;
  readonly columns?: number;
  readonly rows?: number;
};

export interface Host {
  readonly stdin: Input;
  readonly stdout: Sink;
  readonly stderr: Sink;
  readonly environment: Readonly<Record<string, string | undefined>>;
}

/** The process. */
export const processHost: Host = {
  stdin: process.stdin,
  stdout: process.stdout,
  stderr: process.stderr,
  environment: process.env,
};

/** There is somebody who can be asked. */
export function isInteractive({ stdin, stdout }: Host): boolean {
  return stdin.isTTY === true && stdout.isTTY === true;
}
