/**
 * What a shard stores of splits, in columns of its one row: the range that it owns, the split under way, and what it has
 * given away; of a shard that adopts a range, whose it is and whether it is in force.
 *
 * Each method is one UPDATE, and the messages of a split follow from these rows: a shard that starts again says the same.
 * Nothing here moves a record.
 */
import type { Verdict } from "../../base/calls/splits.ts";
import { endOf, type Range } from "../../wire/range.ts";

/** Columns that data without splits lacks, as SQL that adds them. */
export const SPLIT_COLUMNS = [
  "range_from INTEGER",
  "range_to INTEGER",
  "attempt INTEGER",
  "split_at INTEGER",
  "split_phase INTEGER",
  "gone BLOB",
  "hinted INTEGER",
  "born_to INTEGER",
  "parent INTEGER",
  "is_active INTEGER",
  "filter_until INTEGER",
];

/** All of them are null in data without splits. */
export type SplitColumns = {
  range_from?: number | null;
  range_to?: number | null;
  attempt?: number | null;
  split_at?: number | null;
  split_phase?: number | null;
  gone?: ArrayBuffer | null;
  hinted?: number | null;
  born_to?: number | null;
  parent?: number | null;
  is_active?: number | null;
  filter_until?: number | null;
};

/** Values of columns, of `format` too. */
export type SplitUpdate = {
  [Column in keyof SplitColumns]?: number | ArrayBuffer | null;
} & { format?: number };

/** Data of which nothing was ever split off: releases before 0.5.0 read it, too. */
export const WHOLE_FORMAT = 1;
/** Data of this format is served by ranges: a release that does not know them would serve all of it. */
export const SPLIT_FORMAT = 2;

/** How far a split is. */
export const SplitPhase = {
  /** The upper part is being copied: the shard owns all of its range. */
  copying: 1,
  /** The upper part was given away, and the shard that has it does not know yet. */
  given: 2,
} as const;
export type SplitPhase = (typeof SplitPhase)[keyof typeof SplitPhase];

/** The split that is not over. */
export interface SplitState {
  /** First hash of the upper part, which names the shard that gets it. */
  readonly at: number;
  readonly phase: SplitPhase;
}

/** Boundaries that are remembered of what was given away; the first ones lead to the rest. */
const GONE_MAX = 4096;

export class SplitRows {
  /** The range that the shard owns; null for the initial range of its index. */
  range: Range | null = null;
  /** The highest attempt that the shard has begun, or was born with: of a split, each attempt is fenced by its number. */
  attempt = 0;
  split: SplitState | null = null;
  /** Boundaries of the ranges behind the own one, up to `bornTo`, in their order. */
  gone: readonly number[] = [];
  /** How many of these were told to the shard that has given the range, and taken by it. */
  #hinted = 0;
  /** Where the range ended with which the shard began; null if nothing was given away. */
  bornTo: number | null = null;
  /** First hash of the shard that has given the range; null for an initial one. */
  parent: number | null = null;
  /** False while the range is adopted: nothing is served of it. */
  isActive = true;
  /** Generations before this one may have records that were given away; null for none. */
  filterUntil: number | null = null;
  readonly #update: (columns: SplitUpdate) => void;

  /** @param update writes columns of the row, at once */
  constructor(update: (columns: SplitUpdate) => void) {
    this.#update = update;
  }

  /** Reads the row at a start. */
  load(row: SplitColumns): void {
    const { range_from: from = null, range_to: to = null } = row;
    const { split_at: at = null, split_phase: phase = null } = row;
    this.range = from === null || to === null ? null : { from, to };
    this.attempt = row.attempt ?? 0;
    this.split = at === null || phase === null ? null : { at, phase: phase as SplitPhase };
    this.gone = [...new Uint32Array(row.gone ?? new ArrayBuffer(0))];
    this.#hinted = row.hinted ?? 0;
    this.bornTo = row.born_to ?? null;
    this.parent = row.parent ?? null;
    this.isActive = row.is_active !== 0;
    this.filterUntil = row.filter_until ?? null;
  }

  /**
   * A split begins; or an attempt at it, which ends all earlier ones.
   *
   * @param at first hash of the upper part
   * @returns the number of the attempt
   */
  begin(at: number): number {
    if (this.split?.phase === SplitPhase.given) throw new Error("split: the last one is not over");
    const attempt = this.attempt + 1;
    this.#update({ format: SPLIT_FORMAT, split_at: at, split_phase: SplitPhase.copying, attempt });
    this.attempt = attempt;
    this.split = { at, phase: SplitPhase.copying };
    return attempt;
  }

