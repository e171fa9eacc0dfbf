/** Counts outlive the objects that count: sleep, resets, cuts of the journal, and data of releases that stored none. */
import {
  abortAllDurableObjects,
  evictAllDurableObjects,
  reset,
  runDurableObjectAlarm,
  runInDurableObject,
} from "cloudflare:test";
import { exports } from "cloudflare:workers";
import { afterEach, describe, expect, it, vi } from "vitest";
import type { Overview } from "../../src/wire/overview.ts";
import { breakJournal, makeOldRow, shardStub } from "../support/pool/shards.ts";
import { bearerOf } from "../support/pool/tokens.ts";
import { calling, freshNamespace } from "../support/pool/v1-calls.ts";
import { withSettings } from "../support/pool/variables.ts";
import { parseExposition } from "../support/text/exposition.ts";

const server = exports.default as unknown as Fetcher;
const SHARDS = 4;
/** From as many rows on the alarm cuts the journal of a shard that has no records. */
const CUT_ROWS = 50;

/** Both end every object without notice: one keeps connections, the other does not. */
const ENDS: [string, () => Promise<void>][] = [
  ["left memory", evictAllDurableObjects],
  ["was reset", abortAllDurableObjects],
];

afterEach(async () => {
  vi.restoreAllMocks();
  await reset();
});

async function newSpace() {
  const ns = freshNamespace();
  const headers = await bearerOf({ ns });
  const call = calling(headers);
  const increment = async (times: number): Promise<void> => {
    for (let i = 0; i < times; i++)
      await call("POST", "/v1/counters/k/increment", { json: { ttlMs: 60_000 } });
  };
  const read = async (times: number): Promise<void> => {
    for (let i = 0; i < times; i++) await call("GET", "/v1/counters/k");
  };
  const remove = async (): Promise<void> => {
    await call("DELETE", "/v1/counters/k");
  };
  const overview = async (): Promise<Overview> =>
    (await call("GET", "/v1/overview")).json as unknown as Overview;
  /** Samples of counts of requests, by labels. */
  const metrics = async (): Promise<Map<string, number>> => {
    const response = await server.fetch("http://localhost/metrics", { headers });
    const { samples } = parseExposition(await response.text()).get("throttr_requests_total")!;
    return new Map(samples.map(({ labels, value }) => [JSON.stringify(labels), value]));
  };
  return { ns, call, increment, read, remove, overview, metrics };
}

const sumOf = (counts: Iterable<number>): number => [...counts].reduce((sum, n) => sum + n, 0);

/** Rows that the journals of all shards have. */
async function rowsOf(ns: string): Promise<number> {
  const shards = Array.from({ length: SHARDS }, (_, i) => shardStub(i, ns));
  const figures = await Promise.all(shards.map((shard) => shard.figures()));
  return sumOf(figures.map(({ journalRows }) => journalRows));
}

