/** Splits of a shard that is not the first one of its namespace, where a database is lost, or a shard can't be reached. */
import {
  abortAllDurableObjects,
  evictAllDurableObjects,
  reset,
  runDurableObjectAlarm,
  runInDurableObject,
} from "cloudflare:test";
import { env, exports } from "cloudflare:workers";
import { afterEach, expect, it, vi } from "vitest";
import { readSettings } from "../../src/base/settings.ts";
import { ShardMap } from "../../src/dispatch/shard-map.ts";
import type { Shard } from "../../src/objects/shard/shard.ts";
import type { Placement } from "../../src/wire/batch.ts";
import { Keyspace } from "../../src/wire/keyspace.ts";
import { readMoved } from "../../src/wire/moved.ts";
import { hexOfHash, initialRange, isIn, type Range } from "../../src/wire/range.ts";
import type { Throttr } from "../../src/worker/rpc.ts";
import { refusalOf } from "../support/commands/calls.ts";
import { bytesOf } from "../support/frames/index.ts";
import { askColdDoor } from "../support/pool/cold-door.ts";
import { holdSync } from "../support/pool/shards.ts";
import { withSettings } from "../support/pool/variables.ts";
import { emptyBatch } from "../support/shards.ts";

type Stub = Service<typeof Throttr>;
const entrypoint = exports.Throttr as unknown as (options: { props: object }) => Stub;
const TTL = { ttlMs: 3_600_000 };
const MISSING = /^shard_data_missing: /;
/** Of four. */
const INDEX = "1";

let namespaces = 0;

afterEach(async () => {
  await reset();
});

/** A namespace whose second shard splits. */
class Namespace {
  readonly ns = `split-loss-${namespaces++}`;
  readonly binding = entrypoint({ props: { namespace: this.ns } });
  readonly range: Range;
  /** First hash of the upper half. */
  readonly at: number;
  /** Of the lower half, and of the upper half. */
  readonly keys: readonly [string[], string[]];
  readonly #map: ShardMap;

  constructor() {
    const { SHARDS, SHARD_SECRET } = readSettings(env);
    this.range = initialRange(Number(INDEX), SHARDS);
    const { from, to } = this.range;
    this.at = (from + to) / 2;
    this.#map = new ShardMap(this.ns, SHARDS, SHARD_SECRET);
    const all = Array.from({ length: 60 }, (_, i) => `key:${i}`);
    const keysOf = (range: Range): string[] => all.filter((key) => isIn(range, this.hashOf(key)));
    this.keys = [keysOf({ from, to: this.at }), keysOf({ from: this.at, to })];
  }

  hashOf(key: string): number {
    return this.#map.hashOf(Keyspace.throttr, bytesOf(key), 0, key.length);
  }

  stub(label: string): DurableObjectStub<Shard> {
    return env.SHARD.getByName(`${this.ns}/${label}`);
  }

  /** Of the new shard. */
  get upper(): string {
    return hexOfHash(this.at);
  }

  async fill(): Promise<void> {
    for (const key of this.keys.flat()) await this.binding.increment(key, { by: 5, ...TTL });
  }

  /** @param label of the shard that splits */
  async split(label = INDEX, at = this.at): Promise<void> {
    const stub = this.stub(label);
    const { range } = (await stub.shardState())!;
    await stub.split(this.placementOf(range), at);
    await vi.waitUntil(async () => (await stub.shardState())!.split?.isGiven !== false);
  }

