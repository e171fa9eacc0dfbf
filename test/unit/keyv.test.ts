/** The store for Keyv where calls fail: what each version of Keyv says of them. */
import { Keyv } from "keyv";
import { Keyv as Keyv6 } from "keyv-6";
import { beforeEach, describe, expect, it } from "vitest";
import { KeyvThrottr } from "../../src/adapters/keyv/index.ts";
import { EngineServer } from "../support/client/engine-client.ts";

const CODE = "outcome_unknown";

let server: EngineServer;

beforeEach(() => {
  server = new EngineServer();
});

/** A Keyv on a server that answers no more, and the codes of the errors that it emits. */
function failing(make: typeof Keyv): { keyv: Keyv; emitted: string[] } {
  const keyv = new make({ store: new KeyvThrottr({ throttr: server.client }), namespace: "n" });
  const emitted: string[] = [];
  keyv.on("error", ({ code }: { code: string }) => emitted.push(code));
  server.fate = "lost";
  return { keyv, emitted };
}

async function iterate(keyv: Keyv): Promise<number> {
  let count = 0;
  for await (const entry of keyv.iterator!({})) count += entry.length;
  return count;
}

describe.each([
  ["5", Keyv],
  ["6", Keyv6 as unknown as typeof Keyv],
])("Keyv %s", (version, make) => {
  it(`Keyv ${version} emits the error of a get that fails, once, and takes it for a miss`, async () => {
    const { keyv, emitted } = failing(make);
    expect(await keyv.get("k")).toBeUndefined();
    expect(emitted).toEqual([CODE]);
  });

  it(`Keyv ${version} emits the error of each write that fails, once`, async () => {
    const { keyv, emitted } = failing(make);
    await keyv.set("k", 1);
    await keyv.setMany([{ key: "k", value: 1 }]);
    await keyv.delete("k");
    await keyv.deleteMany(["k"]);
    await keyv.clear();
    expect(emitted).toEqual([CODE, CODE, CODE, CODE, CODE]);
  });
});

describe("reads of many values, and of whether there are any", () => {
  const reads: [string, (keyv: Keyv) => Promise<unknown>][] = [
    ["getMany", async (keyv) => await keyv.getMany(["k"])],
    ["has", async (keyv) => await keyv.has("k")],
    ["hasMany", async (keyv) => await keyv.hasMany(["k"])],
    ["iterator", iterate],
  ];

  it.each(reads)("Keyv 5 rejects %s that fails, and emits nothing", async (_name, read) => {
    const { keyv, emitted } = failing(Keyv);
    await expect(read(keyv)).rejects.toMatchObject({ code: CODE });
    expect(emitted).toEqual([]);
  });

  it.each(reads)("Keyv 6 emits the error of %s that fails, once", async (_name, read) => {
    const { keyv, emitted } = failing(Keyv6 as unknown as typeof Keyv);
    await read(keyv);
    expect(emitted).toEqual([CODE]);
  });
});

it("Keyv 5 rejects a get that fails where it is told to throw on errors", async () => {
  const { keyv, emitted } = failing(Keyv);
  keyv.throwOnErrors = true;
  await expect(keyv.get("k")).rejects.toMatchObject({ code: CODE });
  expect(emitted).toEqual([CODE]);
});

it("the store for Keyv gives back values and long keys that begin with a byte order mark", async () => {
  const store = new KeyvThrottr({ throttr: server.client });
  const key = "\uFEFF" + "k".repeat(300);
  await store.set(key, "\uFEFFvalue");
  expect(await store.get(key)).toBe("\uFEFFvalue");
  const entries: unknown[] = [];
  for await (const entry of store.iterator()) entries.push(entry);
  expect(entries).toEqual([[key, "\uFEFFvalue"]]);
});

it("the store for Keyv rejects values with half a surrogate pair", async () => {
  const store = new KeyvThrottr({ throttr: server.client });
  await expect(store.set("k", "\ud800")).rejects.toMatchObject({ code: "value_invalid" });
  expect(await store.get("k")).toBeUndefined();
});

describe("long namespaces", () => {
  // A name has 255 bytes: "keyv:", the namespace, ":", and 72 bytes of a key that is hashed.
  const longest = "n".repeat(177);

  it.each([
    ["5", Keyv],
    ["6", Keyv6 as unknown as typeof Keyv],
  ])("Keyv %s keeps values in the longest namespace", async (_version, make) => {
    const store = new KeyvThrottr({ throttr: server.client });
    const keyv = new make({ store, namespace: longest, throwOnErrors: true });
    for (const key of ["k", "k".repeat(1_000)]) {
      await keyv.set(key, key);
      expect(await keyv.get(key)).toBe(key);
    }
  });

  it("the store for Keyv counts the escapes of a namespace, and the bytes of its prefix", async () => {
    const open = (namespace: string, prefix: string): KeyvThrottr =>
      Object.assign(new KeyvThrottr({ throttr: server.client, prefix }), { namespace });
    for (const [namespace, prefix] of [
      [":".repeat(59), "keyv:"],
      ["ü".repeat(27), "p".repeat(128)],
    ] as const) {
      expect(await open(namespace, prefix).set("k".repeat(300), "x")).toBe(true);
      await expect(open(`${namespace}:`, prefix).get("k")).rejects.toMatchObject({
        code: "namespace_invalid",
      });
    }
  });

  it("the store for Keyv takes a namespace of null for none", async () => {
    const [of, none] = [new KeyvThrottr({ throttr: server.client, prefix: "null:" }), null];
    await Object.assign(of, { namespace: "n" }).set("k", "x");
    await Object.assign(of, { namespace: undefined }).set("k", "y");
    Object.assign(of, { namespace: none });
    expect(await of.get("k")).toBe("y");
    await of.clear();
    expect(await Object.assign(of, { namespace: "n" }).get("k")).toBeUndefined();
  });

  it("the store for Keyv rejects each call of a namespace that it can't use, and names the namespace", async () => {
    for (const namespace of [`${longest}n`, "\ud800", 5]) {
      const store = new KeyvThrottr({ throttr: server.client });
      store.namespace = namespace as string;
      for (const call of [
        () => store.get("k"),
        () => store.set("k", "x"),
        () => store.delete("k"),
        () => store.has("k"),
        () => store.clear(),
        () => store.iterator().next(),
      ]) {
        await expect(call()).rejects.toThrow(/^namespace_invalid: namespace: /);
      }
    }
  });
});
