/** The engine against the model: any requests, any times, restarts from what was written at any point. */
import fc from "fast-check";
import { describe, expect, inject, it } from "vitest";
import { Engine, type EngineOptions } from "../../src/engine/engine.ts";
import { protocolArbitrary, requestArbitrary } from "../support/engine/arbitraries.ts";
import { Disk } from "../support/engine/disk.ts";
import { batchOf, frameOf, hex, partsOf } from "../support/frames/index.ts";
import { CommandModel } from "../support/models/commands.ts";
import type { ModelProtocol, ModelRequest } from "../support/models/requests.ts";
import { runs } from "../support/runs.ts";

const seed = inject("seed");

interface Step {
  sections: { protocol: ModelProtocol; requests: ModelRequest[] }[];
  afterMs: number;
  next: "commit" | "crash" | "crash after commit" | "snapshot step" | "sweep" | "nothing";
}

const section = protocolArbitrary.chain((protocol) =>
  fc.record({
    protocol: fc.constant(protocol),
    requests: fc.array(requestArbitrary(protocol), { minLength: 1, maxLength: 30 }),
  }),
);

const step: fc.Arbitrary<Step> = fc.record({
  sections: fc.array(section, { minLength: 1, maxLength: 3 }),
  afterMs: fc.oneof(fc.constantFrom(0, 1, 999, 1000, 60_000), fc.nat(5000), fc.nat(10_000_000)),
  next: fc.constantFrom(
    "commit",
    "crash",
    "crash after commit",
    "snapshot step",
    "sweep",
    "nothing",
  ),
});

const optionsOf = (low: number, high: number): EngineOptions => ({
  hashKey: { low, high },
  bytesMax: 64 << 20,
  isCounting: true,
});

describe("engine", () => {
  it("the engine answers as the model does, whatever is restarted at any time", () => {
    const property = fc.property(
      fc.array(step, { minLength: 1, maxLength: 25 }),
      fc.integer(),
      fc.constantFrom(400, 2000, 1_900_000),
      (steps, hashSeed, rowBytesMax) => {
        const disk = new Disk(rowBytesMax);
        let nowMs = 1_700_000_000_000;
        let restarts = 0;
        let engine = disk.load(optionsOf(hashSeed, 1), nowMs);
        let model = new CommandModel(0);
        let durable = model.clone();
        for (const { sections, afterMs, next } of steps) {
          nowMs += afterMs;
          model.advance(nowMs);
          const batch = batchOf(
            sections.map(({ protocol, requests }) => ({
              protocol,
              frames: requests.map((request) => frameOf(protocol, request)),
            })),
          );
          const answer = partsOf(engine.apply(batch, nowMs));
          sections.forEach(({ protocol, requests }, index) => {
            const expected = requests.flatMap(
              (request) => model.throttr(protocol.valueSize, request).bytes,
            );
            expect(answer[index]!.count).toBe(requests.length);
            expect(hex(answer[index]!.replies)).toBe(hex(expected));
          });
          if (next !== "nothing" && next !== "crash") {
            disk.commit(engine);
            durable = model.clone();
          }
          if (next === "snapshot step") disk.snapshotStep(engine);
          if (next === "sweep") {
            for (let cursor: number | null = 0; cursor !== null;)
              cursor = engine.sweepStep(cursor, nowMs);
          }
          if (next.startsWith("crash")) {
            engine = disk.load(optionsOf(hashSeed, ++restarts), nowMs);
            model = durable.clone();
          }
        }
      },
    );
    fc.assert(property, { seed, numRuns: runs(300) });
  });

  it("the engine keeps every record through growth, splits, deletion and reuse of space", () => {
    const protocol = { dialect: "7.3", valueSize: 4 };
    const engine = new Engine({
      hashKey: { low: seed, high: 2 },
      bytesMax: 64 << 20,
      isCounting: true,
    });
    const model = new CommandModel(0);
    const nowMs = 1_700_000_000_000;
    model.advance(nowMs);
    const run = (requests: ModelRequest[]): void => {
      const frames = requests.map((request) => frameOf(protocol, request));
      const [part] = partsOf(engine.apply(batchOf([{ protocol, frames }]), nowMs));
      const expected = requests.flatMap(
        (request) => model.throttr(protocol.valueSize, request).bytes,
      );
      // A message that shows what differs would take as long as the test.
      expect(Buffer.from(expected).equals(part!.replies)).toBe(true);
    };
    const keys = Array.from({ length: 30_000 }, (_, i) => `key:${i}`);
    const insert = (key: string, i: number): ModelRequest => ({
      type: "insert",
      key,
      quota: BigInt(i),
      ttlType: 4,
      ttl: 100n,
    });
    const query = (key: string): ModelRequest => ({ type: "query", key });
    run(keys.map(insert));
    const grown = engine.figures.bytes;
    for (let round = 0; round < 3; round++) {
      run(keys.filter((_, i) => i % 3 !== round).map((key) => ({ type: "purge", key })));
      run(keys.map(query));
      run(keys.map(insert));
      run(keys.map(query));
    }
    expect(engine.figures.records).toBe(keys.length);
    expect(engine.figures.bytes).toBeLessThan(grown * 1.3);
  });
});

