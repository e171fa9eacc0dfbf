/** Usage of records and tallies: exact while small, close when large, and only the last minute counts. */
import fc from "fast-check";
import { describe, expect, inject, it } from "vitest";
import { Engine } from "../../src/engine/engine.ts";
import { countsAt, sumFigures, Tally, TALLY_READ_BYTES } from "../../src/engine/tally.ts";
import {
  countRead,
  countWrite,
  readUsage,
  readUsageAtTurn,
  turnMinute,
  USAGE_BYTES,
} from "../../src/engine/usage.ts";
import { VERSION } from "../../src/base/version.ts";
import {
  batchOf,
  concat,
  frameOf,
  hex,
  HOURS,
  partsOf,
  U16,
  unhex,
} from "../support/frames/index.ts";
import type { ModelProtocol, ModelRequest } from "../support/models/requests.ts";
import packageJson from "../../package.json" with { type: "json" };
import { finish } from "../support/engine/steps.ts";

const seed = inject("seed");
const MINUTE_MS = 60_000;
/** The start of a minute. */
const START_MS = 1_800_000_000_000;

function usageOf(bytes: Uint8Array, share = 0) {
  const usage = { readsPerMinute: 0, writesPerMinute: 0, reads: 0, writes: 0 };
  readUsage(bytes, 0, share, usage);
  return usage;
}

function usageAtTurn(bytes: Uint8Array) {
  const usage = { readsPerMinute: 0, writesPerMinute: 0, reads: 0, writes: 0 };
  readUsageAtTurn(bytes, 0, usage);
  return usage;
}

describe("usage", () => {
  it("usage is exact to 4,095 in a minute, and in all", () => {
    const bytes = new Uint8Array(USAGE_BYTES);
    for (let i = 1; i <= 4095; i++) {
      countRead(bytes, 0);
      if (i % 3 === 0) countWrite(bytes, 0);
      expect(usageOf(bytes)).toEqual({
        readsPerMinute: i,
        writesPerMinute: Math.floor(i / 3),
        reads: i,
        writes: Math.floor(i / 3),
      });
    }
  });

  it("usage above 4,095 in a minute is within a thousandth, and the total exact", () => {
    const bytes = new Uint8Array(USAGE_BYTES);
    for (let i = 1; i <= 3_000_000; i++) {
      countWrite(bytes, 0);
      if (i % 99_991 !== 0) continue;
      const { writes, writesPerMinute, reads } = usageOf(bytes);
      expect(writes).toBe(i);
      expect(Math.abs(writesPerMinute - i) / i).toBeLessThan(0.001);
      expect(reads).toBe(0);
    }
  });

  it("usage stops at its maximum instead of starting again, and goes on counting minutes", () => {
    const bytes = new Uint8Array(USAGE_BYTES);
    bytes.fill(0xff, 0, 4);
    for (let i = 0; i < 100_000; i++) countRead(bytes, 0);
    const { reads, readsPerMinute } = usageOf(bytes);
    expect(reads).toBeGreaterThanOrEqual(0xffff0000);
    expect(Math.abs(readsPerMinute - 100_000)).toBeLessThan(200);
  });

  it("usage of the last minute fades, and is forgotten after two", () => {
    const bytes = new Uint8Array(USAGE_BYTES);
    const property = fc.property(
      fc.nat(200_000),
      fc.double({ min: 0, max: 1, noNaN: true }),
      (count, share) => {
        bytes.fill(0);
        for (let i = 0; i < count; i++) countRead(bytes, 0);
        turnMinute(bytes, 0, false);
        const { readsPerMinute, reads } = usageOf(bytes, share);
        expect(reads).toBe(count);
        const tolerance = count < 16 ? 0.51 : count / 7 + 0.51;
        expect(Math.abs(readsPerMinute - count * (1 - share))).toBeLessThanOrEqual(tolerance);
        turnMinute(bytes, 0, true);
        expect(usageOf(bytes).readsPerMinute).toBe(0);
      },
    );
    fc.assert(property, { seed, numRuns: 50 });
  });
});

