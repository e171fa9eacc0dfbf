/** Scans and removals of one shard against a sorted map: any keys, prefixes, pages, times and restarts. */
import fc from "fast-check";
import { describe, expect, inject, it, vi } from "vitest";
import { Engine } from "../../src/engine/engine.ts";
import type { TableRows } from "../../src/engine/scan.ts";
import type { ScanQuery } from "../../src/engine/scan-query.ts";
import { TABLE_START, type TablePlace } from "../../src/engine/table-page.ts";
import { Keyspace } from "../../src/wire/keyspace.ts";
import { PageReader } from "../../src/wire/page.ts";
import { protocolByName } from "../../src/wire/throttr/protocol.ts";
import { imagesOf } from "../support/commands/disk.ts";
import {
  batchIn,
  bytesOf,
  concat,
  EDGE,
  edgeBatch,
  FOREVER,
  increment,
  insert,
  type Pair,
  pairFrame,
  partsOf,
  purge,
  scanPage,
  set,
  ttlMs,
} from "../support/frames/index.ts";
import { finish } from "../support/engine/steps.ts";
import { runs } from "../support/runs.ts";

const seed = inject("seed");
const NOW_MS = 1_700_000_000_000;
const PAIRS = protocolByName("2", undefined)!;

const engineOf = (): Engine =>
  new Engine({ hashKey: { low: seed, high: 1 }, bytesMax: 64 << 20, isCounting: true });

function run(engine: Engine, frames: readonly Uint8Array[], nowMs = NOW_MS): void {
  const [part] = partsOf(engine.apply(edgeBatch(frames), nowMs));
  expect(part!.count).toBe(frames.length);
}

function runPairs(engine: Engine, pairs: readonly Pair[]): void {
  const frames = pairs.map((pair, id) =>
    pairFrame(id, { type: "insert", pair, quota: 1n, ttlType: 2, ttl: 1000n }),
  );
  engine.apply(batchIn([{ protocol: PAIRS, frames }]), NOW_MS);
}

function queryOf(
  prefix = "",
  prefixes: string[] = [],
  keyspace: Keyspace = EDGE.keyspace,
): ScanQuery {
  return { keyspace, prefix: bytesOf(prefix), prefixes: prefixes.map(bytesOf) };
}

function pageOf(
  engine: Engine,
  query: ScanQuery,
  after: string | null,
  recordsMax: number,
): { keys: string[]; isLast: boolean } {
  const reader = new PageReader(
    finish(engine.scan.page(query, after === null ? null : bytesOf(after), recordsMax)),
  );
  const keys: string[] = [];
  while (reader.next()) keys.push(String.fromCharCode(...reader.key()));
  return { keys, isLast: reader.isLast };
}

/** All keys, page by page. */
function keysOf(engine: Engine, query: ScanQuery, recordsMax: number): string[] {
  const keys: string[] = [];
  for (let after: string | null = null; ;) {
    const page = pageOf(engine, query, after, recordsMax);
    expect(page.keys.length).toBeLessThanOrEqual(recordsMax);
    keys.push(...page.keys);
    if (page.isLast) return keys;
    expect(page.keys).toHaveLength(recordsMax);
    after = page.keys.at(-1)!;
  }
}

function removeAll(engine: Engine, query: ScanQuery): number {
  let removed = 0;
  for (let cursor: number | null = 0; cursor !== null;) {
    const step = engine.scan.remove(query, cursor);
    removed += step.removed;
    cursor = step.cursor;
  }
  return removed;
}

/** Order of keys of one character a byte: by bytes. */
const inOrder = (keys: Iterable<string>): string[] =>
  [...keys].toSorted((a, b) => (a < b ? -1 : a > b ? 1 : 0));

const hasPrefix = (key: string, prefix: string, prefixes: readonly string[]): boolean =>
  key.startsWith(prefix) &&
  (prefixes.length === 0 || prefixes.some((candidate) => key.startsWith(candidate)));

const byte = fc.constantFrom("\0", "\x01", "a", "b", "\x7f", "\x80", "\xff");
const keyArbitrary = fc.oneof(
  { weight: 6, arbitrary: fc.string({ unit: byte, maxLength: 4 }) },
  { weight: 1, arbitrary: fc.tuple(byte, fc.nat(255)).map(([char, n]) => char.repeat(n)) },
);
const prefixArbitrary = fc.oneof(
  { weight: 2, arbitrary: fc.constant("") },
  { weight: 4, arbitrary: fc.string({ unit: byte, maxLength: 2 }) },
  { weight: 1, arbitrary: keyArbitrary },
);
const prefixesArbitrary = fc.oneof(
  { weight: 2, arbitrary: fc.constant<string[]>([]) },
  { weight: 1, arbitrary: fc.array(prefixArbitrary, { minLength: 1, maxLength: 16 }) },
);

