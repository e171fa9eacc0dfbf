/** A shard that gives a part of its range to a new one, while it is written to. */
import {
  abortAllDurableObjects,
  evictAllDurableObjects,
  reset,
  runDurableObjectAlarm,
  runInDurableObject,
} from "cloudflare:test";
import { env, exports } from "cloudflare:workers";
import { afterEach, describe, expect, it, vi } from "vitest";
import type { ShardState } from "../../src/base/calls/splits.ts";
import { hasMoved } from "../../src/base/failure.ts";
import { readSettings } from "../../src/base/settings.ts";
import { ShardMap } from "../../src/dispatch/shard-map.ts";
import { RELAXED_FLUSH_MS } from "../../src/engine/sizes.ts";
import { Shard } from "../../src/objects/shard/shard.ts";
import { SplitRows } from "../../src/objects/shard/split-rows.ts";
import { binaryString } from "../../src/wire/bytes.ts";
import { Keyspace } from "../../src/wire/keyspace.ts";
import { CIRCLE, hexOfHash, initialRange, isIn, type Range } from "../../src/wire/range.ts";
import type { Overview } from "../../src/wire/overview.ts";
import type { ShardRow, Shards } from "../../src/wire/shards.ts";
import { bytesOf } from "../support/frames/index.ts";
import { refusalOf } from "../support/commands/calls.ts";
import { open } from "../support/pool/binding.ts";
import { askColdDoor } from "../support/pool/cold-door.ts";
import { hubStub } from "../support/pool/hubs.ts";
import { holdSync } from "../support/pool/shards.ts";
import { bearerOf } from "../support/pool/tokens.ts";
import { withSettings } from "../support/pool/variables.ts";

const TTL = { ttlMs: 3_600_000 };
const KEYS = Array.from({ length: 80 }, (_, i) => `key:${i}`);

let namespaces = 0;

/** In a function of its own: the linter takes `expect` in a method for one that no test runs. */
function expectSame(actual: unknown, expected: unknown): void {
  expect(actual).toEqual(expected);
}

afterEach(async () => {
  await reset();
});

/** Lets objects wait for milliseconds where they would for seconds, until the mock is restored. */
function shortenWaits(): ReturnType<typeof vi.spyOn> {
  const wait = scheduler.wait.bind(scheduler);
  return vi.spyOn(scheduler, "wait").mockImplementation(async (ms) => await wait(Math.min(ms, 10)));
}

/** A namespace whose shards split. */
class Splits {
  readonly ns = `splits-${namespaces++}`;
  readonly binding = open(this.ns);
  readonly map: ShardMap;

  constructor() {
    const { SHARDS, SHARD_SECRET } = readSettings(env);
    this.map = new ShardMap(this.ns, SHARDS, SHARD_SECRET);
  }

  stub(label: string): DurableObjectStub<Shard> {
    return env.SHARD.getByName(`${this.ns}/${label}`);
  }

  async state(label = "0"): Promise<ShardState> {
    return (await this.stub(label).shardState())!;
  }

  hashOf(key: string, keyspace: number = Keyspace.throttr): number {
    return this.map.hashOf(keyspace, bytesOf(key), 0, key.length);
  }

  /** Begins a split in the middle of the records; returns the label of the new shard. */
  async begin(label = "0", at: number | null = null): Promise<string> {
    const { range } = await this.state(label);
    const begun = await this.stub(label).split(this.map.placementOf(range), at);
    return hexOfHash(begun.at);
  }

  /** Splits a shard, and waits until the other one knows. */
  async split(label = "0", at: number | null = null): Promise<string> {
    const upper = await this.begin(label, at);
    await this.until(label, ({ split }) => split === null);
    return upper;
  }

  /** Where ranges begin that the first shard knows of. */
  async begins(): Promise<readonly number[]> {
    const { range } = await this.state();
    return (await this.stub("0").ranges(this.map.placementOf(range))).begins;
  }

  async until(label: string, isReached: (state: ShardState) => boolean): Promise<void> {
    for (let i = 0; !isReached(await this.state(label)); i++) {
      if (i > 500)
        throw new Error(`the split has not ended: ${JSON.stringify(await this.state(label))}`);
      await scheduler.wait(10);
    }
  }

