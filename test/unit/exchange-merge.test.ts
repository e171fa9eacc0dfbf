/** Replies of many shards that wait for those of the first one: what it takes to put them in order. */
import { expect, it, vi } from "vitest";
import { turn } from "../../src/base/turn.ts";
import { Exchange } from "../../src/dispatch/exchange.ts";
import { ShardLanes } from "../../src/dispatch/shard-lane.ts";
import { ShardMap } from "../../src/dispatch/shard-map.ts";
import { Engine } from "../../src/engine/engine.ts";
import type * as bytes from "../../src/wire/bytes.ts";
import { Target } from "../../src/wire/throttr/requests.ts";
import { bytesOf, concat, protocolOf, U32 } from "../support/frames/index.ts";

/** Before the value in a reply to GET: status, unit, TTL and size. */
const GET_HEADER_BYTES = 10;
/** Bytes of all buffers that were made to be written to. */
const made = vi.hoisted(() => ({ bytes: 0 }));

vi.mock(import("../../src/wire/bytes.ts"), async (importOriginal) => {
  const original: typeof bytes = await importOriginal();
  class CountedWriter extends original.ByteWriter {
    constructor(capacity = 1024) {
      super(capacity);
      made.bytes += capacity;
    }
  }
  return { ...original, ByteWriter: CountedWriter };
});

it("the buffers for replies of many shards take little more than the replies, in whatever order shards answer", async () => {
  const shards = 128;
  const map = new ShardMap("default", 1, "");
  map.assumeInitial();
  map.learnBegins(Array.from({ length: shards }, (_, i) => (i * 2 ** 32) / shards));
  const engine = new Engine({ hashKey: { low: 1, high: 2 }, bytesMax: 1 << 24, isCounting: false });
  const answers: (() => void)[] = [];
  const lanes = new ShardLanes(map, () => async (batch) => {
    const { promise, resolve } = Promise.withResolvers<void>();
    answers.push(resolve);
    await promise;
    return engine.apply(batch, 1_700_000_000_000);
  });
  /** The replies, where of all shards that were asked the last one answers first. */
  const exchange = async (requests: readonly Uint8Array[]): Promise<Uint8Array> => {
    const all = Promise.withResolvers<Uint8Array>();
    const replies: Uint8Array[] = [];
    const sink = {
      hasReader: true,
      room: () => null,
      countPublished: () => {},
      fail: all.reject,
      reply: (part: Uint8Array, isLast: boolean) => {
        replies.push(part.slice());
        if (isLast) all.resolve(concat(replies));
      },
    };
    const target = Target.shard;
    const frames = { protocol: protocolOf(U32), target, bytes: concat(requests) };
    const count = requests.length;
    new Exchange(lanes, { ...frames, count }, sink, 1 << 20).start(null);
    for (const answer of answers.splice(0).toReversed()) {
      answer();
      await turn();
    }
    return await all.promise;
  };
  const keys = Array.from({ length: 16 * shards }, (_, i) => `key:${i}`);
  await exchange(keys.map((key) => U32.set(key, key.repeat(60))));
  made.bytes = 0;
  const replies = await exchange(keys.map((key) => U32.get(key)));
  let at = 0;
  for (const key of keys) {
    const value = bytesOf(key.repeat(60));
    at += GET_HEADER_BYTES;
    expect(replies.subarray(at, at + value.length)).toEqual(value);
    at += value.length;
  }
  expect(at).toBe(replies.length);
  expect(made.bytes).toBeLessThan(2 * replies.length);
});
