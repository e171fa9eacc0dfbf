/** The parts of a split one by one: places, usage, the choice of the middle, the sample of calls, and the stored rows. */
import { describe, expect, inject, it } from "vitest";
import { Engine } from "../../src/engine/engine.ts";
import { LoadSample } from "../../src/engine/load-sample.ts";
import { RecordPlace } from "../../src/engine/record-place.ts";
import { middleBySize, SIZE_CLASSES } from "../../src/engine/size-choice.ts";
import { LOAD_SAMPLE_KEYS, SPLIT_ROW_BYTES, SPLIT_ROW_IMAGES } from "../../src/engine/sizes.ts";
import { KeyHash, seedOf } from "../../src/dispatch/placement.ts";
import type { AdoptOutcome, RangeOffer } from "../../src/base/calls/splits.ts";
import { connectionHolder } from "../../src/engine/semaphores/holder.ts";
import { SplitRows, type SplitUpdate } from "../../src/objects/shard/split-rows.ts";
import { CIRCLE, WHOLE, type Range } from "../../src/wire/range.ts";
import { Keyspace } from "../../src/wire/keyspace.ts";
import { applyAll } from "../support/engine/apply-all.ts";
import { finish } from "../support/engine/steps.ts";
import { SplitShards, type SplitShard } from "../support/engine/splitting.ts";
import {
  batchIn,
  bytesOf,
  configurationBytes,
  EDGE,
  edgeBatch,
  FOREVER,
  idOf,
  increment,
  insert,
  ONE_SHARD,
  partsOf,
  read,
  replyAt,
  reserve,
  set,
  stat,
} from "../support/frames/index.ts";

const seed = inject("seed");
const NOW_MS = 1_700_000_000_000;
const MIDDLE = CIRCLE / 2;
const OPTIONS = { semaphoreIntervalMs: 60_000, answerTtlMs: 60_000 };

const shardsOf = (isCounting = true): SplitShards =>
  new SplitShards({ seed: { low: seed, high: 1 }, isCounting, ...OPTIONS }, NOW_MS);

/** Keys of both halves. */
function keysOfHalves(shards: SplitShards, count: number): { lower: string[]; upper: string[] } {
  const lower: string[] = [];
  const upper: string[] = [];
  for (let i = 0; lower.length < count || upper.length < count; i++) {
    const key = `key:${i}`;
    const isUpper = shards.placeOf(Keyspace.throttr, bytesOf(key)) >= MIDDLE;
    const half = isUpper ? upper : lower;
    if (half.length < count) half.push(key);
  }
  return { lower, upper };
}

describe("the place of a record", () => {
  const place = new RecordPlace(seedOf("n", "secret"));
  const map = new KeyHash("n", "secret");
  const placeOf = (keyspace: Keyspace, key: Uint8Array): number =>
    place.hashOf(keyspace, key, 0, key.length);

  it.each([Keyspace.throttr, Keyspace.throttrPairs, Keyspace.semaphores])(
    "a record of keyspace %i lies where doors send requests on its key",
    (keyspace) => {
      const key = bytesOf("user:1");
      expect(placeOf(keyspace, key)).toBe(map.hashOf(keyspace, key, 0, key.length));
    },
  );

  it("a kept answer lies with the record of its command, whatever the idempotency key", () => {
    const expected = map.hashOf(Keyspace.throttr, bytesOf("user:1"), 0, 6);
    for (const id of ["i", "id".repeat(32)]) {
      const key = bytesOf(String.fromCharCode(id.length) + id + "user:1");
      expect(placeOf(Keyspace.answers, key)).toBe(expected);
    }
  });

  it("a reservation lies with the state that it has charged", () => {
    const expected = map.hashOf(Keyspace.throttr, bytesOf("user:1"), 0, 6);
    const key = bytesOf("\0".repeat(16) + "user:1");
    expect(placeOf(Keyspace.reservations, key)).toBe(expected);
  });
});

