/** The deployment's list of namespaces: who gets on it, what that costs, and who may read it. */
import { evictAllDurableObjects, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, describe, expect, it, vi } from "vitest";
import { NamespaceList } from "../../src/objects/channel/namespace-list.ts";
import { Directory } from "../../src/objects/channel/directory.ts";
import { Dispatch } from "../../src/dispatch/dispatch.ts";
import { Tally } from "../../src/engine/tally.ts";
import { metricsOfNamespaces } from "../../src/worker/metrics/namespaces.ts";
import { get } from "../support/pool/doors.ts";
import { parseExposition } from "../support/text/exposition.ts";
import { meterOf, shardStub } from "../support/pool/shards.ts";
import { bearerOf, tokenOf } from "../support/pool/tokens.ts";
import { calling, expectProblem, type Calling } from "../support/pool/v1-calls.ts";

const TTL_MS = 60_000;

let namespaces = 0;
const freshName = (): string => `listed-${++namespaces}`;

/** Calls with a token of a namespace. */
const callsOf = async (ns: string): Promise<Calling> => calling(await bearerOf({ ns }));

const insert = async (call: Calling, key = "visits"): Promise<void> => {
  const json = { quota: 5, ttlMs: TTL_MS };
  expect((await call("PUT", `/v1/counters/${key}`, { json })).status).toBe(201);
};

/** All names, a page at a time. */
async function listed(limit = 1000): Promise<string[]> {
  const call = await callsOf("*");
  const names: string[] = [];
  let next = "";
  do {
    const { json } = await call("GET", `/v1/namespaces?limit=${limit}${next}`);
    const { namespaces: rows, cursor } = json as {
      namespaces: { name: string }[];
      cursor: string | null;
    };
    names.push(...rows.map(({ name }) => name));
    next = cursor === null ? "" : `&cursor=${cursor}`;
  } while (next !== "");
  return names;
}

const deployment = (): DurableObjectStub<Directory> => env.DIRECTORY.getByName("*");

/** Watches namespaces tell, and maybe lets that fail; returns those that have told, in order. */
function registrations(isBroken = false): () => string[] {
  const spy = vi.spyOn(Directory.prototype, "registerNamespace");
  if (isBroken) {
    spy.mockImplementation(() => {
      throw new Error("the Directory is broken");
    });
  }
  return () => spy.mock.calls.map(([name]) => name);
}

afterEach(() => {
  vi.restoreAllMocks();
});

const isRegistered = async (ns: string): Promise<boolean> =>
  await runInDurableObject(shardStub(0, ns), (_, { storage }) => {
    const [row] = storage.sql.exec<{ n: number | null }>("SELECT is_registered AS n FROM shard");
    return row?.n === 1;
  });

