/**
 * The circle of hashes as arcs, one for each shard: where its range lies, how full it is, and what it is giving away.
 *
 * Places on the circle are turns, 0 to 1, clockwise from the top. This file only computes; ring.tsx draws.
 */
import { CIRCLE } from "../wire/range.ts";
import type { ShardRow } from "../wire/shards.ts";
import { shareOf } from "./format.ts";

/** Between two arcs, in turns; less where arcs are short, so that thousands of shards are all there. */
const GAP = 0.006;
const GAP_SHARE_MAX = 0.25;

/** A part of the circle, in turns. */
export interface Stretch {
  readonly start: number;
  readonly length: number;
}

export interface Arc extends Stretch {
  readonly shard: string;
  /** How much of its memory is used, 0 to 1. */
  readonly filled: number;
  readonly isHot: boolean;
  /** The upper part, which another shard is to have; null where no split is under way. */
  readonly leaving: Stretch | null;
}

/** The arcs of shards in the order of the circle. */
export function arcsOf(shards: readonly ShardRow[]): Arc[] {
  return shards.map(({ shard, from, to, bytes, bytesMax, isHot, split }) => {
    const width = (to - from) / CIRCLE;
    // One shard has the whole circle, which has no ends.
    const gap = shards.length === 1 ? 0 : Math.min(GAP, width * GAP_SHARE_MAX);
    const start = from / CIRCLE + gap / 2;
    const length = width - gap;
    return {
      shard,
      start,
      length,
      filled: shareOf(bytes, bytesMax),
      isHot,
      leaving: split === null ? null : leavingOf({ start, length }, split.at / CIRCLE),
    };
  });
}

function leavingOf({ start, length }: Stretch, at: number): Stretch {
  const end = start + length;
  const from = Math.min(end, Math.max(start, at));
  return { start: from, length: end - from };
}

/** What the circle shows, in words. */
export function describeRing(shards: readonly ShardRow[]): string {
  const counts = [
    [shards.length, shards.length === 1 ? "shard" : "shards"],
    [shards.filter(({ split }) => split !== null).length, "splitting"],
    [shards.filter(({ isHot }) => isHot).length, "hot"],
  ] as const;
  return counts
    .filter(([count], i) => i === 0 || count > 0)
    .map(([count, what]) => `${count} ${what}`)
    .join(", ");
}
