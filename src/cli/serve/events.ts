/** Events of `serve`: JSON lines on standard output for programs, or text on standard error for people. */
import { jsonOf, type Json, type Output } from "../output.ts";

/** Reports what happens to a server. Every event has a name that programs can rely on. */
export class Events {
  readonly #output: Output;

  constructor(output: Output) {
    this.#output = output;
  }

  /**
   * Reports an event.
   *
   * @param event its stable name, for programs
   * @param text the same for people
   */
  tell(event: string, fields: Readonly<Record<string, Json>>, text: string): void {
    // Not awaited: a reader of the log that has stopped reading must hold up neither a restart nor the end.
    if (this.#output.isJson) void this.#output.write(`${jsonOf({ event, ...fields })}\n`);
    else this.#output.note(`throttr-edge: ${text}`);
  }
}
