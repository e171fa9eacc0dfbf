/** Counters that gather increments, over a service binding and in an embedded server, in Cloudflare's runtime. */
import { reset } from "cloudflare:test";
import { exports, waitUntil } from "cloudflare:workers";
import { afterEach, describe, expect, it } from "vitest";
import { FlushedCounter, type CounterBackend } from "../../src/client/flushed-counter.ts";
import type { ThrottrService } from "../../src/wire/edge/service.ts";
import { throttr } from "../../src/embedded/throttr.ts";
import { meterOf, shardStub } from "../support/pool/shards.ts";

const binding = exports.Throttr as unknown as ThrottrService;
const TTL_MS = 3_600_000;

afterEach(async () => {
  await reset();
});

const countOf = async (key: string): Promise<bigint | undefined> =>
  (await binding.query(key))?.quota;

describe("a flushed counter", () => {
  it("a flushed counter over a binding sends what was gathered, by itself and when it is asked to", async () => {
    const views = new FlushedCounter(binding, "views", { flushMs: 50, ttlMs: TTL_MS, waitUntil });
    for (let i = 0; i < 1000; i++) views.increment(`/${i % 10}`);
    expect(await countOf("views:/3")).toBeUndefined();
    await expect.poll(async () => await countOf("views:/3")).toBe(100n);
    views.increment("/3", 2n ** 40n);
    await views.flush();
    expect(await countOf("views:/3")).toBe(2n ** 40n + 100n);
  });

  it("a flush is one row in each shard, however many increments it has", async () => {
    const views = new FlushedCounter(binding, "views", { ttlMs: TTL_MS, waitUntil });
    const fill = (): void => {
      for (let i = 0; i < 2000; i++) views.increment(`/${i % 100}`);
    };
    fill();
    await views.flush();
    const meters = await Promise.all([0, 1, 2, 3].map((index) => meterOf(shardStub(index))));
    fill();
    await views.flush();
    expect(meters.map(({ rows }) => rows)).toEqual([1, 1, 1, 1]);
    expect(await countOf("views:/7")).toBe(40n);
  });

  it.each([
    ["", {}],
    [", also where that is undefined", { waitUntil: undefined }],
  ])("a flushed counter of an embedded server has its own waitUntil%s", async (_, given) => {
    const name = `views${Object.keys(given).length}`;
    const views = throttr().counter(name, { flushMs: 20, ttlMs: TTL_MS, ...given });
    views.increment("a");
    await expect.poll(async () => (await throttr().query(`${name}:a`))?.quota).toBe(1n);
  });

  it("a Worker must give its waitUntil", () => {
    const make = (): FlushedCounter =>
      new FlushedCounter(binding as CounterBackend, "views", { ttlMs: TTL_MS });
    expect(make).toThrow(
      "option_invalid: waitUntil: expected that of cloudflare:workers, got undef",
    );
  });

  it("flush rejects with the code of a key that the caller has no right to", async () => {
    const limited = throttr({ keyPrefixes: ["other:"] });
    const views = limited.counter("views", { ttlMs: TTL_MS });
    views.increment("a");
    await expect(views.flush()).rejects.toThrow("prefix_missing");
  });
});