  /** Ends the running instances, without a word or in the middle of what they do. */
  async restart(isSudden: boolean): Promise<void> {
    if (isSudden) await abortAllDurableObjects();
    else await evictAllDurableObjects();
  }

  async expectQuotas(quotas: ReadonlyMap<string, number>): Promise<void> {
    for (const [key, quota] of quotas) {
      const counter = await this.binding.query(key);
      expectSame([key, counter?.quota], [key, BigInt(quota)]);
    }
  }
}

async function filled(): Promise<{ splits: Splits; quotas: Map<string, number> }> {
  const splits = new Splits();
  const quotas = new Map<string, number>();
  for (const key of KEYS) {
    await splits.binding.increment(key, { by: 5, ...TTL });
    quotas.set(key, 5);
  }
  return { splits, quotas };
}

function inRange(splits: Splits, range: Range): string[] {
  return KEYS.filter((key) => isIn(range, splits.hashOf(key)));
}

describe("a split of a shard", () => {
  it("every record is found after a split, and both shards have some", async () => {
    const { splits, quotas } = await filled();
    const upper = await splits.split();
    const lower = (await splits.state()).range;
    const given = (await splits.state(upper)).range;
    expect(lower.to).toBe(given.from);
    expect(inRange(splits, lower).length).toBeGreaterThan(2);
    expect(inRange(splits, given).length).toBeGreaterThan(2);
    await splits.expectQuotas(quotas);
  });

  it("both shards take writes after a split, and have them after a crash", async () => {
    const { splits, quotas } = await filled();
    await splits.split();
    for (const key of KEYS) {
      expect(await splits.binding.increment(key, { by: 2, ...TTL })).toBe(7n);
      quotas.set(key, 7);
    }
    await splits.restart(true);
    await splits.expectQuotas(quotas);
  });

  it("no write is lost or applied twice that comes while a shard splits, twice over", async () => {
    const { splits, quotas } = await filled();
    const work = { isOver: false };
    const writers = KEYS.slice(0, 8).map(async (_, writer) => {
      for (let i = writer; !work.isOver; i = (i + 8) % KEYS.length) {
        const key = KEYS[i]!;
        const before = quotas.get(key)!;
        const quota = await splits.binding.increment(key, { by: 1, ...TTL });
        expect(quota).toBe(BigInt(before + 1));
        quotas.set(key, before + 1);
      }
    });
    const upper = await splits.split();
    await splits.split(upper);
    work.isOver = true;
    await Promise.all(writers);
    await splits.expectQuotas(quotas);
    await splits.restart(true);
    await splits.expectQuotas(quotas);
  });

  it("a shard knows of the splits of those that it has split off, so that doors ask twice at most", async () => {
    const { splits } = await filled();
    const first = await splits.split();
    const second = await splits.split(first);
    const third = await splits.split(second);
    const begins = [first, second, third].map((label) => Number.parseInt(label, 16));
    await vi.waitFor(async () =>
      expect(await splits.begins()).toEqual(expect.arrayContaining(begins)),
    );
    await splits.restart(true);
    expect(await splits.begins()).toEqual(expect.arrayContaining(begins));
  });

  it("a split of which the shard above could not be told is told again after a restart", async () => {
    const { splits } = await filled();
    const first = await splits.split();
    await runInDurableObject(splits.stub("0"), (shard) => {
      shard.noteSplit = () => {
        throw new Error("not reached");
      };
    });
    const second = Number.parseInt(await splits.split(first), 16);
    expect(await splits.begins()).not.toContain(second);
    await splits.restart(true);
    const waits = shortenWaits();
    await splits.state(first);
    await vi.waitFor(async () => expect(await splits.begins()).toContain(second));
    waits.mockRestore();
  });

  it("a listing has each record once after splits", async () => {
    const { splits } = await filled();
    const upper = await splits.split();
    await splits.split(upper);
    const page = await splits.binding.list({ limit: 1000 });
    expect(page.records.map(({ key }) => binaryString(key, 0, key.length)).toSorted()).toEqual(
      KEYS.toSorted(),
    );
  });

  it("a listing of many records that began before a split has each of them", async () => {
    const { splits } = await filled();
    const map = new ShardMap(splits.ns, 4, "");
    const { range } = await splits.state();
    const placement = map.placementOf(range);
    const query = { rows: "list", valueSize: 8, keyspace: 0, prefixes: [] } as const;
    const { hashes, parts } = await splits.stub("0").plan(placement, null, query, 0);
    const list = async (): Promise<number> =>
      (await splits.stub("0").fragments(placement, hashes, query, parts, CIRCLE, 1)).length;
    const bytes = await list();
    await splits.split();
    expect(await list()).toBe(bytes);
    const begun = splits.stub("0").plan(placement, null, query, 0);
    expect(
      hasMoved(
        await begun.then(
          () => null,
          (error: unknown) => error,
        ),
      ),
    ).toBe(true);
  });

  it("a lease and the resources of its semaphore go along", async () => {
    const { splits } = await filled();
    const names = Array.from({ length: 24 }, (_, i) => `semaphore:${i}`);
    const leases = new Map<string, string>();
    for (const name of names) {
      const lease = await splits.binding.acquire(name, { resources: 2, maximum: 3, ...TTL });
      leases.set(name, lease!.leaseId);
    }
    await splits.split();
    for (const name of names) {
      expect(await splits.binding.acquire(name, { resources: 2, maximum: 3, ...TTL })).toBeNull();
      expect(await splits.binding.release(name, leases.get(name)!)).toBe(true);
    }
    await splits.restart(true);
    for (const name of names) {
      const lease = await splits.binding.acquire(name, { resources: 3, maximum: 3, ...TTL });
      expect(lease).not.toBeNull();
    }
  });

  it("a wrong SHARD_SECRET behind a split loses no record: it is refused, and the right one finds all", async () => {
    const { splits, quotas } = await filled();
    await splits.split();
    await withSettings({ SHARD_SECRET: "wrong" }, async () => {
      expect(await refusalOf(splits.binding.query(KEYS[0]!))).toMatch(/^shards_mismatch: /);
      // What a shard does by itself, too: a start behind a split makes a cut of the journal due.
      await runInDurableObject(splits.stub("0"), async (shard) => await shard.alarm());
    });
    await splits.expectQuotas(quotas);
  });

  it("a shard that restarts during the copy serves all of its range, and gives it later", async () => {
    const { splits, quotas } = await filled();
    await runInDurableObject(splits.stub("0"), async (shard) => {
      const { range } = (await shard.shardState())!;
      const map = new ShardMap(splits.ns, 4, "");
      await shard.split(map.placementOf(range), null);
    });
    await splits.restart(true);
    await splits.expectQuotas(quotas);
  });

  it("a shard of a full disk that restarts during the copy serves reads where SHARDS_MAX no longer admits the split", async () => {
    const { splits, quotas } = await filled();
    const upper = hexOfHash(2 ** 29);
    await holdSync(splits.stub(upper));
    await splits.begin("0", 2 ** 29);
    await splits.until(upper, (state) => state !== null);
    const settings = await runInDurableObject(hubStub(0, "variables"), (hub) => hub.settings);
    const before = { ...settings };
    Object.assign(settings, { SHARDS_MAX: 1 });
    const refused = vi.spyOn(SplitRows.prototype, "giveUp").mockImplementation(() => {
      throw new Error("database or disk is full: SQLITE_FULL");
    });
    await splits.restart(true);
    await splits.expectQuotas(quotas);
    refused.mockRestore();
    Object.assign(settings, before);
    await splits.restart(true);
  });

  it("a shard that restarts during the copy gives the split up where SHARDS_MAX no longer admits it", async () => {
    const { splits, quotas } = await filled();
    const upper = hexOfHash(2 ** 29);
    await holdSync(splits.stub(upper));
    await splits.begin("0", 2 ** 29);
    await splits.until(upper, (state) => state !== null);
    // Beside the copy nothing can be put to sleep, as `withSettings` does.
    const settings = await runInDurableObject(hubStub(0, "variables"), (hub) => hub.settings);
    const before = { ...settings };
    Object.assign(settings, { SHARDS_MAX: 1 });
    await splits.restart(true);
    const waits = shortenWaits();
    await splits.until("0", ({ split }) => split === null);
    waits.mockRestore();
    const { splitProblem } = await splits.state();
    Object.assign(settings, before);
    expect(splitProblem).toContain("SHARDS_MAX=1");
    await runDurableObjectAlarm(splits.stub(upper));
    expect(await splits.stub(upper).shardState()).toBeNull();
    await splits.expectQuotas(quotas);
  });

  it("a relaxed change that goes to disk with a split has its alarm, though the new shard hangs", async () => {
    const { splits } = await filled();
    const label = hexOfHash(2 ** 29);
    const release = await holdSync(splits.stub(label));
    const wait = scheduler.wait.bind(scheduler);
    // The timer of the relaxed change ends behind the row that the split has written.
    const waits = vi
      .spyOn(scheduler, "wait")
      .mockImplementation(async (ms) => await wait(ms === RELAXED_FLUSH_MS ? 500 : ms));
    const key = KEYS.find((name) =>
      isIn({ from: 0, to: 2 ** 30 }, splits.hashOf(`limit:${name}`)),
    )!;
    const strategy = { strategy: "sliding_window", limit: 9, windowMs: 2000 } as const;
    await splits.binding.limit({ name: "limit", key, strategy, durability: "relaxed" });
    await splits.begin("0", 2 ** 29);
    await splits.until(label, (state) => state !== null);
    const alarm = async (): Promise<number | null> =>
      await runInDurableObject(
        splits.stub("0"),
        async (_, { storage }) => await storage.getAlarm(),
      );
    await vi.waitFor(async () => expect(await alarm()).toBeLessThan(Date.now() + 60_000), 5000);
    waits.mockRestore();
    await release();
    await splits.until("0", ({ split }) => split === null);
  });

  it("a new shard that hangs holds writes back for a second, and the split is given up before it fills the memory", async () => {
    const { splits, quotas } = await filled();
    const warned = vi.spyOn(console, "warn").mockImplementation(() => {});
    const at = 2 ** 29;
    const upper = hexOfHash(at);
    await holdSync(splits.stub(upper));
    await splits.begin("0", at);
    await splits.until(upper, (state) => state !== null);
    const names = KEYS.map((key) => `value:${key}`);
    const name = names.find((each) => isIn({ from: at, to: CIRCLE / 4 }, splits.hashOf(each)))!;
    const value = new Uint8Array(1_000_000);
    const beganMs = Date.now();
    for (let i = 0; i < 12; i++) await splits.binding.set(name, value, TTL);
    expect(Date.now() - beganMs).toBeLessThan(10_000);
    const splitProblem: unknown = expect.stringContaining("too slow");
    expect(await splits.state()).toMatchObject({ split: null, splitProblem });
    warned.mockRestore();
    await splits.expectQuotas(quotas);
  });

  it("a new shard that was never told asks the other one when a request comes, which says that it could not tell", async () => {
    const { splits, quotas } = await filled();
    const upper = await splits.begin();
    // The platform refuses calls of a method that an instance has of its own: as if none had arrived.
    await runInDurableObject(splits.stub(upper), (shard) => {
      shard.given = async () => await Promise.reject(new Error("not reached"));
    });
    await splits.until("0", ({ split }) => split?.isGiven !== false);
    await splits.until("0", ({ splitProblem }) => splitProblem !== null);
    await splits.expectQuotas(quotas);
  });

  it("a new shard drops what it has adopted when the attempt was given up", async () => {
    const { splits, quotas } = await filled();
    const at = 2 ** 29;
    const upper = hexOfHash(at);
    const release = await holdSync(splits.stub(upper));
    await splits.begin("0", at);
    await scheduler.wait(100);
    await runInDurableObject(splits.stub("0"), async (shard) => {
      const { range } = (await shard.shardState())!;
      vi.useFakeTimers({ toFake: ["Date"], now: Date.now() - 60_000 });
      await shard.setClockBack(new ShardMap(splits.ns, 4, "").placementOf(range));
      vi.useRealTimers();
    });
    expect((await splits.state(upper))?.range.from).toBe(at);
    await release();
    await runDurableObjectAlarm(splits.stub(upper));
    expect(await splits.stub(upper).shardState()).toBeNull();
    await splits.expectQuotas(quotas);
  });

  it("a shard that can't split has no problem with it any more once it has shrunk", async () => {
    await withSettings({ SHARD_BYTES_MAX: 1 << 20 }, async () => {
      const splits = new Splits();
      const warned = vi.spyOn(console, "warn").mockImplementation(() => {});
      await splits.binding.increment("first", TTL);
      // Before a split the first shard tells the witness: where it can't, the split is given up at once.
      await runInDurableObject(splits.stub("witness"), (shard) => {
        shard.witness = () => {};
      });
      const keys = KEYS.filter((key) => splits.hashOf(key) < CIRCLE / 4);
      const value = new Uint8Array(660_000 / keys.length);
      for (const key of keys) await splits.binding.set(key, value, TTL);
      await splits.until("0", ({ splitProblem }) => splitProblem !== null);
      // The platform refuses calls of a method that an instance has of its own.
      const splitProblem: unknown = expect.stringContaining("witness");
      expect(await splits.state()).toMatchObject({ split: null, splitProblem });
      // Commits of a shard that is still large leave the problem as it is.
      await splits.binding.increment(keys[0]!, TTL).catch(() => {});
      expect(await splits.state()).toMatchObject({ splitProblem });
      await splits.binding.removeAll("");
      expect(await splits.state()).toMatchObject({ splitProblem: null });
      warned.mockRestore();
    });
  });

  it("a shard that is filled splits by itself, before it is full, and only where it may", async () => {
    const fill = async (splits: Splits): Promise<void> => {
      const value = new Uint8Array(16_000);
      for (let i = 0; i < 400; i += 10) {
        const keys = Array.from({ length: 10 }, (_, k) => `fill:${i + k}`);
        await Promise.all(keys.map(async (key) => await splits.binding.set(key, value, TTL)));
      }
    };
    await withSettings({ SHARD_BYTES_MAX: 1 << 20, SHARDS_MAX: 1 }, async () => {
      const splits = new Splits();
      await expect(fill(splits)).rejects.toThrow("shard_full");
      const unsplit = { range: initialRange(0, 4), split: null };
      expect(await splits.state()).toMatchObject({ ...unsplit, splitProblem: null });
    });
    await withSettings({ SHARD_BYTES_MAX: 1 << 20, SHARDS_MAX: 4 }, async () => {
      const splits = new Splits();
      const warned = vi.spyOn(console, "warn").mockImplementation(() => {});
      await expect(fill(splits)).rejects.toThrow("shard_full");
      const problem = "a part of the range would be narrower than SHARDS_MAX=4 admits";
      expect(await splits.state()).toMatchObject({ split: null, splitProblem: problem });
      const said = warned.mock.calls.filter(([line]) => String(line).includes("split_given_up"));
      // Once for each of the shards that the keys fill: the next attempt is half a minute later.
      expect(said.length).toBeGreaterThan(0);
      expect(said.length).toBeLessThanOrEqual(4);
      const headers = await bearerOf({ ns: splits.ns });
      const http = exports.default as unknown as Fetcher;
      const asked = await http.fetch("http://localhost/v1/overview", { headers });
      const { shards } = await asked.json<Overview>();
      expect(shards[0]).toMatchObject({ shard: "0", isSplitting: false, splitProblem: problem });
      await splits.binding.removeAll("");
      // The next commit of a shard that has room again.
      await splits.binding.increment(
        KEYS.find((key) => splits.hashOf(key) < CIRCLE / 4)!,
        TTL,
      );
      expect(await splits.state()).toMatchObject({ splitProblem: null });
      warned.mockRestore();
    });
    await withSettings({ SHARD_BYTES_MAX: 2 << 20 }, async () => {
      const splits = new Splits();
      await fill(splits);
      await splits.until("0", ({ range, split }) => range.to < 2 ** 30 && split === null);
      const page = await splits.binding.list({ limit: 1000 });
      expect(page.records.length).toBe(400);
      // Shards that have split stay awake for a while, and could not be put to sleep.
      await splits.restart(true);
    });
  });
});

