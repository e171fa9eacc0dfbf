/** Records of a range that one shard adopts from another, attempt by attempt. */
import { describe, expect, inject, it } from "vitest";
import { Keyspace } from "../../src/wire/keyspace.ts";
import { CIRCLE } from "../../src/wire/range.ts";
import { SplitShards, type SplitShard } from "../support/engine/splitting.ts";
import {
  bytesOf,
  commandReplies,
  edgeBatch,
  insert,
  partsOf,
  read,
  ttlMs,
} from "../support/frames/index.ts";

const seed = inject("seed");
const NOW_MS = 1_800_000_000_000;
const HOUR_MS = 3_600_000;
const MINUTE_MS = 60_000;
const MIDDLE = CIRCLE / 2;

function newShards(): SplitShards {
  const options = { semaphoreIntervalMs: 60_000, answerTtlMs: 60_000 };
  return new SplitShards({ seed: { low: seed, high: 1 }, ...options }, NOW_MS);
}

/** A key in the upper half of the circle. */
function upperKey(shards: SplitShards): string {
  for (let i = 0; ; i++) {
    const key = `key:${i}`;
    if (shards.placeOf(Keyspace.throttr, bytesOf(key)) >= MIDDLE) return key;
  }
}

function has({ engine }: SplitShard, key: string, atMs: number): boolean {
  const [reply] = commandReplies(partsOf(engine.apply(edgeBatch([read(key)]), atMs))[0]!.replies);
  // A key without a record has an answer of one byte.
  return reply!.body.length > 1;
}

/** Begins to split the first shard, and delivers all rows but those of a last commit. */
function copy(shards: SplitShards): void {
  const parent = shards.at(0);
  parent.begin(MIDDLE);
  while (parent.copy!.step());
  while (shards.send(parent));
}

/** A first attempt by a clock that is an hour ahead, given up as that clock is set back. */
function afterSetBack(shards: SplitShards, key: string): SplitShard {
  const parent = shards.at(0);
  parent.engine.advance(NOW_MS + HOUR_MS);
  parent.engine.advance(NOW_MS);
  const frames = [insert(key, 7n, ttlMs(MINUTE_MS))];
  parent.engine.apply(edgeBatch(frames), NOW_MS);
  parent.journal.append();
  copy(shards);
  parent.giveUp();
  parent.journal.setClockBack();
  return parent;
}

describe("a shard that adopts a range again after the other shard's clock was set back", () => {
  it("has records that expire sooner than the clock was ahead", () => {
    const shards = newShards();
    const key = upperKey(shards);
    const parent = afterSetBack(shards, key);
    copy(shards);
    shards.switch(parent);
    shards.tell(parent);
    const child = shards.at(MIDDLE);
    expect(child.engine.clockLagMs).toBe(0);
    expect(has(child, key, NOW_MS + MINUTE_MS - 1)).toBe(true);
    expect(has(child, key, NOW_MS + MINUTE_MS)).toBe(false);
  });

  it("has them also where it had dropped the first attempt", () => {
    const shards = newShards();
    const key = upperKey(shards);
    const parent = afterSetBack(shards, key);
    const child = shards.at(MIDDLE);
    expect(child.journal.dropAdopted(1)).toBe(true);
    copy(shards);
    shards.switch(parent);
    shards.tell(parent);
    expect(has(child, key, NOW_MS + MINUTE_MS - 1)).toBe(true);
  });
});
