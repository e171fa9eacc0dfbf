/** The answer to CHANNELS, read row by row. Source: protocol reference, "7.3 layouts". */

import { readFragments } from "../../wire/throttr/fragments.ts";

/** The status, before the fragments. */
const STATUS_BYTES = 1;
/** A row without its name: the name's length, and three figures of 8 bytes. */
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
  const bytes = reply.subarray(STATUS_BYTES);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const figure = (at: number): number => Number(view.getBigUint64(at, true));
  for (const { rowAt, name } of readFragments(bytes, ROW_BYTES)) {
    yield {
      name,
      publishedBytes: figure(rowAt + 1),
      deliveredBytes: figure(rowAt + 9),
      subscriptions: figure(rowAt + 17),
    };
  }
}
