/** Stores of adapters over a service binding, whose errors are plain, and with the server in the same Worker. */
import { reset } from "cloudflare:test";
import { exports } from "cloudflare:workers";
import { afterEach, describe, expect, it } from "vitest";
import { ThrottrStorage } from "../../src/adapters/nestjs/index.ts";
import { KeyvThrottr } from "../../src/adapters/keyv/index.ts";
import { throttrDriver } from "../../src/adapters/unstorage/index.ts";
import { throttr as throttrOfWorker } from "../../src/embedded/index.ts";
import type { ThrottrService } from "../../src/wire/edge/service.ts";

const LONG = "ü".repeat(300);

afterEach(async () => {
  await reset();
});

const servers: { where: string; throttr: ThrottrService }[] = [
  { where: "over a service binding", throttr: exports.Throttr as unknown as ThrottrService },
  { where: "in the Worker of the server", throttr: throttrOfWorker() as ThrottrService },
];

describe.each(servers)("$where", ({ where, throttr }) => {
  it(`the store for Keyv keeps values ${where}`, async () => {
    const store = new KeyvThrottr({ throttr });
    store.namespace = "pages";
    await store.setMany([
      { key: "a", value: "1" },
      { key: LONG, value: "2", ttl: 60_000 },
    ]);
    expect(await store.getMany(["a", "none", LONG])).toEqual(["1", undefined, "2"]);
    expect(await store.hasMany(["a", "none", LONG])).toEqual([true, false, true]);
    const entries: unknown[][] = [];
    for await (const entry of store.iterator()) entries.push(entry);
    expect(Object.fromEntries(entries)).toEqual({ a: "1", [LONG]: "2" });
    expect(await store.delete("a")).toBe(true);
    await store.clear();
    expect(await store.has(LONG)).toBe(false);
  });

  it(`the store for Keyv reads more ${where} than one call can give`, async () => {
    const store = new KeyvThrottr({ throttr });
    const keys = Array.from({ length: 26 }, (_, i) => `large-${i}`);
    for (const key of keys) await store.set(key, key.padEnd(1_000_000, "x"));
    const values = await store.getMany<string>(keys);
    expect(values.map((value) => value?.replace(/x+$/, ""))).toEqual(keys);
  });

  it(`a refusal ${where} has its code in the store for Keyv`, async () => {
    await throttr.increment("keyv::count", { ttlMs: 60_000 });
    const store = new KeyvThrottr({ throttr });
    await expect(store.get("count")).rejects.toMatchObject({ code: "kind_mismatch" });
  });

  it(`the driver of unstorage keeps values ${where}, and publishes changes`, async () => {
    const driver = throttrDriver({ throttr, channel: "changes" });
    expect("watch" in driver).toBe(false);
    await driver.setItem("a:b", "text", { ttl: 60 });
    await driver.setItemRaw("raw", new Uint8Array([1, 2]));
    expect(await driver.getItems([{ key: "a:b" }, { key: "none" }])).toEqual([
      { key: "a:b", value: "text" },
      { key: "none", value: null },
    ]);
    expect(await driver.getItemRaw("raw")).toEqual(new Uint8Array([1, 2]));
    expect((await driver.getKeys()).toSorted()).toEqual(["a:b", "raw"]);
    await driver.clear();
    expect(await driver.hasItem("raw")).toBe(false);
  });

  it(`the storage of Nest's throttler counts and blocks ${where}`, async () => {
    const storage = new ThrottrStorage({ throttr });
    const hit = async () => await storage.increment("k", 60_000, 2, 60_000, "default");
    const hits = [await hit(), await hit(), await hit(), await hit()];
    expect(hits.map(({ isBlocked }) => isBlocked)).toEqual([false, false, true, true]);
  });
});
