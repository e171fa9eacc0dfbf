/** SCAN over several shards: every record that stays is seen once, whatever happens between two pages. */
import fc from "fast-check";
import { describe, expect, inject, it, vi } from "vitest";
import { Engine } from "../../src/engine/engine.ts";
import { hashBytes } from "../../src/engine/hash.ts";
import type { ScanQuery } from "../../src/engine/scan-query.ts";
import type { Segment } from "../../src/engine/segment.ts";
import { Table } from "../../src/engine/table.ts";
import type { TablePlace, TableQuery } from "../../src/engine/table-page.ts";
import { ORDERED_RECORDS_MAX, WALK_STEP_SLOTS } from "../../src/engine/sizes.ts";
import { OPEN_ACCESS } from "../../src/base/access.ts";
import { ShardMap } from "../../src/dispatch/shard-map.ts";
import { CIRCLE, initialIndexOf, initialRange } from "../../src/wire/range.ts";
import {
  isTableCursor,
  readTableCursor,
  writeTableCursor,
} from "../../src/dispatch/scan-cursor.ts";
import { scan as answerScan, writeReply } from "../../src/dispatch/scans.ts";
import { ShardGroup } from "../../src/dispatch/shard-group.ts";
import type { ShardCalls } from "../../src/base/calls/shard.ts";
import {
  bytesOf,
  commandFrame,
  commandReplies,
  concat,
  FOREVER,
  insert,
  openScanPage,
  purge,
  scan,
  scanPage,
  u16,
} from "../support/frames/index.ts";
import { applyAll } from "../support/engine/apply-all.ts";
import { finish } from "../support/engine/steps.ts";
import { PageReader } from "../../src/wire/page.ts";

const seed = inject("seed");
const NOW_MS = 1_700_000_000_000;
const CHOICE = { low: 7, high: 7 };

/** What a Shard does with its engine, without an object around it. */
class TestShard {
  readonly #hashKey: { low: number; high: number };
  readonly #rows: Uint8Array[] = [];
  #hashes: string;
  #starts = 0;
  /** Calls that were made. */
  calls = 0;
  /** Rows of the pages in the order of keys that it has sent. */
  rowsSent = 0;
  /** Happens behind each answer to SCAN. */
  onScanned: () => void = () => {};
  engine: Engine;

  constructor(low: number) {
    this.#hashKey = { low, high: 3 };
    this.#hashes = `order-${low}`;
    this.engine = this.#start();
  }