describe("usage of records", () => {
  const statOf = (engine: Engine, key: string): number[] => {
    const answer = engine.apply(batchIn([{ protocol: EDGE, frames: [stat(key)] }]), engine.nowMs);
    const { replies } = partsOf(answer)[0]!;
    const view = new DataView(replies.buffer, replies.byteOffset);
    return [0, 1, 2, 3].map((i) => Number(view.getBigUint64(1 + 8 * i, true)));
  };

  it("usage goes along with a record, and its minutes go on where it is then", () => {
    const shards = shardsOf();
    const { upper } = keysOfHalves(shards, 1);
    const key = upper[0]!;
    const root = shards.at(0);
    root.engine.apply(edgeBatch([increment(key, 1n, FOREVER), read(key), read(key)]), NOW_MS);
    root.journal.append();
    shards.splitAt(0, MIDDLE);
    const { engine } = shards.at(MIDDLE);
    expect(statOf(engine, key)).toEqual([2, 1, 2, 1]);
    engine.advance(NOW_MS + 60_000 - (NOW_MS % 60_000));
    expect(statOf(engine, key)).toEqual([2, 1, 2, 1]);
    engine.advance(NOW_MS + 180_000);
    expect(statOf(engine, key)).toEqual([0, 0, 2, 1]);
  });

  it("a shard that counts no usage gives records to another one without it", () => {
    const shards = shardsOf(false);
    const { upper } = keysOfHalves(shards, 1);
    shards.at(0).engine.apply(edgeBatch([insert(upper[0]!, 7n, FOREVER)]), NOW_MS);
    shards.splitAt(0, MIDDLE);
    expect(shards.at(MIDDLE).engine.figures.records).toBe(1);
  });
});

describe("what moves beside counters and buffers", () => {
  const configuration = configurationBytes({ strategy: "token_bucket", burst: 10, rate: 1 });

  it("a reservation is known at the shard that has its key now, and at no other", () => {
    const shards = shardsOf();
    const { upper } = keysOfHalves(shards, 1);
    const key = upper[0]!;
    const root = shards.at(0);
    const reserveAt = ({ engine }: SplitShard, cost: number): string | null => {
      const answer = engine.apply(edgeBatch([reserve(key, configuration, cost)]), NOW_MS);
      return replyAt(partsOf(answer)[0]!.replies, 0)!.code;
    };
    const known = reserveAt(root, 4);
    root.journal.append();
    shards.splitAt(0, MIDDLE);
    // The reservation, its mark, and the state of the limit.
    expect([root.engine.figures.records, shards.at(MIDDLE).engine.figures.records]).toEqual([0, 3]);
    expect(reserveAt(shards.at(MIDDLE), 4)).toBe(known);
    expect(reserveAt(shards.at(MIDDLE), 5)).toBe("reservation_conflict");
    // What a door of an older map would ask for: nothing of it is left.
    expect(reserveAt(root, 5)).toBe(known);
  });
});

describe("rows of a copied range", () => {
  it("the rows of a range are few: at most a tenth more than those of its snapshot, and one", () => {
    const shards = shardsOf();
    const value = new Uint8Array(900).fill(7);
    const frames = Array.from({ length: 9000 }, (_, i) => set(`key:${i}`, value, FOREVER));
    const root = shards.at(0);
    root.engine.apply(edgeBatch(frames), NOW_MS);
    root.journal.append();
    shards.splitAt(0, MIDDLE);
    const child = shards.at(MIDDLE);
    let snapshotRows = 0;
    for (let cursor: number | null = 0; cursor !== null;) {
      const step = child.engine.snapshotStep(cursor, SPLIT_ROW_BYTES, 1_900_000);
      snapshotRows += step.rows.length;
      ({ cursor } = step);
    }
    expect(snapshotRows).toBeGreaterThan(3);
    // One of them has the time at which the range was given.
    expect(child.journal.rows - 1).toBeLessThanOrEqual(1.1 * snapshotRows + 1);
  });
});

describe("rows of a range of small records", () => {
  it("no row has more records than the other shard applies in one turn", () => {
    const shards = shardsOf();
    const frames = Array.from({ length: 70_000 }, (_, i) =>
      set(`k${i}`, new Uint8Array(1), FOREVER),
    );
    const root = shards.at(0);
    applyAll(root.engine, frames, NOW_MS);
    root.journal.append();
    root.begin(MIDDLE);
    const child = shards.at(MIDDLE);
    const recordsOfRows: number[] = [];
    while (!root.copy!.isTaken) {
      while (root.copy!.step());
      const before = child.engine.figures.records;
      shards.deliver(root.next()!);
      root.acknowledge();
      recordsOfRows.push(child.engine.figures.records - before);
    }
    const records = recordsOfRows.reduce((sum, more) => sum + more, 0);
    expect(records).toBeGreaterThan(2 * SPLIT_ROW_IMAGES);
    const full = Math.floor(records / SPLIT_ROW_IMAGES);
    const expected = [...Array<number>(full).fill(SPLIT_ROW_IMAGES), records % SPLIT_ROW_IMAGES];
    expect(recordsOfRows).toEqual(expected);
  });
});