describe("the shards of a namespace over HTTP", () => {
  const http = exports.default as unknown as Fetcher;

  /** The JSON that a route answers with. */
  async function ask(
    ns: string,
    path: string,
    body?: object,
  ): Promise<{ status: number; json: unknown }> {
    const headers = await bearerOf({ ns });
    const sent = body && { method: "POST", body: JSON.stringify({ namespace: ns, ...body }) };
    const response = await http.fetch(`http://localhost${path}`, {
      ...sent,
      headers: { ...headers, "content-type": "application/json" },
    });
    return { status: response.status, json: await response.json() };
  }

  it("GET /v1/shards lists all shards in the order of the circle, and POST /v1/shards/split splits one of them", async () => {
    const { splits } = await filled();
    const { SHARDS } = readSettings(env);
    const rowsOf = async (): Promise<readonly ShardRow[]> =>
      ((await ask(splits.ns, "/v1/shards")).json as Shards).shards;
    const before = await rowsOf();
    expect(before.map(({ shard }) => shard)).toEqual(["0", "1", "2", "3"]);
    const at = CIRCLE / SHARDS / 2;
    const begun = await ask(splits.ns, "/v1/shards/split", { shard: "0", at });
    const newShard = hexOfHash(at);
    expect(begun).toEqual({ status: 200, json: { shard: "0", newShard, at } });
    await splits.until("0", ({ split }) => split === null);
    const after = await rowsOf();
    expect(after.map(({ shard }) => shard)).toEqual(["0", newShard, "1", "2", "3"]);
    expect(after.map(({ from }) => from)).toEqual([
      0,
      at,
      ...before.slice(1).map(({ from }) => from),
    ]);
    expect(after.map(({ to }) => to)).toEqual([...after.slice(1).map(({ from }) => from), CIRCLE]);
    expect(after.reduce((sum, { records }) => sum + records, 0)).toBe(KEYS.length);
    expect(after[1]).toMatchObject({ isHot: false, split: null });
  });

  it.each([
    ["shardState", "/v1/shards", undefined],
    ["split", "/v1/shards/split", { shard: "0" }],
  ] as const)(
    "a shard of an earlier release, which lacks %s, refuses %s: the deployment is being updated",
    async (method, path, body) => {
      const { splits } = await filled();
      const lacked = vi.spyOn(Shard.prototype, method).mockImplementation(() => {
        throw new TypeError(`The RPC receiver does not implement the method "${method}".`);
      });
      expect(await ask(splits.ns, path, body)).toMatchObject({
        status: 503,
        json: { code: "batch_version" },
      });
      lacked.mockRestore();
      expect((await splits.state()).split).toBeNull();
    },
  );

  it("POST /v1/shards/split refuses a shard that is not there, a hash outside of its range, and another namespace", async () => {
    const { splits } = await filled();
    const warned = vi.spyOn(console, "warn");
    const codeOf = async (body: object): Promise<unknown> => {
      const { status, json } = await ask(splits.ns, "/v1/shards/split", body);
      return [status, (json as { code: string }).code];
    };
    expect(await codeOf({ shard: "4" })).toEqual([409, "split_refused"]);
    expect(await codeOf({ shard: "00000001" })).toEqual([409, "split_refused"]);
    expect(await codeOf({ shard: "0", at: CIRCLE - 1 })).toEqual([409, "split_refused"]);
    expect(await codeOf({ shard: "0", at: 1 })).toEqual([409, "split_refused"]);
    // Nothing has failed.
    expect(warned.mock.calls.join("\n")).not.toContain("requests_failed");
    warned.mockRestore();
    // A refusal repeats the name.
    expect(await codeOf({ shard: "0".repeat(9) })).toEqual([400, "body_invalid"]);
    expect(await codeOf({ shard: "0", namespace: "other" })).toEqual([400, "namespace_mismatch"]);
    expect((await splits.state()).split).toBeNull();
  });
});

