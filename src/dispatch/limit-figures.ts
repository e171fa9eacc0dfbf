/**
 * What the rate limits of a namespace have decided: asked of all shards, and merged.
 *
 * A key belongs to one shard, so counts of keys are not added up but put in one order. Shards that did not answer, or run
 * a release that counts no decisions, are named.
 */
import { LIMIT_COUNTS, LimitRow, type LimitCounts } from "../engine/limit-figures.ts";
import type { SketchRow } from "../engine/key-sketch.ts";
import type { ShardLimitFigures } from "../base/calls/shard.ts";
import { orIfUnknown } from "../base/unknown-method.ts";
import { binaryString } from "../wire/bytes.ts";
import type { LimitRates } from "../wire/limit-figures.ts";
import type { ShardGroup } from "./shard-group.ts";
import { askEach, isSilence, type Silence } from "./survey.ts";

/** What all shards that answered have said together. */
export interface MergedLimits {
  /** Decisions of all limiters. */
  readonly all: LimitRates;
  /** Of limiters without a row of their own, and of keys that name no limiter. */
  readonly others: LimitRates;
  readonly byName: ReadonlyMap<string, LimitRates>;
}

/** A key of a limiter, with the bounds of its count. */
export interface MergedKey extends SketchRow {
  readonly name: string;
}

/** What the shards of a namespace say, in the order of the circle. */
export async function askLimits(shards: ShardGroup): Promise<(ShardLimitFigures | Silence)[]> {
  return await askEach(shards, async ({ placement, stub }) => {
    return await orIfUnknown<ShardLimitFigures | Silence>(stub().limitFigures(placement), () => ({
      code: "outdated",
    }));
  });
}

/** Sums by limiter. */
export function mergeLimits(counts: readonly LimitCounts[]): MergedLimits {
  let all = NOTHING;
  let others = NOTHING;
  const byName = new Map<string, LimitRates>();
  for (const shard of counts) {
    all = sumOf(all, ratesAt(shard, LimitRow.all));
    others = sumOf(others, ratesAt(shard, LimitRow.others));
    shard.names.forEach((name, i) => {
      const rates = ratesAt(shard, LimitRow.firstName + i);
      byName.set(name, sumOf(byName.get(name) ?? NOTHING, rates));
    });
  }
  return { all, others, byName };
}

/** All keys of sketches, those with the largest counts first. */
export function mergeKeys(sketches: readonly (readonly SketchRow[])[]): MergedKey[] {
  const merged = new Map<string, MergedKey>();
  for (const row of sketches.flat()) {
    const text = binaryString(row.key, 0, row.key.length);
    const twin = merged.get(text);
    // A key may have states of a composite and of another strategy, which may be in different shards.
    const { count, errorMax } = twin ?? { count: 0, errorMax: 0 };
    merged.set(text, {
      name: text.slice(0, text.indexOf(":")),
      key: row.key,
      count: row.count + count,
      errorMax: row.errorMax + errorMax,
    });
  }
  return [...merged.values()].toSorted((a, b) => b.count - a.count || a.errorMax - b.errorMax);
}

/** Decisions of a row in all, and in the last 60 seconds. */
export function ratesAt({ counts }: LimitCounts, row: number): LimitRates {
  const rate = (place: number) => {
    const at = row * 2 * LIMIT_COUNTS + place;
    return { total: counts[at]!, perMinute: counts[at + LIMIT_COUNTS]! };
  };
  return { allowed: rate(0), refused: rate(1), errors: rate(2), local: rate(3) };
}

/** Indexes of shards that said nothing. */
export function silentOf(answers: readonly object[]): number[] {
  return answers.flatMap((answer, index) => (isSilence(answer) ? [index] : []));
}

const ZERO = { total: 0, perMinute: 0 };
const NOTHING: LimitRates = { allowed: ZERO, refused: ZERO, errors: ZERO, local: ZERO };

function sumOf(a: LimitRates, b: LimitRates): LimitRates {
  const sum = (count: keyof LimitRates) => ({
    total: a[count].total + b[count].total,
    perMinute: a[count].perMinute + b[count].perMinute,
  });
  return {
    allowed: sum("allowed"),
    refused: sum("refused"),
    errors: sum("errors"),
    local: sum("local"),
  };
}