describe("a scan", () => {
  it("a scan gives the live records of its prefixes in the order of keys, page by page", () => {
    const property = fc.property(
      fc.uniqueArray(fc.record({ key: keyArbitrary, lifeMs: fc.constantFrom(500, 1e9) }), {
        maxLength: 120,
        selector: ({ key }) => key,
      }),
      prefixArbitrary,
      prefixesArbitrary,
      fc.integer({ min: 1, max: 12 }),
      (records, prefix, prefixes, recordsMax) => {
        const engine = engineOf();
        run(
          engine,
          records.map(({ key, lifeMs }, i) =>
            i % 2 === 0
              ? insert(key, 1n, ttlMs(lifeMs))
              : set(key, new Uint8Array(i), ttlMs(lifeMs)),
          ),
        );
        runPairs(engine, [
          ["", ""],
          ["a", "a"],
        ]);
        engine.advance(NOW_MS + 500);
        const live = records.filter(({ lifeMs }) => lifeMs > 500).map(({ key }) => key);
        const expected = inOrder(live.filter((key) => hasPrefix(key, prefix, prefixes)));
        expect(keysOf(engine, queryOf(prefix, prefixes), recordsMax)).toEqual(expected);
        for (const after of ["", "\0", ...live.slice(0, 3), "\xff".repeat(255)]) {
          const { keys } = pageOf(engine, queryOf(prefix, prefixes), after, 1000);
          expect(keys).toEqual(expected.filter((key) => key > after));
        }
      },
    );
    fc.assert(property, { seed, numRuns: runs(300) });
  });

  it("a scan of many records gives the same pages, whatever order they lie in", () => {
    const property = fc.property(
      fc.integer({ min: 1, max: 900 }),
      fc.nat(1_000_000),
      fc.constantFrom(1, 2, 100, 255, 256, 257, 600),
      (count, start, recordsMax) => {
        const engine = engineOf();
        const keys = Array.from({ length: count }, (_, i) => `${(start + i * 7919) % 1_000_003}`);
        run(
          engine,
          keys.map((key) => insert(key, 1n, FOREVER)),
        );
        const expected = inOrder(keys);
        const page = pageOf(engine, queryOf(), null, recordsMax);
        expect(page.keys).toEqual(expected.slice(0, recordsMax));
        expect(page.isLast).toBe(count <= recordsMax);
        const after = expected[Math.floor(count / 3)]!;
        expect(pageOf(engine, queryOf(), after, recordsMax).keys).toEqual(
          expected.filter((key) => key > after).slice(0, recordsMax),
        );
      },
    );
    fc.assert(property, { seed, numRuns: runs(60) });
  });

  it("a scan shows every record that stays once, whatever changes between its pages", () => {
    const property = fc.property(
      fc.uniqueArray(keyArbitrary, { minLength: 1, maxLength: 60 }),
      fc.array(fc.tuple(fc.boolean(), keyArbitrary), { maxLength: 60 }),
      fc.integer({ min: 1, max: 5 }),
      (staying, changes, recordsMax) => {
        const engine = engineOf();
        run(
          engine,
          staying.map((key) => insert(key, 1n, FOREVER)),
        );
        const others = changes.filter(([, key]) => !staying.includes(key));
        const listed: string[] = [];
        for (let after: string | null = null; ;) {
          const page = pageOf(engine, queryOf(), after, recordsMax);
          listed.push(...page.keys);
          if (page.isLast) break;
          after = page.keys.at(-1)!;
          const change = others.pop();
          if (change === undefined) continue;
          run(engine, [change[0] ? increment(change[1], 1n, FOREVER) : purge(change[1])]);
        }
        expect(listed).toEqual(inOrder(new Set(listed)));
        expect(listed.filter((key) => staying.includes(key))).toEqual(inOrder(staying));
      },
    );
    fc.assert(property, { seed, numRuns: runs(300) });
  });

  it("a scan describes each record", () => {
    const engine = engineOf();
    run(engine, [
      insert("counter", 2n ** 64n - 1n, { unit: 6, count: 2n ** 63n }),
      set("buffer", new Uint8Array(70_000), ttlMs(1000)),
    ]);
    const reader = new PageReader(finish(engine.scan.page(queryOf(), null, 1000)));
    expect(reader.rowBytes).toBe(18);
    const rows: unknown[] = [];
    while (reader.next()) {
      const { view, rowAt } = reader;
      rows.push([
        view.getUint8(rowAt),
        view.getUint8(rowAt + 1),
        view.getBigUint64(rowAt + 2, true),
        view.getBigUint64(rowAt + 10, true),
      ]);
    }
    expect(rows).toEqual([
      [2, 3, BigInt(NOW_MS + 1000) * 1_000_000n, 70_000n],
      [1, 6, 2n ** 64n - 1n, 2n ** 64n - 1n],
    ]);
  });

  it("a scan of 20,000 records holds one page in memory, whatever order they lie in", () => {
    const engine = engineOf();
    const keys = Array.from({ length: 20_000 }, (_, i) => `key:${i * 7919}`);
    run(
      engine,
      keys.map((key) => insert(key, 1n, FOREVER)),
    );
    expect(keysOf(engine, queryOf(), 1000)).toEqual(inOrder(keys));
    const some = keys.filter((key) => key.startsWith("key:11"));
    expect(keysOf(engine, queryOf("key:11"), 13)).toEqual(inOrder(some));
    const none = pageOf(engine, queryOf("k".repeat(255)), null, 1);
    expect(none).toEqual({ keys: [], isLast: true });
    const sort = vi.spyOn(Array.prototype, "sort");
    const first = pageOf(engine, queryOf(), null, 10);
    const sorted = sort.mock.contexts.map((context) => (context as unknown[]).length);
    sort.mockRestore();
    expect(first.keys).toEqual(inOrder(keys).slice(0, 10));
    expect(Math.max(...sorted)).toBeLessThan(300);
  });
});

