/** RESTORE and EXPORT over the doors: rights, prefixes, shards, limits; a namespace that is moved. */
import { abortAllDurableObjects, reset } from "cloudflare:test";
import { env, exports } from "cloudflare:workers";
import fc from "fast-check";
import { afterEach, beforeAll, describe, expect, inject, it } from "vitest";
import { serviceBinding } from "../../src/client/transport/binding.ts";
import { ThrottrClient } from "../../src/client/client.ts";
import { InitialShards } from "../support/shards.ts";
import { readSettings } from "../../src/base/settings.ts";
import { Keyspace } from "../../src/wire/keyspace.ts";
import type {
  ExportedKey,
  ExportedRecord,
  ExportOptions,
  StoredRecord,
} from "../../src/wire/edge/transfer.ts";
import { refusalOf } from "../support/commands/calls.ts";
import {
  BUFFER,
  bytesOf,
  commandFrame,
  commandReplies,
  concat,
  configurationBytes,
  COUNTER,
  EXPORT,
  type ExportAsked,
  exportFrame,
  type ExportRow,
  exportRows,
  FOREVER,
  hex,
  insert,
  KEEP,
  limit,
  type Pair,
  pairFrame,
  pairKey,
  REPLACE,
  restore,
  RESTORED,
  restorePair,
  set,
  ttlMs,
  u16,
  u32,
  unhex,
} from "../support/frames/index.ts";
import { one, open, send, type Stub } from "../support/pool/binding.ts";
import { openPort, openSocket, post } from "../support/pool/doors.ts";
import { shardStub } from "../support/pool/shards.ts";
import { bearerOf } from "../support/pool/tokens.ts";
import { U64_MAX } from "../support/models/values.ts";

const server = exports.default as unknown as Fetcher;
const seed = inject("seed");
const PATH = "/throttr/edge";
const PORT = 9031;
const SHARDS = 4;
const END_NS = BigInt(Date.now() + 3_600_000) * 1_000_000n + 123_456n;
const COUNTER_5 = { kind: COUNTER, unit: 4, expiresNs: END_NS, quota: 5n } as const;
const BUFFER_X = { kind: BUFFER, unit: 6, expiresNs: END_NS, value: "x" } as const;

let namespaces = 0;
const freshNamespace = (): string => `transfer-${namespaces++}`;

beforeAll(() => {
  Object.assign(readSettings(env), { TCP_PORTS: `${PORT}=edge` });
});
afterEach(async () => {
  await reset();
});

/** All rows, page by page. */
async function rowsOf(stub: Stub, asked: ExportAsked = {}): Promise<ExportRow[]> {
  const rows: ExportRow[] = [];
  for (let after: string | null = null; ;) {
    const { body, code } = await one(stub, exportFrame({ ...asked, after }));
    expect(code).toBe("");
    const page = exportRows(body);
    rows.push(...page.rows);
    if (page.isLast) return rows;
    expect(page.rows.length).toBeGreaterThan(0);
    after = page.rows.at(-1)!.key;
  }
}

const byKey = (rows: readonly ExportRow[]): ExportRow[] =>
  rows.toSorted((a, b) => (a.key < b.key ? -1 : a.key > b.key ? 1 : 0));

async function recordsOf(
  source: { exportPage: (options: ExportOptions) => Promise<unknown> },
  options: ExportOptions = {},
): Promise<ExportedRecord[]> {
  const records: ExportedRecord[] = [];
  let cursor: ExportedKey | undefined;
  for (;;) {
    const asked: ExportOptions = cursor === undefined ? options : { ...options, cursor };
    const page = (await source.exportPage(asked)) as {
      records: ExportedRecord[];
      cursor: ExportedKey | null;
    };
    records.push(...page.records);
    if (page.cursor === null) return records;
    cursor = page.cursor;
  }
}

async function insertPairs(namespace: string, pairs: readonly Pair[]): Promise<void> {
  const body = concat(
    pairs.map((pair, id) =>
      pairFrame(id, { type: "insert", pair, quota: BigInt(id), ttlType: 2, ttl: 1000n }),
    ),
  );
  const response = await open(namespace).fetch("http://localhost/throttr/2", {
    method: "POST",
    body,
  });
  expect(new Uint8Array(await response.arrayBuffer())).toHaveLength(5 * pairs.length);
}

