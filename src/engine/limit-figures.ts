/**
 * What the rate limits of a shard have decided: counts by limiter, and sketches of the keys that come and are refused
 * most often.
 *
 * It keeps all of it in memory. `snapshot` gives the totals as plain data, for `StoredCounts` and data points, and
 * `restore` adds them to what a new instance has counted; neither contains keys, or anything of the last 60 seconds.
 */
import { binaryBytes } from "../wire/bytes.ts";
import type { HashKey } from "./hash.ts";
import { KeySketch, type SketchRow } from "./key-sketch.ts";
import { LimitNames, NO_NAME } from "./limit-names.ts";
import { MinuteCounts } from "./minute-counts.ts";
import { LIMIT_NAMES_MAX } from "./sizes.ts";

/**
 * The places of a row of counts: the outcomes of LIMIT and DRAW, then `local`, the decisions among the allowed and refused
 * that callers made by themselves, from allowances.
 */
const LimitCount = { allowed: 0, refused: 1, error: 2, local: 3 } as const;
type LimitCount = (typeof LimitCount)[keyof typeof LimitCount];
/** How many of them are outcomes. They come first. */
export const LIMIT_OUTCOMES = 3;
/** How many counts a row has. */
export const LIMIT_COUNTS = 4;

/** Above this a total would not be exact, and 1 more would not count. */
const TOTAL_MAX = Number.MAX_SAFE_INTEGER;

/** Rows of counts. `others`: of limiters without a row of their own, and of keys that name no limiter. */
export const LimitRow = { all: 0, others: 1, firstName: 2 } as const;

/** Totals by limiter: a row of `LIMIT_COUNTS` for each `LimitRow`, the names in order from the third on. */
export interface LimitTotals {
  readonly names: readonly string[];
  readonly counts: Float64Array<ArrayBuffer>;
}

/** Totals, and counts of the last 60 seconds: rows as in `LimitTotals`, each with the totals, then the last 60 seconds. */
export interface LimitCounts {
  readonly names: readonly string[];
  readonly counts: Float64Array<ArrayBuffer>;
}

/** The keys with the most decisions, and with the most refusals, by count. */
export interface LimitKeys {
  readonly hottest: SketchRow[];
  readonly mostRefused: SketchRow[];
}

/** The counts of all limiters together. */
export function withoutNames({ counts }: LimitCounts): LimitCounts {
  const all = counts.slice(0, 2 * LIMIT_COUNTS);
  const without = new Float64Array(2 * all.length);
  without.set(all, 2 * LIMIT_COUNTS * LimitRow.all);
  without.set(all, 2 * LIMIT_COUNTS * LimitRow.others);
  return { names: [], counts: without };
}

export class LimitFigures {
  readonly #counts = new MinuteCounts((LimitRow.firstName + LIMIT_NAMES_MAX) * LIMIT_COUNTS);
  readonly #names: LimitNames;
  readonly #hottest = new KeySketch();
  readonly #mostRefused = new KeySketch();