describe("a scan in the order of the table", () => {
  const happening = fc.record({
    type: fc.constantFrom("come", "come", "go", "go", "grow", "restart", "nothing"),
    key: keyArbitrary,
    count: fc.integer({ min: 100, max: 1500 }),
  });

  it("a scan in the order of the table gives every record that stays once, whatever changes between its pages", () => {
    const property = fc.property(
      fc.uniqueArray(keyArbitrary, { minLength: 1, maxLength: 60 }),
      fc.array(happening, { maxLength: 40 }),
      prefixArbitrary,
      fc.option(keyArbitrary),
      fc.integer({ min: 1, max: 12 }),
      (staying, happenings, prefix, behind, recordsMax) => {
        const rows: Uint8Array[] = [];
        let starts = 0;
        const start = (): Engine => {
          const options = { bytesMax: 64 << 20, isCounting: true, homeSalt: starts++ };
          const engine = new Engine({ ...options, hashKey: { low: seed, high: 1 } });
          engine.advance(NOW_MS);
          for (const row of rows) engine.restore(row);
          return engine;
        };
        let engine = start();
        const apply = (frames: Uint8Array[]): void => {
          run(engine, frames);
          rows.push(...engine.takeCommit(1_900_000).map((row) => row.slice()));
        };
        apply(staying.map((key) => insert(key, 1n, FOREVER)));
        const query = { ...queryOf(prefix), behind: behind === null ? null : bytesOf(behind) };
        const listed: string[] = [];
        let grown = 0;
        for (let place: TablePlace | null = TABLE_START, i = 0; place !== null; i++) {
          const page: TableRows = engine.scan.rowsFrom(query, place, recordsMax);
          expect(page.count).toBeLessThanOrEqual(recordsMax);
          const body = concat([Uint8Array.of(1), page.rows]);
          const keys = scanPage(body).rows.map(({ key }) => key);
          expect(keys).toHaveLength(page.count);
          listed.push(...keys);
          place = page.next;
          const { type, key, count } = happenings[i] ?? { type: "nothing", key: "", count: 0 };
          const isOther = !staying.includes(key);
          if (type === "come" && isOther) apply([increment(key, 1n, FOREVER)]);
          else if (type === "go" && isOther) apply([purge(key)]);
          else if (type === "restart") engine = start();
          else if (type === "grow") {
            // Of another prefix: the table splits beneath the scan.
            apply(Array.from({ length: count }, () => insert(`z${grown++}`, 1n, FOREVER)));
          }
        }
        expect(new Set(listed).size).toBe(listed.length);
        const isAsked = (key: string): boolean =>
          key.startsWith(prefix) && (behind === null || key > behind);
        expect(listed.every(isAsked)).toBe(true);
        const found = new Set(listed);
        expect(staying.filter((key) => isAsked(key) && !found.has(key))).toEqual([]);
      },
    );
    fc.assert(property, { seed, numRuns: runs(60) });
  });
});

