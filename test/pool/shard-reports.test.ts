/** Figures of a namespace with many shards: read from what the shards have reported to the Directory, and what that costs. */
import {
  abortAllDurableObjects,
  createExecutionContext,
  evictAllDurableObjects,
  reset,
  runInDurableObject,
} from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { ShardReport } from "../../src/base/calls/shard.ts";
import type { Directory } from "../../src/objects/channel/directory.ts";
import { Figures } from "../../src/objects/shard/figures.ts";
import { Shard } from "../../src/objects/shard/shard.ts";
import type { MinuteReport } from "../../src/engine/minute-report.ts";
import { SHARD_REPORTS_GATHER_MS, SHARD_REST_MS } from "../../src/engine/sizes.ts";
import type { Overview } from "../../src/wire/overview.ts";
import type { Shards } from "../../src/wire/shards.ts";
import worker from "../../src/worker/index.ts";
import { bearerOf } from "../support/pool/tokens.ts";
import { freshNamespace } from "../support/pool/v1-calls.ts";
import { parseExposition } from "../support/text/exposition.ts";

type WorkerRequest = Parameters<typeof worker.fetch>[0];

/** More than are asked. */
const SHARDS = 20;
const KEYS = 10 * SHARDS;
const MINUTE_MS = 60_000;

let clock: { ms: number };

beforeEach(() => {
  // Ten seconds into a minute; objects share this clock, as they run in this isolate.
  clock = { ms: Math.floor(Date.now() / MINUTE_MS) * MINUTE_MS + 10_000 };
  vi.spyOn(Date, "now").mockImplementation(() => clock.ms);
});

afterEach(async () => {
  vi.restoreAllMocks();
  await reset();
});

/** What doors are given: the number of shards is theirs to choose, at the first write. */
const doorsOf = (shards: number): typeof env => ({ ...env, SHARDS: String(shards) as "4" });
const MANY = doorsOf(SHARDS);
const FEW = doorsOf(16);

class Space {
  readonly ns = freshNamespace();
  readonly #door: typeof env;

  constructor(door: typeof env) {
    this.#door = door;
  }