describe("usage as of the last whole minute's end", () => {
  const NOTHING = { readsPerMinute: 0, writesPerMinute: 0, reads: 0, writes: 0 };

  it("usage as of the last whole minute stays as it is while a minute counts up to 4,095", () => {
    const bytes = new Uint8Array(USAGE_BYTES);
    for (let i = 1; i <= 4095; i++) {
      countRead(bytes, 0);
      countWrite(bytes, 0);
      expect(usageAtTurn(bytes)).toEqual(NOTHING);
    }
    turnMinute(bytes, 0, false);
    for (let i = 1; i <= 4095; i++) {
      countRead(bytes, 0);
      expect(usageAtTurn(bytes)).toMatchObject({ reads: 4095, writes: 4095 });
    }
    turnMinute(bytes, 0, false);
    expect(usageAtTurn(bytes)).toMatchObject({ reads: 8190, writes: 4095, writesPerMinute: 0 });
  });

  it("usage as of the last whole minute is within a thousandth above 4,095", () => {
    const property = fc.property(fc.nat(300), fc.nat(1_000_000), (before, count) => {
      const bytes = new Uint8Array(USAGE_BYTES);
      for (let i = 0; i < before; i++) countWrite(bytes, 0);
      turnMinute(bytes, 0, false);
      for (let i = 0; i < count; i++) countWrite(bytes, 0);
      expect(Math.abs(usageAtTurn(bytes).writes - before)).toBeLessThanOrEqual(count / 1000);
    });
    fc.assert(property, { seed, numRuns: 30 });
  });
});

