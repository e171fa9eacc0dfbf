/** What `serve` says of itself: JSON lines on standard output, or text for people. */
import { jsonOf, type Json, type Output } from "../output.ts";

export class Events {
  readonly #output: Output;

  constructor(output: Output) {
    this.#output = output;
  }

  /**
   * Says that something has happened.
   *
   * @param event its stable name
   * @param text the same for people, who read it on standard error
   */
  async tell(event: string, fields: Readonly<Record<string, Json>>, text: string): Promise<void> {
    if (this.#output.isJson) await this.#output.write(`${jsonOf({ event, ...fields })}\n`);
    else this.#output.note(`throttr-edge: ${text}`);
  }
}
