/**
 * A screen of the terminal that is redrawn in place, for `monitor`.
 *
 * It uses the terminal's alternate screen, so the lines that were there before come back when it ends. Into a pipe or
 * a file, one view follows the other instead.
 */
import type { Host } from "./host.ts";
import type { Output } from "./output.ts";

const ENTER = "\u001b[?1049h\u001b[?25l";
const LEAVE = "\u001b[?25h\u001b[?1049l";
const HOME = "\u001b[H";
const CLEAR_LINE = "\u001b[K";
const CLEAR_BELOW = "\u001b[J";
const ROWS = 24;

export class Screen {
  readonly #output: Output;
  readonly #stdout: Host["stdout"];
  /** Whether views replace each other: only on a terminal. */
  readonly #isLive: boolean;
  #isEntered = false;
  #isFirst = true;
  #last = "";

  constructor({ stdout }: Host, output: Output) {
    this.#output = output;
    this.#stdout = stdout;
    this.#isLive = output.isTerminal && !output.isJson;
  }

  /** Replaces the view with a text, cut to the lines that fit: one line more would make the terminal scroll. */
  async show(text: string): Promise<void> {
    this.#last = text;
    if (!this.#isLive) {
      await this.#output.write(`${this.#isFirst ? "" : "\n"}${text}\n`);
      this.#isFirst = false;
      return;
    }
    const enter = this.#isEntered ? "" : ENTER;
    this.#isEntered = true;
    const lines = text.split("\n").slice(0, (this.#stdout.rows ?? ROWS) - 1);
    const shown = lines.map((line) => `${line}${CLEAR_LINE}`).join("\n");
    await this.#output.write(`${enter}${HOME}${shown}\n${CLEAR_BELOW}`);
  }

  /** Restores the terminal and prints the last view below, so that it stays readable. */
  [Symbol.dispose](): void {
    if (!this.#isEntered) return;
    this.#isEntered = false;
    this.#stdout.write(`${LEAVE}${this.#last}\n`);
  }
}