  /**
   * The attempt under way is over without effect; its number is not used again. A shard that has never split or been split off
   * has the format of one that has not tried to: the number stays in a column that no earlier release reads.
   */
  giveUp(): void {
    if (this.split?.phase !== SplitPhase.copying) throw new Error("split: nothing is copied");
    const format = this.range === null ? WHOLE_FORMAT : SPLIT_FORMAT;
    this.#update({ format, split_at: null, split_phase: null });
    this.split = null;
  }

  /**
   * The moment of the split: from this row on the shard owns the lower part only.
   *
   * @param range that it owned
   * @param filterUntil the first generation that has no record of the upper part
   */
  give(range: Range, filterUntil: number): void {
    if (this.split?.phase !== SplitPhase.copying) throw new Error("split: nothing is copied");
    const { at } = this.split;
    if (at <= range.from || at >= endOf(range)) throw new Error("split: outside of the range");
    const gone = [at, ...this.gone].slice(0, GONE_MAX);
    const bornTo = this.bornTo ?? range.to;
    this.#update({
      range_from: range.from,
      range_to: at,
      split_phase: SplitPhase.given,
      gone: toBlob(gone),
      born_to: bornTo,
      filter_until: filterUntil,
    });
    this.range = { from: range.from, to: at };
    this.split = { at, phase: SplitPhase.given };
    this.gone = gone;
    this.bornTo = bornTo;
    this.filterUntil = filterUntil;
  }

  /** The shard that has the upper part knows it. */
  noteActivated(): void {
    if (this.split?.phase !== SplitPhase.given) return;
    this.#update({ split_at: null, split_phase: null });
    this.split = null;
  }

  /**
   * Shards that were split off have split themselves: their boundaries shorten the way of a door without a map.
   *
   * @returns false, and nothing written, where all of them were known
   */
  noteGone(boundaries: readonly number[]): boolean {
    if (this.range === null || this.bornTo === null) return false;
    const born = { from: this.range.from, to: this.bornTo };
    const behind = boundaries.filter((at) => at > this.range!.to && at < endOf(born));
    const all = [...new Set([...this.gone, ...behind])].toSorted((a, b) => a - b);
    if (all.length === this.gone.length || all.length > GONE_MAX) return false;
    this.#update({ gone: toBlob(all) });
    this.gone = all;
    return true;
  }

  /** The shard that has given the range does not know of all ranges yet that were split off from it. */
  get isToHint(): boolean {
    return this.parent !== null && this.gone.length > this.#hinted;
  }

  /** @param hinted how many of `gone` that shard knows now */
  noteHinted(hinted: number): void {
    this.#update({ hinted });
    this.#hinted = hinted;
  }

  /** In a new row: the shard adopts a range, and serves nothing of it. */
  adopt(range: Range, parent: number, attempt: number): void {
    const { from: range_from, to: range_to } = range;
    this.#update({ format: SPLIT_FORMAT, range_from, range_to, attempt, parent, is_active: 0 });
    this.range = range;
    this.attempt = attempt;
    this.parent = parent;
    this.isActive = false;
  }

  /**
   * In a new row, of a shard whose data is lost: the range and the splits that others know of it.
   *
   * @param begins of ranges behind its own
   * @param parent the shard to tell of ranges that are split off; null for a shard that the namespace began with
   */
  inherit(
    { from, to }: Range,
    begins: readonly number[],
    attempt: number,
    parent: number | null = null,
  ): void {
    const behind = begins.filter((at) => at >= endOf({ from, to }));
    const gone = behind.toSorted((a, b) => a - b).slice(0, GONE_MAX);
    this.#update({
      format: SPLIT_FORMAT,
      range_from: from,
      range_to: to,
      attempt,
      gone: toBlob(gone),
      parent,
      // Behind the last hash: what this shard may have given away reached that far at most.
      born_to: 0,
    });
    this.range = { from, to };
    this.attempt = attempt;
    this.parent = parent;
    this.gone = gone;
    this.bornTo = 0;
  }

  /** The range that was adopted is in force. */
  activate(): void {
    this.#update({ is_active: 1 });
    this.isActive = true;
  }

  /** True while the rows of a generation may have records of a range that was given away. */
  mustFilter(generation: number): boolean {
    return this.filterUntil !== null && generation < this.filterUntil;
  }

  /**
   * What to say to a shard that has adopted the part that begins at `from`, in an attempt, and is not in force. Where only
   * lower attempts are known, the answer is of no use: this instance may have started from an older disk.
   */
  verdictOn(from: number, attempt: number): Verdict {
    if (attempt > this.attempt) return "unknown";
    if (this.gone.includes(from)) return "given";
    const isUnderWay = this.split?.at === from && attempt === this.attempt;
    return isUnderWay ? "copying" : "givenUp";
  }
}

function toBlob(boundaries: readonly number[]): ArrayBuffer {
  return Uint32Array.from(boundaries).buffer;
}