describe("the list of namespaces", () => {
  it("a namespace is listed after its first write, whichever shard that is on", async () => {
    const before = Date.now();
    for (let i = 0; i < 8; i++) {
      const ns = freshName();
      await insert(await callsOf(ns), `key:${i}`);
      await expect.poll(() => listed()).toContain(ns);
      const [row] = await deployment().namespacesPage(ns.slice(0, -1), 1);
      expect(row!.registeredAtMs).toBeGreaterThanOrEqual(before);
    }
  });

  it("a namespace whose records were only listed is not listed itself", async () => {
    const ns = freshName();
    const call = await callsOf(ns);
    await call("GET", "/v1/records");
    await call("GET", "/v1/info");
    const other = freshName();
    await insert(await callsOf(other));
    await expect.poll(() => listed()).toContain(other);
    expect(await listed()).not.toContain(ns);
  });

  it("a namespace tells once in its life, which costs its shard 0 one row", async () => {
    const rowsOf = async (ns: string, isTold: () => Promise<boolean>): Promise<number> => {
      const meter = await meterOf(shardStub(0, ns));
      const call = await callsOf(ns);
      for (let i = 0; i < 8; i++) await insert(call, `key:${i}`);
      await expect.poll(isTold).toBe(true);
      return meter.rows;
    };
    const ns = freshName();
    const told = registrations();
    const rows = await rowsOf(ns, async () => await isRegistered(ns));
    await evictAllDurableObjects();
    const call = await callsOf(ns);
    for (let i = 8; i < 16; i++) await insert(call, `key:${i}`);
    expect(told()).toEqual([ns]);
    // The same without the note, which is only written once the namespace is listed.
    vi.restoreAllMocks();
    const failed = registrations(true);
    const other = `${ns}x`;
    expect(await rowsOf(other, async () => failed().includes(other))).toBe(rows - 1);
  });

  it("data of an earlier release is listed when its shard 0 starts", async () => {
    const ns = freshName();
    const call = await callsOf(ns);
    await insert(call);
    await expect.poll(async () => await isRegistered(ns)).toBe(true);
    await runInDurableObject(shardStub(0, ns), (_, { storage }) => {
      for (const column of ["hash_key", "is_noted", "noted_shards", "is_registered"]) {
        storage.sql.exec(`ALTER TABLE shard DROP COLUMN ${column}`);
      }
    });
    await evictAllDurableObjects();
    const told = registrations();
    await call("GET", "/v1/info");
    await expect.poll(async () => await isRegistered(ns)).toBe(true);
    expect(told().filter((name) => name === ns)).toHaveLength(1);
    expect((await call("GET", "/v1/counters/visits")).json).toMatchObject({ quota: "5" });
  });

  it("a list that fails stops no request, and the namespace tells again", async () => {
    const failed = registrations(true);
    const ns = freshName();
    const call = await callsOf(ns);
    await insert(call);
    await expect.poll(failed).toContain(ns);
    expect((await call("GET", "/v1/counters/visits")).json).toMatchObject({ quota: "5" });
    vi.restoreAllMocks();
    await expect.poll(() => listed(), { timeout: 10_000 }).toContain(ns);
  });

  it("the list comes in pages ordered by name", async () => {
    const names = Array.from({ length: 7 }, freshName);
    for (const ns of names) await insert(await callsOf(ns));
    await expect.poll(() => listed()).toEqual(expect.arrayContaining(names));
    const all = await listed();
    expect(all).toEqual(all.toSorted());
    for (const limit of [1, 3, all.length]) expect(await listed(limit)).toEqual(all);
  });

  it("a full list leaves further namespaces out, and keeps those that it has", async () => {
    const stub = env.DIRECTORY.getByName("a list of its own");
    await runInDurableObject(stub, (_, { storage }) => {
      const list = new NamespaceList(storage.sql, 2);
      expect(list.page(null, 10)).toEqual([]);
      expect(["b", "a", "c", "b"].map((name) => list.add(name, 7))).toEqual([
        true,
        true,
        false,
        true,
      ]);
      expect(new NamespaceList(storage.sql, 2).add("d", 8)).toBe(false);
      expect(new NamespaceList(storage.sql, 2).page(null, 10)).toEqual([
        { name: "a", registeredAtMs: 7 },
        { name: "b", registeredAtMs: 7 },
      ]);
    });
  });
});

