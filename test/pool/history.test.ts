/** The last hour of a namespace, in its Directory: what awake objects tell it, and what that costs. */
import {
  abortAllDurableObjects,
  createExecutionContext,
  evictAllDurableObjects,
  reset,
  runInDurableObject,
} from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { Sums } from "../../src/engine/minute-report.ts";
import { StoredCounts } from "../../src/engine/stored-counts.ts";
import { Tally } from "../../src/engine/tally.ts";
import { Directory } from "../../src/objects/channel/directory.ts";
import { DirectoryCounts } from "../../src/objects/channel/directory-counts.ts";
import type { History } from "../../src/wire/history.ts";
import type { Overview } from "../../src/wire/overview.ts";
import { RequestType } from "../../src/wire/throttr/requests.ts";
import worker from "../../src/worker/index.ts";
import { openSocket, type SocketDoor } from "../support/pool/doors.ts";
import { bytesOfHex } from "../support/pool/reading.ts";
import { bearerOf } from "../support/pool/tokens.ts";
import { calling, expectProblem, freshNamespace } from "../support/pool/v1-calls.ts";
import { withSettings } from "../support/pool/variables.ts";

const MINUTE_MS = 60_000;
/** From a report to the row. */
const GATHERED_MS = 1500;
/** From the last call of a door or a Hub to the row, at most. */
const RESTED_MS = 9000;
const SHARDS = 4;

let clock: { ms: number } | null = null;

beforeEach(() => {
  // Ten seconds into a minute; objects share this clock, as they run in this isolate.
  clock = { ms: Math.floor(Date.now() / MINUTE_MS) * MINUTE_MS + 10_000 };
  vi.spyOn(Date, "now").mockImplementation(() => clock!.ms);
});

afterEach(async () => {
  vi.restoreAllMocks();
  await reset();
});

const sumsOf = (requests: number): Sums => [requests, 0, 0, 0, 0, 0];

const pass = (ms: number): void => {
  clock!.ms += ms;
};

async function newSpace() {
  const ns = freshNamespace();
  const headers = await bearerOf({ ns });
  const call = calling(headers);
  /** A request in each shard. */
  const touch = async (): Promise<void> => {
    for (let i = 0; i < 4 * SHARDS; i++) await call("GET", `/v1/counters/key:${i}`);
  };
  const history = async (): Promise<History> =>
    (await call("GET", "/v1/history")).json as unknown as History;
  const overview = async (): Promise<Overview> =>
    (await call("GET", "/v1/overview")).json as unknown as Overview;
  return { ns, headers, call, touch, history, overview };
}

const directoryOf = (ns: string): DurableObjectStub<Directory> =>
  env.DIRECTORY.getByName(ns) as unknown as DurableObjectStub<Directory>;

/** Counts what Directories are told, and what that of a namespace writes. */
async function meterOf(ns: string): Promise<{ reports: () => string[]; rows: () => number }> {
  const told = vi.spyOn(DirectoryCounts.prototype, "report");
  let rows = 0;
  await runInDurableObject(directoryOf(ns), (_, { storage }) => {
    const { kv } = storage;
    const put = kv.put.bind(kv);
    Object.defineProperty(kv, "put", {
      value: (key: string, value: unknown) => {
        if (key === "counts") rows++;
        put(key, value);
      },
    });
  });
  return {
    // Those of the Directory itself, about doors, are no calls.
    reports: () => told.mock.calls.map(([object]) => object).filter((object) => object !== ""),
    rows: () => rows,
  };
}

/** Keeps the first report of a Hub on its way until the gate opens. */
function holdReport(gate: Promise<void>) {
  const retire = vi.spyOn(Directory.prototype, "retire");
  const reports = vi.spyOn(Directory.prototype, "report").mockImplementationOnce(async function (
    this: Directory,
    ...asked
  ) {
    await gate;
    return await Directory.prototype.report.apply(this, asked);
  });
  return { reports, retire };
}

