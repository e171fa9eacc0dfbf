/**
 * States of rate limits in words: a limiter keeps its state in a buffer. The state alone does not say how much is left, as
 * burst, rate and limits are in the code of the application that asks the limit.
 */
import { leakyBucketCodec, tokenBucketCodec } from "../wire/ratelimit/bucket-state.ts";
import { fixedWindowCodec } from "../wire/ratelimit/fixed-window-state.ts";
import { gcraCodec } from "../wire/ratelimit/gcra-state.ts";
import { slidingWindowCodec } from "../wire/ratelimit/sliding-window-state.ts";
import { StateError } from "../wire/ratelimit/state.ts";
import { formatCount } from "./format.ts";
import { utf8Of } from "./value-text.ts";

/** A line of a state. */
export type StateField =
  | { readonly label: string; readonly text: string }
  /** A point in time, ms since the epoch. */
  | { readonly label: string; readonly atMs: number };

export interface LimiterState {
  /** The name of the strategy. */
  readonly strategy: string;
  /** The state in a few words, for a list; empty where only the time below says it. */
  readonly summary: string;
  /** When GCRA allows a whole burst again, ms since the epoch; null for other strategies. */
  readonly wholeAtMs: number | null;
  readonly fields: readonly StateField[];
}

/** Name of the window in states of old releases, which had one without a name. */
const ONLY_WINDOW = "window";
const NS_PER_MS = 1_000_000n;
const COMPOSITE = /^(?:51|cmp1)\|([^$]*)\$([^$]*)$/;

const msOf = (ns: bigint): number => Number(ns / NS_PER_MS);
/** Tokens have fractions: three digits of them are enough. */
const amountOf = (amount: number): string =>
  amount.toLocaleString("en", { maximumFractionDigits: 3 });

type Reader = (text: string) => LimiterState;

function bucketReader(
  strategy: string,
  codec: typeof tokenBucketCodec,
  amountLabel: string,
  atLabel: string,
  summaryOf: (amount: string) => string,
): Reader {
  return (text) => {
    const { amount, atNs } = codec.decode(text);
    const fields = [
      { label: amountLabel, text: amountOf(amount) },
      { label: atLabel, atMs: msOf(atNs) },
    ];
    return { strategy, summary: summaryOf(amountOf(amount)), wholeAtMs: null, fields };
  };
}

const readTokenBucket = bucketReader(
  "Token bucket",
  tokenBucketCodec,
  "Tokens left",
  "Last refill",
  (tokens) => `${tokens} tokens left`,
);
const readLeakyBucket = bucketReader(
  "Leaky bucket",
  leakyBucketCodec,
  "Level",
  "Last leak",
  (level) => `level ${level}`,
);

const readGcra: Reader = (text) => {
  const atMs = msOf(gcraCodec.decode(text));
  const fields = [{ label: "Whole burst again", atMs }];
  return { strategy: "GCRA", summary: "", wholeAtMs: atMs, fields };
};

const readFixedWindow: Reader = (text) => {
  const windows = fixedWindowCodec(ONLY_WINDOW).decode(text);
  return {
    strategy: "Fixed window",
    summary: windows
      .map(({ name, count }) => `${windows.length > 1 ? `${name} ` : ""}${formatCount(count)} used`)
      .join(", "),
    wholeAtMs: null,
    fields: windows.flatMap(({ name, count, startNs }) => [
      { label: `${name}: used`, text: formatCount(count) },
      { label: `${name}: window start`, atMs: msOf(startNs) },
    ]),
  };
};

const readSlidingWindow: Reader = (text) => {
  const { current, previous, startNs } = slidingWindowCodec.decode(text);
  const fields = [
    { label: "Used in this window", text: formatCount(current) },
    { label: "Used in the previous window", text: formatCount(previous) },
    { label: "Window start", atMs: msOf(startNs) },
  ];
  const summary = `${formatCount(current)} used`;
  return { strategy: "Sliding window", summary, wholeAtMs: null, fields };
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

/** The state of a limiter that a value is; null for any other value. */
export function limiterStateOf(value: Uint8Array): LimiterState | null {
  const text = utf8Of(value);
  return text === null ? null : readLimiterState(text);
}

/** Reads a text as the state of a limiter; null for any other text. */
export function readLimiterState(text: string): LimiterState | null {
  try {
    const parts = COMPOSITE.exec(text);
    if (parts === null) return readSingle(text);
    const [primary, secondary] = [readSingle(parts[1]!), readSingle(parts[2]!)];
    if (primary === null || secondary === null) return null;
    return {
      strategy: `Composite: ${primary.strategy.toLowerCase()} and ${nameInside(secondary.strategy)}`,
      summary: [primary, secondary]
        .flatMap(({ summary }) => (summary === "" ? [] : [summary]))
        .join(", "),
      wholeAtMs: secondary.wholeAtMs,
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