describe("figures of all namespaces", () => {
  it("one scrape has the figures of each namespace, told apart by their labels", async () => {
    const names = [freshName(), freshName()];
    for (const ns of names) await insert(await callsOf(ns));
    await expect.poll(() => listed()).toEqual(expect.arrayContaining(names));
    const response = await get("/metrics?namespace=*", await bearerOf({ ns: "*" }));
    expect(response.status).toBe(200);
    const metrics = parseExposition(await response.text());
    const ofNames = (metric: string): Record<string, number> => {
      const sums: Record<string, number> = {};
      for (const { labels, value } of metrics.get(metric)!.samples) {
        const { namespace } = labels;
        if (names.includes(namespace!)) sums[namespace!] = (sums[namespace!] ?? 0) + value;
      }
      return sums;
    };
    const each = (value: number) => Object.fromEntries(names.map((ns) => [ns, value]));
    expect(ofNames("throttr_namespace_up")).toEqual(each(1));
    expect(ofNames("throttr_records")).toEqual(each(1));
    expect(ofNames("throttr_shard_up")).toEqual(each(4));
    expect(metrics.get("throttr_namespaces_left_out")!.samples).toEqual([{ labels: {}, value: 0 }]);
  });

  it("two namespaces of 4,096 shards each go into one scrape", async () => {
    const ns = freshName();
    await insert(await callsOf(ns));
    const dispatch = new Dispatch(env, ns, { tally: new Tally(), flush: async () => {} });
    const survey = await dispatch.survey();
    const shards = Array.from({ length: 4096 }, () => survey.shards[0]!);
    const large = { name: ns, survey: { ...survey, shards } };
    const metrics = metricsOfNamespaces({ namespaces: [large, large], next: null });
    const records = metrics.find(({ name }) => name === "throttr_records")!;
    expect(records.samples).toHaveLength(4 * shards.length);
  });

  it("a scrape begins behind the name that it is given", async () => {
    const headers = await bearerOf({ ns: "*" });
    const names = [freshName(), freshName()].toSorted();
    for (const ns of names) await insert(await callsOf(ns));
    await expect.poll(() => listed()).toEqual(expect.arrayContaining(names));
    const text = await (await get(`/metrics?namespace=*&after=${names[0]}`, headers)).text();
    expect(text).not.toContain(`namespace="${names[0]}"`);
    expect(text).toContain(`namespace="${names[1]}"`);
    for (const query of ["namespace=other", "namespace=*&after=a/b", "namespace=*&typo=1"]) {
      expect((await get(`/metrics?${query}`, headers)).status).toBe(400);
    }
    expect((await get("/metrics?namespace=*", await bearerOf({ ns: names[0]! }))).status).toBe(403);
  });

  it("the refusal of an invalid name to begin behind names the parameter once", async () => {
    const headers = await bearerOf({ ns: "*", scopes: ["admin"] });
    const response = await get("/metrics?namespace=*&after=a/b", headers);
    expect(((await response.json()) as { detail: string }).detail).toMatch(
      /^after: expected 1 to /,
    );
  });

  it("a namespace whose Directory fails leaves the others in a scrape", async () => {
    const [broken, whole] = [freshName(), freshName()];
    for (const ns of [broken, whole]) await insert(await callsOf(ns));
    await expect.poll(() => listed()).toEqual(expect.arrayContaining([broken, whole]));
    vi.spyOn(console, "warn").mockImplementation(() => {});
    vi.spyOn(Dispatch.prototype, "survey").mockImplementationOnce(() => {
      throw new Error("the Directory is broken");
    });
    const before = (await listed()).findLast((name) => name < [broken, whole].toSorted()[0]!);
    const query = `/metrics?namespace=*${before === undefined ? "" : `&after=${before}`}`;
    const text = await (await get(query, await bearerOf({ ns: "*" }))).text();
    expect(text.match(/^throttr_namespace_up\{.*\} 0$/gm)).toHaveLength(1);
    expect(text).toMatch(/^throttr_namespace_up\{.*\} 1$/m);
  });

  it("the overview of all namespaces comes in pages, with the figures of each", async () => {
    const names = Array.from({ length: 3 }, freshName);
    for (const ns of names) await insert(await callsOf(ns));
    await expect.poll(() => listed()).toEqual(expect.arrayContaining(names));
    const call = await callsOf("*");
    const seen = new Map<string, unknown>();
    let next = "";
    do {
      const { json } = await call("GET", `/v1/namespaces/overview?limit=2${next}`);
      const page = json as unknown as {
        namespaces: { name: string; figures: unknown }[];
        cursor: string | null;
      };
      expect(page.namespaces.length).toBeLessThanOrEqual(2);
      for (const { name, figures } of page.namespaces) seen.set(name, figures);
      next = page.cursor === null ? "" : `&cursor=${page.cursor}`;
    } while (next !== "");
    expect([...seen.keys()]).toEqual(await listed());
    for (const ns of names) {
      expect(seen.get(ns)).toMatchObject({
        requests: { total: 1 },
        records: { counters: 1, buffers: 0, bufferBytes: 0 },
        connections: 0,
        unreachable: 0,
      });
    }
  });
});

