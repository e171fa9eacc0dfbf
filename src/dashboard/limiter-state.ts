/** States of rate limits, read for people: what a buffer says that a limiter has written. */
import { leakyBucketCodec, tokenBucketCodec } from "../wire/ratelimit/bucket-state.ts";
import { fixedWindowCodec } from "../wire/ratelimit/fixed-window-state.ts";
import { gcraCodec } from "../wire/ratelimit/gcra-state.ts";
import { slidingWindowCodec } from "../wire/ratelimit/sliding-window-state.ts";
import { StateError } from "../wire/ratelimit/state.ts";
import { formatCount } from "./format.ts";

/** A line of a state. */
export type StateField =
  | { readonly label: string; readonly text: string }
  /** A point in time, ms since the epoch. */
  | { readonly label: string; readonly atMs: number };

export interface LimiterState {
  /** What the strategy is called. */
  readonly strategy: string;
  readonly fields: readonly StateField[];
}

/** What an old fixed window is called, which had no name. */
const ONLY_WINDOW = "window";
const NS_PER_MS = 1_000_000n;
const COMPOSITE = /^(?:51|cmp1)\|([^$]*)\$([^$]*)$/;

const msOf = (ns: bigint): number => Number(ns / NS_PER_MS);
/** Tokens have fractions; what is behind the third digit interests nobody. */
const amountOf = (amount: number): string =>
  amount.toLocaleString("en", { maximumFractionDigits: 3 });

type Reader = (text: string) => LimiterState;

function bucketReader(
  strategy: string,
  codec: typeof tokenBucketCodec,
  amountLabel: string,
  atLabel: string,
): Reader {
  return (text) => {
    const { amount, atNs } = codec.decode(text);
    const fields = [
      { label: amountLabel, text: amountOf(amount) },
      { label: atLabel, atMs: msOf(atNs) },
    ];
    return { strategy, fields };
  };
}

const readTokenBucket = bucketReader(
  "Token bucket",
  tokenBucketCodec,
  "Tokens left",
  "Last refill",
);
const readLeakyBucket = bucketReader("Leaky bucket", leakyBucketCodec, "Level", "Last leak");

const readGcra: Reader = (text) => ({
  strategy: "GCRA",
  fields: [{ label: "Theoretical arrival", atMs: msOf(gcraCodec.decode(text)) }],
});

const readFixedWindow: Reader = (text) => ({
  strategy: "Fixed window",
  fields: fixedWindowCodec(ONLY_WINDOW)
    .decode(text)
    .flatMap(({ name, count, startNs }) => [
      { label: `${name}: counted`, text: formatCount(count) },
      { label: `${name}: began`, atMs: msOf(startNs) },
    ]),
});

const readSlidingWindow: Reader = (text) => {
  const { current, previous, startNs } = slidingWindowCodec.decode(text);
  const fields = [
    { label: "In this window", text: formatCount(current) },
    { label: "In the window before", text: formatCount(previous) },
    { label: "This window began", atMs: msOf(startNs) },
  ];
  return { strategy: "Sliding window", fields };
};

/** By header. `v1` and `v2` are not here: they don't say which strategy's state follows. */
const READERS: ReadonlyMap<string, Reader> = new Map([
  ["11", readTokenBucket],
  ["12", readTokenBucket],
  ["21", readFixedWindow],
  ["22", readFixedWindow],
  ["23", readFixedWindow],
  ["31", readLeakyBucket],
  ["32", readLeakyBucket],
  ["41", readGcra],
  ["42", readGcra],
  ["61", readSlidingWindow],
]);

/** What a text says as a state of a limiter; null where it is none. */
export function readLimiterState(text: string): LimiterState | null {
  try {
    const parts = COMPOSITE.exec(text);
    if (parts === null) return readSingle(text);
    const [primary, secondary] = [readSingle(parts[1]!), readSingle(parts[2]!)];
    if (primary === null || secondary === null) return null;
    return {
      strategy: `Composite: ${primary.strategy.toLowerCase()} and ${nameInside(secondary.strategy)}`,
      fields: [...primary.fields, ...secondary.fields],
    };
  } catch (error) {
    if (error instanceof StateError) return null;
    throw error;
  }
}

function readSingle(text: string): LimiterState | null {
  return READERS.get(text.slice(0, text.indexOf("|")))?.(text) ?? null;
}

const nameInside = (name: string): string => (name === "GCRA" ? name : name.toLowerCase());
