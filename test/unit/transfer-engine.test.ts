/** RESTORE and the pages of EXPORT of one shard against a map: any records, policies, times and crashes. */
import fc from "fast-check";
import { describe, expect, inject, it } from "vitest";
import type { Engine } from "../../src/engine/engine.ts";
import { Engine as AnyEngine } from "../../src/engine/engine.ts";
import { ORDERED_PAGE_ROWS_MAX } from "../../src/engine/sizes.ts";
import { Keyspace } from "../../src/wire/keyspace.ts";
import { protocolByName } from "../../src/wire/throttr/protocol.ts";
import { CommandDisk, imagesOf } from "../support/commands/disk.ts";
import {
  batchIn,
  BUFFER,
  bytesOf,
  commandFrame,
  commandReplies,
  concat,
  COUNTER,
  EDGE,
  EXPIRED,
  type ExportRow,
  exportRows,
  FOREVER,
  insert,
  KEEP,
  KEPT,
  type Pair,
  pairFrame,
  pairKey,
  partsOf,
  purge,
  REPLACE,
  restore,
  RESTORE,
  RESTORE_PAIR,
  restoreBody,
  RESTORED,
  restorePair,
  set,
  type TransferRecord,
} from "../support/frames/index.ts";
import { finish } from "../support/engine/steps.ts";
import { U64_MAX } from "../support/models/values.ts";
import { runs } from "../support/runs.ts";

const seed = inject("seed");
const NOW_MS = 1_700_000_000_000;
const MS_NS = 1_000_000n;
const NOW_NS = BigInt(NOW_MS) * MS_NS;
const PAIRS = protocolByName("2", undefined)!;
const PLAIN_KEYSPACE = Keyspace.throttr;
const PAIR_KEYSPACE = Keyspace.throttrPairs;

const engineOf = (bytesMax = 64 << 20): Engine =>
  new AnyEngine({ hashKey: { low: seed, high: 1 }, bytesMax, isCounting: true });

function reply(engine: Engine, frame: Uint8Array, nowMs = NOW_MS) {
  const [part] = partsOf(engine.apply(batchIn([{ protocol: EDGE, frames: [frame] }]), nowMs));
  expect(part!.count).toBe(1);
  return commandReplies(part!.replies)[0]!;
}

function outcome(engine: Engine, frame: Uint8Array, nowMs = NOW_MS): number {
  const { body, code } = reply(engine, frame, nowMs);
  expect(code).toBe("");
  expect(body).toHaveLength(1);
  return body[0]!;
}

const counter = (quota: bigint, expiresNs = U64_MAX, unit = 4): TransferRecord => ({
  kind: COUNTER,
  unit,
  expiresNs,
  quota,
});
const buffer = (value: string, expiresNs = U64_MAX, unit = 4): TransferRecord => ({
  kind: BUFFER,
  unit,
  expiresNs,
  value,
});

interface PageQuery {
  readonly keyspace?: Keyspace;
  readonly prefix?: string;
  readonly prefixes?: readonly string[];
  readonly after?: string | null;
  readonly limit?: number;
  readonly bytesMax?: number;
}

function pageOf(engine: Engine, query: PageQuery = {}) {
  const { keyspace = PLAIN_KEYSPACE, prefix = "", prefixes = [], after = null } = query;
  const { limit = 10_000, bytesMax = 1 << 20 } = query;
  const asked = { keyspace, prefix: bytesOf(prefix), prefixes: prefixes.map(bytesOf) };
  const behind = after === null ? null : bytesOf(after);
  const page = finish(engine.exporting.page(asked, behind, limit, bytesMax));
  const found = exportRows(concat([page.subarray(0, 1), page.subarray(3)]));
  expect(page[1]! | (page[2]! << 8)).toBe(found.rows.length);
  return found;
}

/** All rows, page by page. */
function rowsOf(engine: Engine, query: PageQuery = {}): { rows: ExportRow[]; pages: number } {
  const rows: ExportRow[] = [];
  let after: string | null = null;
  for (let pages = 1; ; pages++) {
    const page = pageOf(engine, { ...query, after });
    rows.push(...page.rows);
    if (page.isLast) return { rows, pages };
    expect(page.rows.length).toBeGreaterThan(0);
    after = page.rows.at(-1)!.key;
  }
}