const byte = fc.constantFrom("\0", "a", "b", "\x80", "\xff");
const name = fc.oneof(
  { weight: 6, arbitrary: fc.string({ unit: byte, maxLength: 4 }) },
  { weight: 1, arbitrary: fc.tuple(byte, fc.nat(255)).map(([char, n]) => char.repeat(n)) },
);
const stored = {
  unit: fc.integer({ min: 1, max: 6 }),
  expiresNs: fc.bigInt({ min: END_NS, max: U64_MAX }),
};
const record = fc.oneof(
  fc.record({
    kind: fc.constant(COUNTER),
    quota: fc.bigInt({ min: 0n, max: U64_MAX }),
    ...stored,
  }),
  fc.record({
    kind: fc.constant(BUFFER),
    value: fc.string({ unit: byte, maxLength: 40 }),
    ...stored,
  }),
);
const pairRecord = fc.record({
  kind: fc.constant(COUNTER),
  quota: fc.bigInt({ min: 0n, max: U64_MAX }),
  unit: fc.constantFrom(1, 3, 4),
  expiresNs: stored.expiresNs,
});

describe("a moved namespace", () => {
  it("a moved namespace has the same records, whatever the pages, and after a crash", async () => {
    const property = fc.asyncProperty(
      fc.uniqueArray(fc.tuple(name, record), { maxLength: 40, selector: ([key]) => key }),
      fc.uniqueArray(fc.tuple(fc.tuple(name, name), pairRecord), {
        maxLength: 20,
        selector: ([pair]) => pairKey(pair),
      }),
      fc.constantFrom(1, 3, 10_000),
      fc.constantFrom(1, 200, 1 << 20),
      async (plain, pairs, limit, bytesMax) => {
        const [from, to] = [open(freshNamespace()), open(freshNamespace())];
        const replies = await send(
          from,
          ...plain.map(([key, record]) => restore(key, KEEP, record)),
          ...pairs.map(([pair, record]) => restorePair(pair, KEEP, record)),
        );
        expect(replies.every(({ body }) => body[0] === RESTORED)).toBe(true);
        const page = { limit, bytesMax };
        const moved = [await rowsOf(from, page), await rowsOf(from, { ...page, isPairs: true })];
        expect(byKey(moved[0]!)).toEqual(byKey(plain.map(([key, record]) => ({ key, ...record }))));
        expect(byKey(moved[1]!)).toEqual(
          byKey(pairs.map(([pair, record]) => ({ key: pairKey(pair), ...record }))),
        );
        const records = [...(await recordsOf(from)), ...(await recordsOf(from, { pairs: true }))];
        const results = await Promise.all(records.map((record) => to.restore(record)));
        expect(new Set(results)).toEqual(new Set(records.length === 0 ? [] : ["restored"]));
        await abortAllDurableObjects();
        // They lie in shards of another namespace there, so they come in another order.
        expect(byKey(await rowsOf(to, page))).toEqual(byKey(moved[0]!));
        expect(byKey(await rowsOf(to, { ...page, isPairs: true }))).toEqual(byKey(moved[1]!));
      },
    );
    await fc.assert(property, { seed, numRuns: 25 });
  });

  it("an export has counters, buffers, limits and pairs as they were written, and no answers", async () => {
    const namespace = freshNamespace();
    const stub = open(namespace);
    const bucket = configurationBytes({ strategy: "token_bucket", burst: 3, rate: 1 });
    await send(
      stub,
      insert("counter", 7n, FOREVER, { once: "id" }),
      set("buffer", bytesOf("value"), ttlMs(60_000)),
      limit("api:ada", bucket, 1),
      insert("gone", 1n, ttlMs(1)),
    );
    await insertPairs(namespace, [["ab", "c"]]);
    await scheduler.wait(20);
    const rows = byKey(await rowsOf(stub));
    expect(rows.map(({ key, kind, unit }) => [key, kind, unit])).toEqual([
      ["api:ada", BUFFER, 4],
      ["buffer", BUFFER, 3],
      ["counter", COUNTER, 6],
    ]);
    expect(rows[0]!.value).toMatch(/^12\|2\|/);
    const [pair] = await rowsOf(stub, { isPairs: true });
    expect(pair).toMatchObject({ key: "\x02\x01abc", kind: COUNTER, unit: 4, quota: 0n });
  });

  it("an export has every record that stays once, whatever comes and goes meanwhile", async () => {
    const stub = open(freshNamespace());
    const staying = Array.from({ length: 300 }, (_, i) => `stay:${i}`);
    await send(stub, ...staying.map((key) => insert(key, 1n, FOREVER)));
    const seen: string[] = [];
    for (let after: string | null = null, i = 0; ; i++) {
      const page = exportRows((await one(stub, exportFrame({ limit: 7, after }))).body);
      seen.push(...page.rows.map(({ key }) => key));
      if (page.isLast) break;
      after = page.rows.at(-1)!.key;
      await send(stub, insert(`come:${i}`, 1n, FOREVER), insert(`zzz:${i}`, 1n, FOREVER));
      if (i % 3 === 0) await stub.purge(`come:${i}`);
    }
    expect(new Set(seen).size).toBe(seen.length);
    expect(seen.filter((key) => key.startsWith("stay:")).toSorted()).toEqual(staying.toSorted());
  });

  it("an export goes shard by shard, each by key, so that any key is a place to continue, also of a removed record", async () => {
    const namespace = freshNamespace();
    const stub = open(namespace);
    const map = new InitialShards(namespace, SHARDS, "");
    const keys = Array.from({ length: 100 }, (_, i) => `k${i}`);
    const shardOf = (key: string): number =>
      map.shardOf(Keyspace.throttr, bytesOf(key), 0, key.length);
    await send(stub, ...keys.map((key) => insert(key, 1n, FOREVER)));
    const expected = keys.toSorted((a, b) => shardOf(a) - shardOf(b) || (a < b ? -1 : 1));
    const rows = await rowsOf(stub, { limit: 10 });
    expect(rows.map(({ key }) => key)).toEqual(expected);
    const after = expected[60]!;
    const behind: string[] = [];
    for (let key: string | null = after; ;) {
      // The place is that of the key, whether or not there is still a record under it.
      await stub.purge(key);
      const page = exportRows((await one(stub, exportFrame({ limit: 7, after: key }))).body);
      behind.push(...page.rows.map(({ key }) => key));
      if (page.isLast) break;
      key = behind.at(-1)!;
    }
    expect(behind).toEqual(expected.slice(61));
    expect((await shardStub(shardOf(after), namespace).figures()).records).toBeGreaterThan(0);
  });
});

