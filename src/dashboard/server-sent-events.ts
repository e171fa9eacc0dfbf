/**
 * Server-Sent Events over fetch: an EventSource can't send a token in a header, and a token in a URL
 * ends up in logs.
 *
 * Source: HTML standard, "9.2.6 Interpreting an event stream".
 */

export interface ServerSentEvent {
  /** `message` unless the server names it. */
  readonly type: string;
  readonly data: string;
}

/** Text of an unfinished event; far above what a look at a namespace takes. */
const TEXT_CHARACTERS_MAX = 4 << 20;

/** Turns the text of a stream into events, wherever it is cut. */
export class EventParser {
  #rest = "";
  #type = "";
  #data: string[] = [];

  /** @throws Error for a line that does not end */
  push(text: string): ServerSentEvent[] {
    const events: ServerSentEvent[] = [];
    const lines = (this.#rest + text).split("\n");
    this.#rest = lines.pop()!;
    if (this.#rest.length > TEXT_CHARACTERS_MAX)
      throw new Error("the event stream has no end of line");
    for (const line of lines) this.#read(line.endsWith("\r") ? line.slice(0, -1) : line, events);
    return events;
  }

  #read(line: string, events: ServerSentEvent[]): void {
    if (line === "") {
      if (this.#data.length > 0) {
        events.push({
          type: this.#type === "" ? "message" : this.#type,
          data: this.#data.join("\n"),
        });
      }
      this.#type = "";
      this.#data = [];
      return;
    }
    const colon = line.indexOf(":");
    const field = colon === -1 ? line : line.slice(0, colon);
    const value = colon === -1 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (field === "data") this.#data.push(value);
    if (field === "event") this.#type = value;
  }
}

/** The events of an answer, as they come. */
export async function* eventsOf(response: Response): AsyncGenerator<ServerSentEvent> {
  const parser = new EventParser();
  const decoder = new TextDecoder();
  const reader = response.body!.getReader();
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      yield* parser.push(decoder.decode(value, { stream: true }));
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}
