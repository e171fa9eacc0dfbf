/** Callers of one door who want more from a shard than one answer has room for: each has its turn. */
import { expect, it } from "vitest";
import { turn } from "../../src/base/turn.ts";
import { Exchange } from "../../src/dispatch/exchange.ts";
import { ShardLanes } from "../../src/dispatch/shard-lane.ts";
import { ShardMap } from "../../src/dispatch/shard-map.ts";
import type { Sink } from "../../src/dispatch/sink.ts";
import { Engine } from "../../src/engine/engine.ts";
import {
  HUB_CALL_REPLY_BYTES_MAX,
  SHARD_ANSWER_BYTES_MAX,
  SHARD_CALL_FRAMES_MAX,
} from "../../src/engine/sizes.ts";
import { Target } from "../../src/wire/throttr/requests.ts";
import { concat, partsOf, protocolOf, U32 } from "../support/frames/index.ts";

const NOW_MS = 1_700_000_000_000;

/** One shard, the way to it, and how many calls it has got. */
class Door {
  calls = 0;
  /** Requests that it has executed in one call, at most. */
  mostFrames = 0;
  readonly #engine = new Engine({
    hashKey: { low: 1, high: 2 },
    bytesMax: 1 << 24,
    isCounting: false,
  });
  readonly #lanes: ShardLanes;

  constructor() {
    const map = new ShardMap("default", 1, "");
    map.assumeInitial();
    this.#lanes = new ShardLanes(map, () => async (batch) => {
      this.calls++;
      const answer = this.#engine.apply(batch, NOW_MS);
      const frames = partsOf(answer).reduce((sum, { count }) => sum + count, 0);
      this.mostFrames = Math.max(this.mostFrames, frames);
      await turn();
      return answer;
    });
  }

  /** Sends requests of a caller who reads all replies; returns their bytes, and after which call the last came. */
  async send(requests: readonly Uint8Array[]): Promise<{ bytes: number; calls: number }> {
    const all = Promise.withResolvers<{ bytes: number; calls: number }>();
    let bytes = 0;
    const sink: Sink = {
      hasReader: true,
      room: () => null,
      countPublished: () => {},
      fail: all.reject,
      reply: (replies, isLast) => {
        bytes += replies.length;
        if (isLast) all.resolve({ bytes, calls: this.calls });
      },
    };
    const frames = {
      protocol: protocolOf(U32),
      target: Target.shard,
      bytes: concat(requests),
      count: requests.length,
      isAllowed: true,
    };
    new Exchange(this.#lanes, frames, sink, HUB_CALL_REPLY_BYTES_MAX).start(null);
    return await all.promise;
  }
}

it("a request does not wait until the long runs of many other callers to its shard are over", async () => {
  const door = new Door();
  const value = "v".repeat(HUB_CALL_REPLY_BYTES_MAX);
  await door.send([U32.set("large", value), U32.insert("small", 1)]);
  const readers = (1.5 * SHARD_ANSWER_BYTES_MAX) / HUB_CALL_REPLY_BYTES_MAX;
  door.calls = 0;
  const reads = Array.from({ length: 8 }, () => U32.get("large"));
  const long = Array.from({ length: readers }, () => door.send(reads));
  const { calls } = await door.send([U32.query("small")]);
  // The first call was under way with one run alone, and the second one was full.
  expect(calls).toBeLessThanOrEqual(3);
  for (const { bytes } of await Promise.all(long)) {
    expect(bytes).toBeGreaterThan(reads.length * value.length);
  }
});

it("a shard executes a bounded number of requests in one turn, however small they are and however many come together", async () => {
  const door = new Door();
  const long = Array.from({ length: 2.5 * SHARD_CALL_FRAMES_MAX }, () => U32.query("none"));
  const short = Array.from({ length: 100 }, () => U32.query("none"));
  const sent = [long, short, long, short, short].map((requests) => door.send(requests));
  const [first, second] = await Promise.all(sent);
  expect(door.mostFrames).toBe(SHARD_CALL_FRAMES_MAX);
  expect(first!.bytes).toBe(long.length);
  // The first call was under way, and the second one had room for nothing else than what was left of it, or for this.
  expect(second).toEqual({ bytes: short.length, calls: 2 });
});