const inOrder = <Row extends { key: string }>(rows: Iterable<Row>): Row[] =>
  [...rows].toSorted((a, b) => (a.key < b.key ? -1 : a.key > b.key ? 1 : 0));

const byte = fc.constantFrom("\0", "\x01", "a", "b", "\x7f", "\x80", "\xff");
const name = fc.oneof(
  { weight: 6, arbitrary: fc.string({ unit: byte, maxLength: 3 }) },
  { weight: 1, arbitrary: fc.tuple(byte, fc.nat(255)).map(([char, n]) => char.repeat(n)) },
);
const pair: fc.Arbitrary<Pair> = fc.tuple(name, name);
const expiry = fc.oneof(
  fc.constantFrom(0n, NOW_NS - 1n, NOW_NS, NOW_NS + 1n, U64_MAX),
  fc.bigInt({ min: NOW_NS, max: NOW_NS + 5000n * MS_NS }),
  fc.bigInt({ min: 0n, max: U64_MAX }),
);
const quota = fc.oneof(fc.constantFrom(0n, 1n, U64_MAX), fc.bigInt({ min: 0n, max: U64_MAX }));
const value = fc.oneof(
  fc.string({ unit: byte, maxLength: 20 }),
  fc.nat(3000).map((length) => "v".repeat(length)),
);
const recordArbitrary: fc.Arbitrary<TransferRecord> = fc.oneof(
  fc.record({
    kind: fc.constant(COUNTER),
    unit: fc.integer({ min: 1, max: 6 }),
    expiresNs: expiry,
    quota,
  }),
  fc.record({
    kind: fc.constant(BUFFER),
    unit: fc.integer({ min: 1, max: 6 }),
    expiresNs: expiry,
    value,
  }),
);
const pairRecord: fc.Arbitrary<TransferRecord> = fc.record({
  kind: fc.constant(COUNTER),
  unit: fc.constantFrom(1, 3, 4),
  expiresNs: expiry,
  quota,
});
const policy = fc.constantFrom(KEEP, REPLACE);

type Action =
  | { type: "restore"; key: string; policy: number; record: TransferRecord }
  | { type: "restorePair"; pair: Pair; policy: number; record: TransferRecord }
  | { type: "purge"; key: string }
  | { type: "time"; ms: number }
  | { type: "commit" | "crash" | "snapshot" };

const actionArbitrary: fc.Arbitrary<Action> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      type: fc.constant("restore" as const),
      key: name,
      policy,
      record: recordArbitrary,
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      type: fc.constant("restorePair" as const),
      pair,
      policy,
      record: pairRecord,
    }),
  },
  { weight: 1, arbitrary: fc.record({ type: fc.constant("purge" as const), key: name }) },
  { weight: 1, arbitrary: fc.record({ type: fc.constant("time" as const), ms: fc.nat(2000) }) },
  {
    weight: 2,
    arbitrary: fc.record({
      type: fc.constantFrom("commit" as const, "crash" as const, "snapshot" as const),
    }),
  },
);

class Model {
  readonly #records = new Map<string, { keyspace: number; key: string; record: TransferRecord }>();

  restore(
    keyspace: number,
    key: string,
    policy: number,
    record: TransferRecord,
    nowNs: bigint,
  ): number {
    if (record.expiresNs <= nowNs) return EXPIRED;
    const id = `${keyspace}:${key}`;
    const there = this.#records.get(id);
    if (policy === KEEP && there !== undefined && there.record.expiresNs > nowNs) return KEPT;
    this.#records.set(id, { keyspace, key, record });
    return RESTORED;
  }

  purge(key: string): void {
    this.#records.delete(`${PLAIN_KEYSPACE}:${key}`);
  }

