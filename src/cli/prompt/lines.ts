/** Lines that are typed at a terminal, one at a time: between two of them it belongs to somebody else. */
import { createInterface } from "node:readline";
import type { Host } from "../host.ts";

/** What is needed to read a line. */
export interface LineOptions {
  readonly prompt: string;
  /** The newest first. */
  readonly history: readonly string[];
  /** What the last word may become, and that word. */
  readonly complete: (line: string) => Promise<[readonly string[], string]>;
  /** Ends the reading. */
  readonly signal: AbortSignal;
}

const HISTORY_MAX = 1000;

export class Lines {
  readonly #host: Host;
  /** Lines that came together with one that was asked for, as when text is pasted. */
  readonly #waiting: string[] = [];
  /** The beginning of a line that was pasted behind them. */
  #begun = "";

  constructor(host: Host) {
    this.#host = host;
  }

  /** The next line; null when there are no more: Ctrl-D, or the signal. */
  async read({ prompt, history, complete, signal }: LineOptions): Promise<string | null> {
    const next = this.#waiting.shift();
    if (next !== undefined) return next;
    const { stdin: input, stdout: output } = this.#host;
    const readline = createInterface({
      input,
      output,
      prompt,
      terminal: true,
      history: [...history],
      historySize: HISTORY_MAX,
      removeHistoryDuplicates: true,
      signal,
      completer: (line: string, answer: Answer) => {
        complete(line).then(
          ([hits, word]) => answer(null, [[...hits], word]),
          () => answer(null, [[], line]),
        );
      },
    });
    const { promise, resolve } = Promise.withResolvers<boolean>();
    readline.on("line", (line) => {
      this.#waiting.push(line);
      // What came with it is read before the terminal is given back.
      setImmediate(() => resolve(true));
    });
    readline.on("close", () => resolve(this.#waiting.length > 0));
    readline.on("SIGINT", () => {
      output.write("^C\n");
      readline.write(null, { ctrl: true, name: "e" });
      readline.write(null, { ctrl: true, name: "u" });
      readline.prompt();
    });
    readline.prompt();
    if (this.#begun !== "") readline.write(this.#begun);
    const isTyped = await promise;
    this.#begun = readline.line;
    readline.close();
    return isTyped ? this.#waiting.shift()! : null;
  }
}

type Answer = (error: null, result: [string[], string]) => void;
