/** What the server says of itself to who may know: `/v1/overview`, live too, and `/metrics`. */
import {
  abortAllDurableObjects,
  createExecutionContext,
  evictAllDurableObjects,
  reset,
  runDurableObjectAlarm,
  runInDurableObject,
} from "cloudflare:test";
import { env, exports } from "cloudflare:workers";
import { afterEach, describe, expect, it, vi } from "vitest";
import { COUNTED_REQUESTS } from "../../src/engine/counted-requests.ts";
import { VERSION } from "../../src/base/version.ts";
import type { Overview } from "../../src/wire/overview.ts";
import worker from "../../src/worker/index.ts";
import { LISTENERS_MAX } from "../../src/worker/live.ts";
import { parseExposition, type ParsedMetric } from "../support/text/exposition.ts";
import { get, openPort, openSocket, post } from "../support/pool/doors.ts";
import { hubStub } from "../support/pool/hubs.ts";
import { bytesOfHex } from "../support/pool/reading.ts";
import { meterOf, shardStub } from "../support/pool/shards.ts";
import { bearerOf, nowS, tokenOf } from "../support/pool/tokens.ts";
import {
  calling,
  expectProblem,
  freshNamespace,
  gotOf,
  type Calling,
} from "../support/pool/v1-calls.ts";
import { withSettings } from "../support/pool/variables.ts";

type WorkerRequest = Parameters<typeof worker.fetch>[0];

const server = exports.default as unknown as Fetcher;
const LIVE = "/v1/overview/live";
const SHARDS = 4;

afterEach(async () => {
  for (const undo of replaced.splice(0).toReversed()) undo();
  vi.restoreAllMocks();
  vi.useRealTimers();
  await reset();
});

interface Space {
  readonly ns: string;
  readonly headers: { authorization: string };
  readonly call: Calling;
  readonly overview: () => Promise<Overview>;
  readonly metrics: () => Promise<Map<string, ParsedMetric>>;
}

async function newSpace(claims: Parameters<typeof bearerOf>[0] = {}): Promise<Space> {
  return await spaceOf(freshNamespace(), claims);
}

async function spaceOf(ns: string, claims: Parameters<typeof bearerOf>[0] = {}): Promise<Space> {
  const headers = await bearerOf({ ns, ...claims });
  const call = calling(headers);
  return {
    ns,
    headers,
    call,
    overview: async () => {
      const got = await call("GET", "/v1/overview");
      expect(got.status).toBe(200);
      return got.json as unknown as Overview;
    },
    metrics: async () => {
      const response = await get("/metrics", headers);
      expect(response.status).toBe(200);
      expect(response.headers.get("content-type")).toBe("text/plain; version=0.0.4; charset=utf-8");
      expect(response.headers.get("cache-control")).toBe("no-store");
      return parseExposition(await response.text());
    },
  };
}

/** Requests of every kind; returns how many there were of each name. */
async function someTraffic({ headers, call }: Space): Promise<Record<string, number>> {
  for (const fields of [
    "01 0500 06 1e00 01 61 02 01 61 02 01 61",
    "05 06 1e00 01 0300 62 787878",
    "13 01 0200 65 6869",
  ]) {
    expect((await post("7.3", "uint16", bytesOfHex(fields), headers)).status).toBe(200);
  }
  await call("POST", "/v1/counters/visits/increment", { json: { ttlMs: 60_000 } });
  await call("POST", "/v1/limits/api/ada", {
    json: { strategy: { strategy: "token_bucket", burst: 10, rate: 1 } },
  });
  // A command of the name of a request of Throttr: they are counted together.
  await call("PUT", "/v1/counters/visitors", { json: { quota: 1, ttlMs: 60_000 } });
  return { insert: 2, query: 2, set: 1, publish: 1, increment: 1, limit: 1 };
}

const sumOf = (counts: Iterable<number>): number => [...counts].reduce((sum, n) => sum + n, 0);

/** Sum of the samples of a metric that have these labels. */
function sampled(
  metrics: Map<string, ParsedMetric>,
  name: string,
  labels: Record<string, string> = {},
): number {
  const samples = metrics.get(name)?.samples ?? [];
  return sumOf(
    samples
      .filter((sample) => Object.entries(labels).every(([l, text]) => sample.labels[l] === text))
      .map(({ value }) => value),
  );
}

