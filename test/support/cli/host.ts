/** Surroundings of the command line that a test can look at. */
import { PassThrough, Readable, Writable } from "node:stream";
import type { Host } from "../../../src/cli/host.ts";

export interface FakeHost extends Host {
  /** What was printed so far. */
  readonly printed: { out: string; err: string };
}

export interface FakeHostOptions {
  readonly input?: string | Uint8Array;
  readonly environment?: Readonly<Record<string, string>>;
  readonly isTerminal?: boolean;
}

export function fakeHost({
  input = "",
  environment = {},
  isTerminal = false,
}: FakeHostOptions = {}): FakeHost {
  const printed = { out: "", err: "" };
  const sink = (name: "out" | "err") =>
    Object.assign(
      new Writable({
        write: (chunk: Buffer, _encoding, done) => {
          printed[name] += chunk.toString();
          done();
        },
      }),
      { isTTY: isTerminal, columns: 80 },
    );
  const stdin = isTerminal ? new PassThrough() : Readable.from([Buffer.from(input)]);
  return {
    stdin: Object.assign(stdin, { isTTY: isTerminal }),
    stdout: sink("out"),
    stderr: sink("err"),
    environment,
    printed,
  };
}
