/**
 * A sample of the calls to a shard, which says whether and where a shard under load is split.
 *
 * Calls are counted in spans of five seconds. One of 16 calls is looked at: the place of one of its keys goes into the
 * sample, with the lowest and the highest place of all, as a call with keys in both halves would be a call to each.
 */
import { isIn, type Range } from "../wire/range.ts";
import { LOAD_SAMPLE_CALLS, LOAD_SAMPLE_KEYS } from "./sizes.ts";

const SPAN_MS = 5000;
/** A shard is hot after so many hot spans in a row: 30 s. */
const SPANS = 6;
/** A half that would have more of the calls does not help. */
const HALF_SHARE_MAX = 0.7;
/** A key with more of the calls than this is the load, and no split divides it. */
const KEY_SHARE_MAX = 1 / 3;

export class LoadSample {
  /** Calls of the last spans, by the number of the span. */
  readonly #calls = new Float64Array(SPANS + 1);
  #span = 0;
  /** Calls until the next one is looked at. */
  #left = LOAD_SAMPLE_CALLS;
  readonly #hashes = new Float64Array(LOAD_SAMPLE_KEYS);
  readonly #lowest = new Float64Array(LOAD_SAMPLE_KEYS);
  readonly #highest = new Float64Array(LOAD_SAMPLE_KEYS);
  /** Calls that were looked at: the sample has the last ones. */
  #looked = 0;

  /**
   * Counts a call.
   *
   * @returns true for one that is looked at: `add` must follow
   */
  noteCall(nowMs: number): boolean {
    const span = Math.floor(nowMs / SPAN_MS);
    if (span !== this.#span) this.#turn(span);
    this.#calls[span % (SPANS + 1)]!++;
    if (--this.#left > 0) return false;
    this.#left = LOAD_SAMPLE_CALLS;
    return true;
  }

  #turn(span: number): void {
    const passed = Math.min(span - this.#span, SPANS + 1);
    // After a clock went back, the counts belong to no known span.
    if (passed < 0) this.#calls.fill(0);
    for (let i = 0; i < passed; i++) this.#calls[(span - i) % (SPANS + 1)] = 0;
    this.#span = span;
  }

  /**
   * Adds a call.
   *
   * @param hash the place of one of its keys, any of them
   * @param lowest place of all its keys
   * @param highest as `lowest`
   */
  add(hash: number, lowest: number, highest: number): void {
    const at = this.#looked++ % LOAD_SAMPLE_KEYS;
    this.#hashes[at] = hash;
    this.#lowest[at] = lowest;
    this.#highest[at] = highest;
  }

  /** True if there were more calls a second than these, in each span of the last half a minute. */
  isHot(callsPerSecond: number, nowMs: number): boolean {
    const span = Math.floor(nowMs / SPAN_MS);
    if (span !== this.#span) this.#turn(span);
    const present = span % (SPANS + 1);
    return this.#calls.every(
      (calls, i) => i === present || calls > (callsPerSecond * SPAN_MS) / 1000,
    );
  }

  /** Calls a second in the last whole span. */
  callsPerSecond(nowMs: number): number {
    const span = Math.floor(nowMs / SPAN_MS);
    if (span !== this.#span) this.#turn(span);
    return this.#calls[(span + SPANS) % (SPANS + 1)]! / (SPAN_MS / 1000);
  }

  /**
   * The median of the sample: the first hash of the upper half.
   *
   * @returns null where the sample is not full, or a split there would not divide the calls
   */
  middle(range: Range): number | null {
    if (this.#looked < LOAD_SAMPLE_KEYS) return null;
    const hashes = this.#hashes.toSorted();
    const middle = hashes[LOAD_SAMPLE_KEYS >>> 1]!;
    if (middle === range.from || !isIn(range, middle)) return null;
    if (longestRun(hashes) > LOAD_SAMPLE_KEYS * KEY_SHARE_MAX) return null;
    const below = this.#lowest.reduce((sum, hash) => sum + (hash < middle ? 1 : 0), 0);
    const above = this.#highest.reduce((sum, hash) => sum + (hash >= middle ? 1 : 0), 0);
    return Math.max(below, above) > LOAD_SAMPLE_KEYS * HALF_SHARE_MAX ? null : middle;
  }

  /** Forgets the sample: the range has changed. */
  clear(): void {
    this.#looked = 0;
    this.#calls.fill(0);
  }
}

/** Of equal numbers in an array that is sorted. */
function longestRun(sorted: Float64Array): number {
  let longest = 0;
  for (let from = 0, to = 0; from < sorted.length; from = to) {
    while (to < sorted.length && sorted[to] === sorted[from]) to++;
    longest = Math.max(longest, to - from);
  }
  return longest;
}