/**
 * Makes an object answer otherwise: of its class, which calls are looked up in, the method does so for
 * this one. Undone after the test.
 */
async function replace<T extends Rpc.DurableObjectBranded>(
  stub: DurableObjectStub<T>,
  method: string,
  answer: (original: () => Promise<never>) => Promise<never>,
): Promise<void> {
  await runInDurableObject(stub, (object) => {
    let prototype = object as unknown as Record<string, unknown>;
    while (!Object.hasOwn(prototype, method)) {
      prototype = Object.getPrototypeOf(prototype) as Record<string, unknown>;
    }
    const original = prototype[method] as (...parameters: unknown[]) => Promise<never>;
    prototype[method] = function (this: unknown, ...parameters: unknown[]) {
      const call = (): Promise<never> => original.apply(this, parameters);
      return this === object ? answer(call) : call();
    };
    replaced.push(() => (prototype[method] = original));
  });
}

const replaced: (() => void)[] = [];

const fails = (): Promise<never> => Promise.reject(new Error("broken"));
const hangs = (): Promise<never> => new Promise(() => {});

describe("the overview", () => {
  it("the overview of an unused namespace has zeros, and its first shard", async () => {
    const { ns, overview } = await newSpace();
    const beforeMs = Date.now();
    const got = await overview();
    expect(got).toMatchObject({
      version: VERSION,
      namespace: ns,
      requests: { total: 0, perMinute: 0 },
      readBytes: { total: 0, perMinute: 0 },
      records: { counters: 0, buffers: 0, bufferBytes: 0 },
      connections: { open: 0, byTransport: { tcp: 0, websocket: 0, events: 0 } },
      subscriptions: 0,
      channels: 0,
      semaphores: { objects: 0, holdings: 0, holders: 0, usedBytes: 0 },
      hubs: [],
    });
    expect(got.atMs).toBeGreaterThanOrEqual(beforeMs);
    expect(got.runningSinceMs).toBeLessThanOrEqual(got.atMs);
    expect(got.shards.map(({ index }) => index)).toEqual([0]);
    expect(got.shards[0]).toMatchObject({
      isUnreachable: false,
      records: 0,
      bytesMax: 24 << 20,
      requests: { total: 0, perMinute: 0 },
    });
    const names = Object.keys(got.requests.byName);
    expect(new Set(names)).toEqual(new Set(COUNTED_REQUESTS.map(({ name }) => name)));
    for (const name of ["insert", "whoami", "event", "limit", "acquire", "yrmcds_acquire"]) {
      expect(names).toContain(name);
    }
  });

  it("the overview has requests by the names that programs of 0.4 read, too", async () => {
    const space = await newSpace();
    await someTraffic(space);
    const { byType } = (await space.overview()).requests;
    expect(Object.keys(byType)).toEqual(COUNTED_REQUESTS.map(({ type }) => type));
    const counted = Object.entries(byType).filter(([, { total }]) => total > 0);
    expect(Object.fromEntries(counted.map(([type, { total }]) => [type, total]))).toEqual({
      INSERT: 1,
      QUERY: 2,
      SET: 1,
      PUBLISH: 1,
      EDGE_INSERT: 1,
      EDGE_INCREMENT: 1,
      EDGE_LIMIT: 1,
    });
  });

  it("the overview changes as requests are made, type by type", async () => {
    const space = await newSpace();
    const sent = await someTraffic(space);
    const got = await space.overview();
    const counted = Object.entries(got.requests.byName).filter(([, { total }]) => total > 0);
    expect(Object.fromEntries(counted.map(([name, { total }]) => [name, total]))).toEqual(sent);
    expect(got.requests.total).toBe(sumOf(Object.values(sent)));
    expect(got.requests.perMinute).toBeGreaterThan(0);
    expect(got.readBytes.total).toBeGreaterThan(0);
    expect(got.writeBytes.total).toBeGreaterThan(0);
    // Three counters, a buffer, and the state of a limit.
    expect(got.records).toMatchObject({ counters: 3, buffers: 2 });
    expect(got.records.bufferBytes).toBeGreaterThan(3);
    const shards = got.shards.map((shard) => (shard.isUnreachable ? null : shard));
    expect(sumOf(shards.map((shard) => shard!.records))).toBe(5);
    expect(sumOf(shards.map((shard) => shard!.requests.total))).toBe(got.requests.total - 1);
    expect(sumOf(shards.map((shard) => shard!.journalRows))).toBe(5);
    await space.call("GET", "/v1/counters/visits");
    expect((await space.overview()).requests.byName).toMatchObject({ read: { total: 1 } });
  });

  it("the overview has connections by transport, and Hubs by location", async () => {
    const { overview, headers, ns } = await newSpace();
    const path = "/throttr/7.3/uint16";
    const sockets = [await openSocket(path, headers), await openSocket(path, headers)];
    await sockets[0]!.exchange(bytesOfHex("11 01 63"), 1);
    const listening = await get("/channels/news", headers);
    const got = await overview();
    expect(got.connections).toEqual({ open: 3, byTransport: { tcp: 0, websocket: 2, events: 1 } });
    expect(got.hubs).toEqual([
      {
        location: "XXX",
        index: 0,
        isUnreachable: false,
        connections: 3,
        subscriptions: got.subscriptions,
      },
    ]);
    // Each socket begins with two, one has subscribed to another; a listener has its channel.
    expect(got.subscriptions).toBe(6);
    // "*", "c" and "news"; the sockets' own channels have no name.
    expect(got.channels).toBe(3);
    expect(got.requests.byName.subscribe).toEqual({ total: 1, perMinute: 1 });
    expect(await hubStub(0, ns).figures()).toMatchObject({ byTransport: { websocket: 2 } });
    await listening.body!.cancel();
    for (const socket of sockets) await socket.close();
    await vi.waitFor(async () => {
      const gone = await overview();
      expect(gone.connections.open).toBe(0);
      expect(gone.hubs).toEqual([]);
      // What a Hub has counted outlives it.
      expect(gone.requests.byName.subscribe!.total).toBe(1);
    });
  });

  it("the overview counts TCP, and the namespace of the open door", async () => {
    const door = await openPort(9002);
    await door.exchange(bytesOfHex("18"), 17);
    const got = await (await spaceOf("default")).overview();
    expect(got.connections).toEqual({ open: 1, byTransport: { tcp: 1, websocket: 0, events: 0 } });
    await door.close();
  });

  it("the overview counts all rows that a shard has written, those of alarms and tables included", async () => {
    const { ns, call, overview } = await newSpace();
    const meters = await Promise.all([0, 1, 2, 3].map((i) => meterOf(shardStub(i, ns))));
    const rows = async (): Promise<number[]> => {
      const { shards } = await overview();
      return shards.map((shard) => (shard.isUnreachable ? -1 : shard.rowsWritten));
    };
    const metered = (): number[] => meters.map((meter) => meter.rows + meter.alarms);
    for (let i = 0; i < 20; i++) {
      await call("PUT", `/v1/counters/k${i}`, { json: { quota: 1, ttlMs: 30_000 - 1000 * i } });
    }
    expect(await rows()).toEqual(metered());
    expect(Math.min(...metered())).toBeGreaterThan(0);
    await runDurableObjectAlarm(shardStub(0, ns));
    expect(await rows()).toEqual(metered());
    expect(sumOf(meters.map(({ alarms }) => alarms))).toBeGreaterThan(0);
  });

  it.each([
    ["fails", fails, "failed"],
    ["does not answer", hangs, "timeout"],
    ["runs the release before", () => Promise.resolve({ totals: {} } as never), "outdated"],
    [
      "refuses every request",
      () => Promise.reject(new Error("format_unknown: the data has format 9")),
      "format_unknown",
    ],
  ])("the overview leaves out a shard that %s, and says so", async (_, summary, code) => {
    const warnings = vi.spyOn(console, "warn").mockImplementation(() => {});
    const { ns, call, overview, metrics } = await newSpace();
    for (let i = 0; i < 20; i++) {
      await call("PUT", `/v1/counters/k${i}`, { json: { quota: 1, ttlMs: 60_000 } });
    }
    const whole = await overview();
    await replace(shardStub(1, ns), "summary", summary);
    const got = await overview();
    const range = { from: 2 ** 30, to: 2 ** 31 };
    expect(got.shards[1]).toEqual({ index: 1, shard: "1", ...range, isUnreachable: true, code });
    expect(got.shards.map(({ isUnreachable }) => isUnreachable)).toEqual([
      false,
      true,
      false,
      false,
    ]);
    const silent = whole.shards[1]!;
    if (silent.isUnreachable) throw new Error("it was to answer");
    expect(silent.records).toBeGreaterThan(0);
    expect(got.records.counters).toBe(20 - silent.records);
    const text = await metrics();
    expect(text.get("throttr_shard_up")!.samples.map(({ value }) => value)).toEqual([1, 0, 1, 1]);
    expect(sampled(text, "throttr_records")).toBe(20 - silent.records);
    const shards = text.get("throttr_shard_records")!.samples.map(({ labels }) => labels.shard);
    expect(shards).toEqual(["0", "2", "3"]);
    if (code !== "outdated") {
      expect(warnings.mock.calls.join("\n")).toContain('"event":"shard_failed"');
      expect(warnings.mock.calls.join("\n")).toContain(`"object":"${ns}/1"`);
    }
  });

  it("the overview leaves out a Hub that does not answer, and says so", async () => {
    vi.spyOn(console, "warn").mockImplementation(() => {});
    const { ns, headers, overview, metrics } = await newSpace();
    const socket = await openSocket("/throttr/7.3/uint16", headers);
    await replace(hubStub(0, ns), "figures", fails);
    const got = await overview();
    expect(got.hubs).toEqual([{ location: "XXX", index: 0, isUnreachable: true, code: "failed" }]);
    expect(got.connections.open).toBe(0);
    const up = (await metrics()).get("throttr_hub_up")!.samples;
    expect(up).toEqual([{ labels: { namespace: ns, location: "XXX", hub: "0" }, value: 0 }]);
    await socket.close();
  });

  it("the overview gives the reason of shards that refuse this deployment", async () => {
    vi.spyOn(console, "warn").mockImplementation(() => {});
    const { call, headers } = await newSpace();
    await call("PUT", "/v1/counters/k", { json: { quota: 1, ttlMs: 60_000 } });
    const request = new Request("http://localhost/v1/overview", { headers });
    const changed = { ...env, SHARD_SECRET: "another" } as Env;
    const got = await gotOf(
      await worker.fetch(request as WorkerRequest, changed, createExecutionContext()),
    );
    const { shards } = got.json as unknown as Overview;
    const whole = { index: 0, shard: "0", from: 0, to: 2 ** 32 };
    expect(shards).toEqual([{ ...whole, isUnreachable: true, code: "shards_mismatch" }]);
  });

  it("the overview has no start time when no shard answers", async () => {
    vi.spyOn(console, "warn").mockImplementation(() => {});
    const { ns, overview } = await newSpace();
    for (let i = 0; i < SHARDS; i++) await replace(shardStub(i, ns), "summary", fails);
    expect(await overview()).toMatchObject({ runningSinceMs: null, records: { counters: 0 } });
  });

  it("after all objects have slept the overview has records and totals, and no requests of the last minute", async () => {
    const space = await newSpace();
    await someTraffic(space);
    const { requests } = await space.overview();
    await evictAllDurableObjects();
    const got = await space.overview();
    expect(got.requests.total).toBeGreaterThan(0);
    expect(got.requests.total).toBeLessThanOrEqual(requests.total);
    expect(got.requests.perMinute).toBe(0);
    expect(got.records).toMatchObject({ counters: 3, buffers: 2 });
    await abortAllDurableObjects();
    expect((await space.overview()).records).toEqual(got.records);
  });

  it("with METRICS=off the overview counts no requests, and has all other figures", async () => {
    await withSettings({ METRICS: "off" }, async () => {
      const { call, overview } = await newSpace();
      await call("PUT", "/v1/counters/k", { json: { quota: 1, ttlMs: 60_000 } });
      const got = await overview();
      expect(got.requests.total).toBe(0);
      expect(got.readBytes.total).toBe(0);
      expect(got.records.counters).toBe(1);
      expect(
        sumOf(got.shards.map((shard) => (shard.isUnreachable ? 0 : shard.rowsWritten))),
      ).toBeGreaterThan(0);
    });
  });

  it("the overview is of one namespace", async () => {
    const one = await newSpace();
    const other = await newSpace();
    await someTraffic(one);
    expect((await other.overview()).requests.total).toBe(0);
    expect((await one.overview()).requests.total).toBeGreaterThan(0);
  });
});

