/** When and where a shard under load splits. */
import { describe, expect, it } from "vitest";
import { KeyHash } from "../../src/dispatch/placement.ts";
import { LOAD_SAMPLE_CALLS, LOAD_SAMPLE_KEYS } from "../../src/engine/sizes.ts";
import { LoadPace } from "../../src/objects/shard/load-pace.ts";
import { LoadWatch } from "../../src/objects/shard/load-watch.ts";
import { connectionHolder } from "../../src/engine/semaphores/holder.ts";
import { writeBatchHeader, writeSection } from "../../src/wire/batch.ts";
import { ByteWriter } from "../../src/wire/bytes.ts";
import { YRMCDS_PROTOCOLS } from "../../src/wire/yrmcds/dialect.ts";
import { Keyspace } from "../../src/wire/keyspace.ts";
import { CIRCLE, WHOLE } from "../../src/wire/range.ts";
import { batchOf, bytesOf, HOURS, U16, yrmcds } from "../support/frames/index.ts";
import { together } from "../support/rate-limits/limit-all.ts";
import { protocolByName } from "../../src/wire/throttr/protocol.ts";

const NOW_MS = 1_700_000_000_000;
const HASHER = new KeyHash("load", "");
const PLACEMENT = { shards: 1, fingerprint: HASHER.fingerprint, range: WHOLE };
const U16_PROTOCOL = protocolByName("7.3", "uint16")!;
/** Calls a second that are too many, and more than these. */
const CALLS_MAX = 10;
const CALLS = 20;
/** Of calls that are looked at, so that the sample is full. */
const KEYS = LOAD_SAMPLE_CALLS * LOAD_SAMPLE_KEYS;

const callOn = (...keys: string[]): Uint8Array =>
  batchOf(
    [{ protocol: U16_PROTOCOL, frames: keys.map((key) => U16.insert(key, 5, HOURS, 2n)) }],
    PLACEMENT,
  );

/** A shard, and where it was split. */
class Watched {
  readonly splits: number[] = [];
  readonly watch: LoadWatch;
  nowMs = NOW_MS;

  constructor(callsMax = CALLS_MAX, isPossible = true) {
    this.watch = new LoadWatch({
      callsMax,
      hasher: HASHER,
      range: () => WHOLE,
      split: (at) => {
        this.splits.push(at);
        return isPossible;
      },
    });
  }

  /** @param batchOfCall the call with a number */
  call(count: number, callsPerSecond: number, batchOfCall: (index: number) => Uint8Array): this {
    for (let i = 0; i < count; i++) {
      this.watch.note(PLACEMENT, batchOfCall(i), this.nowMs);
      this.nowMs += 1000 / callsPerSecond;
    }
    return this;
  }
}

const spread = (i: number): Uint8Array => callOn(`key:${i}`);

