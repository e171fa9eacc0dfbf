/** Walks over shards that split between their steps: they see each record that stays, and see it once. */
import fc from "fast-check";
import { expect, it } from "vitest";
import { OPEN_ACCESS } from "../../src/base/access.ts";
import type { ShardCalls } from "../../src/base/calls/shard.ts";
import { exportPage } from "../../src/dispatch/exports.ts";
import { Merge } from "../../src/dispatch/merge.ts";
import { remove, scan, writeReply } from "../../src/dispatch/scans.ts";
import { ShardGroup } from "../../src/dispatch/shard-group.ts";
import { ShardMap } from "../../src/dispatch/shard-map.ts";
import { Engine } from "../../src/engine/engine.ts";
import type { ScanQuery } from "../../src/engine/scan-query.ts";
import type { TablePlace, TableQuery } from "../../src/engine/table-page.ts";
import type { Placement } from "../../src/wire/batch.ts";
import { ThrottrError } from "../../src/wire/edge/error.ts";
import type { ShardRanges } from "../../src/wire/moved.ts";
import {
  CIRCLE,
  endOf,
  initialRange,
  isIn,
  isSameRange,
  type Range,
} from "../../src/wire/range.ts";
import { finish } from "../support/engine/steps.ts";
import {
  bytesOf,
  commandFrame,
  commandReplies,
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

const NOW_MS = 1_700_000_000_000;
/** Of all tables: those of the parts of a shard order their records alike. */
const SEED = { low: 3, high: 4 };

class SplitShard {
  readonly range: Range;
  readonly engine = new Engine({ hashKey: SEED, bytesMax: 96 << 20, isCounting: false });

  constructor(range: Range, keys: readonly string[]) {
    this.range = range;
    for (let at = 0; at < keys.length; at += 1000) {
      const frames = keys.slice(at, at + 1000).map((key) => insert(key, 1n, FOREVER));
      this.engine.apply(edgeBatch(frames), NOW_MS);
    }
    this.engine.advance(NOW_MS);
  }
}

/** Shards that split when they are told to, and refuse what is for another range. */
class SplitNamespace {
  readonly map = new ShardMap("default", 1, "");
  readonly group: ShardGroup;
  /** What happens before each call of a shard: another one may split it. */
  before: () => void = () => {};
  calls = 0;
  keys: readonly string[];
  #shards: SplitShard[];
  readonly #initial: number;

  constructor(initial: number, keys: readonly string[]) {
    this.#initial = initial;
    this.keys = keys;
    this.#shards = Array.from({ length: initial }, (_, index) =>
      this.#shardOf(initialRange(index, initial)),
    );
    this.group = new ShardGroup(
      this.map,
      (from) => this.#stub(from) as unknown as DurableObjectStub<ShardCalls>,
    );
  }

  get count(): number {
    return this.#shards.length;
  }

  split(at: number): void {
    const shard = this.#shards.find(({ range }) => isIn(range, at))!;
    if (shard.range.from === at) return;
    const parts = [
      { from: shard.range.from, to: at },
      { from: at, to: shard.range.to },
    ];
    this.#shards = this.#shards
      .filter((each) => each !== shard)
      .concat(parts.map((range) => this.#shardOf(range)));
  }

  async answer(write: typeof scan, frame: Uint8Array): Promise<Uint8Array> {
    const reply = await writeReply((out) => write(this.group, frame, OPEN_ACCESS, out));
    const { body, code } = commandReplies(reply)[0]!;
    if (code !== "") throw new Error(code);
    return body;
  }

  #shardOf(range: Range): SplitShard {
    return new SplitShard(
      range,
      this.keys.filter((key) => {
        const bytes = bytesOf(key);
        return isIn(range, this.map.hashOf(0, bytes, 0, bytes.length));
      }),
    );
  }

  #stub(from: number) {
    const owned = async ({ range }: Placement): Promise<SplitShard> => {
      await Promise.resolve();
      this.calls++;
      this.before();
      const shard = this.#shards.find((each) => each.range.from === from)!;
      if (isSameRange(shard.range, range!)) return shard;
      throw new ThrottrError("shard_moved", "another range");
    };
    return {
      ranges: async (): Promise<ShardRanges> => {
        await Promise.resolve();
        const { range } = this.#shards.find((each) => each.range.from === from)!;
        // What the others have given away is theirs to say.
        const begins = this.#shards.map((each) => each.range.from);
        return { shards: this.#initial, range, begins: begins.toSorted((a, b) => a - b) };
      },
      scan: async (
        placement: Placement,
        query: ScanQuery,
        after: Uint8Array | null,
        max: number,
        isBounded = false,
      ) => {
        const { scan: own } = (await owned(placement)).engine;
        return isBounded && !own.isOrdered
          ? own.unorderedPage()
          : finish(own.page(query, after, max));
      },
      rows: async (
        placement: Placement,
        query: TableQuery,
        _: unknown,
        place: TablePlace,
        max: number,
      ) => {
        const { engine } = await owned(placement);
        return { hashes: "one", ...engine.scan.rowsFrom(query, place, max) };
      },
      exportPage: async (
        placement: Placement,
        query: ScanQuery,
        after: Uint8Array | null,
        max: number,
        bytes: number,
      ) => finish((await owned(placement)).engine.exporting.page(query, after, max, bytes)),
      remove: async (placement: Placement, query: ScanQuery, _: unknown, cursor: number) => {
        const { engine } = await owned(placement);
        return { hashes: "one", ...engine.scan.remove(query, cursor) };
      },
    };
  }
}

const keysOf = (count: number): string[] => Array.from({ length: count }, (_, i) => `key:${i * 7}`);
const places = fc.array(fc.nat(CIRCLE - 1), { minLength: 1, maxLength: 12 });

/** Splits at one of the places before every third call. */
function splitting(namespace: SplitNamespace, at: readonly number[]): void {
  const left = [...at];
  namespace.before = () => {
    if (namespace.calls % 3 === 0 && left.length > 0) namespace.split(left.pop()!);
  };
}

async function scanned(namespace: SplitNamespace, limit: number): Promise<string[]> {
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
        const namespace = new SplitNamespace(initial, keysOf(120));
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
      const namespace = new SplitNamespace(1, keysOf(16_600));
      splitting(namespace, at.slice(0, 4));
      const keys = await scanned(namespace, limit);
      expect(keys.toSorted()).toEqual(namespace.keys.toSorted());
    }),
    { numRuns: 2 },
  );
});

it("an export has each record once, whenever shards split", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.constantFrom(1, 3),
      places,
      fc.integer({ min: 1, max: 50 }),
      async (initial, at, limit) => {
        const namespace = new SplitNamespace(initial, keysOf(120));
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

it("a removal counts each record once, whenever shards split", async () => {
  const namespace = new SplitNamespace(3, keysOf(200));
  const body = await namespace.answer(remove, removeFrame("key:1", 0));
  const count = namespace.keys.filter((key) => key.startsWith("key:1")).length;
  expect(new DataView(body.buffer, body.byteOffset).getFloat64(0, true)).toBe(count);
});

it("all shards are asked once, each for its range, when some split meanwhile", async () => {
  await fc.assert(
    fc.asyncProperty(fc.constantFrom(1, 4), places, async (initial, at) => {
      const namespace = new SplitNamespace(initial, keysOf(300));
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
      const namespace = new SplitNamespace(initial, keysOf(120));
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
