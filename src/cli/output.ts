/** What commands print: JSON for scripts, or text for people. */
import { styleText } from "node:util";
import type { Host, Sink } from "./host.ts";

type Style = Parameters<typeof styleText>[0];

/** Anything that `jsonOf` writes: plain values; bigints become decimal text. */
export type Json =
  | string
  | number
  | bigint
  | boolean
  | null
  | undefined
  | readonly Json[]
  | { readonly [name: string]: Json };

/** One line of JSON. */
export function jsonOf(value: Json): string {
  return JSON.stringify(value, (_name, field: unknown) =>
    typeof field === "bigint" ? String(field) : field,
  );
}

export class Output {
  readonly isJson: boolean;
  /** People look at it. */
  readonly isTerminal: boolean;
  /** Characters of a line. */
  readonly columns: number;
  readonly #stdout: Sink;
  readonly #stderr: Sink;
  readonly #isColoured: boolean;

  constructor({ stdout, stderr, environment }: Host, isJson: boolean) {
    this.#stdout = stdout;
    this.#stderr = stderr;
    this.isJson = isJson;
    this.isTerminal = stdout.isTTY === true;
    this.columns = stdout.columns ?? 80;
    this.#isColoured = this.isTerminal && !environment.NO_COLOR && environment.TERM !== "dumb";
  }

  /** Prints what a command has found: a JSON value, or text for people; of text, null prints nothing. */
  async print(json: Json, text: () => string | null): Promise<void> {
    const line = this.isJson ? jsonOf(json) : text();
    if (line !== null) await this.write(`${line}\n`);
  }

  /** Prints a line for people only. */
  async text(line: string): Promise<void> {
    if (!this.isJson) await this.write(`${line}\n`);
  }

  /** Says something beside the result, on standard error, to people only. */
  note(line: string): void {
    if (!this.isJson) this.#stderr.write(`${line}\n`);
  }

  /** Writes to standard output as it is, and waits while nobody reads. */
  async write(chunk: string | Uint8Array): Promise<void> {
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

  /** Text in a style, on a terminal that has colours. */
  style(style: Style, text: string): string {
    return this.#isColoured ? styleText(style, text, { validateStream: false }) : text;
  }

  good = (text: string): string => this.style("green", text);
  bad = (text: string): string => this.style("red", text);
  faint = (text: string): string => this.style("dim", text);
  strong = (text: string): string => this.style("bold", text);
}
