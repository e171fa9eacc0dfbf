/** RESTORE_LEASE and EXPORT_LEASES over the doors: rights, prefixes, limits; leases of a namespace that is moved. */
import { abortAllDurableObjects, reset } from "cloudflare:test";
import { env, exports } from "cloudflare:workers";
import { afterEach, beforeAll, describe, expect, it } from "vitest";
import { readSettings } from "../../src/base/settings.ts";
import type {
  ExportedLease,
  LeaseExportOptions,
  LeasePage,
} from "../../src/wire/edge/lease-transfer.ts";
import { uuidOf } from "../../src/wire/edge/uuid.ts";
import { refusalOf } from "../support/commands/calls.ts";
import {
  bytesOf,
  commandFrame,
  commandReplies,
  concat,
  EXPORT_LEASES,
  exportLeasesFrame,
  hex,
  idOf,
  KEEP,
  leaseKey,
  type LeaseRow,
  leaseRows,
  REPLACE,
  restoreLease,
  u16,
  u32,
  unhex,
  uuidOfNumber,
} from "../support/frames/index.ts";
import { one, open, send, type Stub } from "../support/pool/binding.ts";
import { openPort, openSocket, post } from "../support/pool/doors.ts";
import { bearerOf } from "../support/pool/tokens.ts";

const server = exports.default as unknown as Fetcher;
const PATH = "/throttr/edge";
const PORT = 9037;
const MINUTE = { ttlMs: 60_000 };
const END_MS = Date.now() + 3_600_000;
const LEASE: LeaseRow = {
  id: String.fromCharCode(...idOf(1)),
  name: "gpu:1",
  resources: 2,
  endsNs: BigInt(END_MS) * 1_000_000n,
};

let namespaces = 0;
const freshNamespace = (): string => `leases-${namespaces++}`;

beforeAll(() => {
  Object.assign(readSettings(env), { TCP_PORTS: `${PORT}=edge` });
});
afterEach(async () => {
  await reset();
});

/** All leases, page by page, in the order of their IDs and names. */
async function leasesOf(stub: Stub, options: LeaseExportOptions = {}): Promise<ExportedLease[]> {
  const leases: ExportedLease[] = [];
  for (let cursor: ExportedLease | null = null; ;) {
    const page: LeasePage = await stub.exportLeases({
      ...options,
      ...(cursor !== null && { cursor }),
    });
    leases.push(...page.leases);
    if (page.cursor === null) return leases.toSorted((a, b) => (keyOf(a) < keyOf(b) ? -1 : 1));
    cursor = page.cursor;
  }
}

const keyOf = ({ leaseId, name }: ExportedLease): string => leaseId + hex(name);

/** Who holds a semaphore, by ID. */
async function holdersOf(stub: Stub, name: string): Promise<unknown[]> {
  const { holders } = await stub.holders(name);
  return holders.map(({ id, kind, resources, expiresAtMs }) => [id, kind, resources, expiresAtMs]);
}

