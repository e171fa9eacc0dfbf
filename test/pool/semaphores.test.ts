/** Semaphores through the doors: leases over service bindings, JSON and frames. */
import {
  abortAllDurableObjects,
  evictAllDurableObjects,
  reset,
  runDurableObjectAlarm,
} from "cloudflare:test";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { HISTORY_REST_MS } from "../../src/engine/sizes.ts";
import type { Throttr } from "../../src/worker/rpc.ts";
import {
  acquire,
  commandReplies,
  concat,
  holders,
  idOf,
  inspect,
  semaphores,
  ttlMs,
  uuidOfNumber,
} from "../support/frames/index.ts";
import {
  acquire as acquireByConnection,
  dump,
  entriesOf,
  get,
  numberOfBody,
} from "../support/frames/yrmcds.ts";
import { open, type Stub, throttr } from "../support/pool/binding.ts";
import { openYrmcds } from "../support/pool/yrmcds-wires.ts";
import { openSocket } from "../support/pool/doors.ts";
import { breakJournal, meterOf, shardStub } from "../support/pool/shards.ts";
import { bearerOf } from "../support/pool/tokens.ts";
import {
  calling,
  expectProblem,
  fieldsOf,
  freshNamespace,
  type Calling,
} from "../support/pool/v1-calls.ts";

const SHARDS = 4;
const MINUTE = { ttlMs: 60_000 };
const U32_MAX = 2 ** 32 - 1;

// An object is not evicted before it has stored its counts.
beforeEach(() => {
  const wait = scheduler.wait.bind(scheduler);
  vi.spyOn(scheduler, "wait").mockImplementation(async (ms, options) => {
    await wait(ms === HISTORY_REST_MS ? 2 : ms, options);
  });
});

afterEach(async () => {
  vi.restoreAllMocks();
  await reset();
});

async function codeOf(call: Promise<unknown>): Promise<string> {
  return await call.then(
    () => "none",
    (error: Error) => error.message.split(":")[0]!,
  );
}

/** What is in use of a semaphore. */
const inUse = async (name: string): Promise<number | undefined> =>
  (await throttr.inspectSemaphore(name))?.consumption;

const textOf = (bytes: Uint8Array): string => new TextDecoder().decode(bytes);