describe("the doors", () => {
  const frames = [
    restore("user:1", KEEP, COUNTER_5),
    restore("user:1", KEEP, BUFFER_X),
    restore("user:1", REPLACE, BUFFER_X),
    restorePair(["user:1", "r"], KEEP, COUNTER_5),
    restore("user:2", KEEP, { ...COUNTER_5, expiresNs: 1n }),
    restore("user:2", 9, COUNTER_5),
    exportFrame(),
    exportFrame({ isPairs: true }),
  ];

  it("all doors give the same replies to RESTORE and EXPORT", async () => {
    const texts = async (ns: string, over: (ns: string) => Promise<Uint8Array>) =>
      commandReplies(await over(ns)).map(({ bytes }) => hex(bytes));
    const rpc = await texts(freshNamespace(), (ns) => open(ns).exchange(concat(frames)));
    const replyBytes = rpc.reduce((sum, reply) => sum + reply.length / 2, 0);
    const http = await texts(freshNamespace(), async (ns) => {
      const headers = await bearerOf({ ns });
      const response = await server.fetch(`http://localhost${PATH}`, {
        method: "POST",
        body: concat(frames),
        headers,
      });
      return new Uint8Array(await response.arrayBuffer());
    });
    const socket = await texts(freshNamespace(), async (ns) => {
      const door = await openSocket(PATH, await bearerOf({ ns }));
      const replies = await door.exchange(concat(frames), replyBytes);
      await door.close();
      return replies;
    });
    const tcp = await texts("default", async () => {
      const door = await openPort(PORT);
      const replies = await door.exchange(concat(frames), replyBytes);
      await door.close();
      return replies;
    });
    const codes = commandReplies(unhex(rpc.join("")));
    expect(codes.map(({ code, body }) => (code === "" ? body[0] : code))).toEqual([
      1,
      0,
      1,
      1,
      2,
      "policy_invalid",
      1,
      1,
    ]);
    expect([http, socket, tcp]).toEqual([rpc, rpc, rpc]);
  });

  it("only the edge dialect knows RESTORE and EXPORT", async () => {
    for (const frame of frames) {
      const response = await post("7.3", "uint64", frame);
      expect(await response.json()).toMatchObject({ code: "request_type_unknown" });
    }
  });
});