describe("leases of a moved namespace", () => {
  it("leases that are moved are held at the new server, and renewed and released there", async () => {
    const [from, to] = [open(freshNamespace()), open(freshNamespace())];
    const names = Array.from({ length: 12 }, (_, i) => `pool:${i}`);
    for (const [i, name] of names.entries()) {
      await from.acquire(name, { maximum: 9, resources: 2, ...MINUTE });
      // The same ID holds several semaphores.
      await from.acquire(name, { maximum: 9, leaseId: uuidOfNumber(i % 3), ttlMs: 50_000 + i });
    }
    const leases = await leasesOf(from, { limit: 5 });
    expect(leases).toHaveLength(24);
    const results = await Promise.all(leases.map((lease) => to.restoreLease(lease)));
    expect(new Set(results)).toEqual(new Set(["restored"]));
    await abortAllDurableObjects();
    for (const name of names) {
      expect(await holdersOf(to, name)).toEqual(await holdersOf(from, name));
      expect(await to.inspectSemaphore(name)).toMatchObject({ consumption: 3, mostHeld: 3 });
    }
    expect(await leasesOf(to)).toEqual(leases);
    expect(await to.acquire("pool:3", { maximum: 3, ...MINUTE })).toBe(null);
    expect(await to.renew("pool:3", uuidOfNumber(0), MINUTE)).toMatchObject({ resources: 1 });
    expect(await to.release("pool:3", uuidOfNumber(0))).toBe(true);
    expect(await to.acquire("pool:3", { maximum: 3, ...MINUTE })).not.toBe(null);
    expect(await to.inspectSemaphore("pool:0")).toMatchObject({ consumption: 3 });
  });

  it("what connections hold is not moved, and is in use at the old server as before", async () => {
    const ns = freshNamespace();
    const door = await openSocket("/yrmcds/counter", await bearerOf({ ns }));
    // Acquire 3 of `jobs`, 9 at most.
    const name = bytesOf("jobs");
    const frame = concat([
      Uint8Array.of(0x90, 2, 0, 0, 0, 0, 0, 14, 0, 0, 0, 1, 0, 0, 0, 3, 0, 0, 0, 9, 0, 4),
      name,
    ]);
    await door.exchange(frame, 16);
    await open(ns).acquire("jobs", { maximum: 9, ...MINUTE, leaseId: uuidOfNumber(1) });
    const leases = await leasesOf(open(ns));
    expect(leases.map(({ leaseId, resources }) => [leaseId, resources])).toEqual([
      [uuidOfNumber(1), 1],
    ]);
    expect(await open(ns).inspectSemaphore("jobs")).toMatchObject({ consumption: 4 });
    await door.close();
  });

  it("the operation restoreLease returns what became of a lease, also in a batch", async () => {
    const stub = open(freshNamespace());
    const lease = {
      name: "gpu",
      leaseId: uuidOfNumber(5),
      resources: 2,
      expiresAtMs: Date.now() + 60_000,
    };
    const outcomes = await stub.batch([
      ["restoreLease", lease],
      ["restoreLease", { ...lease, resources: 7 }],
      ["restoreLease", { ...lease, resources: 3 }, { policy: "replace" }],
      ["restoreLease", { ...lease, expiresAtMs: 1 }, { policy: "replace" }],
      ["inspectSemaphore", "gpu"],
      ["exportLeases", { prefix: "g" }],
    ]);
    const values = outcomes.map((outcome) => (outcome.ok ? outcome.value : outcome.error));
    expect(values.slice(0, 4)).toEqual(["restored", "kept", "restored", "expired"]);
    expect(values[4]).toMatchObject({ consumption: 3 });
    expect(values[5]).toEqual({
      leases: [{ ...lease, name: bytesOf("gpu"), resources: 3 }],
      cursor: null,
    });
  });
});