describe("over a service binding", () => {
  it("resources are acquired, renewed and released over a service binding", async () => {
    const before = Date.now();
    const lease = (await throttr.acquire("gpu", { maximum: 2, ...MINUTE }))!;
    expect(lease).toMatchObject({ name: "gpu", resources: 1, ttlMs: 60_000 });
    expect(lease.leaseId).toMatch(
      /^[\da-f]{8}-[\da-f]{4}-4[\da-f]{3}-[89ab][\da-f]{3}-[\da-f]{12}$/,
    );
    expect(lease.expiresAtMs).toBeGreaterThanOrEqual(before + 60_000);
    const other = (await throttr.acquire("gpu", { maximum: 2, ...MINUTE }))!;
    expect(other.leaseId).not.toBe(lease.leaseId);
    expect(await throttr.acquire("gpu", { maximum: 2, ...MINUTE })).toBe(null);
    expect(await throttr.acquire("gpu", { resources: 2, maximum: 5, ...MINUTE })).toMatchObject({
      resources: 2,
    });
    expect(await throttr.inspectSemaphore("gpu")).toEqual({
      consumption: 4,
      mostHeld: 4,
      maximum: 4,
    });
    const renewed = await throttr.renew("gpu", lease.leaseId, { ttlMs: 90_000 });
    expect(renewed).toMatchObject({ leaseId: lease.leaseId, resources: 1, ttlMs: 90_000 });
    expect(await throttr.release("gpu", lease.leaseId)).toBe(true);
    expect(await throttr.release("gpu", lease.leaseId)).toBe(false);
    expect(await throttr.renew("gpu", lease.leaseId, MINUTE)).toBe(null);
    expect(await throttr.inspectSemaphore("gpu")).toEqual({
      consumption: 3,
      mostHeld: 4,
      maximum: 4,
    });
    expect(await throttr.inspectSemaphore("none")).toBe(null);
  });

  it("the same lease may be acquired again", async () => {
    const options = { maximum: 3, resources: 2, ...MINUTE, leaseId: uuidOfNumber(1) };
    const leases = await Promise.all([1, 2, 3].map(() => throttr.acquire("gpu", options)));
    expect(leases.map((lease) => lease?.leaseId)).toEqual(leases.map(() => options.leaseId));
    expect(await inUse("gpu")).toBe(2);
    expect(await codeOf(throttr.acquire("gpu", { ...options, resources: 1 }))).toBe(
      "lease_conflict",
    );
  });

  it("a lease gives its resources back at its end, to the millisecond", async () => {
    const short = (await throttr.acquire("gpu", { maximum: 1, ttlMs: 60 }))!;
    let other = await throttr.acquire("gpu", { maximum: 1, ...MINUTE });
    for (let i = 0; other === null && i < 1000; i++) {
      await scheduler.wait(2);
      other = await throttr.acquire("gpu", { maximum: 1, ...MINUTE });
    }
    expect(other!.expiresAtMs).toBeGreaterThanOrEqual(short.expiresAtMs + 60_000);
    expect(await throttr.renew("gpu", short.leaseId, MINUTE)).toBe(null);
    expect(await throttr.release("gpu", short.leaseId)).toBe(false);
    expect(await inUse("gpu")).toBe(1);
  });

  it("many callers of one semaphore get no more than its maximum", async () => {
    const leases = await Promise.all(
      Array.from({ length: 60 }, () => throttr.acquire("gpu", { maximum: 7, ...MINUTE })),
    );
    expect(leases.filter((lease) => lease !== null)).toHaveLength(7);
    expect(await throttr.inspectSemaphore("gpu")).toEqual({
      consumption: 7,
      mostHeld: 7,
      maximum: 7,
    });
  });

  it("a batch takes all operations on semaphores", async () => {
    const leaseId = uuidOfNumber(2);
    const outcomes = await throttr.batch([
      ["acquire", "a", { maximum: 1, ...MINUTE, leaseId }],
      ["acquire", "a", { maximum: 1, ...MINUTE }],
      ["acquire", "b", { maximum: 1, ...MINUTE }],
      ["renew", "a", leaseId, MINUTE],
      ["renew", "b", leaseId, MINUTE],
      ["inspectSemaphore", "a"],
      ["semaphores", { limit: 1 }],
      ["holders", "a"],
      ["release", "a", leaseId],
    ]);
    const values = outcomes.map((outcome) => (outcome.ok ? outcome.value : outcome.error));
    expect(values[0]).toMatchObject({ leaseId, name: "a" });
    expect(values[1]).toBe(null);
    expect(values[2]).toMatchObject({ name: "b", leaseId: expect.stringMatching(/-4/) });
    expect(values[3]).toMatchObject({ leaseId });
    expect(values[4]).toBe(null);
    expect(values[5]).toEqual({ consumption: 1, mostHeld: 1, maximum: 1 });
    expect(values[6]).toMatchObject({ semaphores: [{ consumption: 1 }] });
    expect(values[7]).toMatchObject({ holders: [{ kind: "lease", id: leaseId }], cursor: null });
    expect(values[8]).toBe(true);
  });

  it("semaphores are listed over all shards in the order of their names, with their holders", async () => {
    const names = Array.from({ length: 40 }, (_, i) => `pool:${String(i).padStart(2, "0")}`);
    await throttr.batch(
      names.map(
        (name, i) => ["acquire", name, { maximum: 99, resources: i + 1, ...MINUTE }] as const,
      ),
    );
    await throttr.acquire("other", { maximum: 1, ...MINUTE });
    const listed: string[] = [];
    for (let cursor: Uint8Array | null = null; ;) {
      const page: Awaited<ReturnType<Throttr["semaphores"]>> = await throttr.semaphores({
        prefix: "pool:",
        limit: 7,
        ...(cursor === null ? {} : { cursor }),
      });
      for (const { name, consumption, maximum } of page.semaphores) {
        listed.push(textOf(name));
        expect([consumption, maximum]).toEqual([listed.length, listed.length]);
      }
      cursor = page.cursor;
      if (cursor === null) break;
      expect(page.semaphores).toHaveLength(7);
    }
    expect(listed).toEqual(names);
    expect((await throttr.semaphores()).semaphores).toHaveLength(41);

    const ids = [3, 1, 2].map(uuidOfNumber);
    for (const leaseId of ids) await throttr.acquire("many", { maximum: 9, ...MINUTE, leaseId });
    const first = await throttr.holders("many", { limit: 2 });
    expect(first.holders.map(({ id }) => id)).toEqual([1, 2].map(uuidOfNumber));
    const second = await throttr.holders("many", { limit: 2, cursor: first.cursor! });
    expect(second).toEqual({
      holders: [
        { kind: "lease", id: uuidOfNumber(3), resources: 1, expiresAtMs: expect.any(Number) },
      ],
      cursor: null,
    });
    expect(await throttr.holders("none")).toEqual({ holders: [], cursor: null });
  });

  it.each([
    ["name_invalid", () => throttr.acquire("", { maximum: 1, ...MINUTE })],
    ["resources_invalid", () => throttr.acquire("a", { resources: 0, maximum: 1, ...MINUTE })],
    ["maximum_invalid", () => throttr.acquire("a", { resources: 2, maximum: 1, ...MINUTE })],
    ["ttl_invalid", () => throttr.acquire("a", { maximum: 1, ttlMs: 86_400_001 })],
    ["lease_invalid", () => throttr.release("a", "none")],
    ["lease_invalid", () => throttr.renew("a", undefined as never, MINUTE)],
    [
      "argument_invalid",
      () => (throttr as unknown as { acquire(name: string): Promise<unknown> }).acquire("a"),
    ],
    ["after_invalid", () => throttr.holders("a", { cursor: Uint8Array.of(2) })],
  ])("an invalid argument is refused: %s", async (code, call) => {
    expect(await codeOf(call())).toBe(code);
  });
});

