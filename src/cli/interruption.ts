/** SIGINT and SIGTERM: the first one ends what is under way in order, the second one ends at once. */
import { ExitCode } from "./exit-code.ts";

export class Interruption {
  #controller = new AbortController();
  #exitCode: ExitCode = ExitCode.interrupted;
  readonly #onInterrupt = (): void => this.#end("SIGINT");
  readonly #onTerminate = (): void => this.#end("SIGTERM");

  /** Listens from now on. */
  constructor() {
    process.on("SIGINT", this.#onInterrupt);
    process.on("SIGTERM", this.#onTerminate);
  }

  /** Aborted by the first of them; its name is the reason. */
  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** That of the one that came. */
  get exitCode(): ExitCode {
    return this.#exitCode;
  }

  /** What comes from now on is the first one again, for a new signal. */
  renew(): AbortSignal {
    if (this.#controller.signal.aborted) this.#controller = new AbortController();
    return this.#controller.signal;
  }

  /** Listens no more. */
  stop(): void {
    process.off("SIGINT", this.#onInterrupt);
    process.off("SIGTERM", this.#onTerminate);
  }

  #end(name: "SIGINT" | "SIGTERM"): void {
    const code = name === "SIGINT" ? ExitCode.interrupted : ExitCode.terminated;
    if (this.#controller.signal.aborted) process.exit(code);
    this.#exitCode = code;
    this.#controller.abort(name);
  }
}