describe("counts of shards", () => {
  it.each(ENDS)("totals stay where every object %s", async (_, end) => {
    const { increment, overview, call } = await newSpace();
    await increment(1);
    const before = await overview();
    await end();
    await increment(1);
    await end();
    const after = await overview();
    expect(after.requests.byName["increment"]!.total).toBe(2);
    expect(after.readBytes.total).toBeGreaterThan(before.readBytes.total);
    expect(after.runningSinceMs).toBe(before.runningSinceMs);
    // Nothing was counted since the objects started.
    expect(after.requests.byName["increment"]!.perMinute).toBe(0);
    const started = after.shards.map((shard) => (shard.isUnreachable ? 0 : shard.startedAtMs));
    expect(Math.max(...started)).toBeGreaterThan(after.runningSinceMs!);
    const info = await call("GET", "/v1/info");
    expect(info.json).toMatchObject({ runningSinceMs: before.runningSinceMs });
    expect(info.json).toMatchObject({ requestsByType: { increment: { total: 2 } } });
  });

  it("totals stay with relaxed durability", async () => {
    await withSettings({ DURABILITY: "relaxed" }, async () => {
      const { increment, overview } = await newSpace();
      await increment(2);
      // The row follows within 50 ms.
      await scheduler.wait(100);
      await abortAllDurableObjects();
      expect((await overview()).requests.byName["increment"]!.total).toBe(2);
    });
  });

  it("totals stay when the journal that had them is cut, of a shard without records", async () => {
    const { ns, increment, remove, overview } = await newSpace();
    for (let i = 0; i < CUT_ROWS / 2; i++) {
      await increment(1);
      await remove();
    }
    const index = await busyShard(overview);
    await runDurableObjectAlarm(shardStub(index, ns));
    const journal = await runInDurableObject(shardStub(index, ns), (shard) => shard.figures());
    expect(journal).toMatchObject({ records: 0, journalRows: 0 });
    await abortAllDurableObjects();
    const { byName } = (await overview()).requests;
    expect(byName["increment"]!.total).toBe(CUT_ROWS / 2);
    await increment(1);
    await abortAllDurableObjects();
    expect((await overview()).requests.byName["increment"]!.total).toBe(CUT_ROWS / 2 + 1);
  });

  it("commits take counts along, and no row is written for them alone", async () => {
    const { ns, increment, read, overview } = await newSpace();
    await increment(1);
    await read(5);
    await overview();
    expect(await rowsOf(ns)).toBe(1);
    await increment(3);
    expect(await rowsOf(ns)).toBe(4);
  });

  it("data of a release that stored no counts begins at zero, and stores them from then on", async () => {
    const { ns, increment, remove, overview } = await newSpace();
    // A shard that does not count stores none either.
    await withSettings({ METRICS: "off" }, async () => await increment(2));
    const { shards } = await overview();
    const index = shards.findIndex((shard) => !shard.isUnreachable && shard.records > 0);
    await makeOldRow(shardStub(index, ns));
    await abortAllDurableObjects();
    expect((await overview()).requests.total).toBe(0);
    for (let i = 0; i < CUT_ROWS / 2; i++) {
      await increment(1);
      await remove();
    }
    await runDurableObjectAlarm(shardStub(index, ns));
    await abortAllDurableObjects();
    expect((await overview()).requests.byName["increment"]!.total).toBe(CUT_ROWS / 2);
  });
});

describe("counts for Prometheus", () => {
  it.each(ENDS)(
    "no sample of a shard goes down where every object %s after a scrape",
    async (_, end) => {
      const { increment, read, metrics } = await newSpace();
      await increment(3);
      await read(4);
      const before = await metrics();
      expect(sumOf(before.values())).toBe(7);
      await end();
      await read(1);
      const after = await metrics();
      for (const [labels, value] of before) expect(after.get(labels)).toBeGreaterThanOrEqual(value);
      expect(sumOf(after.values())).toBe(8);
    },
  );

  it("a scrape writes a row in each shard that has counted since its last row, and none elsewhere", async () => {
    const { ns, increment, read, metrics } = await newSpace();
    await increment(1);
    await metrics();
    expect(await rowsOf(ns)).toBe(1);
    await read(2);
    await metrics();
    expect(await rowsOf(ns)).toBe(2);
    await metrics();
    expect(await rowsOf(ns)).toBe(2);
  });

  it("a scrape that can't store its counts answers all the same", async () => {
    const warn = vi.spyOn(console, "warn").mockImplementation(() => {});
    const { ns, increment, read, metrics, overview } = await newSpace();
    await increment(1);
    await read(2);
    await breakJournal(shardStub(await busyShard(overview), ns));
    expect(sumOf((await metrics()).values())).toBe(3);
    expect(warn.mock.calls.flat().join()).toContain("counts_unstored");
    // Nothing is lost as long as the shard lives.
    expect(sumOf((await metrics()).values())).toBe(3);
  });
});

/** Index of the shard that has counted. */
async function busyShard(overview: () => Promise<Overview>): Promise<number> {
  const { shards } = await overview();
  return shards.findIndex((shard) => !shard.isUnreachable && shard.requests.total > 0);
}