describe("leases", () => {
  it("leases outlive their shard, and end at their time all the same", async () => {
    const long = (await throttr.acquire("gpu", { maximum: 2, ...MINUTE }))!;
    const short = (await throttr.acquire("gpu", { maximum: 2, ttlMs: 4000 }))!;
    await evictAllDurableObjects();
    expect(await throttr.acquire("gpu", { maximum: 2, ...MINUTE })).toBe(null);
    expect((await throttr.holders("gpu")).holders).toHaveLength(2);
    await abortAllDurableObjects().catch(() => {});
    await scheduler.wait(Math.max(0, short.expiresAtMs - Date.now()));
    expect(await inUse("gpu")).toBe(1);
    expect(await throttr.renew("gpu", long.leaseId, MINUTE)).toMatchObject({ resources: 1 });
    await evictAllDurableObjects();
    expect(await throttr.release("gpu", long.leaseId)).toBe(true);
    await evictAllDurableObjects();
    expect(await throttr.inspectSemaphore("gpu")).toEqual({
      consumption: 0,
      mostHeld: 2,
      maximum: 2,
    });
  });

  it("reads and the alarm go on in shards that can't write, when leases have ended", async () => {
    const names = Array.from({ length: 16 }, (_, i) => `name ${i}`);
    const [short, long] = [uuidOfNumber(1), uuidOfNumber(2)];
    await throttr.batch(
      names.flatMap((name) => [
        ["acquire", name, { maximum: 3, ttlMs: 100, leaseId: short, resources: 2 }] as const,
        ["acquire", name, { maximum: 3, ...MINUTE, leaseId: long }] as const,
      ]),
    );
    const shards = Array.from({ length: SHARDS }, (_, i) => shardStub(i));
    const meters = await Promise.all(shards.map(async (shard) => await meterOf(shard)));
    for (const shard of shards) await breakJournal(shard);
    await scheduler.wait(150);
    const connection = await openYrmcds({
      transport: "websocket",
      form: "document",
      location: "XXX",
    });
    const ask = async (): Promise<void> => {
      const seen = await connection.ask(...names.map((name) => get(name)));
      expect(seen.map(numberOfBody)).toEqual(names.map(() => 1));
      const { semaphores: listed } = await throttr.semaphores();
      expect(listed.map(({ consumption }) => consumption)).toEqual(names.map(() => 1));
      for (const name of names) {
        expect(await inUse(name)).toBe(1);
        expect((await throttr.holders(name)).holders.map(({ id }) => id)).toEqual([long]);
      }
      const entries = entriesOf(await connection.askDump(dump()), "document");
      expect([...entries.values()].map(({ consumption }) => consumption)).toEqual(
        names.map(() => 1),
      );
    };
    await ask();
    for (const shard of shards) await runDurableObjectAlarm(shard);
    await ask();
    expect(meters.map(({ rows }) => rows)).toEqual(shards.map(() => 0));
    connection.close();
    await abortAllDurableObjects().catch(() => {});
    expect(await Promise.all(names.map(inUse))).toEqual(names.map(() => 1));
    for (const name of names) expect(await throttr.release(name, short)).toBe(false);
    expect(await throttr.acquire("name 0", { maximum: 3, resources: 2, ...MINUTE })).not.toBe(null);
  });

  it("leases belong to a namespace", async () => {
    const other = open("other");
    const lease = (await throttr.acquire("gpu", { maximum: 1, ...MINUTE }))!;
    expect(await other.acquire("gpu", { maximum: 1, ...MINUTE })).not.toBe(null);
    expect(await other.release("gpu", lease.leaseId)).toBe(false);
    expect(await inUse("gpu")).toBe(1);
  });
});

