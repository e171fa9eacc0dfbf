/** LIST and STATS: order, fragments, sizes from nothing to many, changes meanwhile. */
import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { parseSettings } from "../../src/base/settings.ts";
import {
  concat,
  FRAGMENT_BYTES_MAX,
  fragmentsNeeded,
  HOURS,
  LIST,
  parseFragments,
  SECONDS,
  STATS,
  U16,
} from "../support/frames/index.ts";
import { openPort, openSocket, post } from "../support/pool/doors.ts";
import { shardStub } from "../support/pool/shards.ts";
import { bearerOf } from "../support/pool/tokens.ts";
import { withSettings } from "../support/pool/variables.ts";
import { InitialShards } from "../support/shards.ts";

const LIST_SHAPE = { hasStatus: true, rowBytes: 13, hasNames: true };
const STATS_SHAPE = { hasStatus: true, rowBytes: 33, hasNames: true };

const inserts = (keys: readonly string[]): Uint8Array =>
  concat(keys.map((key) => U16.insert(key, 5, HOURS, 2n)));

const keysOf = (count: number): string[] =>
  Array.from({ length: count }, (_, i) => `key:${(i * 7919) % 1_000_003}`);

let namespaces = 0;

/** A door of a namespace of its own. */
async function freshHttp(claims = {}) {
  const ns = `list-${namespaces++}`;
  const headers = await bearerOf({ ns });
  const limited = await bearerOf({ ns, ...claims });
  const send = async (body: Uint8Array, bearer: HeadersInit = headers): Promise<Uint8Array> => {
    const response = await post("7.3", "uint16", body as BodyInit, bearer);
    expect(response.status).toBe(200);
    return new Uint8Array(await response.arrayBuffer());
  };
  return { ns, send, sendLimited: (body: Uint8Array) => send(body, limited) };
}

describe.each([
  ["LIST", LIST, LIST_SHAPE],
  ["STATS", STATS, STATS_SHAPE],
] as const)("%s", (_, request, shape) => {
  it.each([0, 1, 2, 200, 16_384, 20_000])(
    "a listing of %i keys has each key once",
    async (count) => {
      const { send } = await freshHttp();
      const keys = keysOf(count);
      if (count > 0) await send(inserts(keys));
      const fragments = parseFragments(await send(request), shape);
      expect(fragments.map(({ index }) => index)).toEqual(fragments.map((_fragment, i) => i + 1));
      for (const { bytes } of fragments) expect(bytes).toBeLessThanOrEqual(FRAGMENT_BYTES_MAX);
      const names = fragments.flatMap(({ rows }) => rows.map(({ name }) => name));
      const inOrder = keys.toSorted((a, b) => (a < b ? -1 : 1));
      if (count > 16_384) {
        expect(names.toSorted((a, b) => (a < b ? -1 : 1))).toEqual(inOrder);
      } else {
        expect(names).toEqual(inOrder);
        const sizes = inOrder.map((key) => shape.rowBytes + key.length);
        expect(fragments).toHaveLength(fragmentsNeeded(sizes));
      }
    },
  );

  it("a listing shows a token with key prefixes no other keys", async () => {
    const { send, sendLimited } = await freshHttp({ keyPrefixes: ["a:", "c"] });
    await send(inserts(["a:1", "b:1", "c", "a", "a:2"]));
    const names = parseFragments(await sendLimited(request), shape).flatMap(({ rows }) =>
      rows.map(({ name }) => name),
    );
    expect(names).toEqual(["a:1", "a:2", "c"]);
  });
});

