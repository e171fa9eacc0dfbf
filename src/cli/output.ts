/**
 * Output of commands: JSON for scripts, or text for people.
 *
 * Results go to standard output, everything else to standard error, so `--json` output can be piped as it is.
 */
import { styleText } from "node:util";
import { ExitCode } from "./exit-code.ts";
import type { Host, Sink } from "./host.ts";

/** Names of styles, as `node:util` has them. */
type Style = Parameters<typeof styleText>[0];

/** Values that `jsonOf` accepts: JSON values, and bigints, which become decimal strings. */
export type Json =
  | string
  | number
  | bigint
  | boolean
  | null
  | undefined
  | readonly Json[]
  | { readonly [name: string]: Json };

/** One line of JSON. Bigints become strings, because JSON readers round numbers above 2^53. */
export function jsonOf(value: Json): string {
  return JSON.stringify(value, (_name, field: unknown) =>
    typeof field === "bigint" ? String(field) : field,
  );
}

/** Prints the results of one command. */
export class Output {
  /** Whether `--json` was given. */
  readonly isJson: boolean;
  /** Whether standard output is a terminal. */
  readonly isTerminal: boolean;
  /** Characters in a line; 80 where the width is not known. */
  readonly columns: number;
  /** For results. */
  readonly #stdout: Sink;
  /** For remarks, which must not end up in a pipe. */
  readonly #stderr: Sink;
  /** See https://no-color.org: any value but an empty one means no colours. */
  readonly #isColoured: boolean;

  constructor({ stdout, stderr, environment }: Host, isJson: boolean) {
    this.#stdout = stdout;
    this.#stderr = stderr;
    this.isJson = isJson;
    this.isTerminal = stdout.isTTY === true;
    this.columns = stdout.columns ?? 80;
    this.#isColoured = this.isTerminal && !environment.NO_COLOR && environment.TERM !== "dumb";
  }

  /** Prints the result of a command: a JSON value with `--json`, otherwise text; null prints nothing. */
  async print(json: Json, text: () => string | null): Promise<void> {
    const line = this.isJson ? jsonOf(json) : text();
    if (line !== null) await this.write(`${line}\n`);
  }

  /** Prints whether a call was applied, and returns the exit code that says so: 0 or 1. */
  async outcome(
    json: Json,
    isApplied: boolean,
    applied: string,
    refused: string,
  ): Promise<ExitCode> {
    await this.print(json, () => (isApplied ? this.good(applied) : this.bad(refused)));
    return isApplied ? ExitCode.done : ExitCode.refused;
  }

  /** Prints a line of text; nothing with `--json`. */
  async text(line: string): Promise<void> {
    if (!this.isJson) await this.write(`${line}\n`);
  }

  /** Prints a remark on standard error; nothing with `--json`. */
  note(line: string): void {
    if (!this.isJson) this.#stderr.write(`${line}\n`);
  }

  /**
   * Writes to standard output as it is, and waits until the reader has taken it. Without the wait, a listing of a
   * large namespace into a slow pipe would be held in memory whole.
   */
  async write(chunk: string | Uint8Array): Promise<void> {
    // False says that the stream buffers in memory. A reader that goes away emits `close` and no
    // `drain`.
    if (this.#stdout.write(chunk)) return;
    await new Promise<void>((resolve) => {
      const settle = (): void => {
        this.#stdout.off("drain", settle);
        this.#stdout.off("close", settle);
        resolve();
      };
      this.#stdout.once("drain", settle);
      this.#stdout.once("close", settle);
    });
  }

  /** Text in a style; plain unless the output is a terminal with colours and `NO_COLOR` is not set. */
  style(style: Style, text: string): string {
    return this.#isColoured ? styleText(style, text, { validateStream: false }) : text;
  }

  /** Text that says that something succeeded. */
  good = (text: string): string => this.style("green", text);
  /** Text that says that something failed or was refused. */
  bad = (text: string): string => this.style("red", text);
  /** Text beside the point. */
  faint = (text: string): string => this.style("dim", text);
  /** Text that a person looks for first. */
  strong = (text: string): string => this.style("bold", text);
}
