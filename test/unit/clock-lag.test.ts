/** Engines whose clock was ahead once: what they answer, what they store, and how they are set right. */
import { Keyspace } from "../../src/wire/keyspace.ts";
import fc from "fast-check";
import { describe, expect, inject, it } from "vitest";
import { Engine } from "../../src/engine/engine.ts";
import { moveStateBack } from "../../src/engine/ratelimit/moved-state.ts";
import { HOLDING_KEY_BYTES, ROW } from "../../src/engine/semaphores/stored.ts";
import { ShardClock } from "../../src/engine/shard-clock.ts";
import type { RateLimitConfiguration } from "../../src/wire/ratelimit/configuration.ts";
import { readDecision } from "../../src/wire/edge/decision.ts";
import { EXPORT_PAGE_HEADER_BYTES } from "../../src/engine/export.ts";
import { IMAGE_HEADER_BYTES } from "../../src/engine/image.ts";
import { imagesOf } from "../support/commands/disk.ts";
import {
  acquire,
  bytesOf,
  commandReplies,
  configurationBytes,
  edgeBatch,
  expire,
  hex,
  idOf,
  increment,
  insert,
  limit,
  partsOf,
  peek,
  read,
  renew,
  set,
  ttlMs,
} from "../support/frames/index.ts";
import { finish } from "../support/engine/steps.ts";
import { runs } from "../support/runs.ts";

const seed = inject("seed");
const START_MS = 1_800_000_000_000;
const HOUR_MS = 3_600_000;
const NS_PER_MS = 1_000_000n;

function newEngine(): Engine {
  return new Engine({ hashKey: { low: seed, high: 7 }, bytesMax: 1 << 22, isCounting: true });
}

/** An engine whose clock was two hours ahead, when it first was read, and is right from `START_MS` on. */
function laggingEngine(lagMs = 2 * HOUR_MS): Engine {
  const engine = newEngine();
  engine.advance(START_MS + lagMs);
  engine.advance(START_MS);
  return engine;
}

function one(engine: Engine, frame: Uint8Array, realMs: number): Uint8Array {
  const [reply] = commandReplies(partsOf(engine.apply(edgeBatch([frame]), realMs))[0]!.replies);
  expect(reply!.code).toBe("");
  return reply!.body;
}

/** End and rest of the record in an answer, ns; null where there is none. */
function timesOf(body: Uint8Array): { ends: bigint; left: bigint } | null {
  if (body.length < 2) return null;
  const view = new DataView(body.buffer, body.byteOffset);
  return { ends: view.getBigUint64(3, true), left: view.getBigUint64(11, true) };
}

const LIMITS: readonly RateLimitConfiguration[] = [
  { strategy: "token_bucket", burst: 3, rate: 2 },
  { strategy: "leaky_bucket", burst: 3, rate: 2 },
  { strategy: "gcra", burst: 3, rate: 2 },
  { strategy: "fixed_window", quotas: [{ name: "a", limit: 3, windowNs: 1_500_000_000n }] },
  { strategy: "sliding_window", limit: 3, windowNs: 1_500_000_000n },
  {
    strategy: "composite",
    primary: {
      strategy: "fixed_window",
      quotas: [{ name: "a", limit: 3, windowNs: 900_000_000n }],
    },
    secondary: { strategy: "gcra", burst: 3, rate: 2 },
  },
];

/** Rows of an engine's commit, if anything has changed. */
function rowsOf(engine: Engine): Uint8Array[] {
  return engine.isDirty ? engine.takeCommit(1 << 20).map((row) => row.slice()) : [];
}

/** An engine that starts from rows when its clock shows a time. */
function engineOf(rows: readonly Uint8Array[], realMs: number): Engine {
  const engine = newEngine();
  engine.advance(realMs);
  for (const row of rows) engine.restore(row);
  return engine;
}