describe("a token for all namespaces", () => {
  it("a token for all namespaces acts in the one that is named behind it, in every way to send it", async () => {
    const ns = freshName();
    await insert(await callsOf(ns), "seen");
    const token = await tokenOf({
      ns: "*",
      iat: Math.floor(Date.now() / 1000),
      exp: Math.floor(Date.now() / 1000) + 60,
    });
    const named = `${token}~${ns}`;
    const call = calling({ authorization: `Bearer ${named}` });
    expect((await call("GET", "/v1/counters/seen")).json).toMatchObject({ quota: "5" });
    expect((await get(`/v1/counters/seen?ticket=${named}`)).status).toBe(200);
    const socket = await get("/throttr/7.3/uint16", {
      upgrade: "websocket",
      "sec-websocket-protocol": `throttr, bearer.${named}`,
    });
    expect(socket.status).toBe(101);
    socket.webSocket!.accept();
    socket.webSocket!.close(1000);
    // The list does not depend on what is named.
    expect((await call("GET", "/v1/namespaces")).status).toBe(200);
  });

  it("a token for all namespaces reaches none that it does not name", async () => {
    const call = await callsOf("*");
    expect((await call("GET", "/v1/access")).json).toMatchObject({ namespace: "*" });
    for (const url of ["/v1/info", "/v1/counters/seen", "/v1/overview"]) {
      expectProblem(await call("GET", url), "namespace_missing");
    }
    expect((await get("/metrics", await bearerOf({ ns: "*" }))).status).toBe(403);
  });

  it("a token for all namespaces keeps its scopes and prefixes in each of them", async () => {
    const ns = freshName();
    const token = await tokenOf({ ns: "*", scopes: ["read"], keyPrefixes: ["a:"] });
    const call = calling({ authorization: `Bearer ${token}~${ns}` });
    expectProblem(await call("GET", "/v1/counters/b:1"), "prefix_missing");
    expectProblem(await call("GET", "/v1/counters/a:1"), "key_absent");
    expect((await call("GET", "/v1/access")).json).toMatchObject({
      namespace: ns,
      scopes: ["read"],
    });
    expectProblem(await call("GET", "/v1/namespaces"), "scope_missing");
    expectProblem(
      await call("PUT", "/v1/counters/a:1", { json: { quota: 1, ttlMs: 1000 } }),
      "scope_missing",
    );
  });

  it.each(["", "*", "a/b", "a~b", "x".repeat(65)])(
    "a name that no namespace can have is refused behind a token (%j)",
    async (name) => {
      const call = calling({ authorization: `Bearer ${await tokenOf({ ns: "*" })}~${name}` });
      expectProblem(await call("GET", "/v1/info"), "token_invalid");
    },
  );

  it("a token of one namespace names no other, and does not read the list", async () => {
    const ns = freshName();
    for (const name of [ns, "other"]) {
      const call = calling({ authorization: `Bearer ${await tokenOf({ ns })}~${name}` });
      expectProblem(await call("GET", "/v1/info"), "token_invalid");
    }
    expectProblem(await (await callsOf(ns))("GET", "/v1/namespaces"), "deployment_only");
  });

  it("a server that is open to one namespace keeps its list to itself", async () => {
    expectProblem(await calling({})("GET", "/v1/namespaces"), "deployment_only");
  });
});
