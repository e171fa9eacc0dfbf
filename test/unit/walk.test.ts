/** What walks over all records cost: slots, rows and bytes of a step, counted and never timed. */
import fc from "fast-check";
import { afterEach, describe, expect, inject, it, vi } from "vitest";
import { Engine } from "../../src/engine/engine.ts";
import { EXPORT_PAGE_HEADER_BYTES } from "../../src/engine/export.ts";
import type { ListingQuery } from "../../src/engine/listing.ts";
import type { ScanQuery } from "../../src/engine/scan-query.ts";
import { Segment } from "../../src/engine/segment.ts";
import { HASH_END, Table } from "../../src/engine/table.ts";
import {
  ORDERED_PAGE_ROWS_MAX,
  EXPORT_STEP_ROWS,
  ORDERED_STEP_KEYS,
  WALK_STEP_SLOTS,
} from "../../src/engine/sizes.ts";
import type { Steps } from "../../src/engine/walk.ts";
import { ByteWriter } from "../../src/wire/bytes.ts";
import { EXPORT_ROW_BYTES } from "../../src/wire/edge/command.ts";
import { Keyspace } from "../../src/wire/keyspace.ts";
import { PageReader } from "../../src/wire/page.ts";
import { bytesOf, edgeBatch, FOREVER, insert, purge, set, ttlMs } from "../support/frames/index.ts";
import { applyAll } from "../support/engine/apply-all.ts";
import { finish } from "../support/engine/steps.ts";
import { runs } from "../support/runs.ts";

const seed = inject("seed");
const NOW_MS = 1_700_000_000_000;
const RECORDS = 80_000;
/** What a step looks at, and the segment that had no room in it. */
const LOOKED_MAX = 2 * WALK_STEP_SLOTS;

const ALL: ScanQuery = { keyspace: Keyspace.throttr, prefix: new Uint8Array(0), prefixes: [] };
const FEW: ScanQuery = { ...ALL, prefix: bytesOf("few:") };
const LISTING: ListingQuery = { rows: "list", valueSize: 8, keyspace: 0, prefixes: [] };

const engineOf = (): Engine =>
  new Engine({ hashKey: { low: seed, high: 1 }, bytesMax: 96 << 20, isCounting: true });

/** Keys of a page in the form of `wire/page.ts`. */
function listedKeys(page: Uint8Array): string[] {
  const reader = new PageReader(page);
  const keys: string[] = [];
  while (reader.next()) keys.push(textOf(reader.key()));
  return keys;
}

/** Keys of a page of an export of counters. */
function exportedKeys(page: Uint8Array): string[] {
  const keys: string[] = [];
  for (let at = EXPORT_PAGE_HEADER_BYTES; at < page.length;) {
    const keyAt = at + EXPORT_ROW_BYTES;
    at = keyAt + page[at]! + 8;
    keys.push(textOf(page.subarray(keyAt, at - 8)));
  }
  return keys;
}

const textOf = (bytes: Uint8Array): string => new TextDecoder().decode(bytes);

const keyOf = (i: number): string => (i % 12_000 === 0 ? `few:${i}` : `key:${i}`);

const FRAMES = Array.from({ length: RECORDS }, (_, i) => insert(keyOf(i), 1n, FOREVER));

function filled(): Engine {
  const engine = engineOf();
  applyAll(engine, FRAMES, NOW_MS);
  engine.takeCommit(1_900_000);
  return engine;
}

/** Notes the slots of the segments that are looked at; `take` gives them and begins anew. */
function watch(): { take: () => number } {
  const spy = vi.spyOn(Table.prototype, "segmentAt");
  return {
    take: () => {
      const seen = new Set(spy.mock.results.map(({ value }) => value as Segment));
      spy.mockClear();
      return [...seen].reduce((sum, { capacity }) => sum + capacity, 0);
    },
  };
}

afterEach(() => {
  vi.restoreAllMocks();
});