describe("the choice of the middle by size", () => {
  const sumsOf = (bytesOfClass: (index: number) => number): Float64Array =>
    Float64Array.from({ length: SIZE_CLASSES }, (_, i) => bytesOfClass(i));

  it("bytes that lie evenly are split in the middle of the range", () => {
    const range = { from: 1000, to: 1000 + 2 ** 20 };
    expect(
      middleBySize(
        sumsOf(() => 10),
        range,
      ),
    ).toBe(1000 + 2 ** 19);
    expect(
      middleBySize(
        sumsOf(() => 1),
        WHOLE,
      ),
    ).toBe(MIDDLE);
  });

  it("the middle divides the bytes, not the range", () => {
    const middle = middleBySize(
      sumsOf((i) => (i < 64 ? 3 : 1)),
      WHOLE,
    )!;
    // 192 of 384 bytes lie below class 64.
    expect(middle).toBe((64 * CIRCLE) / SIZE_CLASSES);
  });

  it("a range is not split where one half would have less than a fifth of the bytes", () => {
    expect(
      middleBySize(
        sumsOf((i) => (i === 100 ? 81 : i === 200 ? 19 : 0)),
        WHOLE,
      ),
    ).toBeNull();
    expect(
      middleBySize(
        sumsOf((i) => (i === 100 ? 80 : i === 200 ? 20 : 0)),
        WHOLE,
      ),
    ).not.toBeNull();
    expect(
      middleBySize(
        sumsOf(() => 0),
        WHOLE,
      ),
    ).toBeNull();
  });

  it("a shard weighs its records by their place, those that it has given away not among them", () => {
    const shards = shardsOf();
    const { lower, upper } = keysOfHalves(shards, 100);
    const root = shards.at(0);
    const frames = [...lower, ...upper].map((key) => insert(key, 1n, FOREVER));
    root.engine.apply(edgeBatch(frames), NOW_MS);
    const weigh = (range: Range): Float64Array =>
      finish(root.engine.ownership.weigh(range, { low: seed, high: 1 }));
    const whole = weigh(WHOLE);
    const above = whole.subarray(SIZE_CLASSES / 2).reduce((sum, bytes) => sum + bytes, 0);
    const keyBytes = upper.reduce((sum, key) => sum + key.length, 0);
    // A slot has 32 bytes, usage 14.
    expect(above).toBe(100 * (32 + 14) + keyBytes);
    shards.splitAt(0, MIDDLE);
    expect(
      weigh(WHOLE)
        .subarray(SIZE_CLASSES / 2)
        .every((bytes) => bytes === 0),
    ).toBe(true);
  });
});