describe("connections of the yrmcds protocol", () => {
  it("connections of the yrmcds protocol and leases hold the same semaphores in every shard", async () => {
    const names = Array.from({ length: 16 }, (_, i) => `name ${i}`);
    const kind = { transport: "websocket", form: "document", location: "XXX" } as const;
    const connection = await openYrmcds(kind);
    const taken = await connection.ask(...names.map((name) => acquireByConnection(name, 2, 3)));
    expect(taken.map(({ status }) => status)).toEqual(names.map(() => 0));
    const leases = await throttr.batch(
      names.flatMap((name) => [
        ["acquire", name, { maximum: 3, resources: 2, ...MINUTE }] as const,
        ["acquire", name, { maximum: 3, ...MINUTE }] as const,
      ]),
    );
    expect(leases.map((outcome) => outcome.ok && outcome.value !== null)).toEqual(
      names.flatMap(() => [false, true]),
    );
    const seen = await connection.ask(...names.map((name) => get(name)));
    expect(seen.map(numberOfBody)).toEqual(names.map(() => 3));
    const refused = await connection.ask(...names.map((name) => acquireByConnection(name, 1, 3)));
    expect(refused.map(({ status }) => status)).toEqual(names.map(() => 0x21));
    expect((await throttr.holders(names[0]!)).holders).toMatchObject([
      { kind: "connection", resources: 2, expiresAtMs: null },
      { kind: "lease", resources: 1 },
    ]);
    const long = "x".repeat(1000);
    await connection.ask(acquireByConnection(long, 1, 1));
    const { semaphores: listed } = await throttr.semaphores({ prefix: "x" });
    expect(listed.map(({ name }) => textOf(name))).toEqual([long]);
    connection.close();
    await expect.poll(async () => await inUse(names[0]!)).toBe(1);
  });
});