  rows(keyspace: number, nowNs: bigint): ExportRow[] {
    const live = [...this.#records.values()].filter(
      (entry) => entry.keyspace === keyspace && entry.record.expiresNs > nowNs,
    );
    return inOrder(live.map(({ key, record }) => ({ key, ...record })));
  }
}

describe("a page of an export whose records are removed meanwhile", () => {
  const COUNT = 60_000;
  const keyOf = (i: number): string => `key:${String(i).padStart(6, "0")}`;

  /** Steps of the walk, before each of which `meanwhile` is called with its number. */
  function pageWith(engine: Engine, meanwhile: (step: number) => void): Uint8Array {
    const asked = { keyspace: PLAIN_KEYSPACE, prefix: bytesOf(""), prefixes: [] };
    const steps = engine.exporting.page(asked, null, 1, 1 << 20);
    for (let step = 0; ; step++) {
      const { done, value } = steps.next();
      if (done === true) return value;
      meanwhile(step);
    }
  }

  it("a page of an export that is not the last one has a record, though those that were found first are gone", () => {
    const engine = engineOf();
    for (let i = 0; i < COUNT; i++) reply(engine, restore(keyOf(i), KEEP, counter(1n)));
    const walked: number[] = [];
    pageWith(engine, (step) => walked.push(step));
    const last = walked.length - 1;
    expect(last).toBeGreaterThan(0);
    const page = pageWith(engine, (step) => {
      if (step !== last) return;
      for (let i = 0; i < COUNT / 2; i++) reply(engine, purge(keyOf(i)));
    });
    const { rows, isLast } = exportRows(concat([page.subarray(0, 1), page.subarray(3)]));
    expect({ keys: rows.map(({ key }) => key), isLast }).toEqual({
      keys: [keyOf(COUNT / 2)],
      isLast: false,
    });
  });
});