  placementOf(range: Range): Required<Placement> {
    return { ...this.#map.placementOf(range), range };
  }

  /** What is left of a shard when its files have been removed. */
  async vanish(label: string): Promise<void> {
    await vi.waitUntil(async () => (await this.stub(INDEX).shardState())!.split === null);
    await runInDurableObject(this.stub(label), (_, { storage }) => storage.deleteAll());
    await evictAllDurableObjects();
  }

  async quotasOf(keys: readonly string[]): Promise<unknown[]> {
    return await Promise.all(
      keys.map(async (key) => (await this.binding.query(key))?.quota ?? null),
    );
  }
}

const pathOf = (key: string): string => `/v1/counters/${encodeURIComponent(key)}`;

async function afterSplit(): Promise<Namespace> {
  const namespace = new Namespace();
  await namespace.fill();
  await namespace.split();
  return namespace;
}

it("a shard that has split does not begin anew beside the shard that it has split off", async () => {
  const namespace = await afterSplit();
  const [[lower]] = namespace.keys;
  await namespace.vanish(INDEX);
  await withSettings({ ACCEPT_DATA_LOSS: "off" }, async () => {
    expect(await refusalOf(namespace.binding.query(lower!))).toMatch(MISSING);
    expect(await refusalOf(namespace.binding.increment(lower!, TTL))).toMatch(MISSING);
  });
});

it("a door that knows no shards finds the one that was split off from a shard that is lost", async () => {
  const namespace = await afterSplit();
  const { ns } = namespace;
  const [[lower], [upper]] = namespace.keys;
  await namespace.vanish(INDEX);
  await withSettings({ ACCEPT_DATA_LOSS: "off" }, async () => {
    expect(await askColdDoor(ns, pathOf(upper!))).toMatchObject({ quota: "5" });
    expect(await askColdDoor(ns, pathOf(lower!))).toBe("shard_data_missing");
    expect(await askColdDoor(ns, "/v1/records")).toBe("shard_data_missing");
  });
});

it("calls that meet a lost shard together are each answered for their own range", async () => {
  const namespace = await afterSplit();
  const { range, at } = namespace;
  await namespace.vanish(INDEX);
  const had = namespace.placementOf({ from: range.from, to: at });
  const whole = namespace.placementOf(range);
  const part = namespace.placementOf({ from: range.from, to: range.from + 1 });
  const { shards, fingerprint } = whole;
  const rejected = async (call: Promise<unknown>, code: string): Promise<void> =>
    expect(await refusalOf(call)).toMatch(new RegExp(`^${code}: `));
  await withSettings({ ACCEPT_DATA_LOSS: "off" }, async () => {
    const stub = namespace.stub(INDEX);
    const calls = [
      async () => await rejected(stub.shardState(had), "shard_data_missing"),
      async () => await rejected(stub.shardState(whole), "shard_moved"),
      async () => await rejected(stub.shardState(part), "shard_data_missing"),
      async () => await rejected(stub.shardState({ shards, fingerprint }), "shard_data_missing"),
      async () => await rejected(stub.apply(emptyBatch(had)), "shard_data_missing"),
      async () => {
        const answer = await stub.apply(emptyBatch(whole));
        const moved = readMoved(new DataView(answer.buffer, answer.byteOffset, answer.byteLength));
        expect(moved).toEqual({ shards, range: had.range, begins: [at] });
      },
    ];
    for (let first = 0; first < calls.length; first++) {
      const rotated = [...calls.slice(first), ...calls.slice(0, first)];
      await Promise.all(rotated.map(async (call) => await call()));
      await evictAllDurableObjects();
    }
  });
});

it("a shard whose loss is accepted learns from those that it has split off how they have split since", async () => {
  const namespace = await afterSplit();
  const { range, at, upper } = namespace;
  const next = (at + range.to) / 2;
  await namespace.split(upper, next);
  await namespace.vanish(INDEX);
  // A write makes the shard begin anew.
  await namespace.binding.increment(namespace.keys[0][0]!, TTL);
  expect((await namespace.stub(INDEX).ranges(namespace.placementOf(range))).begins).toEqual([
    at,
    next,
  ]);
  await namespace.vanish(hexOfHash(next));
  const [lost, kept] = [next, at].map((from) =>
    namespace.keys[1].filter((key) => namespace.hashOf(key) < next === (from === at)),
  ) as [string[], string[]];
  expect(await namespace.quotasOf(kept)).toEqual(kept.map(() => 5n));
  expect(await namespace.quotasOf(lost)).toEqual(lost.map(() => null));
});

it("a shard that began anew after a loss tells the one that the namespace began with when it splits", async () => {
  const namespace = await afterSplit();
  const { range, at, upper } = namespace;
  await namespace.vanish(upper);
  await namespace.binding.increment(namespace.keys[1][0]!, TTL);
  const next = (at + range.to) / 2;
  await namespace.split(upper, next);
  await vi.waitFor(async () =>
    expect((await namespace.stub(INDEX).ranges(namespace.placementOf(range))).begins).toEqual([
      at,
      next,
    ]),
  );
});

it("a new shard refuses a call while the one that was to tell it of its range is lost", async () => {
  const namespace = new Namespace();
  await namespace.fill();
  await runInDurableObject(namespace.stub(namespace.upper), (shard) => {
    shard.given = () => {
      throw new Error("not reached");
    };
  });
  await namespace.split();
  await runInDurableObject(namespace.stub(INDEX), async (_, { storage }) => {
    await storage.deleteAll();
    await storage.sync();
  });
  await abortAllDurableObjects();
  await withSettings({ ACCEPT_DATA_LOSS: "off" }, async () => {
    const [, [key]] = namespace.keys;
    expect(await askColdDoor(namespace.ns, pathOf(key!))).toBe("shards_unsettled");
  });
});

it.each(["query", "purge"] as const)(
  "a shard that has split has its range again where its loss is accepted, and the new shard its records, after a %s",
  async (call) => {
    const namespace = await afterSplit();
    const { binding, keys, range, at } = namespace;
    await namespace.vanish(INDEX);
    if (call === "purge") expect(await binding.purge(keys[0][0]!)).toBe(false);
    expect(await namespace.quotasOf(keys[0])).toEqual(keys[0].map(() => null));
    expect(await namespace.quotasOf(keys[1])).toEqual(keys[1].map(() => 5n));
    expect(await binding.increment(keys[0][0]!, { by: 3, ...TTL })).toBe(3n);
    const { range: own } = (await namespace.stub(INDEX).shardState())!;
    expect(own).toEqual({ from: range.from, to: at });
    expect((await binding.list()).records.length).toBe(1 + keys[1].length);
  },
);

it("a shard that was split off is missed, and begins anew where its loss is accepted", async () => {
  const namespace = await afterSplit();
  const { binding, keys, upper } = namespace;
  await namespace.vanish(upper);
  await withSettings({ ACCEPT_DATA_LOSS: "off" }, async () => {
    expect(await refusalOf(binding.query(keys[1][0]!))).toContain(`${namespace.ns}/${upper}`);
    expect(await refusalOf(binding.increment(keys[1][0]!, TTL))).toMatch(MISSING);
  });
  expect(await binding.increment(keys[1][0]!, { by: 3, ...TTL })).toBe(3n);
  expect(await namespace.quotasOf(keys[0])).toEqual(keys[0].map(() => 5n));
});

it("a new shard that can't ask the one that it was split off from refuses a call, of which nothing was applied", async () => {
  const namespace = new Namespace();
  await namespace.fill();
  const unreached = (): never => {
    throw new Error("not reached");
  };
  await runInDurableObject(namespace.stub(namespace.upper), (shard) => {
    shard.given = unreached;
  });
  await namespace.split();
  await runInDurableObject(namespace.stub(INDEX), (shard) => {
    shard.verdictOn = unreached;
  });
  const [, keys] = namespace.keys;
  expect(await refusalOf(namespace.binding.increment(keys[0]!, TTL))).toMatch(
    /^shards_unsettled: /,
  );
  await evictAllDurableObjects();
  expect(await namespace.quotasOf(keys)).toEqual(keys.map(() => 5n));
});

it("a shard that is lost after a split that was given up has its whole range, and no other shard is missed", async () => {
  const namespace = new Namespace();
  const { ns, keys, range, upper } = namespace;
  await namespace.fill();
  const stub = namespace.stub(INDEX);
  const release = await holdSync(namespace.stub(upper));
  await stub.split(namespace.placementOf(range), namespace.at);
  const witness = env.SHARD.getByName(`${ns}/witness`);
  await vi.waitUntil(async () => (await witness.witnessed(Number(INDEX))) !== null);
  // That gives up the split under way, where the clock is not right.
  await runInDurableObject(stub, async (shard) => {
    vi.useFakeTimers({ toFake: ["Date"], now: Date.now() - 60_000 });
    await shard.setClockBack(namespace.placementOf(range));
    vi.useRealTimers();
  });
  await release();
  await runDurableObjectAlarm(namespace.stub(upper));
  await vi.waitUntil(
    async () => (await witness.witnessed(Number(INDEX)))!.range.to === namespace.range.to,
  );
  await namespace.vanish(INDEX);
  await withSettings({ ACCEPT_DATA_LOSS: "off" }, async () => {
    for (const key of keys.map((part) => part[0]!)) {
      expect(await askColdDoor(ns, pathOf(key))).toBe("shard_data_missing");
      expect(await refusalOf(namespace.binding.query(key))).toContain(`${ns}/${INDEX} is empty`);
    }
  });
  await withSettings({ ACCEPT_DATA_LOSS: "on" }, async () => {
    await namespace.fill();
    expect((await stub.shardState())!.range).toEqual(range);
    expect(await namespace.stub(upper).shardState()).toBeNull();
  });
});

it("a late call to the witness, of an attempt that was given up, does not replace what it knows of a later attempt", async () => {
  const { ns, range } = new Namespace();
  const witness = env.SHARD.getByName(`${ns}/witness`);
  const said = { placement: { shards: 4, fingerprint: 1 }, range, begins: [], attempt: 2 };
  await witness.witness(1, said);
  await witness.witness(1, { ...said, range: { ...range, to: range.from + 1 }, attempt: 1 });
  expect(await witness.witnessed(1)).toEqual(said);
  expect(await witness.witnessed(0)).toBeNull();
});