describe("a removal", () => {
  it("a removal removes the live records of its prefixes, and a replay repeats it", () => {
    const property = fc.property(
      fc.uniqueArray(fc.record({ key: keyArbitrary, lifeMs: fc.constantFrom(500, 1e9) }), {
        maxLength: 200,
        selector: ({ key }) => key,
      }),
      prefixArbitrary,
      prefixesArbitrary,
      fc.boolean(),
      (records, prefix, prefixes, isCommitted) => {
        const engine = engineOf();
        run(
          engine,
          records.map(({ key, lifeMs }, i) =>
            i % 2 === 0
              ? insert(key, 1n, ttlMs(lifeMs), { once: "id" })
              : set(key, new Uint8Array(i), ttlMs(lifeMs)),
          ),
        );
        const rows = isCommitted ? engine.takeCommit(1_900_000).map((row) => row.slice()) : [];
        engine.advance(NOW_MS + 500);
        const live = records.filter(({ lifeMs }) => lifeMs > 500).map(({ key }) => key);
        const gone = live.filter((key) => hasPrefix(key, prefix, prefixes));
        const left = inOrder(live.filter((key) => !gone.includes(key)));
        const answers = Math.ceil(records.length / 2);
        expect(removeAll(engine, queryOf(prefix, prefixes))).toBe(gone.length);
        expect(keysOf(engine, queryOf(), 1000)).toEqual(left);
        expect(imagesOf(engine)).toHaveLength(left.length + answers);
        expect(removeAll(engine, queryOf(prefix, prefixes))).toBe(0);
        rows.push(...engine.takeCommit(1_900_000).map((row) => row.slice()));
        const replayed = engineOf();
        replayed.advance(NOW_MS + 500);
        for (const row of rows) replayed.restore(row);
        expect(imagesOf(replayed)).toEqual(imagesOf(engine));
      },
    );
    fc.assert(property, { seed, numRuns: runs(300) });
  });

  it("a removal frees memory step by step, and leaves other records where they are", () => {
    const engine = engineOf();
    const empty = engine.figures.bytes;
    const keys = Array.from({ length: 20_000 }, (_, i) => `${i % 4 === 0 ? "keep" : "go"}:${i}`);
    run(
      engine,
      keys.map((key, i) =>
        i % 3 === 0 ? set(key, new Uint8Array(100), FOREVER) : insert(key, 1n, FOREVER),
      ),
    );
    engine.takeCommit(1_900_000);
    const full = engine.figures.bytes;
    let steps = 0;
    let removed = 0;
    for (let cursor: number | null = 0; cursor !== null; steps++) {
      const step = engine.scan.remove(queryOf("go:"), cursor);
      expect(step.removed).toBeLessThan(4096 + 8192);
      removed += step.removed;
      cursor = step.cursor;
    }
    expect(removed).toBe(15_000);
    expect(steps).toBeGreaterThan(1);
    expect(engine.figures.records).toBe(5000);
    expect(engine.figures.bytes).toBeLessThan(full / 2);
    expect(keysOf(engine, queryOf(), 1000)).toEqual(
      inOrder(keys.filter((key) => key.startsWith("keep"))),
    );
    expect(removeAll(engine, queryOf())).toBe(5000);
    expect(engine.figures).toMatchObject({ records: 0, bytes: empty });
  });

  it("a removal of pairs goes by their consumers", () => {
    const pairs: Pair[] = [
      ["", ""],
      ["user", "r"],
      ["use", "r"],
      ["\x04", "\x01"],
      ["r", "user"],
      ["user:1", ""],
    ];
    const removal = (prefix: string, prefixes: string[]): number => {
      const engine = engineOf();
      runPairs(engine, pairs);
      run(engine, [insert("user", 1n, FOREVER)]);
      const removed = removeAll(engine, queryOf(prefix, prefixes, Keyspace.throttrPairs));
      expect(engine.figures.records).toBe(pairs.length + 1 - removed);
      return removed;
    };
    expect(removal("", [])).toBe(pairs.length);
    expect(removal("", ["user"])).toBe(2);
    expect(removal("user", [])).toBe(2);
    expect(removal("\x04", [])).toBe(1);
    expect(removal("", ["\x04"])).toBe(1);
    expect(removal("us", ["user:", "x"])).toBe(1);
  });

  it("a removal of answers goes by the keys of their calls", () => {
    const calls: [id: string, key: string][] = [
      ["id", "user"],
      ["user", ""],
      ["i", "user:1"],
      ["user", "use"],
      ["idid", "\x02"],
    ];
    const removal = (prefix: string, prefixes: string[]): number => {
      const engine = engineOf();
      run(
        engine,
        calls.map(([once, key]) => increment(key, 1n, FOREVER, { once })),
      );
      const removed = removeAll(engine, queryOf(prefix, prefixes, Keyspace.answers));
      expect(engine.figures.records).toBe(2 * calls.length - removed);
      return removed;
    };
    expect(removal("", [])).toBe(calls.length);
    expect(removal("user", [])).toBe(2);
    expect(removal("", ["user"])).toBe(2);
    expect(removal("", ["\x02"])).toBe(1);
    expect(removal("\x02", [])).toBe(1);
    expect(removal("id", [])).toBe(0);
    expect(removal("us", ["user:", "x"])).toBe(1);
  });
});
