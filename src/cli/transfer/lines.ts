/** Splits a stream of bytes into lines, holding at most one unfinished line in memory. */
import { ByteWriter } from "../../wire/bytes.ts";
import { LINE_BYTES_MAX, LineError } from "./format.ts";

/** The line feed. A carriage return before it is part of the line, and changes the checksum. */
const LINE_END = 0x0a;

export interface Line {
  /** The line without its line feed. */
  readonly bytes: Uint8Array;
  /** Offset of the end of this line, line feed included, from where reading began. */
  readonly endsAt: number;
  /** False if the stream ended before the line's line feed. */
  readonly isWhole: boolean;
}

/**
 * Yields the lines of each chunk together.
 *
 * @throws LineError
 */
export async function* linesOf(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Line[], void> {
  // The beginning of a line that the next chunks continue.
  const rest = new ByteWriter(0);
  let endsAt = 0;
  for await (const chunk of chunks) {
    const lines: Line[] = [];
    let from = 0;
    for (let at = chunk.indexOf(LINE_END); at >= 0; at = chunk.indexOf(LINE_END, from)) {
      let bytes = chunk.subarray(from, at);
      if (rest.length > 0) {
        rest.copy(bytes);
        bytes = rest.take();
        rest.reset();
      }
      endsAt += bytes.length + 1;
      lines.push({ bytes, endsAt, isWhole: true });
      from = at + 1;
    }
    rest.copy(chunk, from);
    if (rest.length > LINE_BYTES_MAX) {
      throw new LineError(`a line has more than ${LINE_BYTES_MAX} bytes`);
    }
    if (lines.length > 0) yield lines;
  }
  if (rest.length > 0) {
    yield [{ bytes: rest.take(), endsAt: endsAt + rest.length, isWhole: false }];
  }
}