describe("the sample of calls", () => {
  const fill = (sample: LoadSample, hashOf: (i: number) => number, span = 0): void => {
    for (let i = 0; i < LOAD_SAMPLE_KEYS; i++) sample.add(hashOf(i), hashOf(i), hashOf(i) + span);
  };
  const spread = (i: number): number => i * 1000 + 5;

  it("calls on keys that lie evenly are split at the median", () => {
    const sample = new LoadSample();
    fill(sample, spread);
    expect(sample.middle(WHOLE)).toBe(spread(LOAD_SAMPLE_KEYS / 2));
  });

  it("there is no middle before the sample is full, nor after it was cleared", () => {
    const sample = new LoadSample();
    sample.add(1, 1, 1);
    expect(sample.middle(WHOLE)).toBeNull();
    fill(sample, spread);
    sample.clear();
    expect(sample.middle(WHOLE)).toBeNull();
  });

  it("calls that concern both halves are not split", () => {
    const sample = new LoadSample();
    fill(sample, spread, 1000 * LOAD_SAMPLE_KEYS * 0.3);
    expect(sample.middle(WHOLE)).toBeNull();
  });

  it("calls of which a third are on one key are not split", () => {
    const sample = new LoadSample();
    fill(sample, (i) => (i % 5 < 2 ? 77_005 : spread(i)));
    expect(sample.middle(WHOLE)).toBeNull();
  });

  it("one of sixteen calls is looked at", () => {
    const sample = new LoadSample();
    const looked = Array.from({ length: 160 }, () => sample.noteCall(NOW_MS));
    expect(looked.filter(Boolean)).toHaveLength(10);
  });

  it("a shard is hot after half a minute of more calls than the limit, and not a second before", () => {
    const sample = new LoadSample();
    const startMs = 5000 * 1000;
    const callsAt = (fromMs: number, toMs: number, each: number): void => {
      for (let ms = fromMs; ms < toMs; ms += each) sample.noteCall(ms);
    };
    callsAt(startMs, startMs + 29_999, 2);
    expect(sample.isHot(400, startMs + 29_999)).toBe(false);
    expect(sample.isHot(400, startMs + 30_000)).toBe(true);
    expect(sample.isHot(501, startMs + 30_000)).toBe(false);
    expect(sample.callsPerSecond(startMs + 30_000)).toBe(500);
    callsAt(startMs + 30_000, startMs + 35_000, 10);
    expect(sample.isHot(400, startMs + 35_000)).toBe(false);
    expect(sample.isHot(400, startMs + 95_000)).toBe(false);
  });
});

describe("the rows of splits", () => {
  const written: SplitUpdate[] = [];
  const rowsOf = (): SplitRows => {
    written.length = 0;
    return new SplitRows((columns) => void written.push(columns));
  };

  it("a split writes a row when it begins, one when the range is given, and one when that is known", () => {
    const rows = rowsOf();
    expect(rows.begin(MIDDLE)).toBe(1);
    rows.give(WHOLE, 3);
    rows.noteActivated();
    rows.noteActivated();
    expect(written).toHaveLength(3);
    expect(rows.range).toEqual({ from: 0, to: MIDDLE });
    expect(rows.gone).toEqual([MIDDLE]);
    expect(rows.bornTo).toBe(0);
    expect([rows.mustFilter(2), rows.mustFilter(3)]).toEqual([true, false]);
  });

  it("a start reads what was written", () => {
    const rows = rowsOf();
    rows.begin(MIDDLE);
    rows.give(WHOLE, 3);
    rows.noteGone([MIDDLE + 7]);
    const row = Object.assign({}, ...written) as object;
    const read = rowsOf();
    read.load({ ...row });
    expect(read.range).toEqual({ from: 0, to: MIDDLE });
    expect(read.split).toEqual({ at: MIDDLE, phase: 2 });
    expect(read.attempt).toBe(1);
  });

  it("each attempt has a number of its own, also after one that was given up", () => {
    const rows = rowsOf();
    expect(rows.begin(MIDDLE)).toBe(1);
    rows.giveUp();
    expect(rows.begin(MIDDLE)).toBe(2);
    expect(rows.begin(MIDDLE + 1)).toBe(3);
  });

  it("a shard whose only attempt was given up has the format that releases before 0.5.0 read, and no other one has", () => {
    const formatOf = (): unknown => (Object.assign({}, ...written) as { format?: number }).format;
    const rows = rowsOf();
    rows.begin(MIDDLE);
    expect(formatOf()).toBe(2);
    rows.giveUp();
    expect(formatOf()).toBe(1);
    const read = rowsOf();
    read.load(Object.assign({ attempt: 1 }, ...written) as object);
    expect(read.begin(MIDDLE)).toBe(2);
    read.give(WHOLE, 3);
    read.noteActivated();
    read.begin(MIDDLE - 1);
    read.giveUp();
    expect(formatOf()).toBe(2);
    const child = rowsOf();
    child.adopt({ from: MIDDLE, to: 0 }, 0, 1);
    child.activate();
    child.begin(MIDDLE + 1);
    child.giveUp();
    expect(formatOf()).toBe(2);
  });

  it("no split begins before the last one is known to the shard that was given its range", () => {
    const rows = rowsOf();
    rows.begin(MIDDLE);
    rows.give(WHOLE, 1);
    expect(() => rows.begin(7)).toThrow("not over");
    expect(() => rows.giveUp()).toThrow("nothing is copied");
  });

  it("a shard that asks hears whether its range was given, is copied or was given up, and nothing from an older disk", () => {
    const rows = rowsOf();
    expect(rows.verdictOn(MIDDLE, 1)).toBe("unknown");
    rows.begin(MIDDLE);
    expect(rows.verdictOn(MIDDLE, 1)).toBe("copying");
    expect(rows.verdictOn(MIDDLE, 2)).toBe("unknown");
    rows.giveUp();
    expect(rows.verdictOn(MIDDLE, 1)).toBe("givenUp");
    rows.begin(MIDDLE);
    expect(rows.verdictOn(MIDDLE, 1)).toBe("givenUp");
    rows.give(WHOLE, 1);
    expect(rows.verdictOn(MIDDLE, 2)).toBe("given");
    expect(rows.verdictOn(MIDDLE + 1, 2)).toBe("givenUp");
  });

  it("hints of ranges that have split further are kept where they lie behind the own range", () => {
    const rows = rowsOf();
    rows.noteGone([5]);
    expect(rows.gone).toEqual([]);
    rows.begin(MIDDLE);
    rows.give({ from: 0, to: CIRCLE - 10 }, 1);
    rows.noteGone([MIDDLE + 5, 7, CIRCLE - 5, MIDDLE]);
    expect(rows.gone).toEqual([MIDDLE, MIDDLE + 5]);
  });
});