describe("restored records", () => {
  it("restored records are what they were, also after a crash behind the commit", () => {
    const property = fc.property(
      fc.array(actionArbitrary, { maxLength: 60 }),
      fc.integer({ min: 1, max: 5 }),
      fc.constantFrom(1, 50, 300, 1 << 20),
      (actions, limit, bytesMax) => {
        const disk = new CommandDisk({
          rowBytesMax: 1_900_000,
          answerTtlMs: 1000,
          bytesMax: 64 << 20,
        });
        let nowMs = NOW_MS;
        let engine = disk.start(seed, nowMs);
        const model = new Model();
        for (const action of actions) {
          const nowNs = BigInt(nowMs) * MS_NS;
          switch (action.type) {
            case "restore": {
              const { key, policy, record } = action;
              expect(outcome(engine, restore(key, policy, record), nowMs)).toBe(
                model.restore(PLAIN_KEYSPACE, key, policy, record, nowNs),
              );
              break;
            }
            case "restorePair": {
              const { policy, record } = action;
              expect(outcome(engine, restorePair(action.pair, policy, record), nowMs)).toBe(
                model.restore(PAIR_KEYSPACE, pairKey(action.pair), policy, record, nowNs),
              );
              break;
            }
            case "purge":
              model.purge(action.key);
              reply(engine, purge(action.key), nowMs);
              break;
            case "time":
              nowMs += action.ms;
              engine.advance(nowMs);
              break;
            case "snapshot":
              disk.commit(engine);
              disk.snapshotStep(engine);
              break;
            case "commit":
              disk.commit(engine);
              break;
            case "crash":
              disk.commit(engine);
              engine = disk.start(seed, nowMs);
          }
        }
        const nowNs = BigInt(nowMs) * MS_NS;
        for (const keyspace of [PLAIN_KEYSPACE, PAIR_KEYSPACE]) {
          const { rows } = rowsOf(engine, { keyspace, limit, bytesMax });
          expect(rows).toEqual(model.rows(keyspace, nowNs));
        }
        disk.commit(engine);
        expect(imagesOf(disk.start(seed, nowMs))).toEqual(imagesOf(engine));
      },
    );
    fc.assert(property, { seed, numRuns: runs(400) });
  });

  it("a restored record whose expiry has passed is reported, and changes nothing", () => {
    const engine = engineOf();
    expect(outcome(engine, restore("k", REPLACE, counter(1n)))).toBe(RESTORED);
    for (const policy of [KEEP, REPLACE]) {
      for (const expiresNs of [0n, NOW_NS - 1n, NOW_NS]) {
        expect(outcome(engine, restore("k", policy, counter(2n, expiresNs)))).toBe(EXPIRED);
        expect(outcome(engine, restore("other", policy, buffer("x", expiresNs)))).toBe(EXPIRED);
      }
    }
    expect(pageOf(engine).rows).toEqual([{ key: "k", ...counter(1n) }]);
    expect(outcome(engine, restore("other", KEEP, buffer("x", NOW_NS + 1n)))).toBe(RESTORED);
    engine.advance(NOW_MS + 1);
    expect(pageOf(engine).rows.map(({ key }) => key)).toEqual(["k"]);
  });

  it("a restored record replaces one of the other kind, and leaves it when there is no room", () => {
    const engine = engineOf(1 << 20);
    for (let i = 0; i < 200; i++) {
      const { code } = reply(engine, restore(`fill:${i}`, KEEP, buffer("v".repeat(8000))));
      if (code === "shard_full") break;
    }
    expect(outcome(engine, restore("k", REPLACE, counter(7n, NOW_NS + 5n, 1)))).toBe(RESTORED);
    const images = imagesOf(engine);
    const figures = engine.figures;
    const large = restore("k", REPLACE, buffer("v".repeat(900_000)));
    for (let i = 0; i < 500; i++) expect(reply(engine, large).code).toBe("shard_full");
    expect(imagesOf(engine)).toEqual(images);
    expect(engine.figures.bytes).toBeLessThan(figures.bytes + (64 << 10));
    expect(engine.figures.records).toBe(figures.records);
    expect(engine.figures.refusedForSpace).toBe(figures.refusedForSpace + 500);
    const rows = engine.takeCommit(1_900_000).map((row) => row.slice());
    const replayed = engineOf(1 << 20);
    replayed.advance(NOW_MS);
    for (const row of rows) replayed.restore(row);
    expect(imagesOf(replayed)).toEqual(images);
    expect(outcome(engine, restore("k", REPLACE, buffer("short")))).toBe(RESTORED);
    expect(outcome(engine, restore("k", KEEP, counter(1n)))).toBe(KEPT);
    expect(outcome(engine, restore("k", REPLACE, counter(1n)))).toBe(RESTORED);
    expect(pageOf(engine, { prefix: "k" }).rows).toEqual([{ key: "k", ...counter(1n) }]);
  });

  it("restored records are refused in a full shard, as INSERT and SET are", () => {
    const engine = engineOf(1 << 20);
    let stored = 0;
    for (
      ;
      reply(engine, restore(`${stored}`, KEEP, buffer("v".repeat(5000)))).code === "";
      stored++
    );
    expect(stored).toBeGreaterThan(100);
    const one = pageOf(engine, { prefix: "0" }).rows[0]!;
    const large = "v".repeat(200_000);
    expect(reply(engine, restore("new", REPLACE, buffer(large))).code).toBe("shard_full");
    expect(reply(engine, set("new", bytesOf(large), FOREVER)).code).toBe("shard_full");
    expect(outcome(engine, restore(one.key, KEEP, buffer("x")))).toBe(KEPT);
    expect(outcome(engine, restore(one.key, REPLACE, buffer("x")))).toBe(RESTORED);
  });

  it("restored records count as writes", () => {
    const engine = engineOf();
    outcome(engine, restore("k", KEEP, counter(1n)));
    outcome(engine, restore("k", REPLACE, counter(2n)));
    outcome(engine, restore("k", KEEP, counter(3n)));
    const stat = engine.apply(
      batchIn([{ protocol: EDGE, frames: [concat([Uint8Array.of(0x09, 1), bytesOf("k")])] }]),
      NOW_MS,
    );
    const { replies } = partsOf(stat)[0]!;
    expect(new DataView(replies.buffer, replies.byteOffset).getBigUint64(25, true)).toBe(2n);
  });

  it("restored records are found by requests of their own kind alone", () => {
    const engine = engineOf();
    outcome(engine, restorePair(["a", "b"], KEEP, counter(5n, NOW_NS + 2000n * MS_NS, 3)));
    outcome(engine, restore("\x01\x01ab", KEEP, counter(6n)));
    const frames = [pairFrame(1, { type: "query", pair: ["a", "b"] })];
    const [part] = partsOf(engine.apply(batchIn([{ protocol: PAIRS, frames }]), NOW_MS));
    const view = new DataView(part!.replies.buffer, part!.replies.byteOffset);
    expect([part!.replies[4], view.getBigUint64(5, true), part!.replies[13]]).toEqual([1, 5n, 1]);
    expect(view.getBigUint64(14, true)).toBe(1999n);
    expect(reply(engine, insert("\x01\x01ab", 1n, FOREVER)).body[0]).toBe(0);
  });

  it.each<[string, Uint8Array]>([
    ["body_invalid", commandFrame(RESTORE, "k")],
    ["body_invalid", commandFrame(RESTORE, "k", new Uint8Array(10))],
    ["body_invalid", commandFrame(RESTORE, "k", restoreBody(KEEP, counter(1n)).slice(0, 18))],
    [
      "body_invalid",
      commandFrame(RESTORE, "k", concat([restoreBody(KEEP, counter(1n)), bytesOf("x")])),
    ],
    ["policy_invalid", restore("k", 2, counter(1n))],
    ["policy_invalid", restore("k", 255, counter(1n))],
    ["kind_invalid", restore("k", KEEP, { ...counter(1n), kind: 0 })],
    ["kind_invalid", restore("k", KEEP, { ...counter(1n), kind: 3 })],
    ["unit_invalid", restore("k", KEEP, counter(1n, U64_MAX, 0))],
    ["unit_invalid", restore("k", KEEP, counter(1n, U64_MAX, 7))],
    ["unit_invalid", restore("k", KEEP, buffer("x", 0n, 0))],
    ["flags_invalid", restore("k", KEEP, counter(1n), { flags: 1 })],
    ["flags_invalid", restore("k", KEEP, counter(1n), { once: "id" })],
    ["flags_invalid", restore("k", KEEP, counter(1n), { flags: 2 })],
    ["flags_invalid", restorePair(["k", ""], KEEP, counter(1n), 1)],
    ["kind_invalid", restorePair(["k", ""], KEEP, buffer("12345678"))],
    ["unit_invalid", restorePair(["k", ""], KEEP, counter(1n, U64_MAX, 2))],
    ["unit_invalid", restorePair(["k", ""], KEEP, counter(1n, U64_MAX, 5))],
    ["unit_invalid", restorePair(["k", ""], KEEP, counter(1n, U64_MAX, 6))],
    ["body_invalid", Uint8Array.of(RESTORE_PAIR, 0, 0, 0, 0, 0, 0, 0)],
  ])("restored records are refused: %s (%#)", (code, frame) => {
    const engine = engineOf();
    expect(reply(engine, frame).code).toBe(code);
    expect(engine.figures.records).toBe(0);
    expect(engine.isDirty).toBe(false);
  });
});