describe("byte budget", () => {
  const protocol = { dialect: "7.3", valueSize: 4 };
  const nowMs = 1_700_000_000_000;
  const run = (engine: Engine, requests: ModelRequest[], atMs = nowMs): number[] => {
    const frames = requests.map((request) => frameOf(protocol, request));
    return [...partsOf(engine.apply(batchOf([{ protocol, frames }]), atMs))[0]!.replies];
  };
  const insert = (i: number): ModelRequest => ({
    type: "insert",
    key: `key:${i}`,
    quota: 1n,
    ttlType: 4,
    ttl: 100n,
  });

  it("a full shard refuses new records, serves all others, and takes new ones when old ones expire", () => {
    const bytesMax = 1 << 20;
    const engine = new Engine({ hashKey: { low: seed, high: 3 }, bytesMax, isCounting: true });
    const statuses = run(
      engine,
      Array.from({ length: 30_000 }, (_, i) => insert(i)),
    );
    const granted = statuses.filter((status) => status === 1).length;
    expect(engine.figures.bytes).toBeLessThanOrEqual(bytesMax);
    expect(engine.figures.refusedForSpace).toBe(30_000 - granted);
    expect(granted).toBeGreaterThan(10_000);
    expect(
      run(engine, [{ type: "update", key: "key:0", attribute: 0, change: 1, value: 1n }]),
    ).toEqual([1]);
    expect(run(engine, [{ type: "purge", key: "key:1" }])).toEqual([1]);
    const later = Array.from({ length: 10_000 }, (_, i) => insert(50_000 + i));
    expect(run(engine, later, nowMs + 100_000)).not.toContain(0);
    expect(engine.figures.bytes).toBeLessThanOrEqual(bytesMax);
  });

  it("buffers grow in a full shard by an eighth of the budget at most", () => {
    const bytesMax = 1 << 20;
    const engine = new Engine({ hashKey: { low: seed, high: 4 }, bytesMax, isCounting: true });
    const set = (i: number, bytes: number): ModelRequest => ({
      type: "set",
      key: `key:${i}`,
      ttlType: 4,
      ttl: 100n,
      value: new Uint8Array(bytes),
    });
    run(
      engine,
      Array.from({ length: 12_000 }, (_, i) => set(i, 50)),
    );
    const statuses = run(
      engine,
      Array.from({ length: 2000 }, (_, i) => set(i, 5000)),
    );
    expect(statuses).toContain(1);
    expect(statuses).toContain(0);
    expect(engine.figures.bytes).toBeLessThanOrEqual(bytesMax * 1.125);
    const taken = statuses.indexOf(1);
    expect(run(engine, [{ type: "get", key: `key:${taken}` }]).length).toBe(10 + 5000);
  });
});

describe("byte budget of a full shard", () => {
  it("a full shard never refuses a value that is not longer than the one it replaces", () => {
    const protocol = { dialect: "7.3", valueSize: 4 };
    const engine = new Engine({
      hashKey: { low: seed, high: 9 },
      bytesMax: 1 << 20,
      isCounting: true,
    });
    const set = (i: number, bytes: number): number => {
      const value = new Uint8Array(bytes).fill(i);
      const request: ModelRequest = { type: "set", key: `key:${i}`, ttlType: 4, ttl: 100n, value };
      const batch = batchOf([{ protocol, frames: [frameOf(protocol, request)] }]);
      return partsOf(engine.apply(batch, 1_700_000_000_000))[0]!.replies[0]!;
    };
    const keys = Array.from({ length: 3000 }, (_, i) => i).filter((i) => set(i, 1000) === 1);
    for (const i of keys) set(i, 3000);
    for (const i of keys) expect(set(i, 400)).toBe(1);
  });
});

