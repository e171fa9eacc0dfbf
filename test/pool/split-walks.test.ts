/** Walks over shards that split between their steps: they see each record that stays, and see it once. */
import fc from "fast-check";
import { expect, it } from "vitest";
import { OPEN_ACCESS } from "../../src/base/access.ts";
import { exportPage } from "../../src/dispatch/exports.ts";
import { Merge } from "../../src/dispatch/merge.ts";
import { remove, scan } from "../../src/dispatch/scans.ts";
import { startOf, type TableCursor, writeTableCursor } from "../../src/dispatch/scan-cursor.ts";
import { rangeRows } from "../../src/dispatch/table-rows.ts";
import { Engine } from "../../src/engine/engine.ts";
import { EXPORT_CALLS_MIN, EXPORT_PAGES_BYTES, SCAN_CALLS_MAX } from "../../src/engine/sizes.ts";
import { Keyspace } from "../../src/wire/keyspace.ts";
import { CIRCLE, endOf, WHOLE } from "../../src/wire/range.ts";
import {
  commandFrame,
  concat,
  edgeBatch,
  exportFrame,
  exportRows,
  FOREVER,
  insert,
  openScanPage,
  remove as removeFrame,
  u16,
} from "../support/frames/index.ts";
import { SplitNamespace } from "../support/pool/split-namespace.ts";

const NOW_MS = 1_700_000_000_000;
/** Of all tables: those of the parts of a shard order their records alike. */
const SEED = { low: 3, high: 4 };

/** Shards with counters under keys. */
class KeyNamespace extends SplitNamespace {
  readonly keys: readonly string[];

  constructor(initial: number, keys: readonly string[]) {
    super(initial, (isOwn) => {
      const engine = new Engine({ hashKey: SEED, bytesMax: 96 << 20, isCounting: false });
      const own = keys.filter((key) => isOwn(Keyspace.throttr, key));
      for (let at = 0; at < own.length; at += 1000) {
        const frames = own.slice(at, at + 1000).map((key) => insert(key, 1n, FOREVER));
        engine.apply(edgeBatch(frames), NOW_MS);
      }
      engine.advance(NOW_MS);
      return engine;
    });
    this.keys = keys;
  }
}

const keysOf = (count: number): string[] => Array.from({ length: count }, (_, i) => `key:${i * 7}`);
const places = fc.array(fc.nat(CIRCLE - 1), { minLength: 1, maxLength: 12 });

/** Splits at one of the places before every third call. */
function splitting(namespace: KeyNamespace, at: readonly number[]): void {
  const left = [...at];
  namespace.before = () => {
    if (namespace.calls % 3 === 0 && left.length > 0) namespace.split(left.pop()!);
  };
}

async function scanned(namespace: KeyNamespace, limit: number): Promise<string[]> {
  const keys: string[] = [];
  for (let cursor: Uint8Array | null = null; ;) {
    const options = Uint8Array.of(cursor === null ? 2 : 3);
    const body = concat([u16(limit), options, cursor ?? new Uint8Array(0)]);
    const page = openScanPage(await namespace.answer(scan, commandFrame(0x2b, "", body)));
    expect(page.rows.length).toBeLessThanOrEqual(limit);
    keys.push(...page.rows.map(({ key }) => key));
    ({ cursor } = page);
    if (cursor === null) return keys;
  }
}

it("a scan in the order of keys sees each record once, whenever shards split", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.constantFrom(1, 3),
      places,
      fc.integer({ min: 1, max: 40 }),
      async (initial, at, limit) => {
        const namespace = new KeyNamespace(initial, keysOf(120));
        splitting(namespace, at);
        expect(await scanned(namespace, limit)).toEqual(namespace.keys.toSorted());
      },
    ),
    { numRuns: 60 },
  );
});

it("a scan in the order of the table sees each record once, whenever shards split", async () => {
  await fc.assert(
    fc.asyncProperty(places, fc.integer({ min: 300, max: 1000 }), async (at, limit) => {
      const namespace = new KeyNamespace(1, keysOf(16_600));
      splitting(namespace, at.slice(0, 4));
      const keys = await scanned(namespace, limit);
      expect(keys.toSorted()).toEqual(namespace.keys.toSorted());
    }),
    { numRuns: 2 },
  );
});