describe("the doors", () => {
  const frames = [
    restoreLease(LEASE, KEEP),
    restoreLease({ ...LEASE, resources: 5 }, KEEP),
    restoreLease({ ...LEASE, resources: 5 }, REPLACE),
    restoreLease({ ...LEASE, endsNs: 1n }, REPLACE),
    restoreLease(LEASE, 9),
    exportLeasesFrame(),
    exportLeasesFrame({ after: leaseKey(LEASE) }),
  ];

  it("all doors give the same replies to RESTORE_LEASE and EXPORT_LEASES", async () => {
    const texts = async (ns: string, over: (ns: string) => Promise<Uint8Array>) =>
      commandReplies(await over(ns)).map(({ bytes }) => hex(bytes));
    const rpc = await texts(freshNamespace(), (ns) => open(ns).exchange(concat(frames)));
    const replyBytes = rpc.reduce((sum, reply) => sum + reply.length / 2, 0);
    const http = await texts(freshNamespace(), async (ns) => {
      const response = await server.fetch(`http://localhost${PATH}`, {
        method: "POST",
        body: concat(frames),
        headers: await bearerOf({ ns }),
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
    expect([http, socket, tcp]).toEqual([rpc, rpc, rpc]);
    const replies = commandReplies(unhex(rpc.join("")));
    expect(replies.map(({ code, body }) => (code === "" ? body[0] : code))).toEqual([
      1,
      0,
      1,
      2,
      "policy_invalid",
      1,
      1,
    ]);
    expect(leaseRows(replies[5]!.body).rows).toEqual([{ ...LEASE, resources: 5 }]);
    expect(leaseRows(replies[6]!.body)).toEqual({ isLast: true, rows: [] });
  });

  it("only the edge dialect knows RESTORE_LEASE and EXPORT_LEASES", async () => {
    for (const frame of frames) {
      const response = await post("7.3", "uint64", frame);
      expect(await response.json()).toMatchObject({ code: "request_type_unknown" });
    }
  });
});

describe("rights", () => {
  it("RESTORE_LEASE needs write and EXPORT_LEASES admin, and no other scopes", async () => {
    const ns = freshNamespace();
    const needs: [string, string, Uint8Array][] = [
      ["RESTORE_LEASE", "write", restoreLease(LEASE, KEEP)],
      ["EXPORT_LEASES", "admin", exportLeasesFrame()],
    ];
    const all = ["read", "write", "publish", "subscribe", "admin"];
    for (const [name, scope, frame] of needs) {
      const others = all.filter((other) => other !== scope);
      const refused = await refusalOf(open(ns, { scopes: others }).exchange(frame));
      expect(refused).toContain(`scope_missing: ${name} at byte 0 needs the scope ${scope}`);
      expect((await one(open(ns, { scopes: [scope] }), frame)).code).toBe("");
    }
  });

  it("RESTORE_LEASE needs a name with a prefix of the token, and EXPORT_LEASES shows only those", async () => {
    const ns = freshNamespace();
    const names = ["gpu:1", "gpu:2", "gpu", "jobs"];
    await send(open(ns), ...names.map((name) => restoreLease({ ...LEASE, name }, KEEP)));
    const limited = open(ns, { keyPrefixes: ["gpu:", "x"] });
    const named = (leases: ExportedLease[]): string[] =>
      leases.map(({ name }) => new TextDecoder().decode(name));
    expect(named(await leasesOf(limited))).toEqual(["gpu:1", "gpu:2"]);
    expect(named(await leasesOf(limited, { prefix: "jobs" }))).toEqual([]);
    expect(named(await leasesOf(open(ns), { prefix: "gpu" }))).toEqual(["gpu", "gpu:1", "gpu:2"]);
    for (const name of ["gpu", "jobs"]) {
      const frame = restoreLease({ ...LEASE, name, resources: 9 }, REPLACE);
      expect(await refusalOf(limited.exchange(frame))).toMatch(/^prefix_missing: /);
    }
    expect(await open(ns).inspectSemaphore("jobs")).toMatchObject({ consumption: 2 });
  });
});

describe("limits", () => {
  const raw = (limit: number, bytesMax: number, options: number, after = ""): Uint8Array =>
    commandFrame(
      EXPORT_LEASES,
      "",
      concat([u16(limit), u32(bytesMax), Uint8Array.of(options), bytesOf(after)]),
    );

  it.each<[string, Uint8Array]>([
    ["body_invalid", commandFrame(EXPORT_LEASES, "")],
    ["body_invalid", commandFrame(EXPORT_LEASES, "", new Uint8Array(6))],
    ["limit_invalid", raw(0, 1, 0)],
    ["limit_invalid", raw(10_001, 1, 0)],
    ["bytes_max_invalid", raw(1, 0, 0)],
    ["bytes_max_invalid", raw(1, (1 << 20) + 1, 0)],
    ["options_invalid", raw(1, 1, 2)],
    ["options_invalid", raw(1, 1, 0xff)],
    ["after_invalid", raw(1, 1, 0, "x")],
    ["after_invalid", raw(1, 1, 1)],
    ["after_invalid", raw(1, 1, 1, "x".repeat(16))],
    ["after_invalid", raw(1, 1, 1, "x".repeat(16 + 256))],
    ["flags_invalid", commandFrame(EXPORT_LEASES, "", raw(1, 1, 0).slice(7), { flags: 1 })],
  ])("EXPORT_LEASES is refused: %s (%#)", async (code, frame) => {
    const stub = open(freshNamespace());
    await send(stub, restoreLease(LEASE, KEEP));
    expect((await one(stub, frame)).code).toBe(code);
  });

  it("EXPORT_LEASES fills a page from as many shards as it needs, up to its bytes", async () => {
    const stub = open(freshNamespace());
    const leases = Array.from({ length: 60 }, (_, i) => ({
      ...LEASE,
      id: String.fromCharCode(...idOf(i)),
      name: `pool:${i}`,
    }));
    await send(stub, ...leases.map((lease) => restoreLease(lease, KEEP)));
    const page = async (asked: object) =>
      leaseRows((await one(stub, exportLeasesFrame(asked))).body);
    expect((await page({})).rows).toHaveLength(60);
    expect(await page({ limit: 59 })).toMatchObject({ isLast: false });
    expect((await page({ limit: 59 })).rows).toHaveLength(59);
    const few = await page({ bytesMax: 500 });
    expect(few.isLast).toBe(false);
    // A row of at most 16 + 16 + 7 + 4 bytes.
    expect(few.rows.length).toBeGreaterThanOrEqual(10);
    expect(few.rows.length).toBeLessThanOrEqual(12);
    expect((await page({ bytesMax: 1 })).rows).toHaveLength(1);
    const all = await leasesOf(stub, { bytesMax: 100 });
    expect(all.map(({ leaseId }) => leaseId)).toEqual(
      leases.map(({ id }) => uuidOf(bytesOf(id))).toSorted(),
    );
  });
});