/** What a life of a Hub says that has counted WHOAMI: `count` in all, `before` of them until its last report. */
function wordsOf(sinceMs: number, count: number, before = 0) {
  const tally = new Tally();
  tally.add(RequestType.whoami, count, count);
  const atMs = Math.floor(clock!.ms / MINUTE_MS) * MINUTE_MS;
  const minutes = [{ atMs, sums: sumsOf(count), limits: [] }];
  return {
    figures: tally.figures(clock!.ms),
    report: { sinceMs, base: sumsOf(before), minutes },
    counts: new StoredCounts(tally, null, true).takeAll(clock!.ms),
  };
}

describe("the last hour", () => {
  it("the last hour has each whole minute with the requests, bytes and decisions of all objects", async () => {
    const { call, touch, history } = await newSpace();
    await call("PUT", "/v1/counters/k", { json: { quota: 1, ttlMs: 600_000 } });
    const strategy = { strategy: "token_bucket", burst: 1, rate: 1e-9 };
    for (let i = 0; i < 3; i++) await call("POST", "/v1/limits/api/ada", { json: { strategy } });
    expect((await history()).minutes).toEqual([]);
    const firstMs = Math.floor(clock!.ms / MINUTE_MS) * MINUTE_MS;
    pass(MINUTE_MS);
    await touch();
    const { minutes, unavailable } = await history();
    expect(unavailable).toBeNull();
    expect(minutes).toHaveLength(1);
    expect(minutes[0]).toMatchObject({
      atMs: firstMs,
      requests: 4,
      limits: { allowed: 1, refused: 2, errors: 0 },
      byLimit: { api: { allowed: 1, refused: 2, errors: 0 } },
    });
    expect(minutes[0]!.readBytes).toBeGreaterThan(0);
    pass(2 * MINUTE_MS);
    await touch();
    expect((await history()).minutes.map(({ requests }) => requests)).toEqual([4, 4 * SHARDS]);
  });

  it("requests that no shard counts are in the last hour, over HTTP and over connections", async () => {
    const { headers, call, history } = await newSpace();
    const socket = await openSocket("/throttr/7.3/uint16", headers);
    await socket.exchange(bytesOfHex("18"), 17);
    await call("POST", "/channels/news", { body: "hello" });
    // Counts of doors and of connections travel within a second.
    await scheduler.wait(GATHERED_MS);
    pass(MINUTE_MS);
    await socket.exchange(bytesOfHex("18"), 17);
    await scheduler.wait(GATHERED_MS);
    expect((await history()).minutes[0]).toMatchObject({ requests: 2 });
    await socket.close();
  });

  it.each([
    ["left memory", evictAllDurableObjects],
    ["was reset", abortAllDurableObjects],
  ])(
    "the last hour stays where every object %s, and what shards counted last comes late",
    async (_, end) => {
      const { call, history, overview } = await newSpace();
      const increment = async (): Promise<unknown> =>
        await call("POST", "/v1/counters/k/increment", { json: { ttlMs: 600_000 } });
      await increment();
      await scheduler.wait(GATHERED_MS);
      pass(2000);
      // Its row has the count; the Directory is told of it with the next minute.
      await increment();
      await end();
      pass(5 * MINUTE_MS);
      expect((await history()).minutes.map(({ requests }) => requests)).toEqual([1]);
      await overview();
      await vi.waitFor(async () =>
        expect((await history()).minutes.map(({ requests }) => requests)).toEqual([2]),
      );
    },
  );

  it("totals of doors and of connections stay where every object was reset", async () => {
    const { headers, call, overview } = await newSpace();
    const socket = await openSocket("/throttr/7.3/uint16", headers);
    await socket.exchange(bytesOfHex("18"), 17);
    await call("POST", "/channels/news", { body: "hello" });
    await scheduler.wait(2 * GATHERED_MS);
    pass(2000);
    await abortAllDurableObjects();
    const { byName } = (await overview()).requests;
    expect(byName).toMatchObject({ whoami: { total: 1 }, publish: { total: 1 } });
    // A Hub that starts again counts beside what it had counted.
    const other = await openSocket("/throttr/7.3/uint16", headers);
    await other.exchange(bytesOfHex("18"), 17);
    expect((await overview()).requests.byName["whoami"]!.total).toBe(2);
    await other.close();
    await vi.waitFor(async () => {
      const { requests, connections } = await overview();
      expect(connections.open).toBe(0);
      expect(requests.byName["whoami"]!.total).toBe(2);
    });
  });

  it("totals have short sessions of one minute, also where every object sleeps between them", async () => {
    const { ns, headers, overview, history } = await newSpace();
    for (let session = 0; session < 2; session++) {
      const meter = await meterOf(ns);
      const socket = await openSocket("/throttr/7.3/uint16", headers);
      for (let i = 0; i < 10; i++) await socket.exchange(bytesOfHex("18"), 17);
      await scheduler.wait(2 * GATHERED_MS);
      // Behind the row of the minute.
      for (let i = 0; i < 5; i++) await socket.exchange(bytesOfHex("18"), 17);
      await socket.close();
      await vi.waitFor(async () => expect(await directoryOf(ns).hubs()).toEqual([]), 5000);
      await vi.waitFor(() => expect(meter.rows()).toBe(2 - session), RESTED_MS);
      await evictAllDurableObjects();
      pass(15_000);
    }
    expect((await overview()).requests.byName["whoami"]!.total).toBe(30);
    pass(MINUTE_MS);
    expect((await history()).minutes.map(({ requests }) => requests)).toEqual([30]);
  });

  it("a Hub is counted once whose report arrives late, while its last connection closes", async () => {
    const { ns, headers, overview, history } = await newSpace();
    const gate = Promise.withResolvers<void>();
    const { reports, retire } = holdReport(gate.promise);
    const socket = await openSocket("/throttr/7.3/uint16", headers);
    await socket.exchange(bytesOfHex("18"), 17);
    await vi.waitFor(() => expect(reports).toHaveBeenCalledTimes(1), 5000);
    await socket.close();
    await scheduler.wait(500);
    gate.resolve();
    await vi.waitFor(() => expect(retire).toHaveBeenCalledTimes(1), 5000);
    await vi.waitFor(async () => expect(await directoryOf(ns).hubs()).toEqual([]));
    pass(MINUTE_MS);
    expect((await overview()).requests.byName["whoami"]!.total).toBe(1);
    expect((await history()).minutes.map(({ requests }) => requests)).toEqual([1]);
  });

  it("a Hub whose report hangs leaves the Directory's list, and is counted once when the report arrives", async () => {
    const { ns, headers, overview, history } = await newSpace();
    vi.spyOn(console, "warn").mockImplementation(() => {});
    const gate = Promise.withResolvers<void>();
    const { reports } = holdReport(gate.promise);
    const socket = await openSocket("/throttr/7.3/uint16", headers);
    await socket.exchange(bytesOfHex("18"), 17);
    await vi.waitFor(() => expect(reports).toHaveBeenCalledTimes(1), 5000);
    await socket.close();
    await vi.waitFor(async () => expect(await directoryOf(ns).hubs()).toEqual([]), 5000);
    gate.resolve();
    await scheduler.wait(100);
    pass(MINUTE_MS);
    expect((await overview()).requests.byName["whoami"]!.total).toBe(1);
    expect((await history()).minutes.map(({ requests }) => requests)).toEqual([1]);
  });

  it("a Hub that counts anew while its report still hangs has all its counts in the last hour", async () => {
    const { ns, headers, history } = await newSpace();
    vi.spyOn(console, "warn").mockImplementation(() => {});
    const reports = vi.spyOn(Directory.prototype, "report");
    const open = async (): Promise<SocketDoor> => await openSocket("/throttr/7.3/uint16", headers);
    const ask = async (socket: SocketDoor, times: number): Promise<void> => {
      for (let i = 0; i < times; i++) await socket.exchange(bytesOfHex("18"), 17);
    };
    const left = async (): Promise<void> =>
      await vi.waitFor(async () => expect(await directoryOf(ns).hubs()).toEqual([]), 8000);
    const first = await open();
    await ask(first, 5);
    await vi.waitFor(() => expect(reports).toHaveBeenCalledTimes(1), 5000);
    pass(MINUTE_MS);
    reports.mockImplementationOnce(async () => await new Promise<never>(() => {}));
    await ask(first, 1);
    await vi.waitFor(() => expect(reports).toHaveBeenCalledTimes(2), 5000);
    await first.close();
    await left();
    const second = await open();
    await ask(second, 1);
    await vi.waitFor(() => expect(reports).toHaveBeenCalledTimes(3), 5000);
    await ask(second, 1);
    await second.close();
    await left();
    pass(MINUTE_MS);
    expect((await history()).minutes.map(({ requests }) => requests)).toEqual([5, 3]);
  });

  describe("the last words of a life of a Hub", () => {
    async function newHub() {
      const { ns, overview } = await newSpace();
      const hub = `${ns}/XXX/0`;
      const directory = (): DurableObjectStub<Directory> => directoryOf(ns);
      return {
        directory,
        report: async (sinceMs: number, count: number): Promise<void> => {
          const { report, counts } = wordsOf(sinceMs, count);
          await directory().report(hub, report, counts);
        },
        retire: async (sinceMs: number, count: number): Promise<void> => {
          await directory().retire(hub, wordsOf(sinceMs, count).figures, {
            sinceMs,
            report: null,
          });
        },
        total: async (): Promise<number> =>
          (await overview()).requests.byName["whoami"]?.total ?? 0,
      };
    }

    it("count once where they come behind those of the next life", async () => {
      const { report, retire, total } = await newHub();
      await report(1000, 10);
      await retire(2000, 5);
      await retire(1000, 12);
      expect(await total()).toBe(17);
    });

    it("leave alone what the next life has reported before they came", async () => {
      const { report, retire, total } = await newHub();
      await report(2000, 5);
      await retire(1000, 12);
      expect(await total()).toBe(17);
      await report(2000, 6);
      expect(await total()).toBe(18);
      await retire(2000, 7);
      expect(await total()).toBe(19);
    });

    it("end what lives had reported that were reset before it", async () => {
      const { directory, report, retire, total } = await newHub();
      await report(1000, 10);
      await report(2000, 5);
      await retire(2000, 7);
      expect(await total()).toBe(17);
      expect((await directory().survey()).kept).toEqual([]);
    });

    it("do not count where two later lives have reported, and what this one had reported was taken over", async () => {
      const { report, retire, total } = await newHub();
      for (const sinceMs of [1000, 2000, 3000]) await report(sinceMs, 10);
      expect(await total()).toBe(30);
      await retire(1000, 12);
      expect(await total()).toBe(30);
    });

    it("make a report of it that comes later count for nothing, also behind a restart of the Directory", async () => {
      const { directory, report, retire, total } = await newHub();
      await report(1000, 10);
      await retire(1000, 12);
      await scheduler.wait(RESTED_MS);
      await evictAllDurableObjects();
      await report(1000, 11);
      expect(await total()).toBe(12);
      expect(await directory().hubs()).toEqual([]);
    }, 30_000);
  });

  it("a Hub that was started again is counted once where the report of its earlier life arrives late", async () => {
    const { ns, overview, history } = await newSpace();
    const report = async (sinceMs: number, before: number, count: number): Promise<void> => {
      const { report: reported, counts } = wordsOf(sinceMs, count, before);
      await directoryOf(ns).report(`${ns}/XXX/0`, reported, counts);
    };
    const total = async (): Promise<number> =>
      (await overview()).requests.byName["whoami"]?.total ?? 0;
    // The clock has been set back between the lives: the later one says the earlier time.
    const [earlier, later, last] = [2000, 1000, 3000];
    await report(later, 0, 10);
    await report(earlier, 0, 5);
    expect(await total()).toBe(15);
    await report(later, 10, 12);
    expect(await total()).toBe(17);
    await report(last, 0, 1);
    await report(last, 1, 2);
    expect(await total()).toBe(19);
    pass(MINUTE_MS);
    expect((await history()).minutes.map(({ requests }) => requests)).toEqual([19]);
  });

  it("the last hour needs the scope admin", async () => {
    const { ns } = await newSpace();
    const call = calling(await bearerOf({ ns, scopes: ["read"] }));
    expectProblem(await call("GET", "/v1/history"), "scope_missing");
  });

  it("a Directory of an earlier release has no last hour, and the answer says so", async () => {
    const { ns, history } = await newSpace();
    await runInDurableObject(directoryOf(ns), (directory) => {
      // Calls find the methods of a class alone: the platform says that this one does not exist.
      Object.defineProperty(directory, "history", { value: null });
    });
    expect(await history()).toEqual({ minutes: [], unavailable: "outdated" });
  });
});