describe.each([
  ["in memory", (engine: Engine, _realMs: number) => engine],
  ["after a restart", (engine: Engine, realMs: number) => engineOf(rowsOf(engine), realMs)],
])("a shard whose clock was once two hours ahead, %s", (_, next) => {
  it("a lagging shard lets a record expire in real time, when its TTL says", () => {
    let engine = laggingEngine();
    const inserted = one(engine, increment("k", 1n, ttlMs(2000)), START_MS);
    const { left, ends } = timesOf(inserted)!;
    // Time passes at nine tenths while there is a lag: 2,000 ms of the shard are 2,222 real ones.
    expect(left).toBe(2222n * NS_PER_MS);
    expect(ends).toBe(BigInt(START_MS) * NS_PER_MS + left);
    engine = next(engine, START_MS);
    expect(timesOf(one(engine, read("k"), START_MS + 2221))).toEqual({ ends, left: NS_PER_MS });
    expect(timesOf(one(engine, read("k"), START_MS + 2222))).toBeNull();
  });

  it.each(LIMITS)(
    "a lagging shard grants a refused $strategy at its retry, and not a millisecond before",
    (conf) => {
      const property = fc.property(fc.nat(3000), fc.nat(5000), (lagMs, afterMs) => {
        const first = laggingEngine(lagMs);
        let engine = first;
        const bytes = configurationBytes(conf);
        const realMs = START_MS + afterMs;
        for (let i = 0; i < 3; i++) one(engine, limit("l", bytes, 1), realMs);
        const refused = readDecision(viewOf(one(engine, limit("l", bytes, 1), realMs)), 0);
        expect(refused.allowed).toBe(false);
        const resetMs = Number((refused.resetNs! + NS_PER_MS - 1n) / NS_PER_MS);
        expect(refused.retryAfterNs).toBe(refused.resetNs! - BigInt(realMs) * NS_PER_MS);
        engine = next(engine, realMs);
        // A restart forgets which of ten milliseconds was to be left out: it may come one early.
        const beforeMs = resetMs - (engine === first ? 1 : 2);
        expect(readDecision(viewOf(one(engine, peek("l", bytes), beforeMs)), 0).allowed).toBe(
          false,
        );
        expect(readDecision(viewOf(one(engine, limit("l", bytes, 1), resetMs)), 0).allowed).toBe(
          true,
        );
      });
      fc.assert(property, { seed, numRuns: 30 });
    },
  );

  it("a lagging shard ends a lease in real time, when its answer says", () => {
    let engine = laggingEngine();
    const body = viewOf(one(engine, acquire("s", idOf(0), 1, 1, ttlMs(2000)), START_MS));
    const leftMs = Number(body.getBigUint64(13, true) / NS_PER_MS);
    expect(leftMs).toBe(2222);
    engine = next(engine, START_MS);
    const renewed = (atMs: number): number =>
      commandReplies(
        partsOf(engine.apply(edgeBatch([renew("s", idOf(0), ttlMs(1))]), atMs))[0]!.replies,
      )[0]!.body[0]!;
    expect(engine.semaphores.deadlineMs).toBe(START_MS + leftMs);
    expect(renewed(START_MS + leftMs)).toBe(0);
  });

  it("a lagging shard asks for its alarm in real time", () => {
    let engine = laggingEngine();
    one(engine, insert("k", 1n, ttlMs(2000)), START_MS);
    expect(engine.takeEarlierDeadline()).toBe(START_MS + 2222);
    engine = next(engine, START_MS);
    expect(engine.findDeadline()).toBe(START_MS + 2222);
  });

  it("a lagging shard reports the same expiry wherever it lists a record", () => {
    let engine = laggingEngine();
    const { ends } = timesOf(one(engine, increment("k", 1n, ttlMs(60_000)), START_MS))!;
    engine = next(engine, START_MS);
    const scanQuery = { keyspace: Keyspace.throttr, prefix: bytesOf(""), prefixes: [] };
    expect(hex(finish(engine.scan.page(scanQuery, null, 10)))).toContain(hexOf(ends));
    const exported = finish(engine.exporting.page(scanQuery, null, 10, 1 << 20));
    expect(viewOf(exported).getBigUint64(EXPORT_PAGE_HEADER_BYTES + 4, true)).toBe(ends);
    const listQuery = { rows: "list", valueSize: 8, keyspace: 0, prefixes: [] } as const;
    expect(hex(listingOf(engine, listQuery))).toContain(hexOf(ends));
  });
});

function listingOf(engine: Engine, query: Parameters<Engine["listing"]["page"]>[0]): Uint8Array {
  const page = engine.listing.page(query, null, 1 << 20, 10);
  return page instanceof Uint8Array ? page : finish(page);
}