describe("the metrics", () => {
  it("the metrics have the figures of the overview", async () => {
    const space = await newSpace();
    const socket = await openSocket("/throttr/7.3/uint16", space.headers);
    await socket.exchange(bytesOfHex("18"), 17);
    const sent = { ...(await someTraffic(space)), whoami: 1 };
    // A scrape writes rows, which the overview counts.
    const metrics = await space.metrics();
    const got = await space.overview();
    for (const [name, count] of Object.entries(sent)) {
      expect([name, sampled(metrics, "throttr_requests_total", { request: name })]).toEqual([
        name,
        count,
      ]);
    }
    expect(sampled(metrics, "throttr_requests_total")).toBe(got.requests.total);
    // The names of 0.4, on the same series: a sum counts no request twice.
    expect(sampled(metrics, "throttr_requests_total", { type: "EDGE_INCREMENT" })).toBe(1);
    expect(sampled(metrics, "throttr_requests_total", { type: "INSERT" })).toBe(1);
    expect(sampled(metrics, "throttr_read_bytes_total")).toBe(got.readBytes.total);
    expect(sampled(metrics, "throttr_write_bytes_total")).toBe(got.writeBytes.total);
    expect(sampled(metrics, "throttr_records", { kind: "counter" })).toBe(got.records.counters);
    expect(sampled(metrics, "throttr_records", { kind: "buffer" })).toBe(got.records.buffers);
    expect(sampled(metrics, "throttr_buffer_bytes")).toBe(got.records.bufferBytes);
    expect(sampled(metrics, "throttr_connections", { transport: "websocket" })).toBe(1);
    expect(sampled(metrics, "throttr_subscriptions")).toBe(got.subscriptions);
    expect(sampled(metrics, "throttr_channels")).toBe(got.channels);
    expect(sampled(metrics, "throttr_shard_up")).toBe(SHARDS);
    expect(sampled(metrics, "throttr_hub_up")).toBe(1);
    expect(sampled(metrics, "throttr_shard_memory_limit_bytes")).toBe(SHARDS * (24 << 20));
    const { shards } = got;
    const of = (count: (shard: Extract<(typeof shards)[0], { isUnreachable: false }>) => number) =>
      sumOf(shards.map((shard) => (shard.isUnreachable ? NaN : count(shard))));
    expect(sampled(metrics, "throttr_shard_records")).toBe(of(({ records }) => records));
    expect(sampled(metrics, "throttr_shard_memory_bytes")).toBe(of(({ bytes }) => bytes));
    expect(sampled(metrics, "throttr_shard_rows_written_total")).toBe(
      of(({ rowsWritten }) => rowsWritten),
    );
    expect(sampled(metrics, "throttr_shard_journal_rows")).toBe(of((shard) => shard.journalRows));
    expect(sampled(metrics, "throttr_shard_journal_bytes")).toBe(of((shard) => shard.journalBytes));
    expect(sampled(metrics, "throttr_shard_start_time_seconds")).toBeCloseTo(
      of(({ startedAtMs }) => startedAtMs) / 1000,
      2,
    );
    await socket.close();
  });

  it("every sample of the metrics carries the namespace and the object that counted", async () => {
    const space = await newSpace();
    await someTraffic(space);
    const socket = await openSocket("/throttr/7.3/uint16", space.headers);
    const metrics = await space.metrics();
    const samples = [...metrics.values()].flatMap((metric) => metric.samples);
    expect(samples.every(({ labels }) => labels.namespace === space.ns)).toBe(true);
    expect(metrics.get("throttr_build_info")!.samples).toEqual([
      { labels: { namespace: space.ns, version: VERSION }, value: 1 },
    ]);
    const counted = metrics.get("throttr_requests_total")!.samples;
    const insert = counted.filter(({ labels }) => labels.type === "INSERT");
    expect(insert.map(({ labels }) => labels.shard)).toEqual(["0", "1", "2", "3"]);
    const publish = counted.filter(({ labels }) => labels.type === "PUBLISH");
    expect(publish.map(({ labels: { location, hub } }) => [location, hub])).toEqual([
      [undefined, undefined],
      ["XXX", "0"],
    ]);
    expect(publish[0]!.value).toBe(1);
    await socket.close();
  });

  it("the metrics of a Hub that is gone are not repeated by another", async () => {
    const { headers, metrics, overview } = await newSpace();
    const socket = await openSocket("/throttr/7.3/uint16", headers);
    await socket.exchange(bytesOfHex("18 18 18"), 51);
    expect(sampled(await metrics(), "throttr_requests_total", { type: "WHOAMI" })).toBe(3);
    await socket.close();
    await vi.waitFor(async () => expect((await metrics()).has("throttr_hub_up")).toBe(false));
    expect(sampled(await metrics(), "throttr_requests_total", { type: "WHOAMI" })).toBe(0);
    expect((await overview()).requests.byName.whoami!.total).toBe(3);
  });

  it("the metrics count refusals for lack of space", async () => {
    vi.spyOn(console, "warn").mockImplementation(() => {});
    await withSettings({ SHARD_BYTES_MAX: 4096, SHARDS_MAX: 1 }, async () => {
      const { call, metrics, overview } = await newSpace();
      for (let i = 0; i < 64; i++) {
        const value = "x".repeat(1000);
        await call("PUT", `/v1/buffers/k${i}`, { json: { value, ttlMs: 60_000 } });
      }
      const refused = sampled(await metrics(), "throttr_shard_refused_for_space_total");
      expect(refused).toBeGreaterThan(10);
      const { shards } = await overview();
      expect(sumOf(shards.map((shard) => (shard.isUnreachable ? 0 : shard.refusedForSpace)))).toBe(
        refused,
      );
    });
  });
});

