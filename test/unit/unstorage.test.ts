/** The driver of unstorage without the library: what it sends, and what it keeps. The library itself: `test/process`. */
import { beforeEach, expect, it } from "vitest";
import { throttrDriver, type DriverBackend } from "../../src/adapters/unstorage/index.ts";
import type { ThrottrClient } from "../../src/client/client.ts";
import { Listener, type Message } from "../../src/client/channels/subscription.ts";
import { http } from "../../src/client/transport/http.ts";
import { ThrottrError } from "../../src/wire/edge/error.ts";
import type { BatchCall, BatchOutcome } from "../../src/wire/edge/service.ts";
import { EngineServer } from "../support/client/engine-client.ts";

const CHANNEL = "changes";
const BATCH_BYTES_MAX = 4 << 20;
const decoder = new TextDecoder();

/** Notes batches, and applies as many as it is told to. */
class Batches {
  readonly batches: (readonly BatchCall[])[] = [];
  readonly backend: DriverBackend;

  constructor(applied = Infinity) {
    const batch = (calls: readonly BatchCall[]): Promise<BatchOutcome<unknown>[]> => {
      if (this.batches.length === applied) return Promise.reject(new Error("the server is gone"));
      this.batches.push(calls);
      return Promise.resolve(calls.map(() => ({ ok: true, value: true })));
    };
    this.backend = { batch } as unknown as DriverBackend;
  }

  /** Names of records that applied calls have set or removed. */
  get changed(): string[] {
    return this.#calls.filter(([method]) => method !== "publish").map(([, name]) => name as string);
  }

  /** Messages that were published. */
  get told(): string[] {
    return this.#calls
      .filter(([method]) => method === "publish")
      .map(([, , payload]) => decoder.decode(payload as Uint8Array));
  }

  get #calls(): BatchCall[] {
    return this.batches.flat();
  }
}

/** Counts how often it is ended. */
class Noted extends Listener {
  returns = 0;

  override async return(): Promise<IteratorResult<Message, void>> {
    this.returns++;
    return await super.return();
  }
}

const itemsOf = (count: number) =>
  Array.from({ length: count }, (_, i) => ({ key: `k${i}`, value: "x" }));

let server: EngineServer;

/** A client whose `list` gives all records: the engine alone lists nothing. */
function listing(client: ThrottrClient): DriverBackend {
  return Object.assign(Object.create(client) as DriverBackend, {
    batch: client.batch.bind(client),
    list: async ({ prefix }: { prefix: string }) => {
      const { records } = await client.exportPage({ prefix });
      return { records: records.map(({ key }) => ({ key, kind: "buffer" })), cursor: null };
    },
    removeAll: async (prefix: string) => await client.removeAll(prefix),
  });
}

beforeEach(() => {
  server = new EngineServer();
});

it("the driver of unstorage publishes what it has set, also where a later batch fails", async () => {
  const server = new Batches(1);
  const driver = throttrDriver({ throttr: server.backend, channel: CHANNEL });
  await expect(driver.setItems(itemsOf(1_200))).rejects.toThrow("the server is gone");
  expect(server.changed).toHaveLength(500);
  expect(server.told).toEqual(server.changed.map((name) => `update:${name}`));
});

it("the driver of unstorage publishes what clear has removed, also where a later batch fails", async () => {
  const server = new Batches(2);
  const names = itemsOf(1_200).map(({ key }) => new TextEncoder().encode(`unstorage:${key}`));
  const list = ({ prefix }: { prefix: string }) => {
    const records = prefix.endsWith("#sha256:")
      ? []
      : names.map((key) => ({ key, kind: "buffer" }));
    return Promise.resolve({ records, cursor: null });
  };
  const throttr = { ...server.backend, list } as unknown as DriverBackend;
  const driver = throttrDriver({ throttr, channel: CHANNEL });
  await expect(driver.clear()).rejects.toThrow("the server is gone");
  expect(server.changed).toHaveLength(1_000);
  expect(server.told).toEqual(server.changed.map((name) => `remove:${name}`));
});

