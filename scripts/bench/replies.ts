/** Counts the replies in a stream of bytes without reading them: it must cost next to nothing. */
import type { ReplyShape } from "./frames.ts";

const MINUS = 0x2d;
const LINE_FEED = 0x0a;

export class ReplyCounter {
  readonly #shape: ReplyShape;
  /** Bytes or lines of a reply that is not complete yet. */
  #partial = 0;
  failures = 0;

  constructor(shape: ReplyShape) {
    this.#shape = shape;
  }

  /**
   * The number of replies that end in the next bytes of the stream.
   *
   * @throws Error when they are no replies of the expected shape: then nothing that follows counts
   */
  count(chunk: Buffer): number {
    switch (this.#shape.kind) {
      case "status":
        this.failures += occurrences(chunk, 0);
        return chunk.length;
      case "fixed":
        return this.#countFixed(chunk, this.#shape.bytes, this.#shape.firstByte);
      case "lines":
        return this.#countLines(chunk, this.#shape.lines);
    }
  }

  #countFixed(chunk: Buffer, bytes: number, firstByte: number | null): number {
    // One reply a chunk is looked at. A failed one is shorter, so all after it would look wrong too.
    const first = (bytes - this.#partial) % bytes;
    if (firstByte !== null && first < chunk.length && chunk[first] !== firstByte) {
      throw new Error(`a reply begins with byte ${chunk[first]}, not ${firstByte}`);
    }
    return this.#complete(this.#partial + chunk.length, bytes);
  }

  #countLines(chunk: Buffer, lines: number): number {
    if (chunk.includes(MINUS))
      throw new Error(`an error was answered: ${chunk.toString("latin1")}`);
    return this.#complete(this.#partial + occurrences(chunk, LINE_FEED), lines);
  }

  #complete(units: number, unitsPerReply: number): number {
    this.#partial = units % unitsPerReply;
    return (units - this.#partial) / unitsPerReply;
  }
}

function occurrences(chunk: Buffer, byte: number): number {
  let count = 0;
  for (let at = chunk.indexOf(byte); at >= 0; at = chunk.indexOf(byte, at + 1)) count++;
  return count;
}