describe("the cost of the last hour", () => {
  it("each awake object makes one call a minute, and the Directory writes one row for all of them", async () => {
    const { ns, touch } = await newSpace();
    await touch();
    const meter = await meterOf(ns);
    await scheduler.wait(GATHERED_MS);
    for (let minute = 1; minute <= 3; minute++) {
      const [calls, rows] = [meter.reports().length, meter.rows()];
      pass(MINUTE_MS);
      for (let i = 0; i < 3; i++) {
        await touch();
        pass(100);
      }
      await scheduler.wait(GATHERED_MS);
      await touch();
      await scheduler.wait(GATHERED_MS);
      const told = meter.reports().slice(calls);
      expect(told.toSorted()).toEqual(Array.from({ length: SHARDS }, (_, i) => `${ns}/${i}`));
      expect(meter.rows() - rows).toBe(1);
    }
  });

  it("objects that nothing is asked of call nothing and write nothing, also when they are looked at", async () => {
    const { ns, touch, overview, history } = await newSpace();
    await touch();
    await scheduler.wait(GATHERED_MS);
    pass(MINUTE_MS);
    await overview();
    await scheduler.wait(GATHERED_MS);
    const meter = await meterOf(ns);
    for (let minute = 0; minute < 3; minute++) {
      pass(MINUTE_MS);
      await overview();
      await history();
    }
    await scheduler.wait(GATHERED_MS);
    expect(meter.reports()).toEqual([]);
    expect(meter.rows()).toBe(0);
  });

  it.each([{ HISTORY: "off" } as const, { METRICS: "off" } as const])(
    "with %o nothing is told or written, and the answer says so",
    async (settings) => {
      await withSettings(settings, async () => {
        const { ns, headers, touch, history } = await newSpace();
        const meter = await meterOf(ns);
        await touch();
        pass(MINUTE_MS);
        await touch();
        await scheduler.wait(GATHERED_MS);
        expect(meter.reports()).toEqual([]);
        expect(meter.rows()).toBe(0);
        expect((await history()).minutes).toEqual([]);
        const request = new Request("http://localhost/v1/history", { headers });
        const variables = { ...env, ...settings };
        const answer = await worker.fetch(
          request as Parameters<typeof worker.fetch>[0],
          variables,
          createExecutionContext(),
        );
        expect(await answer.json()).toEqual({ minutes: [], unavailable: "off" });
      });
    },
  );

  it("the row stays, and is not written again, when the group of the Directory empties its part of the storage", async () => {
    const { ns, touch, history } = await newSpace();
    await touch();
    await scheduler.wait(GATHERED_MS);
    await runInDurableObject(directoryOf(ns), async (directory, { storage }) => {
      const deleteAll = vi.spyOn(storage, "deleteAll");
      await directory.alarm();
      expect(deleteAll).not.toHaveBeenCalled();
      deleteAll.mockRestore();
    });
    await abortAllDurableObjects();
    pass(MINUTE_MS);
    expect((await history()).minutes).toHaveLength(1);
  });
});
