/**
 * The prompt: runs one command line after the other in one process, over the same connections.
 *
 * Each line goes through the same program as a command line of a shell, so commands behave alike in both.
 */
import { createInterface } from "node:readline";
import { ExitCode } from "../exit-code.ts";
import { isInteractive } from "../host.ts";
import type { Invocation, Run } from "../invocation.ts";
import { textOf } from "../text.ts";
import { completionsOf } from "./completion.ts";
import { History } from "./history.ts";
import { Lines } from "./lines.ts";
import { wordsOf } from "./words.ts";
import type { Command } from "commander";

/** What the prompt needs of the program; passed in, because the program itself contains the prompt's command. */
export interface Programs {
  readonly programOf: (run: Run) => Command;
  readonly carryOut: (args: readonly string[], run: Run) => Promise<ExitCode>;
  /** Prints an error and returns the exit code. */
  readonly report: (error: unknown, args: readonly string[], run: Run) => ExitCode;
}

/** Commands of the prompt itself, for completion. */
const OWN = ["exit", "quit", "clear"];
/** Clears the screen (2J) and what was scrolled away (3J), and moves to the first row. */
const CLEAR = "\u001b[2J\u001b[3J\u001b[H";
/** More keys would not help a person to choose. */
const KEYS_SHOWN_MAX = 50;
/** A person who presses Tab waits no longer. */
const KEYS_TIMEOUT_MS = 1000;

/** One prompt, at a terminal or over piped lines. */
export class Prompt {
  readonly #invocation: Invocation;
  readonly #programs: Programs;

  constructor(invocation: Invocation, programs: Programs) {
    this.#invocation = invocation;
    this.#programs = programs;
  }

  /** Runs until the input ends. Input that is not typed exits with the exit code of its first failure. */
  async run(): Promise<ExitCode> {
    return isInteractive(this.#invocation.host) ? await this.#typed() : await this.#piped();
  }

  /** Reads lines from a terminal. Failures are printed, and the prompt goes on. */
  async #typed(): Promise<ExitCode> {
    const { host, output, run, settings } = this.#invocation;
    const history = new History(host.environment);
    const lines = new Lines(host);
    output.note(output.faint("help lists the commands, Tab completes, Ctrl-D or exit leaves"));
    for (;;) {
      // Ctrl-C ends the command that runs, not the prompt: each line begins with a fresh signal.
      const signal = run.renewSignal();
      const line = await lines.read({
        prompt: `${output.strong(hostOf(settings.url))}> `,
        history: history.newestFirst,
        complete: (typed) => this.#completions(typed, signal),
        signal,
      });
      if (line === null) {
        if (!signal.aborted) await output.write("\n");
        return signal.aborted ? ExitCode.interrupted : ExitCode.done;
      }
      history.add(line);
      if ((await this.#carryOut(line, signal)) === null) return ExitCode.done;
    }
  }

  /** Runs piped lines as a script, all of them; the exit code is that of the first that failed. */
  async #piped(): Promise<ExitCode> {
    const { host, run } = this.#invocation;
    let first: ExitCode = ExitCode.done;
    const signal = run.renewSignal();
    for await (const line of createInterface({ input: host.stdin, crlfDelay: Infinity, signal })) {
      const exitCode = await this.#carryOut(line, signal);
      if (exitCode === null || signal.aborted) break;
      if (first === ExitCode.done) first = exitCode;
    }
    return signal.aborted ? ExitCode.interrupted : first;
  }

  /** Runs a line and returns its exit code; null if the line ends the prompt. */
  async #carryOut(line: string, signal: AbortSignal): Promise<ExitCode | null> {
    const run = this.#runOf(signal);
    let words: string[];
    try {
      words = wordsOf(line);
    } catch (error) {
      return this.#programs.report(error, [], run);
    }
    const [name] = words;
    if (name === undefined) return ExitCode.done;
    if (name === "exit" || name === "quit") return null;
    if (name !== "clear") return await this.#programs.carryOut(words, run);
    if (this.#invocation.output.isTerminal) await this.#invocation.output.write(CLEAR);
    return ExitCode.done;
  }

  /** The run of a line: the prompt's own settings, and a signal for this line alone. */
  #runOf(signal: AbortSignal): Run {
    const { run, flags } = this.#invocation;
    return { ...run, flags, signal, isPrompt: true, exitCode: ExitCode.done };
  }

  /** Completions of a line, with keys of the server. */
  async #completions(line: string, signal: AbortSignal): Promise<[readonly string[], string]> {
    const program = this.#programs.programOf(this.#runOf(signal));
    return await completionsOf(program, OWN, line, async (prefix) => {
      const { client } = this.#invocation;
      const options = { prefix, limit: KEYS_SHOWN_MAX, timeoutMs: KEYS_TIMEOUT_MS, signal };
      const { records } = await client.list(options);
      return records.flatMap(({ key }) => textOf(key) ?? []);
    });
  }
}

/** The part of an address that a person recognizes. */
function hostOf(url: string): string {
  return URL.canParse(url) ? new URL(url).host : url;
}