describe("the usage of records", () => {
  type Counts = { readsPerMinute: number; writesPerMinute: number; reads: number; writes: number };

  const EDGE: ModelProtocol = { dialect: "edge", valueSize: 8 };

  /** What STAT of a dialect says of keys. */
  function statsOf(
    engine: Engine,
    keys: readonly string[],
    nowMs: number,
    protocol = EDGE,
  ): (Counts | null)[] {
    const frames = keys.map((key) =>
      concat([Uint8Array.of(9, key.length), new TextEncoder().encode(key)]),
    );
    const [part] = partsOf(engine.apply(batchOf([{ protocol, frames }]), nowMs));
    const view = new DataView(part!.replies.buffer, part!.replies.byteOffset);
    let at = 0;
    return keys.map(() => {
      if (part!.replies[at++] === 0) return null;
      const [readsPerMinute, writesPerMinute, reads, writes] = [0, 8, 16, 24].map((offset) =>
        Number(view.getBigUint64(at + offset, true)),
      ) as [number, number, number, number];
      at += 32;
      return { readsPerMinute, writesPerMinute, reads, writes };
    });
  }

  it("usage follows its records through growth, splits, moves and removals", () => {
    const keys = Array.from({ length: 12_000 }, (_, i) => `k${i}`);
    const step = fc.record({
      key: fc.nat(keys.length - 1),
      type: fc.constantFrom("query", "get", "update", "set", "purge", "insert"),
      bytes: fc.nat(300),
    });
    const property = fc.property(fc.array(step, { minLength: 200, maxLength: 600 }), (steps) => {
      const engine = new Engine({
        hashKey: { low: seed, high: 7 },
        bytesMax: 64 << 20,
        isCounting: true,
      });
      const nowMs = START_MS;
      const model = new Map<string, { kind: string; reads: number; writes: number }>();
      const run = (requests: ModelRequest[]): void => {
        const frames = requests.map((request) => frameOf(U16, request));
        engine.apply(batchOf([{ protocol: U16, frames }]), nowMs);
        engine.takeCommit(1 << 20);
      };
      const requestOf = (type: string, key: string, bytes: number): ModelRequest => {
        if (type === "insert") return { type, key, quota: 1n, ttlType: 6, ttl: 9n };
        if (type === "set") return { type, key, ttlType: 6, ttl: 9n, value: new Uint8Array(bytes) };
        if (type === "update") return { type, key, attribute: 1, change: 1, value: 1n };
        return { type: type as "query" | "get" | "purge", key };
      };
      const count = (type: string, key: string): void => {
        const record = model.get(key);
        if (type === "insert" && record === undefined)
          model.set(key, { kind: "counter", reads: 0, writes: 1 });
        else if (type === "set" && record === undefined)
          model.set(key, { kind: "buffer", reads: 0, writes: 1 });
        else if (record === undefined) return;
        else if (type === "purge") model.delete(key);
        else if (type === "update" || (type === "set" && record.kind === "buffer")) record.writes++;
        else if (type === "query" && record.kind === "counter") record.reads++;
        else if (type === "get" && record.kind === "buffer") record.reads++;
      };
      run(keys.slice(0, 6000).map((key) => requestOf("insert", key, 0)));
      for (const key of keys.slice(0, 6000)) count("insert", key);
      run(steps.map(({ type, key, bytes }) => requestOf(type, keys[key]!, bytes)));
      for (const { type, key } of steps) count(type, keys[key]!);
      run(keys.slice(6000).map((key) => requestOf("insert", key, 0)));
      for (const key of keys.slice(6000)) count("insert", key);
      const expected = keys.map((key) => {
        const record = model.get(key);
        if (record === undefined) return null;
        const { reads, writes } = record;
        return { readsPerMinute: reads, writesPerMinute: writes, reads, writes };
      });
      expect(statsOf(engine, keys, nowMs)).toEqual(expected);
    });
    fc.assert(property, { seed, numRuns: 10 });
  });

  it("usage of the minute before last is forgotten", () => {
    const engine = new Engine({
      hashKey: { low: seed, high: 8 },
      bytesMax: 1 << 20,
      isCounting: true,
    });
    const insert = U16.insert("k", 1, HOURS, 9n);
    const query = U16.query("k");
    const at = (nowMs: number, frames: Uint8Array[] = []): Counts => {
      if (frames.length > 0) engine.apply(batchOf([{ protocol: U16, frames }]), nowMs);
      return statsOf(engine, ["k"], nowMs)[0]!;
    };
    at(START_MS, [insert, query, query, query, query]);
    expect(at(START_MS + 59_999)).toEqual({
      readsPerMinute: 4,
      writesPerMinute: 1,
      reads: 4,
      writes: 1,
    });
    expect(at(START_MS + MINUTE_MS).readsPerMinute).toBe(4);
    expect(at(START_MS + 1.5 * MINUTE_MS).readsPerMinute).toBe(2);
    expect(at(START_MS + 1.5 * MINUTE_MS, [query]).readsPerMinute).toBe(3);
    expect(at(START_MS + 3 * MINUTE_MS)).toEqual({
      readsPerMinute: 0,
      writesPerMinute: 0,
      reads: 5,
      writes: 1,
    });
  });

  it.each([["7.3"], ["7.1"]])(
    "STAT of dialect %s reports zeros in the minute that created the record, then that minute's figures",
    (dialect) => {
      const engine = new Engine({
        hashKey: { low: seed, high: 8 },
        bytesMax: 1 << 20,
        isCounting: true,
      });
      const insert = U16.insert("k", 1, HOURS, 9n);
      const query = U16.query("k");
      const at = (nowMs: number, frames: Uint8Array[] = []): number[] => {
        if (frames.length > 0) engine.apply(batchOf([{ protocol: U16, frames }]), nowMs);
        const [usage] = statsOf(engine, ["k"], nowMs, { dialect, valueSize: 2 });
        return Object.values(usage!);
      };
      expect(at(START_MS, [insert, query, query])).toEqual([0, 0, 0, 0]);
      expect(at(START_MS + MINUTE_MS - 1, [query])).toEqual([0, 0, 0, 0]);
      expect(at(START_MS + MINUTE_MS)).toEqual([3, 1, 3, 1]);
      expect(at(START_MS + 1.9 * MINUTE_MS, [query, query])).toEqual([3, 1, 3, 1]);
      expect(at(START_MS + 2 * MINUTE_MS)).toEqual([2, 0, 5, 1]);
      expect(at(START_MS + 4 * MINUTE_MS, [query])).toEqual([0, 0, 5, 1]);
    },
  );

  it("STATS reports figures of the last whole minute's end, and live ones in the edge dialect", () => {
    const hashKey = { low: seed, high: 8 };
    const engine = new Engine({ hashKey, bytesMax: 1 << 20, isCounting: true });
    const frames = [U16.insert("k", 1, HOURS, 9n), U16.query("k")];
    engine.apply(batchOf([{ protocol: U16, frames }]), START_MS);
    const rowsOf = (flags: { hasLiveUsage?: boolean }): string => {
      const query = {
        rows: "stats",
        valueSize: 2,
        keyspace: 0,
        prefixes: [],
        ...flags,
      } as const;
      const page = finish(engine.listing.page(query, null, 1 << 20, 10));
      const [part] = engine.listing.plan(query, 0).parts;
      const fragments = finish(engine.listing.fragments(query, [part!], 2 ** 32, 1));
      const row = hex(page).slice(-66);
      expect(hex(fragments)).toContain(row.slice(0, 64));
      return row;
    };
    const one = "0100000000000000";
    const zero = "0000000000000000";
    expect(rowsOf({ hasLiveUsage: true })).toContain(one.repeat(4));
    expect(rowsOf({ hasLiveUsage: false })).toContain(zero.repeat(4));
    expect(rowsOf({})).toBe(rowsOf({ hasLiveUsage: false }));
    engine.advance(START_MS + MINUTE_MS);
    expect(rowsOf({ hasLiveUsage: false })).toContain(one.repeat(4));
  });

  it("usage is zero in an engine that does not count", () => {
    const engine = new Engine({
      hashKey: { low: 1, high: 8 },
      bytesMax: 1 << 20,
      isCounting: false,
    });
    const insert = U16.insert("k", 1, HOURS, 9n);
    engine.apply(batchOf([{ protocol: U16, frames: [insert] }]), START_MS);
    expect(statsOf(engine, ["k", "none"], START_MS)).toEqual([
      { readsPerMinute: 0, writesPerMinute: 0, reads: 0, writes: 0 },
      null,
    ]);
    expect(engine.tallyFigures(START_MS).every((figure) => figure === 0)).toBe(true);
  });

  it("usage takes at most 16 bytes a record, however many there are", () => {
    const sizes = [50_000, 120_000, 200_000, 270_000];
    const batches = Array.from({ length: 270 }, (_, batch) => {
      const frames = Array.from({ length: 1000 }, (_frame, i) =>
        U16.insert(`key:${1000 * batch + i}`.padEnd(16, "-"), 1, HOURS, 9n),
      );
      return batchOf([{ protocol: U16, frames }]);
    });
    const bytesOfRecords = (isCounting: boolean): number[] => {
      const hashKey = { low: seed, high: 3 };
      const engine = new Engine({ hashKey, bytesMax: 256 << 20, isCounting });
      const perRecord: number[] = [];
      let count = 0;
      for (const batch of batches) {
        engine.apply(batch, START_MS);
        engine.takeCommit(1 << 20);
        count += 1000;
        if (sizes.includes(count)) perRecord.push(engine.figures.bytes / count);
      }
      return perRecord;
    };
    const without = bytesOfRecords(false);
    const extra = bytesOfRecords(true).map((bytes, i) => bytes - without[i]!);
    for (const bytes of extra) {
      expect(bytes).toBeGreaterThan(USAGE_BYTES - 1);
      expect(bytes).toBeLessThanOrEqual(16);
    }
  });
});

