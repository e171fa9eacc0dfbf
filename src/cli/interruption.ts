/**
 * SIGINT and SIGTERM: the first one aborts the run in order, the second one exits at once. The end of npm counts as a SIGTERM.
 *
 * Without a handler Node exits on the first signal, and a command could neither release its lease nor finish the
 * line it is writing. A person who presses Ctrl-C twice does not want to wait for that.
 */
import { once } from "node:events";
import { ThrottrError } from "../wire/edge/error.ts";
import { ExitCode } from "./exit-code.ts";
import { onNpmEnd } from "./npm-end.ts";

/** Ctrl-C, and what supervisors and containers send to stop a process. */
const SIGNALS = ["SIGINT", "SIGTERM"] as const;

/** The error of a command that a signal has ended. */
export const interrupted = (): ThrottrError =>
  new ThrottrError("aborted", "the command was interrupted");

/** Turns signals of the process into an abort signal that commands watch. */
export class Interruption {
  /** Replaced by `renew`, as an abort signal can't be reset. */
  #controller = new AbortController();
  /** 130 until a signal has arrived. */
  #exitCode: ExitCode = ExitCode.interrupted;
  readonly #stopWatching: () => void;

  /** Starts to listen. */
  constructor() {
    for (const name of SIGNALS) process.on(name, this.#onSignal);
    this.#stopWatching = onNpmEnd(() => {
      // The signal that ended npm may have reached this process as well: that is one interruption, not two.
      if (!this.#controller.signal.aborted) this.#onSignal("SIGTERM");
    });
  }

  /** Aborted by the first signal, with the signal's name as the reason. */
  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** The exit code that belongs to the signal that arrived. */
  get exitCode(): ExitCode {
    return this.#exitCode;
  }

  /** Returns a signal that is not aborted: the next SIGINT or SIGTERM counts as the first again. */
  renew(): AbortSignal {
    if (this.#controller.signal.aborted) this.#controller = new AbortController();
    return this.#controller.signal;
  }

  /** Stops listening. */
  stop(): void {
    for (const name of SIGNALS) process.off(name, this.#onSignal);
    this.#stopWatching();
  }

  /** Aborts with the first signal; exits with the second. */
  readonly #onSignal = (name: NodeJS.Signals): void => {
    const code = name === "SIGINT" ? ExitCode.interrupted : ExitCode.terminated;
    if (this.#controller.signal.aborted) process.exit(code);
    this.#exitCode = code;
    this.#controller.abort(name);
  };
}

/** Resolves once a signal is aborted; at once if it is already. Never rejects. */
export async function aborted(signal: AbortSignal): Promise<void> {
  if (!signal.aborted) await once(signal, "abort");
}