it("no batch of the driver of unstorage has more than 4 MiB, messages with long keys included", async () => {
  const server = new Batches();
  const driver = throttrDriver({ throttr: server.backend, channel: CHANNEL });
  const items = itemsOf(60).map(({ key }) => ({ key: key.padEnd(60_000, "x"), value: "x" }));
  await driver.setItems(items);
  expect(server.told).toEqual(items.map(({ key }) => `update:unstorage:${key}`));
  const sizes = server.batches.map((calls) =>
    calls.reduce((sum, [, , payload]) => sum + (payload as Uint8Array).length, 0),
  );
  expect(sizes.length).toBeGreaterThan(1);
  expect(Math.max(...sizes)).toBeLessThanOrEqual(BATCH_BYTES_MAX);
});

it("the driver of unstorage changes between sets and publications once in a batch", async () => {
  const server = new Batches();
  const driver = throttrDriver({ throttr: server.backend, channel: CHANNEL });
  await driver.setItems(itemsOf(3));
  const methods = server.batches.map((calls) => calls.map(([method]) => method));
  expect(methods).toEqual([["set", "set", "set", "publish", "publish", "publish"]]);
});

it.each(["setItem", "removeItem", "clear"] as const)(
  "%s of the driver of unstorage rejects where the server refuses to publish the change",
  async (method) => {
    const refused = { code: "scope_missing", message: "scope_missing: publish" };
    const throttr = Object.assign(listing(server.client), {
      batch: async (calls: readonly BatchCall[]): Promise<BatchOutcome<unknown>[]> => {
        const changes = calls.filter(([name]) => name !== "publish");
        const outcomes = changes.length > 0 ? await server.client.batch(changes) : [];
        const error: BatchOutcome<unknown> = { ok: false, error: refused };
        return [...outcomes, ...calls.slice(changes.length).map(() => error)];
      },
    });
    await throttrDriver({ throttr: server.client }).setItem("k", "x");
    const driver = throttrDriver({ throttr, channel: CHANNEL });
    const calls = {
      setItem: async () => await driver.setItem("k", "y"),
      removeItem: async () => await driver.removeItem("k"),
      clear: async () => await driver.clear(),
    };
    await expect(calls[method]()).rejects.toMatchObject({ code: "scope_missing" });
    expect(await driver.getItem("k")).toBe(method === "setItem" ? "y" : null);
  },
);

it("a watch of the driver of unstorage that ends leaves nothing for its dispose to end", async () => {
  const listeners: Noted[] = [];
  const subscribe = () => {
    const listener = new Noted(new Uint8Array(0), {}, 0, 1_000, () => {});
    listeners.push(listener);
    return listener;
  };
  const errors: unknown[] = [];
  const driver = throttrDriver({
    throttr: server.client,
    channel: CHANNEL,
    subscriber: { subscribe },
    onWatchError: (error) => errors.push(error),
  });
  const watches = [1, 2, 3, 4].map(async () => await driver.watch!(() => {}));
  const failure = new ThrottrError("connection_failed", "gone");
  const [unwatched, failed, refused, open] = listeners as [Noted, Noted, Noted, Noted];
  refused.fail(failure);
  for (const listener of [unwatched, failed, open]) listener.confirm();
  await expect(watches[2]).rejects.toBe(failure);
  await (
    await watches[0]!
  )();
  failed.fail(failure);
  await expect.poll(() => errors).toEqual([failure]);
  for (const listener of listeners) listener.returns = 0;
  const pending = driver.watch!(() => {});
  await driver.dispose();
  await expect(pending).rejects.toMatchObject({ code: "closed" });
  expect(listeners.map(({ returns }) => returns)).toEqual([0, 0, 0, 1, 1]);
  expect(open.isEnded).toBe(true);
});

it.each(["#", "#sha", "#sha256:", "#sha256:a"])(
  "the driver of unstorage clears the base %s, and no other keys that are hashed",
  async (under) => {
    const driver = throttrDriver({ throttr: listing(server.client) });
    // So many that the hash of one begins with "a".
    const long = Array.from({ length: 40 }, (_, i) => String(i).padEnd(300, "k"));
    const others = [...long, "#other", "#sha256:b", "a"].filter((key) => !key.startsWith(under));
    for (const key of [`${under}a`, ...others]) await driver.setItem(key, "x");
    expect((await driver.getKeys(under)).toSorted()).toContain(`${under}a`);
    await driver.clear(under);
    expect((await driver.getKeys()).toSorted()).toEqual(others.toSorted());
  },
);