describe("a shard under load", () => {
  it("a shard with too many calls for half a minute splits where half of them are on each side", () => {
    const { splits } = new Watched().call(KEYS + 1, CALLS, spread);
    expect(splits.length).toBe(1);
    const below = Array.from({ length: KEYS }, (_, i) => bytesOf(`key:${i}`)).filter(
      (key) => HASHER.hashOf(Keyspace.throttr, key, 0, key.length) < splits[0]!,
    );
    expect(below.length / KEYS).toBeGreaterThan(0.4);
    expect(below.length / KEYS).toBeLessThan(0.6);
  });

  it("semaphores count by their names", () => {
    const acquire = (i: number): Uint8Array => {
      const out = new ByteWriter();
      writeBatchHeader(out, PLACEMENT);
      writeSection(out, {
        protocolCode: Object.values(YRMCDS_PROTOCOLS)[0]!.code,
        holder: connectionHolder(new Uint8Array(16).fill(1)),
        frames: yrmcds.acquire(`s${i}`, 1, 5),
        replyBytesMax: 1000,
      });
      return out.take();
    };
    const { splits } = new Watched().call(KEYS + 1, CALLS, acquire);
    expect(splits.length).toBe(1);
    expect(splits[0]! / CIRCLE).toBeGreaterThan(0.3);
    expect(splits[0]! / CIRCLE).toBeLessThan(0.7);
  });

  it("limits that are charged together count by their keys", () => {
    const strategy = { strategy: "token_bucket", burst: 5, rate: 1 } as const;
    const watched = new Watched();
    for (let i = 0; i <= KEYS; i++) {
      const { body } = together({ name: "api", key: `${i}`, strategy });
      watched.watch.noteLimits(body, watched.nowMs);
      watched.nowMs += 1000 / CALLS;
    }
    expect(watched.splits.length).toBe(1);
    expect(watched.splits[0]! / CIRCLE).toBeGreaterThan(0.3);
    expect(watched.splits[0]! / CIRCLE).toBeLessThan(0.7);
  });

  it("a shard with as many calls as it may have does not split, nor does one before half a minute has passed", () => {
    expect(new Watched().call(KEYS, CALLS_MAX, spread).splits).toEqual([]);
    expect(new Watched().call(25 * 400, 400, spread).splits).toEqual([]);
    expect(new Watched(0).call(KEYS, CALLS, spread).splits).toEqual([]);
  });

  it("a key with a third of the calls, or calls with keys on both sides, don't split a shard", () => {
    const hot = (i: number): Uint8Array =>
      callOn(i % (2 * LOAD_SAMPLE_CALLS) === 0 ? `key:${i}` : "hot");
    expect(new Watched().call(KEYS + 1, CALLS, (i) => hot(i + 1)).splits).toEqual([]);
    const wide = (i: number): Uint8Array =>
      callOn(...Array.from({ length: 8 }, (_, j) => `key:${i}:${j}`));
    expect(new Watched().call(KEYS + 1, CALLS, wide).splits).toEqual([]);
  });

  it("a shard that has split waits, and one that could not tries again with the next calls", () => {
    const split = new Watched().call(KEYS + 1, CALLS, spread);
    expect(split.call(CALLS * 59, CALLS, spread).splits.length).toBe(1);
    const stuck = new Watched(CALLS_MAX, false).call(KEYS + 1, CALLS, spread);
    expect(stuck.call(2 * LOAD_SAMPLE_CALLS, CALLS, spread).splits.length).toBeGreaterThan(1);
  });
});

describe("the pause between splits under load", () => {
  const MINUTE_MS = 60_000;

  it("a split that has helped lets the next one come a minute later", () => {
    const pace = new LoadPace();
    expect(pace.mayTry(NOW_MS, 1000)).toBe(true);
    pace.noteSplit(NOW_MS, 1000);
    expect(pace.mayTry(NOW_MS + MINUTE_MS - 1, 800)).toBe(false);
    expect(pace.mayTry(NOW_MS + MINUTE_MS, 800)).toBe(true);
  });

  it("each split that has not helped doubles the pause, from ten minutes up to a day", () => {
    const pace = new LoadPace();
    let nowMs = NOW_MS;
    for (let pauseMs = 10 * MINUTE_MS; pauseMs < 4 * 1440 * MINUTE_MS; pauseMs *= 2) {
      const expectedMs = Math.min(pauseMs, 1440 * MINUTE_MS);
      pace.noteSplit(nowMs, 1000);
      expect(pace.mayTry(nowMs + MINUTE_MS, 801)).toBe(false);
      expect(pace.mayTry(nowMs + expectedMs - 1, 801)).toBe(false);
      nowMs += expectedMs;
      expect(pace.mayTry(nowMs, 801)).toBe(true);
    }
    pace.noteSplit(nowMs, 1000);
    expect(pace.mayTry(nowMs + MINUTE_MS, 500)).toBe(true);
  });

  it("a clock that goes back by an hour does not make the pause longer by an hour", () => {
    const pace = new LoadPace();
    pace.noteSplit(NOW_MS, 1000);
    expect(pace.mayTry(NOW_MS - 3_600_000, 500)).toBe(false);
    expect(pace.mayTry(NOW_MS - 3_600_000 + MINUTE_MS, 500)).toBe(true);
  });
});
