/** The command line as its users have it: a process of the built file, on pipes or on a terminal. */
import { spawn } from "node:child_process";
import type { Readable } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";

/** How long anything may take to be printed. */
const PRINTED_TIMEOUT_MS = 30_000;
const CLI = fileURLToPath(new URL("../../../dist/cli.js", import.meta.url));

export interface Ended {
  /** Null where a signal has ended it. */
  readonly exitCode: number | null;
  readonly out: string;
  readonly err: string;
}

export interface RunOptions {
  readonly environment?: Readonly<Record<string, string>>;
  readonly input?: string | Uint8Array;
  /** The program that runs it; the one that runs the tests unless given. */
  readonly node?: string;
}

/** A process that runs. */
export interface Running {
  readonly ended: Promise<Ended>;
  /** Resolves when standard output has a text, behind those of before; rejects when it ends without. */
  printed(text: string): Promise<void>;
  /** The same of standard error. */
  noted(text: string): Promise<void>;
  /** Types, at a terminal. */
  type(text: string): void;
  signal(name: NodeJS.Signals): void;
}

/** Nothing of whoever runs the tests. */
function environmentOf(more: Readonly<Record<string, string>>): Record<string, string> {
  const { PATH = "", HOME = "" } = process.env;
  return { PATH, HOME, ...more };
}

/** Runs a command line to its end. */
export function cli(args: readonly string[], options: RunOptions = {}): Promise<Ended> {
  return startCli(args, options).ended;
}

export function startCli(
  args: readonly string[],
  { environment = {}, input = "", node = process.execPath }: RunOptions = {},
): Running {
  return started(node, [CLI, ...args], environment, input);
}

/** Starts a command line at a terminal of 100 columns. */
export function startAtTerminal(
  args: readonly string[],
  environment: Readonly<Record<string, string>>,
): Running {
  const words = [process.execPath, CLI, ...args].map((word) => `'${word}'`).join(" ");
  const line = `stty cols 100 rows 30; exec ${words}`;
  const terminal = { TERM: "xterm", SHELL: "/bin/sh", ...environment };
  return started("script", ["-qfec", line, "/dev/null"], terminal, null);
}

function started(
  program: string,
  args: readonly string[],
  environment: Readonly<Record<string, string>>,
  input: string | Uint8Array | null,
): Running {
  const child = spawn(program, args, { env: environmentOf(environment) });
  const out = new Text(child.stdout);
  const err = new Text(child.stderr);
  // It may end before it has read.
  child.stdin.on("error", () => {});
  if (input !== null) child.stdin.end(input);
  const ended = new Promise<Ended>((resolve, reject) => {
    child.once("error", reject);
    child.once("close", (exitCode) => resolve({ exitCode, out: out.all, err: err.all }));
  });
  const given = async (stream: Text, text: string): Promise<void> => {
    const give = new AbortController();
    const late = sleep(PRINTED_TIMEOUT_MS, undefined, { signal: give.signal, ref: false });
    const without = Promise.race([ended, late]).then(() => {
      throw new Error(`there was no ${JSON.stringify(text)}: ${out.all}${err.all}`);
    });
    try {
      await Promise.race([stream.has(text), without]);
    } finally {
      without.catch(() => {});
      give.abort();
    }
  };
  return {
    ended,
    printed: (text) => given(out, text),
    noted: (text) => given(err, text),
    type: (text) => void child.stdin.write(text),
    signal: (name) => void child.kill(name),
  };
}

/** What a stream has given so far. */
class Text {
  all = "";
  /** Up to here it was waited for. */
  #seen = 0;
  readonly #looks = new Set<() => void>();

  constructor(stream: Readable) {
    stream.setEncoding("utf8").on("data", (text: string) => {
      this.all += text;
      for (const look of this.#looks) look();
    });
  }

  async has(text: string): Promise<void> {
    await new Promise<void>((resolve) => {
      const look = (): void => {
        const at = this.all.indexOf(text, this.#seen);
        if (at < 0) return;
        this.#seen = at + text.length;
        this.#looks.delete(look);
        resolve();
      };
      this.#looks.add(look);
      look();
    });
  }
}
