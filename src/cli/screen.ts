/**
 * A screen of the terminal that is redrawn in place, for `monitor`.
 *
 * It uses the terminal's alternate screen, so the lines that were there before come back when it ends. Into a pipe or
 * a file, one view follows the other instead.
 */
import type { Host } from "./host.ts";
import type { Output } from "./output.ts";

/** Enters the alternate screen (1049), hides the cursor (25), and cuts long lines (7), as each line is one row of a view. */
const ENTER = "\u001b[?1049h\u001b[?25l\u001b[?7l";
/** Wraps long lines again, shows the cursor and leaves the alternate screen. */
const LEAVE = "\u001b[?7h\u001b[?25h\u001b[?1049l";
/** Moves to the first row. Clearing the whole screen instead would flicker. */
const HOME = "\u001b[H";
/** Clears what a longer line of the last view left. */
const CLEAR_LINE = "\u001b[K";
/** Clears the rows that a longer view left. */
const CLEAR_BELOW = "\u001b[J";
/** Where the terminal does not tell its height. */
const ROWS = 24;

/** Shows one view after the other. Disposed at the end of the command, also when it fails. */
export class Screen {
  /** Writes with back-pressure. */
  readonly #output: Output;
  /** Tells the height, which changes with the window. */
  readonly #stdout: Host["stdout"];
  /** Whether views replace each other: only on a terminal. */
  readonly #isLive: boolean;
  /** Whether the terminal shows the alternate screen, which must be left again. */
  #isEntered = false;
  /** Without a terminal an empty line separates views. */
  #isFirst = true;
  /** The last view, which stays after the end. */
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
    // The height is read each time, as the window may have changed.
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
