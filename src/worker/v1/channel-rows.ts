/** The answer to CHANNELS, read row by row. Source: protocol reference, "7.3 layouts". */

const HEAD_BYTES = 9; // status, count of fragments
const FRAGMENT_BYTES = 16; // index, rows
const ROW_BYTES = 25;

/** A channel that has subscriptions. */
export interface ChannelRow {
  readonly name: Uint8Array;
  /** By subscribers, while they were. */
  readonly publishedBytes: number;
  readonly deliveredBytes: number;
  readonly subscriptions: number;
}

/** The rows of all fragments of an answer, in the order of their names. */
export function* channelRows(reply: Uint8Array): Generator<ChannelRow> {
  const view = new DataView(reply.buffer, reply.byteOffset, reply.byteLength);
  const figure = (at: number): number => Number(view.getBigUint64(at, true));
  for (let at = HEAD_BYTES; at < reply.length;) {
    const rows = figure(at + 8);
    let rowAt = at + FRAGMENT_BYTES;
    at = rowAt + rows * ROW_BYTES;
    for (let row = 0; row < rows; row++, rowAt += ROW_BYTES) {
      const nameAt = at;
      at += reply[rowAt]!;
      yield {
        name: reply.subarray(nameAt, at),
        publishedBytes: figure(rowAt + 1),
        deliveredBytes: figure(rowAt + 9),
        subscriptions: figure(rowAt + 17),
      };
    }
  }
}