  constructor(hashKey: HashKey) {
    this.#names = new LimitNames(hashKey, (row) => {
      const from = (LimitRow.firstName + row) * LIMIT_COUNTS;
      this.#counts.clear(from, from + LIMIT_COUNTS);
    });
  }

  /** Moves the clock, before anything is counted. */
  turn(nowMs: number): void {
    this.#counts.turn(nowMs);
    this.#hottest.turn(nowMs);
    this.#mostRefused.turn(nowMs);
  }

  /**
   * Counts equal decisions about the key `bytes[at, at + length)`. Positions, as it runs for every decision.
   *
   * @param hash of the key, seeded
   */
  countDecisions(
    isAllowed: boolean,
    times: number,
    hash: number,
    bytes: Uint8Array,
    at: number,
    length: number,
  ): void {
    const outcome = isAllowed ? LimitCount.allowed : LimitCount.refused;
    if (!this.#count(outcome, times, bytes, at, length)) return;
    this.#hottest.count(hash, bytes, at, length, times);
    if (!isAllowed) this.#mostRefused.count(hash, bytes, at, length, times);
  }

  /** Notes that decisions were made by the caller; `countDecisions` has counted them. */
  countLocal(times: number, bytes: Uint8Array, at: number, length: number): void {
    this.#count(LimitCount.local, times, bytes, at, length);
  }

  /** Counts a LIMIT that failed. Its key is not one of the hot ones: no state of it was read or written. */
  countError(bytes: Uint8Array, at: number, length: number): void {
    this.#count(LimitCount.error, 1, bytes, at, length);
  }

  /** Counts by name, in all and in the last 60 seconds. */
  counts(nowMs: number): LimitCounts {
    this.turn(nowMs);
    const figures = this.#counts.figures(nowMs);
    const halves = figures.length / 2;
    return this.#rows(2 * LIMIT_COUNTS, (i, row) => {
      const at = row * LIMIT_COUNTS + (i % LIMIT_COUNTS);
      return figures[i < LIMIT_COUNTS ? at : halves + at]!;
    });
  }

  keys(nowMs: number): LimitKeys {
    this.turn(nowMs);
    return { hottest: this.#hottest.rows(), mostRefused: this.#mostRefused.rows() };
  }

  /** Totals of all limiters together. */
  get all(): Readonly<Float64Array> {
    return this.#counts.totals.subarray(0, LIMIT_COUNTS);
  }

  snapshot(): LimitTotals {
    return this.#totalsIn(this.#counts.totals);
  }

  /** Totals when the present minute began. */
  snapshotAtMinute(): LimitTotals {
    return this.#totalsIn(this.#counts.atMinute);
  }

  /** Adds totals of an instance before this one. A name without room is added to the others. */
  restore({ names, counts }: LimitTotals, nowMs: number): void {
    this.turn(nowMs);
    const rows: number[] = [LimitRow.all, LimitRow.others];
    for (const name of names) {
      const key = binaryBytes(`${name}:`);
      rows.push(rowOf(this.#names.rowOf(key, 0, key.length, this.#counts.minute)));
    }
    rows.forEach((row, at) => {
      for (let i = 0; i < LIMIT_COUNTS; i++) {
        const index = row * LIMIT_COUNTS + i;
        const before = Math.min(counts[at * LIMIT_COUNTS + i]!, TOTAL_MAX);
        const most = TOTAL_MAX - this.#counts.totals[index]!;
        this.#counts.add(index, Math.min(before, most), 0);
      }
    });
  }

  #totalsIn(counts: Readonly<Float64Array>): LimitTotals {
    return this.#rows(LIMIT_COUNTS, (i, row) => counts[row * LIMIT_COUNTS + i]!);
  }

  /** @returns false for a key that names no limiter */
  #count(place: LimitCount, times: number, bytes: Uint8Array, at: number, length: number): boolean {
    const { totals, minute } = this.#counts;
    const named = this.#names.rowOf(bytes, at, length, minute);
    const own = rowOf(named) * LIMIT_COUNTS + place;
    totals[place] = Math.min(totals[place]! + times, TOTAL_MAX);
    totals[own] = Math.min(totals[own]! + times, TOTAL_MAX);
    return named !== NO_NAME;
  }

  /** Rows of all, of the others and of each name, with so many numbers each. */
  #rows(width: number, read: (i: number, row: number) => number): LimitCounts {
    const named = this.#names.rows();
    const rows = [LimitRow.all, LimitRow.others, ...named.map(({ row }) => rowOf(row))];
    const counts = new Float64Array(rows.length * width);
    rows.forEach((row, at) => {
      for (let i = 0; i < width; i++) counts[at * width + i] = read(i, row);
    });
    return { names: named.map(({ name }) => name), counts };
  }
}

/** The row of counts of a row of names, or of what has none. */
const rowOf = (named: number): number => (named < 0 ? LimitRow.others : LimitRow.firstName + named);
