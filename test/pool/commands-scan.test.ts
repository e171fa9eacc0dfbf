/** SCAN and REMOVE over all shards of a namespace, through the doors. */
import { abortAllDurableObjects, evictAllDurableObjects } from "cloudflare:test";
import { env } from "cloudflare:workers";
import fc from "fast-check";
import { describe, expect, inject, it } from "vitest";
import { InitialShards } from "../support/shards.ts";
import { parseSettings } from "../../src/base/settings.ts";
import { Command } from "../../src/wire/edge/command.ts";
import type { RecordPage } from "../../src/wire/edge/operations.ts";
import { refusalOf } from "../support/commands/calls.ts";
import {
  bytesOf,
  commandFrame,
  concat,
  FOREVER,
  increment,
  insert,
  type Pair,
  pairFrame,
  purge,
  remove,
  scan,
  scanPage,
  type ScanRow,
  set,
  ttlMs,
  u16,
} from "../support/frames/index.ts";
import { one, open, send, type Stub } from "../support/pool/binding.ts";
import { shardStub } from "../support/pool/shards.ts";

const seed = inject("seed");
const SHARDS = [0, 1, 2, 3];

let namespaces = 0;
const freshNamespace = (): string => `scans-${namespaces++}`;

/** All rows of a prefix, page by page, and how many pages they took. */
async function rowsOf(
  stub: Stub,
  prefix: string,
  recordsMax: number,
  between: () => Promise<void> = async () => {},
): Promise<{ rows: ScanRow[]; pages: number }> {
  const rows: ScanRow[] = [];
  for (let after: string | null = null, pages = 1; ; pages++) {
    const reply = await one(stub, scan(prefix, recordsMax, after));
    expect(reply.code).toBe("");
    const page = scanPage(reply.body);
    expect(page.rows.length).toBeLessThanOrEqual(recordsMax);
    rows.push(...page.rows);
    if (page.isLast) return { rows, pages };
    expect(page.rows).toHaveLength(recordsMax);
    after = page.rows.at(-1)!.key;
    await between();
  }
}

const keysOf = (rows: readonly ScanRow[]): string[] => rows.map(({ key }) => key);
const inOrder = (keys: Iterable<string>): string[] =>
  [...keys].toSorted((a, b) => (a < b ? -1 : a > b ? 1 : 0));

async function removeAll(stub: Stub, prefix: string, flags: number): Promise<number> {
  const { body, code } = await one(stub, remove(prefix, flags));
  expect(code).toBe("");
  expect(body).toHaveLength(8);
  return new DataView(body.buffer).getFloat64(0, true);
}

const figuresOf = async (namespace: string): Promise<{ records: number; bytes: number }> => {
  const all = await Promise.all(SHARDS.map((shard) => shardStub(shard, namespace).figures()));
  return {
    records: all.reduce((sum, { records }) => sum + records, 0),
    bytes: all.reduce((sum, { bytes }) => sum + bytes, 0),
  };
};

const byte = fc.constantFrom("\0", "a", "b", "\x80", "\xff");
const key = fc.oneof(
  { weight: 6, arbitrary: fc.string({ unit: byte, maxLength: 4 }) },
  { weight: 1, arbitrary: fc.tuple(byte, fc.nat(255)).map(([char, n]) => char.repeat(n)) },
);
const prefix = fc.string({ unit: byte, maxLength: 2 });