describe("a page of an export", () => {
  const rowBytes = ({ key, value }: ExportRow): number => 16 + key.length + (value?.length ?? 8);

  it("a page of an export has exactly the first records that fit behind a key", () => {
    const property = fc.property(
      fc.uniqueArray(fc.record({ key: name, record: recordArbitrary }), {
        maxLength: 150,
        selector: ({ key }) => key,
      }),
      fc.string({ unit: byte, maxLength: 1 }),
      fc.oneof(
        fc.constant<string[]>([]),
        fc.array(fc.string({ unit: byte, maxLength: 1 }), { minLength: 1, maxLength: 3 }),
      ),
      fc.option(name),
      fc.constantFrom(1, 2, 7, 10_000),
      fc.constantFrom(1, 100, 2000, 1 << 20),
      (records, prefix, prefixes, after, limit, bytesMax) => {
        const engine = engineOf();
        for (const { key, record } of records) outcome(engine, restore(key, KEEP, record));
        const matching = inOrder(
          records
            .filter(({ record }) => record.expiresNs > NOW_NS)
            .filter(({ key }) => key.startsWith(prefix) && (after === null || key > after))
            .filter(({ key }) => prefixes.length === 0 || prefixes.some((p) => key.startsWith(p)))
            .map(({ key, record }) => ({ key, ...record })),
        );
        const expected: ExportRow[] = [];
        let bytes = 0;
        for (const row of matching.slice(0, limit)) {
          bytes += rowBytes(row);
          if (bytes > bytesMax && expected.length > 0) break;
          expected.push(row);
        }
        const page = pageOf(engine, { prefix, prefixes, after, limit, bytesMax });
        expect(page.rows).toEqual(expected);
        expect(page.isLast).toBe(expected.length === matching.length);
      },
    );
    fc.assert(property, { seed, numRuns: runs(400) });
  });

  it.each([1, 255, 256, 257, 600, 10_000])(
    "a page of an export of many records is right at a limit of %i",
    (limit) => {
      const engine = engineOf();
      const keys = Array.from({ length: 3000 }, (_, i) => `${(i * 7919) % 3001}`);
      const frames = keys.map((key) => restore(key, KEEP, counter(1n)));
      engine.apply(batchIn([{ protocol: EDGE, frames }]), NOW_MS);
      const expected = keys.toSorted();
      const rowsMax = Math.min(limit, ORDERED_PAGE_ROWS_MAX);
      expect(pageOf(engine, { limit }).rows.map(({ key }) => key)).toEqual(
        expected.slice(0, rowsMax),
      );
      const behind = pageOf(engine, { limit, after: expected[1000]! });
      expect(behind.rows.map(({ key }) => key)).toEqual(expected.slice(1001, 1001 + rowsMax));
      const small = pageOf(engine, { limit, bytesMax: 1000 }).rows;
      expect(small.map(({ key }) => key)).toEqual(expected.slice(0, small.length));
    },
  );

  it("a page of an export has at least one record, however large", () => {
    const engine = engineOf();
    const large = "v".repeat(1_700_000);
    outcome(engine, restore("a", KEEP, buffer(large)));
    outcome(engine, restore("b", KEEP, buffer(large)));
    outcome(engine, restore("c", KEEP, counter(1n)));
    const { rows, pages } = rowsOf(engine);
    expect(rows.map(({ key, value }) => [key, value?.length])).toEqual([
      ["a", large.length],
      ["b", large.length],
      ["c", undefined],
    ]);
    expect(pages).toBe(3);
  });

  it("a page of an export of pairs goes by their consumers, without answers and keys", () => {
    const engine = engineOf();
    const pairs: Pair[] = [
      ["", ""],
      ["user", "r"],
      ["use", "r"],
      ["\x04", "\x01"],
      ["r", "user"],
      ["user:1", ""],
    ];
    for (const each of pairs) outcome(engine, restorePair(each, KEEP, counter(1n)));
    reply(engine, insert("user", 1n, FOREVER, { once: "id" }));
    const found = (prefix: string, prefixes: string[] = []): string[] =>
      rowsOf(engine, { keyspace: PAIR_KEYSPACE, prefix, prefixes, limit: 2 }).rows.map(
        ({ key }) => key,
      );
    const stored = (list: Pair[]): string[] => list.map(pairKey).toSorted();
    expect(found("")).toEqual(stored(pairs));
    expect(found("user")).toEqual(
      stored([
        ["user", "r"],
        ["user:1", ""],
      ]),
    );
    expect(found("", ["user"])).toEqual(
      stored([
        ["user", "r"],
        ["user:1", ""],
      ]),
    );
    expect(found("\x04")).toEqual(stored([["\x04", "\x01"]]));
    expect(rowsOf(engine).rows.map(({ key }) => key)).toEqual(["user"]);
  });
});