function viewOf(bytes: Uint8Array): DataView {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

function hexOf(ns: bigint): string {
  const bytes = new Uint8Array(8);
  new DataView(bytes.buffer).setBigUint64(0, ns, true);
  return hex(bytes);
}

it("an engine with a lag stores the same rows as one whose clock shows the shard's time", () => {
  const key = fc.constantFrom("a", "b", "c");
  const ttl = fc.integer({ min: 1, max: 4000 }).map(ttlMs);
  const frame = fc.oneof(
    fc.tuple(key, ttl).map(([name, time]) => insert(name, 5n, time)),
    fc.tuple(key, ttl).map(([name, time]) => increment(name, 1n, time)),
    fc.tuple(key, fc.nat(2), ttl).map(([name, change, time]) => expire(name, change, time)),
    fc
      .tuple(key, fc.constantFrom(...LIMITS), fc.integer({ min: 1, max: 3 }))
      .map(([name, conf, cost]) => limit(`l:${name}`, configurationBytes(conf), cost)),
    fc.tuple(fc.nat(3), ttl).map(([id, time]) => acquire("s", idOf(id), 1, 3, time)),
  );
  const step = fc.record({
    frames: fc.array(frame, { maxLength: 5 }),
    afterMs: fc.oneof(fc.nat(2000), fc.integer({ min: -5000, max: 0 })),
    restarts: fc.boolean(),
  });
  const property = fc.property(fc.array(step, { maxLength: 25 }), (steps) => {
    const clock = new ShardClock();
    let engine = newEngine();
    let model = newEngine();
    const rows: Uint8Array[] = [];
    const modelRows: Uint8Array[] = [];
    let realMs = START_MS;
    for (const { frames, afterMs, restarts } of steps) {
      realMs += afterMs;
      clock.read(realMs);
      engine.apply(edgeBatch(frames), realMs);
      model.apply(edgeBatch(frames), clock.nowMs);
      rows.push(...rowsOf(engine));
      modelRows.push(...rowsOf(model));
      if (restarts) {
        // The time is stored with what changes.
        const write = edgeBatch([increment("time", 1n, ttlMs(1_000_000))]);
        engine.apply(write, realMs);
        model.apply(write, clock.nowMs);
        rows.push(...rowsOf(engine));
        modelRows.push(...rowsOf(model));
        engine = engineOf(rows, realMs);
        model = engineOf(modelRows, clock.nowMs);
        clock.restore(clock.nowMs, realMs);
        expect(engine.nowMs).toBe(clock.nowMs);
      }
      expect(comparable(imagesOf(engine))).toEqual(comparable(imagesOf(model)));
    }
  });
  fc.assert(property, { seed, numRuns: runs(150) });
});

/**
 * Images without what two engines that store the same may differ in: the mark of the clock, and the row of a
 * holding. The row is a place in the index in memory, which each engine builds anew at a restart.
 */
function comparable(images: readonly string[]): string[] {
  const rowAt = 2 * (IMAGE_HEADER_BYTES + HOLDING_KEY_BYTES + ROW);
  return images
    .filter((image) => !image.startsWith("030f"))
    .map((image) =>
      image.startsWith("0204") ? image.slice(0, rowAt) + image.slice(rowAt + 8) : image,
    )
    .toSorted();
}

it("rows of an engine without a lag have no mark but counts, which release 0.4.0 takes for a record that has expired", () => {
  const engine = newEngine();
  one(engine, insert("k", 1n, ttlMs(2000)), START_MS);
  const [row] = engine.takeCommit(1 << 20);
  expect(hex(row!.slice(0, 4))).toBe("01000000");
  const mark = row!.subarray(12 + 20 + 1);
  // Kind 3, keyspace 13, no key; it ended in 1970; behind it as many bytes as it says.
  expect(hex(mark.subarray(0, 12))).toBe("030d00000000000000000000");
  expect(mark.length).toBe(20 + new DataView(row!.buffer, row!.byteOffset).getUint32(45, true));
});

it("a clock behind the one time in rows of release 0.4.0 begins with a lag", () => {
  // INSERT k, 1, for 2 s, written at START_MS by 0.4.0.
  const engine = newEngine();
  one(engine, insert("k", 1n, ttlMs(2000)), START_MS);
  const [row] = engine.takeCommit(1 << 20).map((bytes) => bytes.slice());
  const next = newEngine();
  next.advance(START_MS - HOUR_MS);
  next.restore(row!);
  expect(next.clockLagMs).toBe(HOUR_MS);
  expect(timesOf(one(next, read("k"), START_MS - HOUR_MS + 2221))).not.toBeNull();
  expect(timesOf(one(next, read("k"), START_MS - HOUR_MS + 2222))).toBeNull();
});

describe("a clock that is set back", () => {
  it.each(["at once", "after a restart"])(
    "a clock that is set back leaves every record the life that it had left, %s",
    (when) => {
      let engine = laggingEngine();
      const gcra = configurationBytes(LIMITS[2]!);
      one(engine, increment("k", 1n, ttlMs(2000)), START_MS);
      one(engine, set("b", bytesOf(`12|1|${START_MS}`), ttlMs(2000)), START_MS);
      one(engine, acquire("s", idOf(0), 1, 1, ttlMs(2000)), START_MS);
      for (let i = 0; i < 3; i++) one(engine, limit("l", gcra, 1), START_MS);
      const rows = rowsOf(engine);
      rows.push(engine.setClockBack());
      if (when === "after a restart") engine = engineOf(rows, START_MS);
      expect(engine.clockLagMs).toBe(0);
      expect(engine.findDeadline()).toBe(START_MS + 2000);
      expect(engine.semaphores.deadlineMs).toBe(START_MS + 2000);
      const at = BigInt(START_MS) * NS_PER_MS;
      const left = 2000n * NS_PER_MS;
      expect(timesOf(one(engine, read("k"), START_MS))).toEqual({ ends: at + left, left });
      const refused = readDecision(viewOf(one(engine, limit("l", gcra, 1), START_MS)), 0);
      expect(refused).toMatchObject({ allowed: false, retryAfterNs: 500n * NS_PER_MS });
      expect(
        readDecision(viewOf(one(engine, limit("l", gcra, 1), START_MS + 500)), 0).allowed,
      ).toBe(true);
      expect(timesOf(one(engine, read("k"), START_MS + 1999))).not.toBeNull();
      expect(engine.semaphores.get(bytesOf("s"), 0, 1, START_MS + 1999)).toBe(1);
      expect(timesOf(one(engine, read("k"), START_MS + 2000))).toBeNull();
      expect(engine.semaphores.get(bytesOf("s"), 0, 1, START_MS + 2000)).toBe(0);
    },
  );
});

describe("limiter states", () => {
  const T = 1_800_000_000_000_000_000n;
  const U = T - 5n;
  it.each([
    [`12|8.5|${T}`, `12|8.5|${U}`],
    [`11|8.5|${T}|10|1`, `11|8.5|${U}|10|1`],
    [`32|2|${T}`, `32|2|${U}`],
    [`42|${T}`, `42|${U}`],
    [`41|${T}|500000000|2500000000`, `41|${U}|500000000|2500000000`],
    [`23|2|a|3|${T}|${T}|4|${T}`, `23|2|a|3|${U}|${T}|4|${U}`],
    [`61|1|2|${T}`, `61|1|2|${U}`],
    [`51|23|1|${T}|3|${T}$12|8.5|${T}`, `51|23|1|${T}|3|${U}$12|8.5|${U}`],
    [`cmp1|v2|3|${T}|$v2|8.5|${T}|`, `cmp1|v2|3|${U}|$v2|8.5|${U}|`],
    [`a text with ${T}|${T}`, `a text with ${T}|${T}`],
    ["42|5", "42|5"],
    [`12|1E+06|${T}`, `12|1E+06|${U}`],
    [`v1|${T}|admin`, `v1|${T}|admin`],
    [`12|${T}|\u00ff`, `12|${T}|\u00ff`],
    ["", ""],
  ])("the times in states of %s are moved back", (state, moved) => {
    const bytes = bytesOf(`x${state}y`);
    expect(moveStateBack(bytes, 1, bytes.length - 1, 5n)).toBe(state !== moved);
    expect(String.fromCharCode(...bytes)).toBe(`x${moved}y`);
  });
});