describe("a step of a walk over many records", () => {
  it.each<[string, (engine: Engine) => Steps<unknown>]>([
    ["a page of SCAN in the order of keys", ({ scan }) => scan.page(FEW, null, 1000)],
    ["an export in the order of keys", ({ exporting }) => exporting.page(ALL, null, 10, 1 << 20)],
    [
      "a page of semaphores",
      ({ scan }) => scan.page({ ...ALL, keyspace: Keyspace.semaphores }, null, 10),
    ],
    [
      "a page of LIST whose token sees few keys",
      ({ listing }) =>
        listing.page({ ...LISTING, prefixes: [bytesOf("few:")] }, null, 1 << 16, 16_384),
    ],
    [
      "fragments of LIST that lie far apart",
      ({ listing }) => listing.fragments(LISTING, [{ from: 0, fragments: 1 }], HASH_END, 1),
    ],
  ])("a step of %s looks at a bounded number of slots", (_, stepsOf) => {
    const engine = filled();
    const watched = watch();
    const steps = stepsOf(engine);
    let count = 0;
    let all = 0;
    for (let done: boolean | undefined = false; done !== true; count++) {
      ({ done } = steps.next());
      const looked = watched.take();
      expect(looked).toBeLessThanOrEqual(LOOKED_MAX);
      all += looked;
    }
    expect(all).toBeGreaterThan(RECORDS);
    expect(count).toBeGreaterThan(5);
  });

  it.each<[string, (engine: Engine, cursor: number) => number | null]>([
    ["a removal", ({ scan }, cursor) => scan.remove(FEW, cursor).cursor],
    ["the plan of a LIST", ({ listing }, cursor) => listing.plan(LISTING, cursor).cursor],
    ["Dump", ({ semaphorePages }, cursor) => semaphorePages.dump(cursor, 1 << 16, NOW_MS).cursor],
    ["a collection", ({ semaphores }, cursor) => semaphores.collectStep(cursor, NOW_MS).cursor],
  ])("a step of %s looks at a bounded number of slots", (_, step) => {
    const engine = filled();
    const watched = watch();
    let calls = 0;
    for (let cursor: number | null = 0; cursor !== null; calls++) {
      cursor = step(engine, cursor);
      expect(watched.take()).toBeLessThanOrEqual(LOOKED_MAX);
    }
    expect(calls).toBeGreaterThan(5);
  });

  it.each<[string, (engine: Engine) => Steps<Uint8Array>, (page: Uint8Array) => string[]]>([
    ["an export", ({ exporting }) => exporting.page(ALL, null, 10_000, 1 << 20), exportedKeys],
    [
      "LIST in the order of keys",
      ({ listing }) => listing.page(LISTING, null, 1 << 20, RECORDS),
      listedKeys,
    ],
  ])(
    "a step of a page of %s copies a bounded number of keys, and the page has the first ones",
    (_, pageOf, keysOf) => {
      const engine = filled();
      const copy = vi.spyOn(Segment.prototype, "keyOf");
      const steps = pageOf(engine);
      let copied = 0;
      for (let step = steps.next(); ; step = steps.next()) {
        expect(copy.mock.calls.length).toBeLessThanOrEqual(ORDERED_STEP_KEYS);
        copied += copy.mock.calls.length;
        copy.mockClear();
        if (step.done !== true) continue;
        const all = Array.from({ length: RECORDS }, (__, i) => keyOf(i)).toSorted();
        expect(keysOf(step.value)).toEqual(all.slice(0, ORDERED_PAGE_ROWS_MAX));
        break;
      }
      expect(copied).toBeGreaterThan(ORDERED_PAGE_ROWS_MAX);
    },
  );

  it("a step of an export looks up a bounded number of the records on its page", () => {
    const engine = filled();
    const find = vi.spyOn(Table.prototype, "find");
    const steps = engine.exporting.page(ALL, null, 10_000, 1 << 20);
    let found = 0;
    for (let done: boolean | undefined = false; done !== true;) {
      ({ done } = steps.next());
      expect(find.mock.calls.length).toBeLessThanOrEqual(EXPORT_STEP_ROWS);
      found += find.mock.calls.length;
      find.mockClear();
    }
    expect(found).toBe(ORDERED_PAGE_ROWS_MAX);
  });

  it("a removal writes the keys that it removes, and copies none of their values", () => {
    const engine = engineOf();
    const [records, valueBytes] = [40, 100_000];
    const value = new Uint8Array(valueBytes);
    engine.apply(
      edgeBatch(Array.from({ length: records }, (_, i) => set(keyOf(i + 1), value, FOREVER))),
      NOW_MS,
    );
    engine.takeCommit(1_900_000);
    const reserve = vi.spyOn(ByteWriter.prototype, "reserve");
    expect(engine.scan.remove(ALL, 0)).toEqual({ removed: records, cursor: null });
    const reserved = reserve.mock.calls.reduce((sum, [bytes]) => sum + bytes, 0);
    expect(reserved).toBeGreaterThan(0);
    expect(reserved).toBeLessThan(valueBytes);
  });

  it("a walk keeps only copies of keys, so that changes between two steps do no harm", () => {
    const engine = filled();
    const steps = engine.exporting.page(ALL, null, 500, 1 << 20);
    steps.next();
    // Segments split, and all records of some lie elsewhere.
    const more = Array.from({ length: 40_000 }, (_, i) => insert(`key:x${i}`, 2n, FOREVER));
    const gone = Array.from({ length: 40_000 }, (_, i) => purge(keyOf(i * 2)));
    applyAll(engine, more, NOW_MS);
    applyAll(engine, gone, NOW_MS);
    const page = finish(steps);
    const rows = page[1]! | (page[2]! << 8);
    const view = new DataView(page.buffer);
    for (let at = 3, i = 0; i < rows; i++) {
      const key = String.fromCharCode(...page.subarray(at + 16, at + 16 + page[at]!));
      expect(key).toMatch(/^(?:few|key):x?\d+$/);
      at += 16 + page[at]! + 8;
      expect(view.getBigUint64(at - 8, true)).toBe(key.includes("x") ? 2n : 1n);
    }
  });
});