describe("SCAN", () => {
  it("SCAN gives all records of the prefixes in the order of their keys, whatever the pages", async () => {
    const property = fc.asyncProperty(
      fc.uniqueArray(key, { maxLength: 60 }),
      prefix,
      fc.oneof(fc.constant<string[]>([]), fc.array(prefix, { minLength: 1, maxLength: 3 })),
      fc.constantFrom(1, 2, 3, 7, 1000),
      async (keys, prefix, prefixes, recordsMax) => {
        const namespace = freshNamespace();
        const stub = open(namespace);
        await send(
          stub,
          ...keys.map((key, i) =>
            i % 2 === 0 ? insert(key, BigInt(i), FOREVER) : set(key, new Uint8Array(i), FOREVER),
          ),
        );
        // Prefixes of a grant are text: those of bytes above 0x7f are tested in the engine.
        const granted = prefixes.map((text) => text.replaceAll(/[\x80-\xff]/g, "a"));
        const reader = open(namespace, { scopes: ["read"], keyPrefixes: granted });
        const { rows } = await rowsOf(reader, prefix, recordsMax);
        const expected = keys.filter(
          (key) =>
            key.startsWith(prefix) &&
            (granted.length === 0 || granted.some((other) => key.startsWith(other))),
        );
        expect(keysOf(rows)).toEqual(inOrder(expected));
        for (const { key, kind, unit, value } of rows) {
          const i = keys.indexOf(key);
          expect([kind, unit, value]).toEqual([i % 2 === 0 ? 1 : 2, 6, BigInt(i)]);
        }
      },
    );
    await fc.assert(property, { seed, numRuns: 40 });
  });

  it("SCAN continues behind the empty key", async () => {
    const stub = open(freshNamespace());
    await send(stub, ...["", "\0", "a"].map((key) => insert(key, 1n, FOREVER)));
    expect(keysOf((await rowsOf(stub, "", 1)).rows)).toEqual(["", "\0", "a"]);
    const first = await stub.list({ limit: 1 });
    expect(first.cursor).toHaveLength(0);
    const second = await stub.list({ limit: 1, cursor: first.cursor! });
    expect(second.records.map(({ key }) => [...key])).toEqual([[0]]);
  });

  it("SCAN of 20,000 records takes 20 pages, and misses no record that stays", async () => {
    const namespace = freshNamespace();
    const stub = open(namespace);
    const keys = Array.from({ length: 20_000 }, (_, i) => `key:${(i * 7919) % 20_000}`);
    await stub.exchange(concat(keys.map((key) => insert(key, 1n, FOREVER))));
    const all = await rowsOf(stub, "", 1000);
    expect(keysOf(all.rows)).toEqual(inOrder(keys));
    expect(all.pages).toBe(20);
    let come = 0;
    let gone = 0;
    const { rows } = await rowsOf(stub, "key:", 999, async () => {
      await send(
        stub,
        ...Array.from({ length: 50 }, () => increment(`key:x${(come++ * 37) % 5000}`, 1n, FOREVER)),
        ...Array.from({ length: 30 }, () => purge(`key:x${(gone++ * 37) % 5000}`)),
      );
    });
    const listed = keysOf(rows);
    expect(listed).toEqual(inOrder(new Set(listed)));
    expect(listed.filter((key) => !key.startsWith("key:x"))).toEqual(inOrder(keys));
  });

  it("SCAN ends with a full page when that is the last", async () => {
    const stub = open(freshNamespace());
    expect(await rowsOf(stub, "", 5)).toEqual({ rows: [], pages: 1 });
    const keys = Array.from({ length: 10 }, (_, i) => `k${i}`);
    await send(stub, ...keys.map((key) => insert(key, 1n, FOREVER)));
    expect((await rowsOf(stub, "", 5)).pages).toBe(2);
    expect((await rowsOf(stub, "", 10)).pages).toBe(1);
    expect((await rowsOf(stub, "k", 9)).pages).toBe(2);
  });

  it("SCAN shows no expired records and no answers", async () => {
    const stub = open(freshNamespace());
    await send(
      stub,
      insert("gone", 1n, ttlMs(30)),
      insert("stays", 1n, FOREVER, { once: "id" }),
      set("buffer", bytesOf("x"), FOREVER, { once: "id" }),
    );
    await scheduler.wait(50);
    expect(keysOf((await rowsOf(stub, "", 10)).rows)).toEqual(["buffer", "stays"]);
  });

  it.each<[string, Uint8Array]>([
    ["limit_invalid", scan("", 0)],
    ["limit_invalid", scan("", 1001)],
    ["limit_invalid", scan("", 65_535)],
    ["body_invalid", commandFrame(Command.scan, "")],
    ["body_invalid", commandFrame(Command.scan, "", Uint8Array.of(1))],
    ["body_invalid", commandFrame(Command.scan, "", u16(1))],
    ["after_invalid", commandFrame(Command.scan, "", concat([u16(1), Uint8Array.of(0, 1)]))],
    ["options_invalid", commandFrame(Command.scan, "", concat([u16(1), Uint8Array.of(4)]))],
    ["after_invalid", scan("", 1, "x".repeat(256))],
    ["flags_invalid", scan("", 1, null, { flags: 1 })],
    ["flags_invalid", scan("", 1, null, { flags: 0x80 })],
    ["flags_invalid", scan("", 1, null, { once: "id" })],
    ["body_invalid", commandFrame(Command.remove, "")],
    ["body_invalid", commandFrame(Command.remove, "", Uint8Array.of(0, 0))],
    ["options_invalid", remove("", 2)],
    ["options_invalid", remove("", 255)],
    ["flags_invalid", remove("", 1, { flags: 1 })],
    ["flags_invalid", remove("", 1, { once: "id" })],
  ])("SCAN and REMOVE are refused: %s (%#)", async (code, frame) => {
    const stub = open(freshNamespace());
    await send(stub, insert("k", 1n, FOREVER));
    expect((await one(stub, frame)).code).toBe(code);
    expect((await rowsOf(stub, "", 10)).rows).toHaveLength(1);
  });

  it("SCAN takes the longest prefix, and continues behind the longest key", async () => {
    const stub = open(freshNamespace());
    const long = "\xff".repeat(255);
    await send(stub, insert(long, 1n, FOREVER), insert("\xff".repeat(254), 1n, FOREVER));
    expect(keysOf((await rowsOf(stub, long, 1)).rows)).toEqual([long]);
    expect(scanPage((await one(stub, scan("", 1, long))).body)).toEqual({ isLast: true, rows: [] });
  });
});