describe("a tally", () => {
  it("a tally has totals and the last 60 seconds, and adds up", () => {
    const tally = new Tally();
    tally.turn(START_MS);
    tally.totals[1]! += 10;
    tally.totals[TALLY_READ_BYTES]! += 1000;
    expect(countsAt(tally.figures(START_MS), 1)).toEqual([10, 10]);
    tally.turn(START_MS + MINUTE_MS);
    tally.totals[1]! += 5;
    expect(countsAt(tally.figures(START_MS + MINUTE_MS), 1)).toEqual([15, 15]);
    expect(countsAt(tally.figures(START_MS + 1.5 * MINUTE_MS), 1)).toEqual([15, 10]);
    const sum = sumFigures([
      tally.figures(START_MS + 1.5 * MINUTE_MS),
      tally.figures(START_MS + 1.5 * MINUTE_MS),
    ]);
    expect(countsAt(sum, 1)).toEqual([30, 20]);
    expect(countsAt(sum, TALLY_READ_BYTES)).toEqual([2000, 1000]);
    expect(countsAt(tally.figures(START_MS + 4 * MINUTE_MS), 1)).toEqual([15, 0]);
  });

  it("a tally counts requests by type where they are executed", () => {
    const engine = new Engine({
      hashKey: { low: 1, high: 8 },
      bytesMax: 1 << 20,
      isCounting: true,
    });
    const frames = [unhex("02016b"), unhex("02016b"), unhex("04016b")];
    engine.apply(batchOf([{ protocol: U16, frames }]), START_MS);
    const figures = engine.tallyFigures(START_MS);
    expect([1, 2, 4].map((type) => countsAt(figures, type)[0])).toEqual([0, 2, 1]);
    expect(countsAt(figures, TALLY_READ_BYTES)[0]).toBe(9);
  });
});

it("INFO has the version of the package", () => {
  expect(VERSION).toBe(packageJson.version);
  expect(VERSION.length).toBeLessThanOrEqual(16);
});