describe("what a shard tells the one that it has its range from", () => {
  it("each range that was split off is told once, also where a restart comes between", () => {
    const written: SplitUpdate[] = [];
    const rows = new SplitRows((columns) => void written.push(columns));
    rows.adopt({ from: MIDDLE, to: 0 }, 0, 1);
    rows.activate();
    expect(rows.isToHint).toBe(false);
    rows.begin(MIDDLE + 100);
    rows.give({ from: MIDDLE, to: 0 }, 1);
    expect(rows.isToHint).toBe(true);
    rows.noteHinted(rows.gone.length);
    expect(rows.isToHint).toBe(false);
    rows.noteGone([MIDDLE + 200]);
    const read = new SplitRows(() => {});
    read.load(Object.assign({}, ...written) as object);
    expect([rows.isToHint, read.isToHint]).toEqual([true, true]);
  });

  it("a shard that the namespace began with has nobody to tell", () => {
    const rows = new SplitRows(() => {});
    rows.begin(MIDDLE);
    rows.give(WHOLE, 1);
    expect(rows.isToHint).toBe(false);
  });
});

describe("what a shard adopts", () => {
  const offerOf = (attempt: number): RangeOffer => ({
    placement: ONE_SHARD,
    hashKey: { low: 1, high: 2 },
    range: { from: MIDDLE, to: 0 },
    parent: 0,
    attempt,
  });
  const rowOf = (key: string): Uint8Array => {
    const engine = new Engine({
      hashKey: { low: 1, high: 1 },
      bytesMax: 1 << 20,
      isCounting: false,
    });
    engine.apply(edgeBatch([insert(key, 1n, FOREVER)]), NOW_MS);
    return engine.takeCommit(1 << 20)[0]!.slice();
  };
  const NO_USAGE = new Uint8Array(0);
  const adopt = ({ journal }: SplitShard, attempt: number, number: number): AdoptOutcome =>
    journal.adopt(offerOf(attempt), number, rowOf(`${attempt}:${number}`), NO_USAGE);

  it("rows are applied once and in order, and a restart knows which is next", () => {
    const child = shardsOf().at(MIDDLE);
    expect(adopt(child, 3, 2)).toBe("gap");
    expect(adopt(child, 3, 1)).toBe("applied");
    expect(adopt(child, 3, 1)).toBe("applied");
    expect(adopt(child, 3, 3)).toBe("gap");
    child.start(NOW_MS);
    expect(adopt(child, 3, 1)).toBe("applied");
    expect(adopt(child, 3, 2)).toBe("applied");
    expect([child.journal.rows, child.engine.figures.records]).toEqual([2, 2]);
    expect([child.journal.split.attempt, child.isActive]).toEqual([3, false]);
  });

  it("a shard writes no rows of its own before its range is in force, or the next row would be lost", () => {
    const child = shardsOf().at(MIDDLE);
    expect(adopt(child, 3, 1)).toBe("applied");
    child.start(NOW_MS - 60_000);
    child.journal.storeClock();
    child.journal.storeCounts();
    expect(adopt(child, 3, 2)).toBe("applied");
    expect([child.journal.rows, child.engine.figures.records]).toEqual([2, 2]);
  });

  it("a lower attempt is refused, and a higher one starts empty, with its first row only", () => {
    const child = shardsOf().at(MIDDLE);
    adopt(child, 3, 1);
    adopt(child, 3, 2);
    expect(adopt(child, 2, 1)).toBe("lower");
    expect(adopt(child, 2, 3)).toBe("lower");
    expect(adopt(child, 4, 2)).toBe("gap");
    expect(child.engine.figures.records).toBe(2);
    expect(adopt(child, 4, 1)).toBe("applied");
    expect([child.journal.rows, child.engine.figures.records]).toEqual([1, 1]);
    expect(adopt(child, 3, 3)).toBe("lower");
  });

  it("a shard that serves its range adopts nothing", () => {
    const shards = shardsOf();
    const child = shards.at(MIDDLE);
    adopt(child, 3, 1);
    expect(child.journal.activate(2, NOW_MS)).toBe(false);
    expect(child.journal.activate(3, NOW_MS)).toBe(true);
    expect(child.journal.activate(3, NOW_MS)).toBe(true);
    for (const attempt of [2, 3, 4]) expect(adopt(child, attempt, 2)).toBe("active");
    expect(adopt(shards.at(0), 9, 1)).toBe("active");
    child.start(NOW_MS);
    expect([child.isActive, child.engine.figures.records]).toEqual([true, 1]);
  });

  it("a shard whose attempt was given up drops that one, and no later one", () => {
    const child = shardsOf().at(MIDDLE);
    adopt(child, 4, 1);
    expect(child.journal.dropAdopted(3)).toBe(false);
    expect(child.journal.dropAdopted(4)).toBe(true);
    expect([child.journal.placement, child.engine.figures.records]).toEqual([null, 0]);
    child.start(NOW_MS);
    expect([child.journal.placement, child.engine.figures.records]).toEqual([null, 0]);
  });

  it("the clock of a shard that adopts is never behind that of the one that gives", () => {
    const child = shardsOf().at(MIDDLE);
    adopt(child, 1, 1);
    child.journal.activate(1, NOW_MS + 5000);
    expect(child.engine.nowMs).toBe(NOW_MS + 5000);
    child.start(NOW_MS);
    expect(child.engine.nowMs).toBeGreaterThanOrEqual(NOW_MS + 5000);
  });
});