/** The rows of SCAN that a page in the order of the table has, for each call of `rangeRows`. */
async function rowsInTable(namespace: KeyNamespace, limit: number): Promise<number[]> {
  const query = {
    keyspace: Keyspace.throttr,
    prefix: new Uint8Array(0),
    prefixes: OPEN_ACCESS.keyPrefixes,
    behind: null,
  };
  const counts: number[] = [];
  for (let cursor: TableCursor = startOf(WHOLE, null); ;) {
    const page = await rangeRows(namespace.group, query, cursor, limit);
    counts.push(page.count);
    if (page.next === null) return counts;
    cursor = { ...cursor, order: page.hashes, place: page.next };
  }
}

it("pages of fewer records than a range has shards go on to the last record", async () => {
  await fc.assert(
    fc.asyncProperty(
      places,
      fc.integer({ min: 1, max: 4 }),
      fc.integer({ min: 0, max: 40 }),
      async (at, limit, count) => {
        const namespace = new KeyNamespace(1, keysOf(count));
        splitting(namespace, at);
        const counts = await rowsInTable(namespace, limit);
        expect(Math.max(...counts)).toBeLessThanOrEqual(limit);
        expect(counts.reduce((sum, each) => sum + each, 0)).toBe(count);
      },
    ),
    { numRuns: 60 },
  );
});

it("a page in the order of the table asks all shards together for few more rows than it has, also where they are not known yet", async () => {
  const [shards, limit] = [64, 1000];
  const namespace = new KeyNamespace(1, keysOf(2000));
  await namespace.group.findShards();
  for (let shard = 1; shard < shards; shard++) namespace.split((shard * CIRCLE) / shards);
  const asked: number[] = [];
  namespace.onRows = (recordsMax) => asked.push(recordsMax);
  const counts = await rowsInTable(namespace, limit);
  expect(counts.reduce((sum, each) => sum + each, 0)).toBe(2000);
  expect(Math.max(...asked)).toBeLessThanOrEqual(limit / shards);
});

it("a page of a scan makes no more calls than it may where the range of its cursor has split into many shards", async () => {
  const count = 1000;
  const namespace = new KeyNamespace(1, keysOf(count));
  // The last of eight shards has all keys, and is asked for an eighth of a page at a time.
  for (let at = 1; at < 8; at++) namespace.split(at);
  let records = 0;
  let most = 0;
  for (let cursor: Uint8Array | null = writeTableCursor(startOf(WHOLE, null)); cursor !== null;) {
    namespace.calls = 0;
    const body = concat([u16(count), Uint8Array.of(3), cursor]);
    const page = openScanPage(await namespace.answer(scan, commandFrame(0x2b, "", body)));
    records += page.rows.length;
    most = Math.max(most, namespace.calls);
    ({ cursor } = page);
  }
  expect(records).toBe(count);
  expect(most).toBe(SCAN_CALLS_MAX);
});

it("an export has each record once, whenever shards split", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.constantFrom(1, 3),
      places,
      fc.integer({ min: 1, max: 50 }),
      async (initial, at, limit) => {
        const namespace = new KeyNamespace(initial, keysOf(120));
        splitting(namespace, at);
        const keys: string[] = [];
        for (let isLast = false, after: string | null = null; !isLast; after = keys.at(-1)!) {
          const frame = exportFrame({ limit, bytesMax: 20 * limit, after });
          const page = exportRows(await namespace.answer(exportPage, frame));
          expect(page.rows.length).toBeLessThanOrEqual(limit);
          keys.push(...page.rows.map(({ key }) => key));
          ({ isLast } = page);
        }
        expect(keys.toSorted()).toEqual(namespace.keys.toSorted());
      },
    ),
    { numRuns: 60 },
  );
});

