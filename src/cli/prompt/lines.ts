/**
 * Reads lines typed at a terminal, one at a time.
 *
 * Between two lines the terminal belongs to the command that runs: `readline` is opened for each line and closed after
 * it, so a command can ask questions and a program under `acquire` can read its own input.
 */
import { createInterface } from "node:readline";
import type { Host } from "../host.ts";

/** What reading a line needs. */
export interface LineOptions {
  readonly prompt: string;
  /** The newest first. */
  readonly history: readonly string[];
  /** Completions of the last word, and that word. */
  readonly complete: (line: string) => Promise<[readonly string[], string]>;
  /** Ends the reading. */
  readonly signal: AbortSignal;
}

/** As many lines as the history file keeps. */
const HISTORY_MAX = 1000;

export class Lines {
  readonly #host: Host;
  /** Lines that arrived together with the requested one, as pasted text does. */
  readonly #waiting: string[] = [];
  /** The unfinished line that was pasted after them. */
  #begun = "";

  constructor(host: Host) {
    this.#host = host;
  }

  /** Reads the next line; null at the end: Ctrl-D or the signal. */
  async read({ prompt, history, complete, signal }: LineOptions): Promise<string | null> {
    const next = this.#waiting.shift();
    if (next !== undefined) return next;
    const { stdin: input, stdout: output } = this.#host;
    const readline = createInterface({
      input,
      output,
      prompt,
      terminal: true,
      // `readline` changes the list that it is given.
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
      // The rest of a pasted text is in the same chunk: let readline emit its lines before it is closed.
      setImmediate(() => resolve(true));
    });
    readline.on("close", () => resolve(this.#waiting.length > 0));
    readline.on("SIGINT", () => {
      output.write("^C\n");
      // `readline` has no call that empties its line: Ctrl-E and Ctrl-U do what a person would.
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

/** The callback of a completer: the completions and the word that they complete. */
type Answer = (error: null, result: [string[], string]) => void;