describe("a shard whose database vanished after a split", () => {
  const MISSING = /shard_data_missing/;

  /** A namespace of which only the first shard has data, split in two: no other shard that it began with misses anything. */
  async function splitFirst(): Promise<{
    splits: Splits;
    upper: string;
    keys: [string[], string[]];
  }> {
    const splits = new Splits();
    const first = inRange(splits, initialRange(0, readSettings(env).SHARDS));
    for (const key of first) await splits.binding.increment(key, { by: 5, ...TTL });
    const upper = await splits.split();
    const given = (await splits.state(upper)).range;
    const isGiven = (key: string): boolean => isIn(given, splits.hashOf(key));
    return {
      splits,
      upper,
      keys: [first.filter((key) => !isGiven(key)), first.filter(isGiven)],
    };
  }

  /** What is left of a shard when its files have been removed. */
  async function vanish(splits: Splits, label: string): Promise<void> {
    await runInDurableObject(splits.stub(label), (_, { storage }) => storage.deleteAll());
    await evictAllDurableObjects();
  }

  it("the first shard of a namespace does not begin anew beside a shard that it has split off", async () => {
    const { splits, keys } = await splitFirst();
    await vanish(splits, "0");
    await withSettings({ ACCEPT_DATA_LOSS: "off" }, async () => {
      expect(await refusalOf(splits.binding.query(keys[0][0]!))).toMatch(MISSING);
      expect(await refusalOf(splits.binding.increment(keys[0][0]!, TTL))).toMatch(MISSING);
      expect(await refusalOf(splits.binding.list())).toMatch(MISSING);
    });
  });

  it("a door that knows no shards finds those that were split off from a first shard that is lost", async () => {
    const { splits, keys } = await splitFirst();
    await vanish(splits, "0");
    const queryOf = (key: string): string => `/v1/counters/${encodeURIComponent(key)}`;
    await withSettings({ ACCEPT_DATA_LOSS: "off" }, async () => {
      const { ns } = splits;
      expect(await askColdDoor(ns, queryOf(keys[1][0]!))).toMatchObject({ quota: "5" });
      expect(await askColdDoor(ns, queryOf(keys[0][0]!))).toBe("shard_data_missing");
      expect(await askColdDoor(ns, "/v1/records")).toBe("shard_data_missing");
    });
  });

  it("the first shard has its range again where the loss is accepted, and the shard that was split off its records", async () => {
    const { splits, upper, keys } = await splitFirst();
    await vanish(splits, "0");
    const quotasOf = async (all: readonly string[]): Promise<unknown[]> =>
      await Promise.all(all.map(async (key) => (await splits.binding.query(key))?.quota ?? null));
    expect(await quotasOf(keys[0])).toEqual(keys[0].map(() => null));
    expect(await quotasOf(keys[1])).toEqual(keys[1].map(() => 5n));
    expect(await splits.binding.increment(keys[0][0]!, { by: 3, ...TTL })).toBe(3n);
    expect(await splits.binding.increment(keys[1][0]!, { by: 3, ...TTL })).toBe(8n);
    const [own, given] = [await splits.state("0"), await splits.state(upper)];
    expect(own.range).toEqual({ from: 0, to: given.range.from });
    expect((await splits.binding.list()).records.length).toBe(1 + keys[1].length);
    await splits.restart(true);
    expect(await quotasOf([keys[0][0]!, keys[1][0]!])).toEqual([3n, 8n]);
  });

  it("a shard that was split off is missed, and begins anew where the loss is accepted", async () => {
    const { splits, upper, keys } = await splitFirst();
    await vanish(splits, upper);
    await withSettings({ ACCEPT_DATA_LOSS: "off" }, async () => {
      expect(await refusalOf(splits.binding.query(keys[1][0]!))).toContain(`${splits.ns}/${upper}`);
      expect(await refusalOf(splits.binding.increment(keys[1][0]!, TTL))).toMatch(MISSING);
      expect((await splits.binding.query(keys[0][0]!))?.quota).toBe(5n);
    });
    expect(await splits.binding.increment(keys[1][0]!, { by: 3, ...TTL })).toBe(3n);
    expect((await splits.binding.query(keys[0][0]!))?.quota).toBe(5n);
  });
});