describe("semaphores of a shard that has given some away", () => {
  const HOLDER = connectionHolder(idOf(1));
  const acquire = ({ engine }: SplitShard, name: string): number => {
    const bytes = bytesOf(name);
    const request = { nameAt: 0, nameBytes: bytes.length, resources: 1, maximum: 5 };
    expect(engine.semaphores.acquire(bytes, request, HOLDER, NOW_MS)).toBe(0);
    return engine.semaphores.numberOf(bytes, 0, bytes.length, NOW_MS);
  };
  const namesOf = (shards: SplitShards, isUpper: boolean): string[] =>
    Array.from({ length: 64 }, (_, i) => `s${i}`).filter(
      (name) => shards.placeOf(Keyspace.semaphores, bytesOf(name)) >= MIDDLE === isUpper,
    );

  it("the number of a given semaphore is free again once no row on disk can have its holdings", () => {
    const shards = shardsOf();
    const root = shards.at(0);
    const [given] = namesOf(shards, true);
    const [first, second, third] = namesOf(shards, false);
    const number = acquire(root, given!);
    root.journal.append();
    shards.splitAt(0, MIDDLE);
    while (root.engine.ownership.isForgetting) root.forget();
    expect(acquire(root, first!)).not.toBe(number);
    root.start(NOW_MS);
    expect(acquire(root, second!)).not.toBe(number);
    root.journal.append();
    while (root.journal.isCutting) root.journal.append();
    expect(acquire(root, third!)).toBe(number);
  });

  it("a semaphore that has the number of one that was removed before is found after a split and a crash", () => {
    const shards = shardsOf();
    const root = shards.at(0);
    const [removed] = namesOf(shards, true);
    const [staying] = namesOf(shards, false);
    const number = acquire(root, removed!);
    root.journal.append();
    root.engine.semaphores.releaseAll(HOLDER, NOW_MS);
    root.engine.semaphores.collectStep(0, NOW_MS, true);
    root.journal.append();
    expect(acquire(root, staying!)).toBe(number);
    root.journal.append();
    shards.splitAt(0, MIDDLE);
    root.start(NOW_MS);
    expect(root.engine.semaphores.releaseAll(HOLDER, NOW_MS)).toBe(1);
    expect(root.engine.semaphores.figures(NOW_MS)).toMatchObject({ holdings: 0, objects: 1 });
  });

  it("what a connection gave back before its semaphore's number was used again is not held at the other shard", () => {
    const shards = shardsOf();
    const root = shards.at(0);
    const [moving] = namesOf(shards, true);
    const [staying] = namesOf(shards, false);
    const number = acquire(root, moving!);
    root.journal.append();
    root.begin(MIDDLE);
    root.copy!.step();
    shards.send(root);
    // One commit: the tombstone of the holding has a number that is another semaphore's by then.
    root.engine.semaphores.releaseAll(HOLDER, NOW_MS);
    root.engine.semaphores.collectStep(0, NOW_MS, true);
    expect(acquire(root, staying!)).toBe(number);
    expect(shards.switch(root)).toBe(true);
    shards.tell(root);
    const { holdings, objects } = shards.at(MIDDLE).engine.semaphores.figures(NOW_MS);
    expect({ holdings, objects }).toEqual({ holdings: 0, objects: 0 });
    expect(root.engine.semaphores.figures(NOW_MS)).toMatchObject({ holdings: 1, objects: 1 });
  });
});

