/**
 * States of sliding windows: `61|current count|previous count|start of the current bucket`, the start
 * int64 ns since the epoch. Not of the library: its ids end at 5.
 */
import { readCount, readInt64 } from "./numbers.ts";
import { readState, type Codec, type Form } from "./state.ts";

export interface SlidingWindowState {
  /** The counts of the bucket that begins at `startNs`, and of the one before it. */
  readonly current: number;
  readonly previous: number;
  readonly startNs: bigint;
}

const current: Form<SlidingWindowState> = {
  fields: "current|previous|start",
  read: (fields) => {
    if (fields.length !== 3) return null;
    const current = readCount(fields[0]!);
    const previous = readCount(fields[1]!);
    const startNs = readInt64(fields[2]!);
    if (current === null || previous === null || startNs === null) return null;
    return { current, previous, startNs };
  },
};

const forms = new Map([["61", current]]);

export const slidingWindowCodec: Codec<SlidingWindowState> = {
  encode: ({ current, previous, startNs }) => `61|${current}|${previous}|${startNs}`,
  decode: (text) => readState("sliding_window", forms, text),
};