async function insertPairs(namespace: string, pairs: readonly Pair[]): Promise<void> {
  const body = concat(
    pairs.map((pair, id) =>
      pairFrame(id, { type: "insert", pair, quota: 1n, ttlType: 2, ttl: 1000n }),
    ),
  );
  const response = await open(namespace).fetch("http://localhost/throttr/2", {
    method: "POST",
    body,
  });
  expect(new Uint8Array(await response.arrayBuffer())).toHaveLength(5 * pairs.length);
}

describe("SCAN where a shard has more than 16,384 records", () => {
  it("SCAN of more than 16,384 records on a shard gives all of them, and earlier clients their order", async () => {
    const namespace = freshNamespace();
    const stub = open(namespace);
    const { SHARDS: shards, SHARD_SECRET: secret } = parseSettings(env);
    const map = new InitialShards(namespace, shards, secret);
    const ofShard0: string[] = [];
    for (let i = 0; ofShard0.length < 17_000; i++) {
      const bytes = bytesOf(`key:${i}`);
      if (map.shardOf(0, bytes, 0, bytes.length) === 0) ofShard0.push(`key:${i}`);
    }
    const keys = [...ofShard0, "rare:1", "rare:2", "rare:3"];
    await stub.exchange(concat(keys.map((key) => insert(key, 1n, FOREVER))));
    const listed: string[] = [];
    for (let cursor: Uint8Array | null = null; ;) {
      const page: RecordPage = await stub.list(cursor === null ? {} : { cursor });
      listed.push(...page.records.map(({ key }) => new TextDecoder().decode(key)));
      ({ cursor } = page);
      if (cursor === null) break;
      await evictAllDurableObjects();
    }
    expect(inOrder(listed)).toEqual(inOrder(keys));
    const rare: string[] = [];
    for (let query = "prefix=rare:&limit=1", pages = 0; ; pages++) {
      expect(pages).toBeLessThan(10);
      const response = await stub.fetch(`http://localhost/v1/records?${query}`);
      expect(response.status).toBe(200);
      const page = await response.json<{ records: { key: string }[]; cursor: string | null }>();
      rare.push(...page.records.map(({ key }) => key));
      if (page.cursor === null) break;
      query = `prefix=rare:&limit=1&cursor=${page.cursor}`;
    }
    expect(inOrder(rare)).toEqual(["rare:1", "rare:2", "rare:3"]);
    // A client of a release before 0.5.0 asks for pages in the order of keys.
    const { rows } = await rowsOf(stub, "key:1", 1000);
    expect(keysOf(rows)).toEqual(inOrder(keys.filter((key) => key.startsWith("key:1"))));
  });
});