describe("rights", () => {
  it("write acquires leases, read inspects semaphores, and admin lists holders", async () => {
    const lease = (await throttr.acquire("gpu", { maximum: 2, ...MINUTE }))!;
    const reader = open("default", { scopes: ["read"] });
    const writer = open("default", { scopes: ["write"] });
    const admin = open("default", { scopes: ["admin"] });
    const calls = (stub: Stub): Promise<string[]> =>
      Promise.all(
        [
          stub.acquire("gpu", { maximum: 9, ...MINUTE }),
          stub.renew("gpu", lease.leaseId, MINUTE),
          stub.inspectSemaphore("gpu"),
          stub.semaphores(),
          stub.holders("gpu"),
          stub.release("gpu", uuidOfNumber(9)),
        ].map(codeOf),
      );
    const [yes, no] = ["none", "scope_missing"];
    expect(await calls(reader)).toEqual([no, no, yes, yes, no, no]);
    expect(await calls(writer)).toEqual([yes, yes, no, no, no, yes]);
    expect(await calls(admin)).toEqual([no, no, no, no, yes, no]);
  });

  it("prefixes bind the names of semaphores, and no other name leads around them", async () => {
    const theirs = (await throttr.acquire("b:1", { maximum: 1, ...MINUTE }))!;
    const mine = open("default", { keyPrefixes: ["a:"] });
    const calls = [
      mine.acquire("b:1", { maximum: 9, ...MINUTE }),
      mine.renew("b:1", theirs.leaseId, MINUTE),
      mine.release("b:1", theirs.leaseId),
      mine.inspectSemaphore("b:1"),
      mine.holders("b:1"),
    ];
    expect(await Promise.all(calls.map(codeOf))).toEqual(calls.map(() => "prefix_missing"));
    for (let i = 0; i < 20; i++) {
      // Some of these live in the shard that has the lease.
      expect(await mine.acquire(`a:${i}`, { maximum: 1, ...MINUTE })).not.toBe(null);
      expect(await mine.release(`a:${i}`, theirs.leaseId)).toBe(false);
      expect(await mine.renew(`a:${i}`, theirs.leaseId, { ttlMs: 1 })).toBe(null);
    }
    const { semaphores: listed } = await mine.semaphores();
    expect(listed).toHaveLength(20);
    expect(listed.every(({ name }) => textOf(name).startsWith("a:"))).toBe(true);
    expect((await mine.semaphores({ prefix: "b" })).semaphores).toEqual([]);
    expect(await inUse("b:1")).toBe(1);
  });

  it("frames without a right are refused one by one", async () => {
    const { authorization } = await bearerOf({ scopes: ["read"], keyPrefixes: ["a:"] });
    const door = await openSocket("/throttr/edge", { authorization });
    const frames = [
      inspect("a:1"),
      inspect("b:1"),
      acquire("a:1", idOf(0), 1, 1, ttlMs(1000)),
      semaphores("", 5),
      holders("a:1", 5),
    ];
    const replies = commandReplies(await door.exchange(concat(frames), 297));
    expect(replies.map(({ code }) => code)).toEqual([
      "",
      "prefix_missing",
      "scope_missing",
      "",
      "scope_missing",
    ]);
    await door.close();
  });
});