describe("walks of a shard that has given records away", () => {
  it("totals are those of the own records at once, also where records have changed behind the walk", () => {
    const shards = shardsOf();
    const root = shards.at(0);
    const { lower, upper } = keysOfHalves(shards, 2);
    const write = (bytes: number): void => {
      const value = new Uint8Array(bytes);
      const frames = [lower[0]!, upper[0]!].flatMap((key) => [
        set(key, value, FOREVER),
        increment(`${key}#`, 1n, FOREVER),
      ]);
      root.engine.apply(edgeBatch(frames), NOW_MS);
      root.journal.append();
    };
    write(5);
    root.begin(MIDDLE);
    root.copy!.step();
    write(9);
    write(3);
    const before = root.engine.totals;
    expect(shards.switch(root)).toBe(true);
    shards.tell(root);
    const own = root.engine.totals;
    const given = shards.at(MIDDLE).engine.totals;
    expect(own.buffers).toBe(1);
    expect(own.bufferBytes).toBe(3);
    expect(given.bufferBytes + own.bufferBytes).toBe(before.bufferBytes);
    expect(given.counters + own.counters).toBe(before.counters);
    while (root.engine.ownership.isForgetting) root.forget();
    expect(root.engine.totals).toEqual(own);
  });

  it("a plan and a dump that began before have the records until they are dropped, and others have none", () => {
    const shards = shardsOf();
    const root = shards.at(0);
    const { lower, upper } = keysOfHalves(shards, 20);
    const frames = [...lower, ...upper].map((key) => insert(key, 1n, FOREVER));
    root.engine.apply(edgeBatch(frames), NOW_MS);
    root.journal.append();
    shards.splitAt(0, MIDDLE);
    const query = { rows: "list", valueSize: 8, keyspace: 0, prefixes: [] } as const;
    const { listing, ownership } = root.engine;
    const bytesOfPlan = (hasGiven: boolean): number => {
      const { parts } = listing.plan({ ...query, hasGiven }, 0);
      return finish(listing.fragments({ ...query, hasGiven }, parts, CIRCLE, 1)).length;
    };
    expect(bytesOfPlan(true)).toBeGreaterThan(1.5 * bytesOfPlan(false));
    while (ownership.isForgetting) root.forget();
    expect(bytesOfPlan(true)).toBe(bytesOfPlan(false));
  });
});