  async #fetch(method: string, path: string, body?: object): Promise<Response> {
    const { authorization } = await bearerOf({ ns: this.ns });
    const headers = { authorization, "content-type": "application/json" };
    const request = new Request(`https://throttr${path}`, {
      method,
      headers,
      ...(body && { body: JSON.stringify(body) }),
    });
    const response = await worker.fetch(
      request as WorkerRequest,
      this.#door,
      createExecutionContext(),
    );
    if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`);
    return response;
  }

  async #get<T>(path: string): Promise<T> {
    return (await this.#fetch("GET", path)).json<T>();
  }

  async increment(key: string): Promise<void> {
    await this.#fetch("POST", `/v1/counters/${key}/increment`, { ttlMs: 3_600_000 });
  }

  /** A counter in each shard, and more. */
  async fill(): Promise<void> {
    await Promise.all(Array.from({ length: KEYS }, (_, i) => this.increment(`key:${i}`)));
  }

  async overview(): Promise<Overview> {
    return await this.#get<Overview>("/v1/overview");
  }

  async shards(): Promise<Shards> {
    return await this.#get<Shards>("/v1/shards");
  }

  async metrics() {
    return parseExposition(await (await this.#fetch("GET", "/metrics")).text());
  }

  get directory(): DurableObjectStub<Directory> {
    return env.DIRECTORY.getByName(this.ns) as unknown as DurableObjectStub<Directory>;
  }

  /** Rows of reports that the Directory writes from now on. */
  async rowsOfReports(): Promise<string[]> {
    const rows: string[] = [];
    await runInDurableObject(this.directory, (_, { storage: { kv } }) => {
      const put = kv.put.bind(kv);
      Object.defineProperty(kv, "put", {
        value: (key: string, value: unknown) => {
          if (key.startsWith("shards/")) rows.push(key);
          put(key, value);
        },
      });
    });
    return rows;
  }
}

/** In a function of its own, as `Space` has no tests. */
const sumOf = (samples: readonly { value: number }[] | undefined): number =>
  (samples ?? []).reduce((sum, { value }) => sum + value, 0);

/** Of a minute in which a shard had no request. */
const noCounts = (): MinuteReport => ({
  sinceMs: 0,
  base: [0, 0, 0, 0, 0, 0],
  minutes: [{ atMs: clock.ms, sums: [0, 0, 0, 0, 0, 0], limits: [] }],
});

/** Longer than the shards and the Directory wait, however busy the machine is. */
const PATIENCE = { timeout: 40_000, interval: 200 };

describe("figures of a namespace with many shards", () => {
  it("overview, metrics and list of 20 shards are what they have reported before they slept, and wake none", async () => {
    const space = new Space(MANY);
    await space.fill();
    // The first look asks all shards, and makes them report.
    await space.overview();
    // More in the same minute: the shards report that once they have nothing more to do.
    await space.fill();
    await vi.waitFor(async () => {
      const { requests } = await space.overview();
      expect(requests.byName["increment"]!.total).toBe(2 * KEYS);
    }, PATIENCE);
    await scheduler.wait(SHARD_REPORTS_GATHER_MS + 1000);
    await evictAllDurableObjects();
    const summary = vi.spyOn(Shard.prototype, "summary");
    const state = vi.spyOn(Shard.prototype, "shardState");
    const overview = await space.overview();
    expect(overview.records.counters).toBe(KEYS);
    expect(overview.requests.byName["increment"]!.total).toBe(2 * KEYS);
    expect(overview.shards.map(({ shard }) => shard)).toEqual(
      Array.from({ length: SHARDS }, (_, i) => String(i)),
    );
    for (const shard of overview.shards) {
      expect(shard).toMatchObject({ isUnreachable: false, reportedAtMs: clock.ms });
    }
    const metrics = await space.metrics();
    expect(sumOf(metrics.get("throttr_records")?.samples)).toBe(KEYS);
    expect(metrics.get("throttr_shard_up")?.samples ?? []).toEqual([]);
    expect(metrics.get("throttr_shard_report_time_seconds")?.samples).toHaveLength(SHARDS);
    const { shards } = await space.shards();
    expect(shards.reduce((sum, { records }) => sum + records, 0)).toBe(KEYS);
    expect(shards.at(-1)).toMatchObject({ shard: "19", to: 2 ** 32, reportedAtMs: clock.ms });
    expect(summary).not.toHaveBeenCalled();
    expect(state).not.toHaveBeenCalled();
  });

  it("counts of the last minute in a report are over once the report is two minutes old", async () => {
    const space = new Space(MANY);
    await space.fill();
    await space.overview();
    await scheduler.wait(100);
    expect((await space.overview()).requests.byName["increment"]!.perMinute).toBe(KEYS);
    clock.ms += 2 * MINUTE_MS + 1;
    const { total, perMinute } = (await space.overview()).requests.byName["increment"]!;
    expect([total, perMinute]).toEqual([KEYS, 0]);
  });

  it("shards without a report are asked, and then have one", async () => {
    const space = new Space(MANY);
    await space.fill();
    await abortAllDurableObjects();
    const summary = vi.spyOn(Shard.prototype, "summary");
    expect((await space.overview()).records.counters).toBe(KEYS);
    expect(summary).toHaveBeenCalledTimes(SHARDS);
    await scheduler.wait(100);
    const again = await space.overview();
    expect(again.records.counters).toBe(KEYS);
    expect(again.shards.every((shard) => !shard.isUnreachable && shard.reportedAtMs)).toBe(true);
    expect(summary).toHaveBeenCalledTimes(SHARDS);
  });

  it("a shard that has reported a split two minutes ago, and not its end, is asked, and then has reported it", async () => {
    const space = new Space(MANY);
    await space.fill();
    await space.overview();
    await scheduler.wait(100);
    const reports: ShardReport[] = await space.directory.shardReports(false);
    const { summary } = reports.find((report) => report.summary.state.range.from === 0)!;
    const split = { at: 1000, attempt: 1, isGiven: true };
    // The last that the shard says before it is reset: its next life has no split to end.
    await space.directory.report(`${space.ns}/0`, noCounts(), null, {
      atMs: clock.ms,
      summary: { ...summary, state: { ...summary.state, split } },
    });
    const asked = vi.spyOn(Shard.prototype, "summary");
    const first = async (): Promise<unknown> => (await space.overview()).shards[0];
    expect(await first()).toMatchObject({ isSplitting: true });
    clock.ms += 2 * MINUTE_MS;
    expect(await first()).toMatchObject({ isSplitting: true });
    expect(asked).not.toHaveBeenCalled();
    clock.ms++;
    expect(await first()).toMatchObject({ isSplitting: false });
    await scheduler.wait(100);
    expect(await first()).toMatchObject({ isSplitting: false });
    expect(asked).toHaveBeenCalledTimes(1);
  });

  it("no count of a metric goes down where a shard has lost its last counts, or the Directory its last reports", async () => {
    const space = new Space(MANY);
    await space.fill();
    await space.overview();
    await scheduler.wait(100);
    const counted = async (): Promise<number> =>
      sumOf((await space.metrics()).get("throttr_read_bytes_total")?.samples);
    const before = await counted();
    await abortAllDurableObjects();
    expect(await counted()).toBe(before);
    const reports: ShardReport[] = await space.directory.shardReports(false);
    const { summary } = reports[0]!;
    // What the shard says that has lost all its counts, but knows since when it counts.
    await space.directory.report(`${space.ns}/0`, noCounts(), null, {
      atMs: clock.ms,
      summary: { ...summary, tally: new Float64Array(summary.tally.length) },
    });
    expect(await counted()).toBe(before);
  });

  it("20 shards cost a call each with their first request of a minute and once they are at rest, and the Directory a row in 5 seconds", async () => {
    const space = new Space(MANY);
    await space.fill();
    await space.overview();
    await scheduler.wait(SHARD_REPORTS_GATHER_MS + 1000);
    const rows = await space.rowsOfReports();
    const startMs = performance.now();
    const reported = vi.spyOn(Figures.prototype, "report");
    clock.ms += MINUTE_MS;
    for (let i = 0; i < 3; i++) await space.fill();
    // With the first call of the minute, and once there was none for five seconds.
    await vi.waitFor(() => expect(reported).toHaveBeenCalledTimes(2 * SHARDS), PATIENCE);
    await scheduler.wait(SHARD_REPORTS_GATHER_MS + 1000);
    expect(reported).toHaveBeenCalledTimes(2 * SHARDS);
    expect(new Set(rows)).toEqual(new Set(["shards/0"]));
    const rowsMax = (performance.now() - startMs) / SHARD_REPORTS_GATHER_MS;
    expect(rows.length).toBeLessThanOrEqual(rowsMax);
  });

  it("a namespace with 16 shards is asked, and its Directory writes no reports", async () => {
    const space = new Space(FEW);
    const rows = await space.rowsOfReports();
    await space.fill();
    const { shards, records } = await space.overview();
    expect(records.counters).toBe(KEYS);
    expect(shards.every((shard) => !shard.isUnreachable && shard.reportedAtMs === null)).toBe(true);
    const reported = vi.spyOn(Figures.prototype, "report");
    await space.fill();
    await scheduler.wait(SHARD_REST_MS + SHARD_REPORTS_GATHER_MS + 1000);
    expect(rows).toEqual([]);
    expect(reported).not.toHaveBeenCalled();
  });
});