describe("rights", () => {
  it("RESTORE needs write and EXPORT read, and no other scopes", async () => {
    const ns = freshNamespace();
    const needs: [string, string, Uint8Array][] = [
      ["RESTORE", "write", restore("k", KEEP, COUNTER_5)],
      ["RESTORE_PAIR", "write", restorePair(["k", "r"], KEEP, COUNTER_5)],
      ["EXPORT", "read", exportFrame()],
    ];
    const all = ["read", "write", "publish", "subscribe", "admin"];
    for (const [name, scope, frame] of needs) {
      const others = all.filter((other) => other !== scope);
      const refused = await refusalOf(open(ns, { scopes: others }).exchange(frame));
      expect(refused).toContain(`scope_missing: ${name} at byte 0 needs the scope ${scope}`);
      expect((await one(open(ns, { scopes: [scope] }), frame)).code).toBe("");
    }
    const writer = open(ns, { scopes: ["write"] });
    expect(await refusalOf(writer.exportPage())).toMatch(/^scope_missing: /);
    const reader = open(ns, { scopes: ["read"] });
    const record = {
      key: "k",
      kind: "counter",
      quota: 1n,
      unit: "s",
      expiresAtNs: END_NS,
    } as const;
    expect(await refusalOf(reader.restore(record))).toMatch(/^scope_missing: /);
  });

  it("RESTORE needs a key or consumer with a prefix of the token, and EXPORT shows only those", async () => {
    const ns = freshNamespace();
    const owner = open(ns);
    const names = ["user:1", "user:", "user", "other", ""];
    await send(
      owner,
      ...names.map((key) => restore(key, KEEP, COUNTER_5)),
      ...names.map((key) => restorePair([key, "user:"], KEEP, COUNTER_5)),
    );
    const limited = open(ns, { keyPrefixes: ["user:", "x"] });
    expect(byKey(await rowsOf(limited)).map(({ key }) => key)).toEqual(["user:", "user:1"]);
    expect((await rowsOf(limited, { isPairs: true })).map(({ key }) => key).toSorted()).toEqual(
      [pairKey(["user:", "user:"]), pairKey(["user:1", "user:"])].toSorted(),
    );
    expect(await rowsOf(limited, { prefix: "other" })).toEqual([]);
    for (const frame of [
      restore("user", REPLACE, COUNTER_5),
      restore("", REPLACE, COUNTER_5),
      restorePair(["user", "user:"], REPLACE, COUNTER_5),
      restorePair(["", "user:"], REPLACE, COUNTER_5),
    ]) {
      expect(await refusalOf(limited.exchange(frame))).toMatch(/^prefix_missing: /);
    }
    const door = await openSocket(PATH, await bearerOf({ ns, keyPrefixes: ["user:"] }));
    const mixed = [
      restore("user:2", KEEP, COUNTER_5),
      restore("other:2", KEEP, COUNTER_5),
      restorePair(["user:2", ""], KEEP, COUNTER_5),
      restorePair(["other", "user:"], REPLACE, { ...COUNTER_5, quota: 99n }),
    ];
    const text = "prefix_missing: RESTORE may only use keys that begin with user:";
    const pairText = text.replace("RESTORE", "RESTORE_PAIR");
    const replies = commandReplies(
      await door.exchange(concat(mixed), 6 + 5 + text.length + 6 + 5 + pairText.length),
    );
    await door.close();
    expect(replies.map(({ code }) => code)).toEqual(["", "prefix_missing", "", "prefix_missing"]);
    const pairs = await rowsOf(owner, { isPairs: true, prefix: "other" });
    expect(pairs.map(({ quota }) => quota)).toEqual([5n]);
  });

  it("a token with write alone learns nothing of a value by RESTORE", async () => {
    const ns = freshNamespace();
    await open(ns).set("k", "a secret", { ttlMs: 60_000 });
    const writer = open(ns, { scopes: ["write"] });
    for (const policy of [KEEP, REPLACE]) {
      const { bytes } = await one(writer, restore("k", policy, { ...BUFFER_X, expiresNs: 1n }));
      expect(bytes).toHaveLength(6);
    }
  });
});

