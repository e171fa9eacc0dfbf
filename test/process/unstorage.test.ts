/** The driver of unstorage, with the real library on a real server; its contract is that of the library's documents. */
import { createStorage, prefixStorage, snapshot, type Driver, type Storage } from "unstorage";
import { afterAll, beforeAll, beforeEach, describe, expect, expectTypeOf, it, vi } from "vitest";
import { sign } from "hono/jwt";
import { WebSocket } from "ws";
import { http, ThrottrClient, webSocket, type ThrottrService } from "throttr-edge/client";
import { startThrottr, type TestServer } from "throttr-edge/testing";
import {
  throttrDriver,
  type ThrottrDriver,
  type ThrottrDriverOptions,
} from "throttr-edge/unstorage";

const CHANNEL = "storage-changes";
const SECRET = "test-secret";

let server: TestServer;
let storage: Storage;

const open = (options: Partial<ThrottrDriverOptions> = {}): Storage =>
  createStorage({ driver: throttrDriver({ throttr: server.client, ...options }) });

const watching = (options: Partial<ThrottrDriverOptions> = {}): Storage =>
  open({ channel: CHANNEL, subscriber: server.client, ...options });

beforeAll(async () => {
  server = await startThrottr({ variables: { SHARDS: "2", TOKEN_SECRET: SECRET } });
});

afterAll(async () => {
  await server.close();
});

beforeEach(async () => {
  await server.flush();
  storage = open();
});

it("the driver of unstorage has the library's interface, and runs on bindings and clients", () => {
  expectTypeOf<ThrottrDriver>().toExtend<Driver>();
  expectTypeOf<ThrottrService>().toExtend<ThrottrDriverOptions["throttr"]>();
});

describe("values", () => {
  it.each([
    ["text", "hällo\n\0"],
    ["empty text", ""],
    ["a number", 42],
    ["false", false],
    ["an object", { nested: [1, { deep: null }] }],
    ["a text like a number", "007"],
  ])("storage gives back %s as it was set", async (_, value) => {
    await storage.setItem("value", value);
    expect(await storage.getItem("value")).toEqual(value);
    expect(await storage.hasItem("value")).toBe(true);
  });

  it("storage gives null for a key that was never set, or was removed", async () => {
    expect(await storage.getItem("none")).toBeNull();
    expect(await storage.getItemRaw("none")).toBeNull();
    await storage.setItem("gone", "x");
    await storage.removeItem("gone");
    expect(await storage.getItem("gone")).toBeNull();
    expect(await storage.hasItem("gone")).toBe(false);
    await storage.removeItem("gone");
  });

  it("storage removes a key that is set to undefined", async () => {
    await storage.setItem("k", "x");
    await storage.setItem("k", undefined as never);
    expect(await storage.hasItem("k")).toBe(false);
  });

  it("storage keeps bytes of all values, of any kind of buffer", async () => {
    const bytes = Uint8Array.from({ length: 256 }, (_, i) => i);
    for (const value of [bytes, bytes.buffer, Buffer.from(bytes), new DataView(bytes.buffer)]) {
      await storage.setItemRaw("raw.bin", value);
      expect(Array.from((await storage.getItemRaw<Uint8Array>("raw.bin"))!)).toEqual([...bytes]);
    }
    await storage.setItemRaw("raw.bin", bytes.subarray(10, 12));
    expect(Array.from((await storage.getItemRaw<Uint8Array>("raw.bin"))!)).toEqual([10, 11]);
  });

  it("storage keeps a value of a million bytes, and refuses one above the server's limit", async () => {
    const large = new Uint8Array(1_000_000).fill(7);
    await storage.setItemRaw("large", large);
    expect((await storage.getItemRaw<Uint8Array>("large"))!.length).toBe(large.length);
    await expect(storage.setItemRaw("large", new Uint8Array(2_000_000))).rejects.toThrow(
      /value_invalid|frame_too_large/,
    );
    await expect(storage.setItemRaw("object", { a: 1 })).rejects.toMatchObject({
      code: "value_invalid",
    });
  });

  it("storage sets and gets many items, each driver's in one call", async () => {
    const batch = vi.spyOn(server.client, "batch");
    await storage.setItems<number | string>([
      { key: "a", value: 1 },
      { key: "b:c", value: "two" },
    ]);
    expect(await storage.getItems(["b:c", "none", "a"])).toEqual([
      { key: "b:c", value: "two" },
      { key: "none", value: null },
      { key: "a", value: 1 },
    ]);
    expect(batch).toHaveBeenCalledTimes(2);
    batch.mockRestore();
  });

  it("storage keeps meta beside a value, and removes it when asked to", async () => {
    await storage.setItem("k", "x");
    await storage.setMeta("k", { owner: "ada" });
    expect(await storage.getMeta("k")).toEqual({ owner: "ada" });
    expect(await storage.getKeys()).toEqual(["k"]);
    await storage.removeItem("k", { removeMeta: true });
    expect(await storage.getMeta("k")).toEqual({});
  });
});