it("the driver of unstorage rejects text with half a surrogate pair, and sets nothing", async () => {
  const driver = throttrDriver({ throttr: server.client });
  for (const write of [
    async () => await driver.setItem("k", "\ud800"),
    async () => await driver.setItems([{ key: "k", value: "a\udc00" }]),
    async () => await driver.setItemRaw("k", "\ud800"),
  ]) {
    await expect(write()).rejects.toMatchObject({ code: "value_invalid" });
  }
  expect(await driver.getItem("k")).toBeNull();
});

it("the driver of unstorage stores the bytes of setItemRaw as they are when it is called", async () => {
  const driver = throttrDriver({ throttr: server.client });
  for (const key of ["k", "k".repeat(300)]) {
    const { buffer } = new Uint8Array([9, 1, 2, 3]);
    for (const value of [buffer, new DataView(buffer), new Uint8Array(buffer)]) {
      const before = new Uint8Array(buffer.slice(0));
      const stored = driver.setItemRaw(key, value);
      new Uint8Array(buffer).fill(7 + before[0]!);
      await stored;
      expect(await driver.getItemRaw(key)).toEqual(before);
    }
  }
});

it("the driver of unstorage refuses a channel that nothing can be published to", () => {
  for (const channel of ["", "c".repeat(256), 7 as never]) {
    expect(() => throttrDriver({ throttr: server.client, channel })).toThrow(/^channel_invalid: /);
  }
});

it("the driver of unstorage refuses a subscriber that is not a client, and an onWatchError that is not a function, when it is made", () => {
  const { client: throttr } = server;
  for (const subscriber of [null, true, http("http://127.0.0.1")]) {
    const wrong = { throttr, channel: CHANNEL, subscriber: subscriber as never };
    const refusal = /^option_invalid: subscriber: expected a ThrottrClient, got /;
    expect(() => throttrDriver(wrong)).toThrow(refusal);
  }
  expect(() => throttrDriver({ throttr, onWatchError: "log" as never })).toThrow(
    'option_invalid: onWatchError: expected a function, got "log"',
  );
});

it("the driver of unstorage gives back text that begins with a byte order mark", async () => {
  const driver = throttrDriver({ throttr: server.client });
  await driver.setItem("k", "\uFEFFid,name");
  expect(await driver.getItem("k")).toBe("\uFEFFid,name");
  expect(await driver.getItems([{ key: "k" }])).toEqual([{ key: "k", value: "\uFEFFid,name" }]);
});

it("a value of unstorage with a negative TTL has ended, and one with a TTL of 0 stays", async () => {
  const driver = throttrDriver({ throttr: server.client });
  await driver.setItem("past", "x", { ttl: -5 });
  await driver.setItem("kept", "x", { ttl: 0 });
  server.advance(1);
  expect(await driver.getItem("past")).toBeNull();
  server.advance(86_400_000);
  expect(await driver.getItem("kept")).toBe("x");
});

it("a value of unstorage with a TTL that is not a number is refused, and not kept for ever", async () => {
  const driver = throttrDriver({ throttr: server.client });
  for (const ttl of [NaN, "soon" as never]) {
    await expect(driver.setItem("lost", "x", { ttl })).rejects.toThrow(/^ttl_invalid: /);
  }
  expect(await driver.getItem("lost")).toBeNull();
});

it("the driver of unstorage lists and clears below a base that no name of a record can hold", async () => {
  const under = "u".repeat(250);
  const removed: string[] = [];
  const driver = throttrDriver({
    throttr: Object.assign(listing(server.client), {
      removeAll: async (prefix: string) => {
        removed.push(prefix);
        return await server.client.removeAll(prefix);
      },
    }),
  });
  await driver.setItem(`${under}:a`, "1");
  await driver.setItem("other", "2");
  expect(await driver.getKeys(`${under}:`)).toEqual([`${under}:a`]);
  await driver.clear(`${under}:`);
  expect(await driver.getKeys()).toEqual(["other"]);
  expect(removed).toEqual([]);
});