describe("limits", () => {
  const raw = (limit: number, bytesMax: number, options: number, after = ""): Uint8Array =>
    commandFrame(
      EXPORT,
      "",
      concat([u16(limit), u32(bytesMax), Uint8Array.of(options), bytesOf(after)]),
    );

  it.each<[string, Uint8Array]>([
    ["body_invalid", commandFrame(EXPORT, "")],
    ["body_invalid", commandFrame(EXPORT, "", new Uint8Array(6))],
    ["limit_invalid", raw(0, 1, 0)],
    ["limit_invalid", raw(10_001, 1, 0)],
    ["limit_invalid", raw(65_535, 1, 0)],
    ["bytes_max_invalid", raw(1, 0, 0)],
    ["bytes_max_invalid", raw(1, (1 << 20) + 1, 0)],
    ["bytes_max_invalid", raw(1, 0xffffffff, 0)],
    ["options_invalid", raw(1, 1, 4)],
    ["options_invalid", raw(1, 1, 0xff)],
    ["after_invalid", raw(1, 1, 0, "x")],
    ["after_invalid", raw(1, 1, 1, "x".repeat(256))],
    ["after_invalid", raw(1, 1, 2, "\0\0")],
    ["after_invalid", raw(1, 1, 3, "")],
    ["after_invalid", raw(1, 1, 3, "\0")],
    ["after_invalid", raw(1, 1, 3, "\x01\0")],
    ["after_invalid", raw(1, 1, 3, "\0\0x")],
    ["flags_invalid", commandFrame(EXPORT, "", raw(1, 1, 0).slice(7), { flags: 1 })],
  ])("EXPORT is refused: %s (%#)", async (code, frame) => {
    const stub = open(freshNamespace());
    await send(stub, insert("k", 1n, FOREVER));
    expect((await one(stub, frame)).code).toBe(code);
  });

  it("EXPORT fills a page from as many shards as it needs", async () => {
    const stub = open(freshNamespace());
    const keys = Array.from({ length: 50 }, (_, i) => `k${i}`);
    await send(stub, ...keys.map((key) => insert(key, 1n, FOREVER)));
    const page = async (asked: ExportAsked) =>
      exportRows((await one(stub, exportFrame(asked))).body);
    const all = await page({});
    expect([all.rows.length, all.isLast]).toEqual([50, true]);
    expect([(await page({ limit: 50 })).isLast, (await page({ limit: 49 })).isLast]).toEqual([
      true,
      false,
    ]);
    for (let limit = 1; limit <= 50; limit++) {
      expect((await page({ limit })).rows).toEqual(all.rows.slice(0, limit));
    }
    expect(await page({ after: all.rows.at(-1)!.key })).toEqual({ rows: [], isLast: true });
  });

  it("EXPORT ends a page before the record that is too large for it, also where the record is another shard's", async () => {
    const stub = open(freshNamespace());
    const keys = Array.from({ length: 50 }, (_, i) => `k${i}`);
    await send(stub, ...keys.map((key) => insert(key, 1n, FOREVER)));
    const page = async (asked: ExportAsked) =>
      exportRows((await one(stub, exportFrame(asked))).body);
    const { rows } = await page({});
    const bytes = rows.map(({ key }) => 16 + key.length + 8);
    for (let bytesMax = 1; bytesMax < 50 * 27; bytesMax += 5) {
      let count = 0;
      for (let sum = bytes[0]!; sum <= bytesMax && count < 50; sum += bytes[count]!) count++;
      const expected = rows.slice(0, Math.max(1, count));
      expect((await page({ bytesMax })).rows).toEqual(expected);
    }
  });

  it("EXPORT takes the longest keys and pairs, and continues behind them", async () => {
    const stub = open(freshNamespace());
    const long = "\xff".repeat(255);
    await send(
      stub,
      restore(long, KEEP, COUNTER_5),
      restore("", KEEP, COUNTER_5),
      restorePair([long, long], KEEP, COUNTER_5),
      restorePair(["", ""], KEEP, COUNTER_5),
    );
    expect((await rowsOf(stub, { limit: 1 })).map(({ key }) => key).toSorted()).toEqual(["", long]);
    const pairs = (await rowsOf(stub, { limit: 1, isPairs: true })).map(({ key }) => key);
    expect(pairs.toSorted()).toEqual(["\0\0", pairKey([long, long])]);
    expect(await rowsOf(stub, { prefix: long })).toHaveLength(1);
  });

  it("a value as large as a frame is moved, in a page of its own", async () => {
    const [from, to] = [freshNamespace(), freshNamespace()];
    const value = new Uint8Array((1 << 20) - 40).map((_, i) => i * 7);
    const ends = { unit: "ms", expiresAtNs: END_NS } as const;
    const client = new ThrottrClient(serviceBinding(open(from) as never));
    for (const key of ["a", "b", "c"]) {
      expect(await client.restore({ key, kind: "buffer", value, ...ends })).toBe("restored");
    }
    const records = await recordsOf(client);
    expect(records).toHaveLength(3);
    const other = open(to);
    for (const record of records) expect(await other.restore(record)).toBe("restored");
    expect((await other.get("b"))!.value).toEqual(value);
    const tooLarge = { key: "d", kind: "buffer", value: new Uint8Array(1 << 20), ...ends } as const;
    expect(await refusalOf(other.restore(tooLarge))).toMatch(/^frame_too_large: /);
    await client.close();
  });
});

