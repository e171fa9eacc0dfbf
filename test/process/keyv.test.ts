/** The store for Keyv: the suite that Keyv publishes, and both versions of Keyv on a real server. */
import * as vitest from "vitest";
import { Keyv, type KeyvStoreAdapter } from "keyv";
import { Keyv as Keyv6 } from "keyv-6";
import keyvTestSuite, { keyvIteratorTests } from "@keyv/test-suite";
import type { ThrottrService } from "throttr-edge/client";
import { KeyvThrottr, type KeyvThrottrOptions } from "throttr-edge/keyv";
import { startThrottr, type TestServer } from "throttr-edge/testing";

const { afterAll, beforeAll, beforeEach, describe, expect, expectTypeOf, it } = vitest;
const HOUR_MS = 3_600_000;
const VALUE_BYTES = 1_000_000;

let server: TestServer;

beforeAll(async () => {
  server = await startThrottr({ variables: { SHARDS: "2" } });
});

afterAll(async () => {
  await server.close();
});

const store = (options: Partial<KeyvThrottrOptions> = {}): KeyvThrottr =>
  new KeyvThrottr({ throttr: server.client, ...options });

describe("the suite of Keyv", () => {
  // It is written for the version of vitest that it brings, and of it uses these functions alone.
  const functions = vitest as unknown as Parameters<typeof keyvTestSuite>[0];
  keyvTestSuite(functions, Keyv, store);
  keyvIteratorTests(functions, Keyv, store);
});

describe("the interfaces", () => {
  it("the store for Keyv has Keyv's interface, and runs on bindings and clients", () => {
    expectTypeOf<KeyvThrottr>().toExtend<KeyvStoreAdapter>();
    expectTypeOf<ThrottrService>().toExtend<KeyvThrottrOptions["throttr"]>();
  });
});

describe.each([
  ["5", (adapter: KeyvThrottr, namespace: string) => new Keyv({ store: adapter, namespace })],
  ["6", (adapter: KeyvThrottr, namespace: string) => new Keyv6({ store: adapter, namespace })],
])("Keyv %s", (version, make) => {
  const open = (namespace: string): Keyv => make(store(), namespace) as Keyv;

  beforeEach(async () => {
    await server.flush();
  });

  it(`Keyv ${version} reads many values in one call, in the order of their keys`, async () => {
    const keyv = open("many");
    await keyv.set("a", 1);
    await keyv.set("c", { deep: ["é"] });
    expect(await keyv.getMany(["c", "b", "a"])).toEqual([{ deep: ["é"] }, undefined, 1]);
    const batch = vitest.vi.spyOn(server.client, "batch");
    await keyv.getMany(["c", "b", "a"]);
    expect(batch).toHaveBeenCalledOnce();
    batch.mockRestore();
  });

  it(`Keyv ${version} keeps a value until its TTL is over, by the server's time`, async () => {
    const keyv = open("ttl");
    await keyv.set("short", "x", HOUR_MS);
    await keyv.set("forever", "y");
    expect(await keyv.has("short")).toBe(true);
    await server.advance(HOUR_MS);
    expect([await keyv.has("short"), await keyv.get("short")]).toEqual([false, undefined]);
    expect(await keyv.get("forever")).toBe("y");
  });

  it(`Keyv ${version} sets and deletes many values`, async () => {
    const keyv = open("set-many");
    await keyv.setMany(Array.from({ length: 1500 }, (_, i) => ({ key: `k${i}`, value: i })));
    expect(await keyv.get("k1499")).toBe(1499);
    expect(await keyv.delete(["k0", "k1"])).not.toBe(false);
    expect(await keyv.getMany(["k0", "k1", "k2"])).toEqual([undefined, undefined, 2]);
  });

  it(`Keyv ${version} keeps large values, and reads more of them than one call can give`, async () => {
    const keyv = open("large");
    const keys = Array.from({ length: 30 }, (_, i) => `large-${i}`);
    for (const key of keys) await keyv.set(key, key.padEnd(VALUE_BYTES, "x"));
    const values = await keyv.getMany<string>(keys);
    expect(values.map((value) => value?.replace(/x+$/, ""))).toEqual(keys);
  }, 120_000);

  it(`Keyv ${version} refuses a value above the server's limit, and says so`, async () => {
    const keyv = open("too-large");
    const errors: unknown[] = [];
    keyv.on("error", (error) => errors.push(error));
    expect(await keyv.set("k", "x".repeat(2_000_000))).toBe(false);
    expect(errors).toHaveLength(1);
    expect(String(errors[0])).toMatch(/frame_too_large|value_invalid/);
  });

  it(`Keyv ${version} keeps keys that are longer than a record's name`, async () => {
    const keyv = open("long-keys");
    const urls = [1, 2].map((page) => `https://example.com/${"ü".repeat(300)}?page=${page}`);
    for (const url of urls) await keyv.set(url, url.slice(-1));
    expect(await keyv.getMany(urls)).toEqual(["1", "2"]);
    const found = await entriesOf(keyv);
    expect(new Map(found)).toEqual(new Map(urls.map((url) => [url, url.slice(-1)])));
    expect(await keyv.delete(urls[0]!)).toBe(true);
    await keyv.clear();
    expect(await keyv.getMany(urls)).toEqual([undefined, undefined]);
  });

  it(`Keyv ${version} clears one namespace, whatever the names of others`, async () => {
    const names = ["a", "a:b", "a%3Ab", "ab"];
    for (const name of names) await open(name).set("k", name);
    await open("a").clear();
    const values = await Promise.all(names.map(async (name) => await open(name).get("k")));
    expect(values).toEqual([undefined, "a:b", "a%3Ab", "ab"]);
  });

  it(`Keyv ${version} iterates over more than a page`, async () => {
    const keyv = open("pages");
    const entries = Array.from({ length: 300 }, (_, i) => [`k${i}`, "v".repeat(8000)] as const);
    await keyv.setMany(entries.map(([key, value]) => ({ key, value })));
    expect((await entriesOf(keyv)).map(([key]) => key).toSorted()).toEqual(
      entries.map(([key]) => key).toSorted(),
    );
  });
});

describe("the store", () => {
  it("the store for Keyv rejects values that are not text, and keys that are not", async () => {
    await expect(store().set("k", new Uint8Array(1))).rejects.toMatchObject({
      code: "value_invalid",
    });
    await expect(store().get("\ud800")).rejects.toMatchObject({ code: "key_invalid" });
    await expect(store().get("k".repeat(70_000))).rejects.toMatchObject({ code: "key_invalid" });
  });

  it("the store for Keyv rejects options that it does not know", () => {
    expect(() => store({ prefix: "" })).toThrow(/prefix/);
    expect(() => store({ ttl: 5 } as object)).toThrow(/ttl/);
  });

  it("stores for Keyv with different prefixes share nothing", async () => {
    const [a, b] = ["a:", "b:"].map((prefix) => store({ prefix }));
    await a!.set("k", "of a");
    expect(await b!.get("k")).toBeUndefined();
    await b!.clear();
    expect(await a!.get("k")).toBe("of a");
  });
});

async function entriesOf(keyv: Keyv): Promise<[string, unknown][]> {
  const found: [string, unknown][] = [];
  for await (const entry of keyv.iterator!({})) found.push(entry as [string, unknown]);
  return found;
}