describe("ends", () => {
  it("a value of storage ends after its TTL in seconds, by the server's time", async () => {
    await storage.setItem("k", "x", { ttl: 3_600 });
    await storage.setItemRaw("raw", "x", { ttl: 3_600 });
    await storage.setItems([{ key: "many", value: "x", options: { ttl: 3_600 } }]);
    await server.advance(3_000_000);
    expect(await storage.getKeys()).toHaveLength(3);
    await server.advance(600_000);
    expect(await storage.getKeys()).toEqual([]);
  });

  it("the TTL of a driver is that of values without one", async () => {
    const short = open({ ttl: 1_000 });
    await short.setItem("default", "x");
    await short.setItem("own", "x", { ttl: 2_000 });
    await server.advance(1_000_000);
    expect(await short.getKeys()).toEqual(["own"]);
  });

  it("a value of storage without a TTL stays for years", async () => {
    await storage.setItem("k", "x");
    await server.advance(9 * 365 * 86_400_000);
    expect(await storage.getItem("k")).toBe("x");
  });
});

describe("keys", () => {
  const LONG = `long:${"ü".repeat(300)}`;

  it("storage lists keys by their base, also long ones", async () => {
    for (const key of ["a", "s1:a", "s1:b", "s10:a", LONG]) await storage.setItem(key, key);
    expect((await storage.getKeys()).toSorted()).toEqual(["a", LONG, "s10:a", "s1:a", "s1:b"]);
    expect((await storage.getKeys("s1")).toSorted()).toEqual(["s1:a", "s1:b"]);
    expect(await storage.getKeys("long")).toEqual([LONG]);
    expect((await storage.getKeys("", { maxDepth: 0 })).toSorted()).toEqual(["a"]);
    expect(await storage.getItem(LONG)).toBe(LONG);
  });

  it("storage lists more keys than one page has", async () => {
    const keys = Array.from({ length: 2500 }, (_, i) => `k${i}`);
    await storage.setItems(keys.map((key) => ({ key, value: "x" })));
    expect((await storage.getKeys()).toSorted()).toEqual(keys.toSorted());
  });

  it("storage clears its own keys and no other records", async () => {
    await storage.setItem("a", "x");
    await storage.setItem(LONG, "x");
    await server.client.increment("counter", { ttlMs: 60_000 });
    await storage.clear();
    expect(await storage.getKeys()).toEqual([]);
    expect(await server.client.query("counter")).not.toBeNull();
  });

  it("the driver of unstorage clears a base, also long keys, and nothing else", async () => {
    // unstorage itself asks a driver to clear all it has, or nothing.
    const driver = throttrDriver({ throttr: server.client });
    for (const key of ["s1:a", "s1:b", "s10:a", LONG]) await storage.setItem(key, "x");
    await driver.clear("s1:");
    expect((await storage.getKeys()).toSorted()).toEqual([LONG, "s10:a"]);
    await driver.clear("long:");
    expect(await storage.getKeys()).toEqual(["s10:a"]);
  });

  it("drivers of different bases share nothing", async () => {
    const [a, b] = [open({ base: "a" }), open({ base: "b" })];
    await a.setItem("k", "of a");
    expect(await b.getItem("k")).toBeNull();
    await b.clear();
    expect(await a.getItem("k")).toBe("of a");
  });

  it("storage mounts the driver, takes a snapshot, and has a storage of a prefix", async () => {
    const mounted = createStorage();
    mounted.mount("cache", throttrDriver({ throttr: server.client }));
    await mounted.setItem("memory", 1);
    await prefixStorage(mounted, "cache:users").setItem("ada", { id: 7 });
    expect(await mounted.getItem("cache:users:ada")).toEqual({ id: 7 });
    expect((await mounted.getKeys()).toSorted()).toEqual(["cache:users:ada", "memory"]);
    expect(await snapshot(mounted, "cache")).toEqual({ "users:ada": { id: 7 } });
  });
});