describe("the operations", () => {
  const counter: StoredRecord = {
    key: "k",
    kind: "counter",
    quota: 5,
    unit: "h",
    expiresAtNs: END_NS,
  };

  it("the operation restore returns what became of a record, also in a batch", async () => {
    const stub = open(freshNamespace());
    expect(await stub.restore(counter)).toBe("restored");
    expect(await stub.restore({ ...counter, quota: 6n })).toBe("kept");
    expect(await stub.restore({ ...counter, quota: 7n }, { policy: "replace" })).toBe("restored");
    expect(await stub.restore({ ...counter, expiresAtNs: 1n }, { policy: "replace" })).toBe(
      "expired",
    );
    const outcomes = await stub.batch([
      ["restore", { ...counter, key: ["consumer", "resource"], unit: "s" }],
      ["restore", { ...counter, key: "b", kind: "buffer", value: "text" }, { policy: "replace" }],
      ["exportPage", { pairs: true }],
      ["query", "k"],
    ]);
    expect(outcomes.map((outcome) => outcome.ok)).toEqual([true, true, true, true]);
    expect(outcomes[3]).toMatchObject({
      value: { quota: 7n, expiresAtMs: Number(END_NS / 1_000_000n) + 1 },
    });
    const encoder = new TextEncoder();
    const [pair] = await recordsOf(stub, { pairs: true });
    expect(pair).toEqual({
      key: [encoder.encode("consumer"), encoder.encode("resource")],
      kind: "counter",
      quota: 5n,
      unit: "s",
      expiresAtNs: END_NS,
    });
    const buffer = (await recordsOf(stub, { prefix: "b" }))[0];
    expect(buffer).toEqual({
      key: encoder.encode("b"),
      kind: "buffer",
      value: encoder.encode("text"),
      unit: "h",
      expiresAtNs: END_NS,
    });
  });

  it("the operation export returns pages by cursor, from any record", async () => {
    const stub = open(freshNamespace());
    await Promise.all(["a", "b", "c"].map((key) => stub.restore({ ...counter, key })));
    const all = await recordsOf(stub);
    const paged = await recordsOf(stub, { limit: 1 });
    expect(paged).toEqual(all);
    const rest = await recordsOf(stub, { cursor: all[0]!.key });
    expect(rest).toEqual(all.slice(1));
  });
});