  #start(): Engine {
    return new Engine({
      hashKey: this.#hashKey,
      homeSalt: this.#starts++,
      bytesMax: 96 << 20,
      isCounting: false,
    });
  }

  apply(frames: Uint8Array[]): void {
    if (frames.length === 0) return;
    applyAll(this.engine, frames, NOW_MS);
    this.#rows.push(...this.engine.takeCommit(1_900_000).map((row) => row.slice()));
  }

  restart(): void {
    this.engine = this.#start();
    this.engine.advance(NOW_MS);
    for (const row of this.#rows) this.engine.restore(row);
  }

  /** As where the seed was not stored. */
  forgetOrder(): void {
    this.#hashes += "'";
  }

  scan(
    _placement: unknown,
    query: ScanQuery,
    after: Uint8Array | null,
    limit: number,
    isBounded = false,
  ): Promise<Uint8Array> {
    this.calls++;
    const scans = this.engine.scan;
    if (isBounded && !scans.isOrdered) return Promise.resolve(scans.unorderedPage());
    const page = finish(scans.page(query, after, limit));
    for (const reader = new PageReader(page); reader.next();) this.rowsSent++;
    this.onScanned();
    return Promise.resolve(page);
  }

  async rows(
    _placement: unknown,
    query: TableQuery,
    hashes: string | null,
    place: TablePlace,
    limit: number,
  ) {
    this.calls++;
    if (hashes !== null && hashes !== this.#hashes) throw new Error("listing_lost: other hashes");
    return await Promise.resolve({
      hashes: this.#hashes,
      ...this.engine.scan.rowsFrom(query, place, limit),
    });
  }
}

class Namespace {
  readonly shards = [new TestShard(1), new TestShard(2)] as const;
  readonly #group = new ShardGroup(
    mapOf(2),
    (from) => this.shards[initialIndexOf(from, 2)] as unknown as DurableObjectStub<ShardCalls>,
  );

  async #answer(frame: Uint8Array): Promise<Uint8Array> {
    return await writeReply((out) => answerScan(this.#group, frame, OPEN_ACCESS, out));
  }

  shardOf(key: string): number {
    const bytes = bytesOf(key);
    return hashBytes(CHOICE, 0, bytes, 0, bytes.length) % 2;
  }

  insert(keys: readonly string[]): void {
    this.#each(keys, (key) => insert(key, 1n, FOREVER));
  }

  purge(keys: readonly string[]): void {
    this.#each(keys, (key) => purge(key));
  }

  #each(keys: readonly string[], frameOf: (key: string) => Uint8Array): void {
    this.shards.forEach((shard, i) => {
      shard.apply(keys.filter((key) => this.shardOf(key) === i).map(frameOf));
    });
  }

  get calls(): number {
    return this.shards.reduce((sum, { calls }) => sum + calls, 0);
  }

  async page(prefix: string, limit: number, cursor: Uint8Array | null) {
    const options = Uint8Array.of(cursor === null ? 2 : 3);
    const body = concat([u16(limit), options, cursor ?? new Uint8Array(0)]);
    const frame = commandFrame(0x2b, prefix, body);
    const reply = commandReplies(await this.#answer(frame))[0]!;
    if (reply.code !== "") throw new Error(reply.code);
    return openScanPage(reply.body);
  }

  /** All keys behind a cursor, page by page. */
  async keysBehind(cursor: Uint8Array | null): Promise<string[]> {
    const keys: string[] = [];
    do {
      const page = await this.page("", 1000, cursor);
      keys.push(...page.rows.map(({ key }) => key));
      ({ cursor } = page);
    } while (cursor !== null);
    return keys;
  }

  /** A page as clients of releases before 0.5.0 ask for it. */
  async orderedPage(prefix: string, limit: number, after: string | null) {
    const [reply] = commandReplies(await this.#answer(scan(prefix, limit, after)));
    return scanPage(reply!.body);
  }
}

/** The map of a namespace that began with a number of shards. */
function mapOf(count: number): ShardMap {
  const map = new ShardMap("default", count, "");
  map.assumeInitial();
  return map;
}

const numbered = (prefix: string, from: number, count: number): string[] =>
  Array.from({ length: count }, (_, i) => `${prefix}${((from + i) * 7919) % 1_000_003}`);

const happening = fc.oneof(
  { weight: 3, arbitrary: fc.constant("nothing" as const) },
  { weight: 2, arbitrary: fc.constantFrom("come" as const, "go" as const) },
  { weight: 2, arbitrary: fc.constantFrom("grow" as const, "shrink" as const) },
  { weight: 2, arbitrary: fc.constantFrom("restart 0" as const, "restart 1" as const) },
);

type Happening = typeof happening extends fc.Arbitrary<infer T> ? T : never;

describe("a scan over several shards", () => {
  it("a scan sees every record that stays once, across the bound in both directions and across restarts", async () => {
    let crossings = 0;
    const property = fc.asyncProperty(
      fc.array(happening, { minLength: 1, maxLength: 60 }),
      fc.constantFrom(-1500, -500, 500, 1500),
      fc.constantFrom(300, 999, 1000),
      fc.constantFrom("", "s:"),
      async (happenings, excess, limit, prefix) => {
        const namespace = new Namespace();
        const staying = numbered("s:", 0, 3000);
        namespace.insert(staying);
        namespace.insert(numbered("f:", 0, 2 * ORDERED_RECORDS_MAX - 3000 + 2 * excess));
        let fillers = 0;
        let come = 0;
        const listed: string[] = [];
        const kinds = new Set<boolean>();
        let cursor: Uint8Array | null = null;
        for (let i = 0; ; i++) {
          const page = await namespace.page(prefix, limit, cursor);
          expect(page.rows.length).toBeLessThanOrEqual(limit);
          listed.push(...page.rows.map(({ key }) => key));
          ({ cursor } = page);
          if (cursor === null) break;
          kinds.add(isTableCursor(cursor));
          const what = happenings[i % happenings.length]!;
          const changed = numbered("s:x", come, 40);
          if (what === "come") namespace.insert(changed);
          else if (what === "go") namespace.purge(numbered("s:x", come++, 20));
          else if (what === "grow") namespace.insert(numbered("f:g", 4000 * fillers++, 4000));
          else if (what === "shrink" && fillers > 0) {
            namespace.purge(numbered("f:g", 4000 * --fillers, 4000));
          } else if (what === "restart 0") namespace.shards[0].restart();
          else if (what === "restart 1") namespace.shards[1].restart();
        }
        if (kinds.size === 2) crossings++;
        expect(new Set(listed).size).toBe(listed.length);
        const found = new Set(listed);
        expect(staying.filter((key) => !found.has(key))).toEqual([]);
      },
    );
    const across: Happening[] = ["nothing", "grow", "restart 0", "shrink"];
    await fc.assert(property, { seed, numRuns: 4, examples: [[across, -500, 1000, ""]] });
    expect(crossings).toBeGreaterThan(0);
  });

  it("a scan gives keys in order, with the last one as its cursor, while each shard has at most 16,384", async () => {
    const namespace = new Namespace();
    const keys = numbered("k", 0, 30_000);
    namespace.insert(keys);
    expect(namespace.shards.every(({ engine }) => engine.scan.isOrdered)).toBe(true);
    const listed: string[] = [];
    for (let cursor: Uint8Array | null = null; ;) {
      const page = await namespace.page("", 1000, cursor);
      listed.push(...page.rows.map(({ key }) => key));
      ({ cursor } = page);
      if (cursor === null) break;
      expect(String.fromCharCode(...cursor)).toBe(page.rows.at(-1)!.key);
    }
    expect(listed).toEqual(keys.toSorted((a, b) => (a < b ? -1 : 1)));
  });

  it("a page in the order of keys takes a share of its rows from each shard, and more where one has most of them", async () => {
    const namespace = new Namespace();
    const keys = numbered("k", 0, 10_000);
    const ofFirst = numbered("a", 0, 3000).filter((key) => namespace.shardOf(key) === 0);
    namespace.insert([...keys, ...ofFirst]);
    const sorted = (all: string[]) => all.toSorted((a, b) => (a < b ? -1 : 1));
    const page = await namespace.page("k", 1000, null);
    expect(page.rows.map(({ key }) => key)).toEqual(sorted(keys).slice(0, 1000));
    const rows = namespace.shards.map(({ rowsSent }) => rowsSent);
    expect(rows.every((sent) => sent >= 400 && sent <= 600)).toBe(true);
    expect(namespace.calls).toBe(2);
    const skewed = await namespace.page("a", 1000, null);
    expect(skewed.rows.map(({ key }) => key)).toEqual(sorted(ofFirst).slice(0, 1000));
  });

  it("a scan goes in the order of the table where a shard passes 16,384 records within a page", async () => {
    const namespace = new Namespace();
    const keys = numbered("k", 0, 30_000);
    namespace.insert(keys);
    const [first] = namespace.shards;
    first.onScanned = () => {
      first.onScanned = () => {};
      namespace.insert(numbered("n", 0, 6000));
    };
    const listed = await namespace.keysBehind(null);
    expect(first.engine.scan.isOrdered).toBe(false);
    expect(new Set(listed).size).toBe(listed.length);
    expect(listed.filter((key) => key.startsWith("k")).length).toBe(keys.length);
  });

  it("a scan continues behind a key that a release before 0.5.0 gave as its cursor", async () => {
    const namespace = new Namespace();
    const keys = numbered("k", 0, 40_000);
    namespace.insert(keys);
    const inOrder = keys.toSorted((a, b) => (a < b ? -1 : 1));
    const after = inOrder[10_000]!;
    const listed = await namespace.keysBehind(bytesOf(after));
    expect(listed.toSorted((a, b) => (a < b ? -1 : 1))).toEqual(inOrder.slice(10_001));
  });

  it("a scan answers clients of releases before 0.5.0 with full pages in the order of keys", async () => {
    const namespace = new Namespace();
    const keys = numbered("k", 0, 40_000);
    namespace.insert(keys);
    const inOrder = keys.toSorted((a, b) => (a < b ? -1 : 1));
    const page = await namespace.orderedPage("", 1000, inOrder[7000]!);
    expect(page.rows.map(({ key }) => key)).toEqual(inOrder.slice(7001, 8001));
  });

  it("a scan refuses a cursor that has lost its meaning, and an invalid one", async () => {
    const namespace = new Namespace();
    namespace.insert(numbered("k", 0, 40_000));
    const { cursor } = await namespace.page("", 100, null);
    namespace.shards[0].forgetOrder();
    await expect(namespace.page("", 100, cursor)).rejects.toThrow("cursor_lost");
    for (const bytes of [new Uint8Array(256), new Uint8Array(300).fill(255)]) {
      await expect(namespace.page("", 100, bytes)).rejects.toThrow("after_invalid");
    }
    const of = readTableCursor(cursor!, 2)!;
    const empty = writeTableCursor({ ...of, range: { from: 5, to: 5 } });
    await expect(namespace.page("", 100, empty)).rejects.toThrow("after_invalid");
  });
});

it("a scan is refused where its cursor leads to a shard of an earlier release", async () => {
  const namespace = new Namespace();
  namespace.insert(numbered("k", 0, 40_000));
  const { cursor } = await namespace.page("", 100, null);
  namespace.shards[0].rows = async () => {
    throw new TypeError('The RPC receiver does not implement the method "rows".');
  };
  await expect(namespace.page("", 100, cursor)).rejects.toThrow(/^batch_version$/);
});

describe("a page of a scan of many records", () => {
  it.each([
    ["", 1000],
    ["", 1],
    ["rare:", 1000],
  ])(
    "a page of a scan with the prefix “%s” and the limit %i looks at a bounded number of slots",
    async (prefix, limit) => {
      const namespace = new Namespace();
      const rare = numbered("rare:", 0, 11);
      namespace.insert([...numbered("k", 0, 200_000), ...rare]);
      const spy = vi.spyOn(Table.prototype, "segmentAt");
      let cursor: Uint8Array | null = null;
      const listed: string[] = [];
      for (let pages = 0; pages < 40; pages++) {
        const callsBefore = namespace.calls;
        const page = await namespace.page(prefix, limit, cursor);
        listed.push(...page.rows.map(({ key }) => key));
        const calls = namespace.calls - callsBefore;
        const seen = new Set(spy.mock.results.map(({ value }) => value as Segment));
        spy.mockClear();
        const slots = [...seen].reduce((sum, { capacity }) => sum + capacity, 0);
        // The first page asks every shard for its records in the order of keys, too.
        expect(calls).toBeLessThanOrEqual(cursor === null ? 18 : 16);
        expect(slots).toBeLessThanOrEqual(2 * WALK_STEP_SLOTS * calls);
        if (limit === 1) expect(slots).toBeLessThanOrEqual(2 * WALK_STEP_SLOTS);
        ({ cursor } = page);
        if (cursor === null) break;
      }
      spy.mockRestore();
      if (prefix === "rare:") expect(listed.toSorted()).toEqual(rare.toSorted());
    },
  );
});

describe("a cursor beyond the order of keys", () => {
  const key = fc.uint8Array({ maxLength: 255 });

  it("a cursor describes its place, is longer than any key, and fits into a frame", () => {
    const property = fc.property(
      fc.tuple(fc.nat(CIRCLE - 2), fc.nat(CIRCLE - 1)),
      fc.nat(65_535),
      fc.string({ maxLength: 20, unit: "grapheme-ascii" }),
      fc.option(key),
      fc.option(key),
      ([from, to], group, order, after, behind) => {
        const range = { from, to: to > from ? to : 0 };
        const cursor = { range, order, place: { group, after }, behind };
        const bytes = writeTableCursor(cursor);
        expect(isTableCursor(bytes)).toBe(true);
        expect(bytes.length).toBeLessThanOrEqual(1024);
        expect(readTableCursor(bytes, 1)).toEqual(cursor);
      },
    );
    fc.assert(property, { seed, numRuns: 300 });
  });

  it("a cursor of a release before 0.5.0 names a range that the namespace began with", () => {
    const order = new TextEncoder().encode("1-abc");
    const bytes = new Uint8Array(256);
    bytes.set([1, 2, 3, 0, 0x34, 0x12, order.length, ...order, 2, 107, 49]);
    const place = { group: 0x1234, after: bytesOf("k1") };
    const cursor = { range: initialRange(3, 4), order: "1-abc", place, behind: null };
    expect(readTableCursor(bytes, 4)).toEqual(cursor);
    expect(readTableCursor(bytes, 3)).toBeNull();
  });

  it("a cursor of any other bytes is refused, or read within its bytes", () => {
    const property = fc.property(fc.uint8Array({ minLength: 256, maxLength: 600 }), (bytes) => {
      bytes[0] = 1 + (bytes[0]! % 2);
      expect(() => readTableCursor(bytes, 4)).not.toThrow();
    });
    fc.assert(property, { seed, numRuns: 300 });
  });
});