describe("LIST", () => {
  it("LIST describes each record", async () => {
    const { send } = await freshHttp();
    const value = new Uint8Array(300).fill(7);
    const beforeMs = Date.now();
    await send(
      concat([
        inserts(["counter"]),
        U16.set("buffer", value, SECONDS, 90n),
        U16.insert("gone", 1, SECONDS, 0n),
      ]),
    );
    const [fragment] = parseFragments(await send(LIST), LIST_SHAPE);
    const rows = fragment!.rows.map(({ row, name }) => {
      const view = new DataView(row.buffer, row.byteOffset, row.byteLength);
      const atMs = Number(view.getBigUint64(2, true) / 1_000_000n);
      return { name, type: row[0], ttlType: row[1], atMs, used: view.getUint16(10, true) };
    });
    expect(rows).toMatchObject([
      { name: "buffer", type: 1, ttlType: 4, used: 300 },
      { name: "counter", type: 0, ttlType: HOURS, used: 2 },
    ]);
    expect(rows[0]!.atMs - beforeMs - 90_000).toBeLessThan(5000);
    expect(rows[1]!.atMs - beforeMs - 7_200_000).toBeLessThan(5000);
    expect(rows[0]!.atMs).toBeGreaterThanOrEqual(beforeMs + 90_000);
  });

  it("LIST shows the used bytes up to the maximum of N", async () => {
    const { ns, send } = await freshHttp();
    const value = new Uint8Array(300);
    await send(U16.set("k", value, HOURS, 1n));
    const response = await post("7.3", "uint8", LIST, await bearerOf({ ns }));
    const answer = new Uint8Array(await response.arrayBuffer());
    const [fragment] = parseFragments(answer, { ...LIST_SHAPE, rowBytes: 12 });
    expect(fragment!.rows[0]!.row[10]).toBe(255);
  });

  it("LIST has keys of all lengths and bytes, in the order of their bytes", async () => {
    const { send } = await freshHttp();
    const keys = ["", "\0", "\0\0", "a", "a\0", "a\xff", "b", "\xff".repeat(255)];
    for (let length = 2; length < 255; length += 9) keys.push("k".repeat(length));
    await send(inserts(keys));
    const names = parseFragments(await send(LIST), LIST_SHAPE).flatMap(({ rows }) =>
      rows.map(({ name }) => name),
    );
    expect(names).toEqual(keys.toSorted((a, b) => (a < b ? -1 : 1)));
  });

  it("LIST is answered between earlier and later requests, over each door", async () => {
    const batch = concat([inserts(["x"]), LIST, U16.purge("x"), LIST, U16.query("x")]);
    const expected = 1 + (9 + 16 + 13 + 1) + 1 + 9 + 1;
    const { send } = await freshHttp();
    expect((await send(batch)).length).toBe(expected);
    const token = (await bearerOf({ ns: `list-${namespaces++}` })).authorization;
    const door = await openSocket("/throttr/7.3/uint16", { authorization: token });
    const reply = await door.exchange(batch, expected);
    expect(reply[0]).toBe(1);
    expect(parseFragments(reply.subarray(1, 40), LIST_SHAPE)[0]!.rows[0]!.name).toBe("x");
    expect(parseFragments(reply.subarray(41, 50), LIST_SHAPE)).toEqual([]);
    expect(reply[50]).toBe(0);
    await door.close();
    const tcp = await openPort(9002);
    expect((await tcp.exchange(batch, expected)).length).toBe(expected);
    await tcp.close();
  });

  it("LIST of many keys has all that stay, though others come and go meanwhile", async () => {
    const { ns, send } = await freshHttp();
    const headers = await bearerOf({ ns });
    const keys = keysOf(30_000);
    await send(inserts(keys));
    const response = await post("7.3", "uint16", LIST, headers);
    const reader = response.body!.getReader();
    const chunks: Uint8Array[] = [];
    const gone = new Set<string>();
    for (let round = 0; ; round++) {
      const { value, done } = await reader.read();
      if (done) break;
      chunks.push(value);
      const some = keys.slice(round * 700, round * 700 + 350);
      for (const key of some) gone.add(key);
      if (some.length === 0) continue;
      const fresh = Array.from({ length: 1500 }, (_, i) => `fresh:${round}:${i}`);
      await send(concat([...some.map((key) => U16.purge(key)), inserts(fresh)]));
    }
    const fragments = parseFragments(concat(chunks), LIST_SHAPE);
    const names = fragments.flatMap(({ rows }) => rows.map(({ name }) => name));
    expect(new Set(names).size).toBe(names.length);
    const listed = new Set(names);
    expect(keys.filter((key) => !gone.has(key) && !listed.has(key))).toEqual([]);
    expect(gone.size).toBeGreaterThan(1000);
  });

  it("LIST waits for the disk, so that what it shows survives a crash", async () => {
    const { ns, send } = await freshHttp();
    await send(inserts(["seen"]));
    const shards = [0, 1, 2, 3].map((index) => shardStub(index, ns));
    let isDurable = false;
    const { promise, resolve } = Promise.withResolvers<void>();
    for (const shard of shards) {
      await runInDurableObject(shard, (_instance, { storage }) => {
        const sync = storage.sync.bind(storage);
        storage.sync = async () => {
          await promise;
          await sync();
        };
      });
    }
    // The first write finds the disk idle; the second one waits for the first.
    const keys = keysOf(20);
    const first = send(inserts(keys));
    await scheduler.wait(20);
    const second = send(inserts(keys.map((key) => `${key}'`)));
    await scheduler.wait(20);
    const listed = send(LIST).then((answer) => {
      expect(isDurable).toBe(true);
      return parseFragments(answer, LIST_SHAPE).flatMap(({ rows }) => rows);
    });
    await scheduler.wait(50);
    isDurable = true;
    resolve();
    expect((await listed).length).toBe(41);
    await Promise.all([first, second]);
  });

  it("LIST of a namespace whose data was written with another secret is refused", async () => {
    const { ns } = await freshHttp();
    const { SHARDS } = parseSettings(env);
    await withSettings({ SHARD_SECRET: "another" }, async () => {
      await shardStub(0, ns).claim(new InitialShards(ns, SHARDS, "another").placement);
    });
    const response = await post("7.3", "uint16", LIST, await bearerOf({ ns }));
    expect(response.status).toBe(503);
    expect(await response.json()).toMatchObject({ code: "shards_mismatch" });
  });
});