describe("commit", () => {
  it("a commit has one image of a record, however often the record changed", () => {
    const protocol = { dialect: "7.3", valueSize: 8 };
    const engine = new Engine({
      hashKey: { low: seed, high: 5 },
      bytesMax: 1 << 20,
      // What is counted would be in the row as well.
      isCounting: false,
    });
    const frames = [
      frameOf(protocol, { type: "insert", key: "counter", quota: 0n, ttlType: 4, ttl: 100n }),
      ...Array.from({ length: 1000 }, () =>
        frameOf(protocol, { type: "update", key: "counter", attribute: 0, change: 1, value: 1n }),
      ),
      ...Array.from({ length: 1000 }, (_, i) =>
        frameOf(protocol, {
          type: "set",
          key: "buffer",
          ttlType: 4,
          ttl: 100n,
          value: new Uint8Array(i),
        }),
      ),
    ];
    engine.apply(batchOf([{ protocol, frames }]), 1000);
    const rows = engine.takeCommit(1_900_000);
    expect(rows).toHaveLength(1);
    expect(rows[0]!.length).toBe(12 + 20 + "counter".length + 20 + "buffer".length + 999);
  });

  it("a commit is cut into rows that fit, and positions start again long before they run out", () => {
    const protocol = { dialect: "7.3", valueSize: 4 };
    const engine = new Engine({
      hashKey: { low: seed, high: 6 },
      bytesMax: 32 << 20,
      isCounting: true,
    });
    const frames = Array.from({ length: 20 }, (_, i) =>
      frameOf(protocol, {
        type: "set",
        key: `key:${i}`,
        ttlType: 4,
        ttl: 100n,
        value: new Uint8Array(100_000).fill(i),
      }),
    );
    engine.apply(batchOf([{ protocol, frames }]), 1000);
    const rows = engine.takeCommit(250_000).map((row) => row.slice());
    expect(rows).toHaveLength(10);
    expect(Math.max(...rows.map((row) => row.length))).toBeLessThanOrEqual(250_000);
    const copy = new Engine({ hashKey: { low: 1, high: 1 }, bytesMax: 32 << 20, isCounting: true });
    for (const row of rows) copy.restore(row);
    expect(copy.figures.records).toBe(20);
  });
});

describe("time", () => {
  it("the engine's time never goes back, so an expired record stays expired", () => {
    const protocol = { dialect: "7.3", valueSize: 2 };
    const engine = new Engine({
      hashKey: { low: seed, high: 7 },
      bytesMax: 1 << 20,
      isCounting: true,
    });
    const at = (request: ModelRequest, nowMs: number): number =>
      partsOf(
        engine.apply(batchOf([{ protocol, frames: [frameOf(protocol, request)] }]), nowMs),
      )[0]!.replies[0]!;
    expect(at({ type: "insert", key: "k", quota: 1n, ttlType: 3, ttl: 10n }, 1000)).toBe(1);
    expect(at({ type: "query", key: "other" }, 1010)).toBe(0);
    expect(at({ type: "query", key: "k" }, 1009)).toBe(0);
  });

  it("the engine reports an earlier deadline once", () => {
    const protocol = { dialect: "7.3", valueSize: 2 };
    const engine = new Engine({
      hashKey: { low: seed, high: 8 },
      bytesMax: 1 << 20,
      isCounting: true,
    });
    const insert = (key: string, ttl: bigint): void => {
      engine.apply(
        batchOf([
          {
            protocol,
            frames: [frameOf(protocol, { type: "insert", key, quota: 1n, ttlType: 3, ttl })],
          },
        ]),
        1000,
      );
    };
    expect(engine.takeEarlierDeadline()).toBeNull();
    insert("a", 500n);
    expect(engine.takeEarlierDeadline()).toBe(1500);
    insert("b", 800n);
    expect(engine.takeEarlierDeadline()).toBeNull();
    insert("c", 20n);
    expect(engine.takeEarlierDeadline()).toBe(1020);
    for (let cursor: number | null = 0; cursor !== null;) cursor = engine.sweepStep(cursor, 1500);
    expect(engine.figures.records).toBe(1);
    expect(engine.findDeadline()).toBe(1800);
  });
});