/** Events of a live overview, as they come. */
class Watcher {
  readonly response: Response;
  readonly #reader: ReadableStreamDefaultReader<string>;
  #text = "";

  constructor(response: Response) {
    if (!response.ok) throw new Error(`${response.status}`);
    this.response = response;
    this.#reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  }

  /** The next block of lines; null at the end. */
  async block(): Promise<string | null> {
    for (;;) {
      const end = this.#text.indexOf("\n\n");
      if (end >= 0) {
        const block = this.#text.slice(0, end);
        this.#text = this.#text.slice(end + 2);
        return block;
      }
      const { value, done } = await this.#reader.read();
      if (done) return null;
      this.#text += value;
    }
  }

  async next(): Promise<Overview | null> {
    for (;;) {
      const block = await this.block();
      if (block === null) return null;
      if (block.startsWith("data: ")) return JSON.parse(block.slice(6)) as Overview;
    }
  }

  async close(): Promise<void> {
    await this.#reader.cancel();
  }
}

const watching = async (headers: HeadersInit, query = ""): Promise<Watcher> =>
  new Watcher(await get(LIVE + query, headers));

describe("the live overview", () => {
  it("the live overview comes at once, and then every second, with what has happened", async () => {
    const space = await newSpace();
    const watcher = await watching(space.headers);
    expect(watcher.response.headers.get("content-type")).toBe("text/event-stream; charset=utf-8");
    expect(watcher.response.headers.get("cache-control")).toBe("no-store");
    expect(await watcher.block()).toBe("retry: 3000");
    const first = (await watcher.next())!;
    expect(Object.keys(first)).toEqual(Object.keys(await space.overview()));
    expect(first.requests.total).toBe(0);
    await someTraffic(space);
    const second = (await watcher.next())!;
    expect(second.requests.byName.insert!.total).toBe(2);
    const third = (await watcher.next())!;
    for (const [before, after] of [
      [first, second],
      [second, third],
    ] as const) {
      expect(after.atMs - before.atMs).toBeGreaterThanOrEqual(950);
      expect(after.atMs - before.atMs).toBeLessThan(2000);
    }
    await watcher.close();
  });

  it("the live overview takes the requested interval", async () => {
    const { headers } = await newSpace();
    const watcher = await watching(headers, "?intervalMs=2000");
    const first = (await watcher.next())!;
    const second = (await watcher.next())!;
    expect(second.atMs - first.atMs).toBeGreaterThanOrEqual(1950);
    await watcher.close();
  });

  it.each(["999", "60001", "1.5", "", "soon"])(
    "the live overview refuses an interval of %j",
    async (intervalMs) => {
      const { headers } = await newSpace();
      const got = await gotOf(await get(`${LIVE}?intervalMs=${intervalMs}`, headers));
      expectProblem(got, "query_invalid");
      expect(got.json.detail).toContain("intervalMs: expected an integer from 1000 to 60000");
    },
  );

  it("the live overview refuses unknown parameters", async () => {
    const { headers } = await newSpace();
    expectProblem(await gotOf(await get(`${LIVE}?interval=1000`, headers)), "query_invalid");
  });

  it("the live overview asks objects once a second, however many clients watch", async () => {
    const { ns, headers } = await newSpace();
    let asked = 0;
    await replace(shardStub(0, ns), "summary", async (original) => {
      asked++;
      return await original();
    });
    const watchers = await Promise.all(Array.from({ length: 10 }, () => watching(headers)));
    const beganMs = Date.now();
    for (let i = 0; i < 3; i++) await Promise.all(watchers.map((watcher) => watcher.next()));
    const seconds = (Date.now() - beganMs) / 1000;
    expect(asked).toBeGreaterThanOrEqual(3);
    expect(asked).toBeLessThanOrEqual(3 + Math.ceil(seconds));
    await Promise.all(watchers.map((watcher) => watcher.close()));
  });

  it("the live overview ends with its token", async () => {
    const { ns } = await newSpace();
    const headers = await bearerOf({ ns, exp: nowS() + 2 });
    const watcher = await watching(headers, "?intervalMs=60000");
    expect(await watcher.next()).not.toBe(null);
    expect(await watcher.next()).toBe(null);
    expect(Date.now() / 1000).toBeGreaterThanOrEqual(nowS() - 1);
  });

  it("the live overview takes a ticket, as browsers send it", async () => {
    const { ns } = await newSpace();
    const ticket = await tokenOf({ ns, scopes: ["admin"], iat: nowS(), exp: nowS() + 60 });
    const watcher = new Watcher(await get(`${LIVE}?intervalMs=1000&ticket=${ticket}`));
    expect((await watcher.next())!.namespace).toBe(ns);
    await watcher.close();
  });

  it("the live overview ends when no object can be asked, and is then refused", async () => {
    const warnings = vi.spyOn(console, "warn").mockImplementation(() => {});
    const { ns, headers } = await newSpace();
    const watcher = await watching(headers);
    await watcher.next();
    await replace(env.DIRECTORY.getByName(ns), "survey", fails);
    expect(await watcher.next()).toBe(null);
    for (const path of [LIVE, "/v1/overview", "/metrics"]) {
      expectProblem(await gotOf(await get(path, headers)), "outcome_unknown");
    }
    expect(warnings.mock.calls.join("\n")).toContain('"event":"requests_failed"');
  });

  it("the live overview has a bounded number of listeners, and takes others when they have gone", async () => {
    const { headers } = await newSpace();
    const watchers: Watcher[] = [];
    for (let i = 0; i < LISTENERS_MAX; i++) watchers.push(await watching(headers));
    const refused = await gotOf(await get(LIVE, headers));
    expectProblem(refused, "listeners_max");
    expect(refused.json.detail).toContain(String(LISTENERS_MAX));
    await watchers.pop()!.close();
    watchers.push(await watching(headers));
    expectProblem(await gotOf(await get(LIVE, headers)), "listeners_max");
    // Another namespace has places of its own.
    watchers.push(await watching((await newSpace()).headers));
    await Promise.all(watchers.map((watcher) => watcher.close()));
    // None of those that were refused or have gone is counted.
    for (let i = 0; i < LISTENERS_MAX; i++) watchers.push(await watching(headers));
    await Promise.all(watchers.map((watcher) => watcher.close()));
  });

  it("the live overview gives the places of listeners that do not read to others", async () => {
    const { headers } = await newSpace();
    const watchers: Watcher[] = [];
    for (let i = 0; i < LISTENERS_MAX; i++) watchers.push(await watching(headers));
    const nowMs = Date.now();
    vi.useFakeTimers({ toFake: ["Date"], now: nowMs + 14_000 });
    expectProblem(await gotOf(await get(LIVE, headers)), "listeners_max");
    vi.setSystemTime(nowMs + 16_000);
    watchers.push(await watching(headers));
    vi.useRealTimers();
    await Promise.all(watchers.map((watcher) => watcher.close()));
  });

  it("the live overview asks no objects for a listener that has gone", async () => {
    const { ns, headers } = await newSpace();
    let asked = 0;
    await replace(shardStub(0, ns), "summary", async (original) => {
      asked++;
      return await original();
    });
    const watcher = await watching(headers);
    await watcher.next();
    const waiting = watcher.next();
    await scheduler.wait(200);
    await watcher.close();
    expect(await waiting).toBe(null);
    await scheduler.wait(1500);
    expect(asked).toBe(1);
  });

  it("the live overview keeps no place for a listener that left while it waited", async () => {
    const { headers } = await newSpace();
    for (let i = 0; i < 3 * LISTENERS_MAX; i++) {
      const watcher = await watching(headers, "?intervalMs=60000");
      await watcher.next();
      const ended = watcher.next();
      await watcher.close();
      expect(await ended).toBe(null);
    }
  });
});

describe("access to the overview", () => {
  const PATHS = ["/v1/overview", LIVE, "/metrics"];

  it.each(PATHS)("%s needs the scope admin", async (path) => {
    const { headers } = await newSpace({ scopes: ["read", "write", "publish", "subscribe"] });
    const got = await gotOf(await get(path, headers));
    expectProblem(got, "scope_missing");
    expect(got.json.detail).toContain("admin");
  });

  it.each(PATHS)("%s needs no other scope, and no prefix matters", async (path) => {
    const space = await newSpace();
    await space.call("PUT", "/v1/counters/visits", { json: { quota: 1, ttlMs: 60_000 } });
    const headers = await bearerOf({
      ns: space.ns,
      scopes: ["admin"],
      keyPrefixes: ["other:"],
      channelPrefixes: ["other:"],
    });
    const response = await get(path, headers);
    expect(response.status).toBe(200);
    const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    for (let i = 0; i < 12 && !/"counters":1|kind="counter"} 1/.test(text); i++) {
      text += (await reader.read()).value ?? "";
    }
    expect(text).toMatch(/"counters":1|kind="counter"} 1/);
    await reader.cancel();
  });

  it.each(PATHS)("%s needs a token unless access is open", async (path) => {
    const request = new Request(`http://localhost${path}`) as WorkerRequest;
    const closed = { ...env, ACCESS: "token" } as Env;
    const got = await gotOf(await worker.fetch(request, closed, createExecutionContext()));
    expectProblem(got, "token_missing");
    expect(got.headers.get("www-authenticate")).toBe("Bearer");
    expectProblem(await gotOf(await get(path, { authorization: "Bearer none" })), "token_invalid");
  });

  it.each(["/metrics", LIVE])("%s has GET only", async (path) => {
    const { headers } = await newSpace();
    for (const method of ["POST", "PUT", "DELETE"]) {
      const got = await gotOf(await server.fetch(`http://localhost${path}`, { method, headers }));
      expectProblem(got, "method_not_allowed");
      expect(got.headers.get("allow")).toBe("GET");
    }
  });

  it("HEAD of the live overview asks no objects", async () => {
    const { headers } = await newSpace();
    const init = { method: "HEAD", headers };
    expect((await server.fetch(`http://localhost${LIVE}`, init)).status).toBe(405);
    expect((await server.fetch("http://localhost/metrics", init)).status).toBe(200);
  });
});