describe("a segment that most records have left", () => {
  it("a segment that most records have left gives its slots back, so that a scan looks at few", () => {
    const engine = filled();
    const full = engine.figures.bytes;
    const frames = Array.from({ length: RECORDS - 100 }, (_, i) => purge(keyOf(i)));
    applyAll(engine, frames, NOW_MS);
    expect(engine.figures.bytes).toBeLessThan(full / 4);
    const watched = watch();
    expect(listedKeys(finish(engine.scan.page(ALL, null, 1000)))).toHaveLength(100);
    expect(watched.take()).toBeLessThan(WALK_STEP_SLOTS);
  });
});

describe("a plan of a LIST whose table has become smaller between two steps", () => {
  it("has no part of the records before its cursor, and those behind it", () => {
    const engine = engineOf();
    const frames = Array.from({ length: 200 }, (_, i) => insert(`k${i}`, 1n, FOREVER));
    engine.apply(edgeBatch(frames), NOW_MS);
    // A cleared table has one segment again, so the cursor lies within it.
    const cursor = HASH_END / 2;
    const { parts } = engine.listing.plan(LISTING, cursor);
    expect(parts.length).toBeGreaterThan(0);
    expect(parts.every(({ from }) => from >= cursor)).toBe(true);
    const whole = engine.listing.plan(LISTING, 0).parts;
    const listedBytes = (of: typeof parts): number =>
      finish(engine.listing.fragments(LISTING, of, HASH_END, 1)).length;
    expect(listedBytes(parts)).toBeLessThan(listedBytes(whole));
  });
});

describe("the counts of records", () => {
  const key = fc.integer({ min: 0, max: 40 }).map((n) => `k${n}`);
  const bytes = fc.integer({ min: 0, max: 300 });
  const life = fc.constantFrom(500, 1e9);
  const change = fc.oneof(
    fc.record({ type: fc.constant("insert" as const), key, life }),
    fc.record({ type: fc.constant("set" as const), key, life, bytes }),
    fc.record({ type: fc.constant("purge" as const), key }),
    fc.constant({ type: "later" as const }),
    fc.constant({ type: "restart" as const }),
  );

  type Change = typeof change extends fc.Arbitrary<infer T> ? T : never;

  it("the counts of records are those that a walk finds, whatever happens to them", () => {
    const property = fc.property(fc.array(change, { maxLength: 80 }), (changes) => {
      let engine = engineOf();
      let nowMs = NOW_MS;
      const rows: Uint8Array[] = [];
      const take = (): void => {
        rows.push(...engine.takeCommit(1_900_000).map((row) => row.slice()));
      };
      for (const each of changes) {
        if (each.type === "later") nowMs += 400;
        else if (each.type === "restart") {
          take();
          engine = engineOf();
          engine.advance(nowMs);
          for (const row of rows) engine.restore(row);
        } else engine.apply(edgeBatch([frameOf(each)]), nowMs);
      }
      for (let cursor: number | null = 0; cursor !== null;) {
        cursor = engine.sweepStep(cursor, nowMs);
      }
      const found = { counters: 0, buffers: 0, bufferBytes: 0 };
      const reader = new PageReader(finish(engine.scan.page(ALL, null, 1000)));
      while (reader.next()) {
        if (reader.view.getUint8(reader.rowAt) === 1) found.counters++;
        else {
          found.buffers++;
          found.bufferBytes += Number(reader.view.getBigUint64(reader.rowAt + 10, true));
        }
      }
      expect(engine.totals).toEqual(found);
    });
    fc.assert(property, { seed, numRuns: runs(300) });
  });

  function frameOf(each: Exclude<Change, { type: "later" | "restart" }>) {
    if (each.type === "insert") return insert(each.key, 1n, ttlMs(each.life));
    if (each.type === "set") return set(each.key, new Uint8Array(each.bytes), ttlMs(each.life));
    return purge(each.key);
  }

  it("the counts of records are known without looking at any record", () => {
    const engine = filled();
    const watched = watch();
    expect(engine.totals).toEqual({ counters: RECORDS, buffers: 0, bufferBytes: 0 });
    expect(watched.take()).toBe(0);
  });
});