describe("over HTTP", () => {
  const newcomer = async (): Promise<Calling> => calling(await bearerOf({ ns: freshNamespace() }));
  const path = "/v1/semaphores/gpu%2F1/leases";

  it("leases are acquired, renewed and released over HTTP", async () => {
    const call = await newcomer();
    const body = { maximum: 1, ttlMs: 5000, leaseId: uuidOfNumber(1).toUpperCase() };
    const first = await call("POST", path, { json: body });
    expect([first.status, first.json]).toEqual([
      201,
      {
        leaseId: uuidOfNumber(1),
        name: "gpu/1",
        resources: 1,
        ttlMs: 5000,
        expiresAtMs: expect.any(Number),
      },
    ]);
    expect((await call("POST", path, { json: body })).status).toBe(201);
    const other = { maximum: 1, ttlMs: 5000 };
    expectProblem(await call("POST", path, { json: other }), "semaphore_unavailable");
    const conflict = { ...body, resources: 2, maximum: 2 };
    expectProblem(await call("POST", path, { json: conflict }), "lease_conflict");
    const lease = `${path}/${uuidOfNumber(1)}`;
    expect((await call("PATCH", lease, { json: { ttlMs: 9000 } })).json.ttlMs).toBe(9000);
    expect((await call("DELETE", lease)).status).toBe(204);
    expectProblem(await call("DELETE", lease), "lease_absent");
    expectProblem(await call("PATCH", lease, { json: { ttlMs: 1 } }), "lease_absent");
    expect((await call("POST", path, { json: other })).status).toBe(201);
  });

  it("invalid fields are refused by name over HTTP", async () => {
    const call = await newcomer();
    const got = await call("POST", path, {
      json: { resources: 0, maximum: U32_MAX + 1, ttlMs: 86_400_001, leaseId: "x" },
    });
    expectProblem(got, "body_invalid");
    expect(Object.keys(fieldsOf(got))).toEqual(["resources", "maximum", "ttlMs", "leaseId"]);
    const less = { resources: 2, maximum: 1, ttlMs: 1 };
    expectProblem(await call("POST", path, { json: less }), "maximum_invalid");
    expectProblem(await call("DELETE", `${path}/none`), "lease_invalid");
    expectProblem(await call("DELETE", `${path}/%zz`), "lease_invalid");
    const long = `/v1/semaphores/${"x".repeat(256)}`;
    expectProblem(await call("GET", long), "name_invalid");
    expectProblem(await call("GET", "/v1/semaphores/none"), "semaphore_absent");
    expectProblem(await call("GET", "/v1/semaphores?cursor=%21"), "query_invalid");
    expectProblem(await call("GET", "/v1/semaphores/a/holders?cursor=AA"), "query_invalid");
  });

  it("pages of semaphores continue at their cursors, whatever bytes names have", async () => {
    const call = await newcomer();
    const names = ["%00", "a", "b%2Fc", "%FF%FE"];
    for (const name of names) {
      await call("POST", `/v1/semaphores/${name}/leases`, { json: { maximum: 1, ttlMs: 5000 } });
    }
    const listed: unknown[] = [];
    for (let cursor = ""; ;) {
      const { json } = await call("GET", `/v1/semaphores?limit=1${cursor}`);
      listed.push(...(json.semaphores as unknown[]));
      if (json.cursor === null) break;
      cursor = `&cursor=${json.cursor as string}`;
    }
    expect(listed).toEqual([
      { name: "\0", consumption: 1, mostHeld: 1, maximum: 1 },
      { name: "a", consumption: 1, mostHeld: 1, maximum: 1 },
      { name: "b/c", consumption: 1, mostHeld: 1, maximum: 1 },
      { nameBase64: "//4=", consumption: 1, mostHeld: 1, maximum: 1 },
    ]);
    for (const number of [2, 1]) {
      const json = { maximum: 9, ttlMs: 5000, leaseId: uuidOfNumber(number) };
      await call("POST", "/v1/semaphores/many/leases", { json });
    }
    const first = await call("GET", "/v1/semaphores/many/holders?limit=1");
    expect(first.json.holders).toMatchObject([{ id: uuidOfNumber(1) }]);
    const second = await call(
      "GET",
      `/v1/semaphores/many/holders?limit=1&cursor=${first.json.cursor as string}`,
    );
    expect(second.json).toMatchObject({ holders: [{ id: uuidOfNumber(2) }], cursor: null });
  });
});