describe("REMOVE", () => {
  const PAIRS: Pair[] = [
    ["user", "a"],
    ["user:1", "b"],
    ["other", "user"],
  ];

  it("REMOVE removes the records of a prefix, also after a restart", async () => {
    const namespace = freshNamespace();
    const stub = open(namespace);
    const keys = Array.from({ length: 300 }, (_, i) => `${i % 3 === 0 ? "keep" : "go"}:${i}`);
    await send(stub, ...keys.map((key) => insert(key, 1n, FOREVER)));
    expect(await removeAll(stub, "go:", 0)).toBe(200);
    const kept = inOrder(keys.filter((key) => key.startsWith("keep")));
    for (const restart of [async () => {}, evictAllDurableObjects, abortAllDurableObjects]) {
      await restart();
      expect(keysOf((await rowsOf(stub, "", 1000)).rows)).toEqual(kept);
    }
    expect(await removeAll(stub, "go:", 0)).toBe(0);
  });

  it("REMOVE of everything removes pairs, too, and frees the memory, in one namespace alone", async () => {
    const [namespace, other] = [freshNamespace(), freshNamespace()];
    const stub = open(namespace);
    const keys = Array.from({ length: 20_000 }, (_, i) => `key:${i}`);
    const body = concat(
      keys.map((key, i) =>
        i % 10 === 0 ? set(key, new Uint8Array(100), FOREVER) : insert(key, 1n, FOREVER),
      ),
    );
    for (const each of [namespace, other]) {
      await open(each).exchange(body);
      await insertPairs(each, PAIRS);
    }
    const [before, otherBefore] = [await figuresOf(namespace), await figuresOf(other)];
    expect(before.records).toBe(20_003);
    expect(await removeAll(stub, "", 0)).toBe(20_000);
    expect((await figuresOf(namespace)).records).toBe(3);
    expect(await removeAll(stub, "", 1)).toBe(3);
    const after = await figuresOf(namespace);
    expect(after.records).toBe(0);
    expect(after.bytes).toBeLessThan(10_000);
    expect(before.bytes).toBeGreaterThan(1_000_000);
    expect(await figuresOf(other)).toEqual(otherBefore);
    await abortAllDurableObjects();
    expect((await figuresOf(namespace)).records).toBe(0);
    expect((await figuresOf(other)).records).toBe(20_003);
  });

  it("REMOVE reaches only the prefixes of the grant, for keys and consumers of pairs", async () => {
    const namespace = freshNamespace();
    const stub = open(namespace);
    await send(stub, ...["user", "user:1", "other"].map((key) => insert(key, 1n, FOREVER)));
    await insertPairs(namespace, PAIRS);
    const limited = open(namespace, { scopes: ["admin"], keyPrefixes: ["user"] });
    expect(await removeAll(limited, "", 1)).toBe(4);
    expect(keysOf((await rowsOf(stub, "", 10)).rows)).toEqual(["other"]);
    expect((await figuresOf(namespace)).records).toBe(2);
    expect(await removeAll(limited, "other", 1)).toBe(0);
  });

  it("REMOVE of everything removes answers without counting them, and REMOVE of a prefix does not", async () => {
    const namespace = freshNamespace();
    const stub = open(namespace);
    const calls = ["user:1", "other"].map((key) => increment(key, 1n, FOREVER, { once: "id" }));
    await send(stub, ...calls);
    const quotas = async (): Promise<bigint[]> =>
      (await send(stub, ...calls)).map(({ body }) =>
        new DataView(body.buffer).getBigUint64(19, true),
      );
    expect(await removeAll(stub, "other", 0)).toBe(1);
    expect((await figuresOf(namespace)).records).toBe(3);
    // They have been applied: that one is gone since is no reason to apply it again.
    expect(await quotas()).toEqual([1n, 1n]);
    expect(await removeAll(open(namespace, { keyPrefixes: ["user:"] }), "", 1)).toBe(1);
    expect((await figuresOf(namespace)).records).toBe(1);
    await send(stub, increment("user:1", 5n, FOREVER), increment("other", 5n, FOREVER));
    expect(await quotas()).toEqual([6n, 1n]);
    expect(await removeAll(stub, "", 1)).toBe(2);
    expect((await figuresOf(namespace)).records).toBe(0);
  });

  it("REMOVE needs the scope admin", async () => {
    const namespace = freshNamespace();
    await send(open(namespace), insert("k", 1n, FOREVER));
    const writer = open(namespace, { scopes: ["read", "write"] });
    expect(await refusalOf(writer.exchange(remove("", 1)))).toMatch(/^scope_missing: .*admin/);
    expect(await refusalOf(writer.removeAll(""))).toMatch(/^scope_missing: .*admin/);
    expect(await open(namespace).removeAll("")).toBe(1);
  });
});