it("a page of an export is a request to each shard of its range, for little more than its share", async () => {
  const [count, limit] = [3000, 500];
  const namespace = new KeyNamespace(1, keysOf(count));
  // Four shards with a sixteenth of the circle each, and one with the rest.
  for (const sixteenths of [1, 2, 3, 4]) namespace.split((sixteenths * CIRCLE) / 16);
  const asked: number[] = [];
  namespace.onExport = (recordsMax) => asked.push(recordsMax);
  const pages: number[] = [];
  for (let isLast = false, after: string | null = null; !isLast;) {
    namespace.calls = 0;
    const page = exportRows(
      await namespace.answer(exportPage, exportFrame({ limit, bytesMax: 1 << 20, after })),
    );
    expect(namespace.calls).toBe(namespace.count);
    pages.push(page.rows.length);
    after = page.rows.at(-1)?.key ?? null;
    ({ isLast } = page);
  }
  expect(pages.reduce((sum, rows) => sum + rows, 0)).toBe(count);
  expect(pages.length).toBeLessThanOrEqual(count / limit + 1);
  expect(Math.max(...asked)).toBeLessThan(limit);
  expect(asked.reduce((sum, records) => sum + records, 0)).toBeLessThan(1.5 * limit * pages.length);
});

it("a page of an export asks all shards together for bounded bytes, also where they are not known yet", async () => {
  const namespace = new KeyNamespace(1, keysOf(100));
  await namespace.group.findShards();
  for (let shard = 1; shard < 64; shard++) namespace.split((shard * CIRCLE) / 64);
  const asked: number[] = [];
  namespace.onExport = (_, bytesMax) => asked.push(bytesMax);
  await namespace.answer(
    exportPage,
    exportFrame({ limit: 10_000, bytesMax: 1 << 20, after: null }),
  );
  expect(asked.length).toBe(namespace.count);
  expect(asked.reduce((sum, bytes) => sum + bytes, 0)).toBeLessThanOrEqual(EXPORT_PAGES_BYTES);
});

it("few of many shards are asked at once for a page of an export while each gives more than it is asked for", async () => {
  const keys = keysOf(200);
  const namespace = new KeyNamespace(1, keys);
  for (let shard = 1; shard < 64; shard++) namespace.split((shard * CIRCLE) / 64);
  // A row of a counter has more than 24 bytes.
  const frame = exportFrame({ limit: 10_000, bytesMax: 1, after: null });
  const page = exportRows(await namespace.answer(exportPage, frame));
  expect(page.rows.map(({ key }) => key)).toEqual(keys.toSorted().slice(0, 1));
  expect(namespace.exportsAtOnce).toBe(EXPORT_CALLS_MIN);
  await namespace.answer(exportPage, exportFrame({ after: null }));
  expect(namespace.exportsAtOnce).toBeGreaterThan(EXPORT_CALLS_MIN);
});

it("a removal counts each record once, whenever shards split", async () => {
  const namespace = new KeyNamespace(3, keysOf(200));
  const body = await namespace.answer(remove, removeFrame("key:1", 0));
  const count = namespace.keys.filter((key) => key.startsWith("key:1")).length;
  expect(new DataView(body.buffer, body.byteOffset).getFloat64(0, true)).toBe(count);
});

it("all shards are asked once, each for its range, when some split meanwhile", async () => {
  await fc.assert(
    fc.asyncProperty(fc.constantFrom(1, 4), places, async (initial, at) => {
      const namespace = new KeyNamespace(initial, keysOf(300));
      splitting(namespace, at);
      const query = { keyspace: 0 as const, prefix: new Uint8Array(0), prefixes: [] };
      const answers = await namespace.group.askAll(async ({ placement, stub }) => {
        return await stub().scan(placement, query, null, 1000, false);
      });
      let end = 0;
      for (const { shard } of answers) {
        expect(shard.range.from).toBe(end);
        end = endOf(shard.range);
      }
      expect(end).toBe(CIRCLE);
    }),
    { numRuns: 60 },
  );
});

it("a merge of pages has each record once and in order, whenever shards split", async () => {
  await fc.assert(
    fc.asyncProperty(fc.constantFrom(1, 3), places, async (initial, at) => {
      const namespace = new KeyNamespace(initial, keysOf(120));
      splitting(namespace, at);
      const query = { keyspace: 0 as const, prefix: new Uint8Array(0), prefixes: [] };
      const merge = await Merge.open(
        await namespace.group.sources(async ({ placement, stub }, after) => {
          return await stub().scan(placement, query, after, 5);
        }),
      );
      const keys: string[] = [];
      await merge.forEach(([entry]) => {
        keys.push(new TextDecoder().decode(entry!.key()));
        return "next";
      });
      expect(keys).toEqual(namespace.keys.toSorted());
    }),
    { numRuns: 60 },
  );
});
