/** Splits of a shard that is not the first one of its namespace, where a database is lost, or a shard can't be reached. */
import { evictAllDurableObjects, reset, runInDurableObject } from "cloudflare:test";
import { env, exports } from "cloudflare:workers";
import { afterEach, expect, it, vi } from "vitest";
import { readSettings } from "../../src/base/settings.ts";
import { ShardMap } from "../../src/dispatch/shard-map.ts";
import type { Shard } from "../../src/objects/shard/shard.ts";
import { Keyspace } from "../../src/wire/keyspace.ts";
import { hexOfHash, initialRange, isIn, type Range } from "../../src/wire/range.ts";
import type { Throttr } from "../../src/worker/rpc.ts";
import { refusalOf } from "../support/commands/calls.ts";
import { bytesOf } from "../support/frames/index.ts";
import { withSettings } from "../support/pool/variables.ts";

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
    const keysOf = (range: Range): string[] => all.filter((key) => isIn(range, this.#hashOf(key)));
    this.keys = [keysOf({ from, to: this.at }), keysOf({ from: this.at, to })];
  }

  #hashOf(key: string): number {
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

  async split(): Promise<void> {
    await this.stub(INDEX).split(this.#map.placementOf(this.range), this.at);
    await vi.waitUntil(async () => (await this.stub(INDEX).shardState())!.split?.isGiven !== false);
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

it.each([
  ["writes", 0],
  ["reads", 1],
])(
  "a door that knows no shards finds the one that was split off from a shard that is lost, when it %s first",
  async (_, order) => {
    const namespace = await afterSplit();
    const { binding } = namespace;
    const [[lower], [upper]] = namespace.keys;
    await namespace.vanish(INDEX);
    // Other settings: the isolate has no map of the namespace with them.
    await withSettings({ ACCEPT_DATA_LOSS: "off" }, async () => {
      const calls = [
        async () => expect(await binding.increment(upper!, { by: 3, ...TTL })).toBe(8n),
        async () => expect(await refusalOf(binding.list())).toMatch(MISSING),
      ];
      for (const call of order === 0 ? calls : calls.toReversed()) await call();
      expect(await refusalOf(binding.query(lower!))).toMatch(MISSING);
    });
  },
);

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

it("a late call to the witness, of an attempt that was given up, does not replace what it knows of a later attempt", async () => {
  const { ns, range } = new Namespace();
  const witness = env.SHARD.getByName(`${ns}/witness`);
  const said = { placement: { shards: 4, fingerprint: 1 }, range, begins: [], attempt: 2 };
  await witness.witness(1, said);
  await witness.witness(1, { ...said, range: { ...range, to: range.from + 1 }, attempt: 1 });
  expect(await witness.witnessed(1)).toEqual(said);
  expect(await witness.witnessed(0)).toBeNull();
});