describe("watching", () => {
  it("a storage that watches is told what another one sets, removes and clears", async () => {
    const [writer, watcher] = [open({ channel: CHANNEL }), watching()];
    const seen: string[] = [];
    const unwatch = await watcher.watch((event, key) => void seen.push(`${event} ${key}`));
    await writer.setItem("user:7", { name: "Ada" });
    await writer.setItemRaw("raw", new Uint8Array(3));
    await writer.removeItem("raw");
    await writer.setItems([{ key: "x", value: 1 }]);
    await expect
      .poll(() => seen)
      .toEqual(["update user:7", "update raw", "remove raw", "update x"]);
    await writer.clear();
    await expect.poll(() => seen.slice(4).toSorted()).toEqual(["remove user:7", "remove x"]);
    await unwatch();
    await writer.setItem("late", 1);
    expect(seen).toHaveLength(6);
  });

  it("a storage that watches hears of its own changes once, and of no other message", async () => {
    const own = watching();
    const seen: string[] = [];
    await own.watch((event, key) => void seen.push(`${event} ${key}`));
    await server.client.publish(CHANNEL, "something else");
    await own.setItem("a\nb", 1);
    await own.setItem("end", 1);
    await expect.poll(() => seen).toEqual(["update a\nb", "update end"]);
    await own.unwatch();
  });

  it("a storage that watches hears of a change under the mount whose base has changed, and no other", async () => {
    const mounted = createStorage();
    for (const base of ["a", "b"]) {
      const own = { channel: CHANNEL, subscriber: server.client, base };
      mounted.mount(base, throttrDriver({ throttr: server.client, ...own }));
    }
    const seen: string[] = [];
    await mounted.watch((event, key) => void seen.push(`${event} ${key}`));
    await mounted.setItem("a:k", 1);
    await open({ channel: CHANNEL, base: "c" }).setItem("k", 1);
    await open({ channel: CHANNEL, base: "b" }).removeItem("a:k");
    await mounted.setItem("a:end", 1);
    await expect.poll(() => seen).toContain("update a:end");
    expect(seen).toEqual(["update a:k", "remove b:a:k", "update a:end"]);
    await mounted.unwatch();
  });

  it("a storage that is disposed of hears nothing more, and can watch again", async () => {
    const [disposed, other, writer] = [watching(), watching(), open({ channel: CHANNEL })];
    const seen: string[] = [];
    await disposed.watch((_, key) => void seen.push(`disposed ${key}`));
    await other.watch((_, key) => void seen.push(`other ${key}`));
    await disposed.dispose();
    await disposed.dispose();
    await writer.setItem("late", 1);
    await expect.poll(() => seen).toEqual(["other late"]);
    await disposed.unwatch();
    await disposed.watch((_, key) => void seen.push(`again ${key}`));
    await writer.setItem("k", 1);
    await expect.poll(() => seen.slice(1).toSorted()).toEqual(["again k", "other k"]);
    await Promise.all([disposed.unwatch(), other.unwatch()]);
  });

  it("a driver that can't watch tells of its own changes, as unstorage does by itself", async () => {
    for (const one of [storage, open({ channel: CHANNEL })]) {
      const seen: string[] = [];
      await one.watch((event, key) => void seen.push(`${event} ${key}`));
      await one.setItem("k", 1);
      expect(seen).toEqual(["update k"]);
      await one.unwatch();
    }
  });

  it("a write whose message the token may not publish is applied, and rejects but over a WebSocket", async () => {
    // The server's time is years ahead by now.
    const exp = Math.floor(Date.now() / 1_000) + 100 * 365 * 86_400;
    const token = await sign({ ns: "default", scopes: ["read", "write"], exp }, SECRET, "HS256");
    const transports = [
      http(server.url, { token }),
      webSocket(server.url, { token, WebSocket: WebSocket as never }),
    ];
    const outcomes: unknown[] = [];
    for (const transport of transports) {
      const client = new ThrottrClient(transport);
      const writer = open({ throttr: client, channel: CHANNEL });
      for (const write of [
        async () => await writer.setItem("k", "x"),
        async () => await writer.removeItem("k"),
      ]) {
        outcomes.push(
          await write().then(
            () => "ok",
            ({ code }: { code: string }) => code,
          ),
        );
        outcomes.push(await storage.hasItem("k"));
      }
      await client.close();
    }
    expect(outcomes).toEqual([
      "scope_missing",
      true,
      "scope_missing",
      false,
      "ok",
      true,
      "ok",
      false,
    ]);
  });

  it("a watch that ends by itself calls onWatchError", async () => {
    const errors: unknown[] = [];
    const watcher = watching({ onWatchError: (error) => errors.push(error) });
    await watcher.watch(() => {
      throw new Error("of the callback");
    });
    await watcher.setItem("k", 1);
    await expect.poll(() => errors.map(String)).toEqual(["Error: of the callback"]);
  });
});

it("the driver of unstorage rejects options that it can't use", () => {
  expect(() => open({ base: "x".repeat(128) })).toThrow(/base: .* 1 to 127 bytes/);
  expect(() => open({ ttl: 0 })).toThrow(/ttl/);
  expect(() => open({ tll: 5 } as object)).toThrow(/tll/);
});
