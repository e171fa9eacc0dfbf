/** A shard whose database vanished is not taken for a new one. */
import {
  abortAllDurableObjects,
  evictAllDurableObjects,
  runInDurableObject,
} from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { emptyBatch, InitialShards } from "../support/shards.ts";
import { parseSettings } from "../../src/base/settings.ts";
import { Shard } from "../../src/objects/shard/shard.ts";
import { randomHashKey } from "../../src/objects/shard/shard-row.ts";
import type { Placement } from "../../src/wire/batch.ts";
import { initialRange } from "../../src/wire/range.ts";
import { bytesOf, concat, hex, HOURS, INFO, LIST, U16 } from "../support/frames/index.ts";
import { post } from "../support/pool/doors.ts";
import { hubStub } from "../support/pool/hubs.ts";
import { meterOf, shardStub } from "../support/pool/shards.ts";
import { bearerOf } from "../support/pool/tokens.ts";
import { withSettings } from "../support/pool/variables.ts";

const INDEXES = [0, 1, 2, 3];

const NONE = new Uint8Array();

let namespaces = 0;

/** A namespace, and a key of each of its shards. */
async function freshNamespace() {
  const ns = `claims-${namespaces++}`;
  const { SHARDS, SHARD_SECRET } = parseSettings(env);
  const map = new InitialShards(ns, SHARDS, SHARD_SECRET);
  const shardOf = (key: string): number => map.shardOf(0, bytesOf(key), 0, key.length);
  const candidates = Array.from({ length: 200 }, (_, i) => `key:${i}`);
  const keys = INDEXES.map((index) => candidates.find((key) => shardOf(key) === index)!);
  const headers = await bearerOf({ ns });
  const send = async (frame: Uint8Array): Promise<{ status: number; text: string }> => {
    const response = await post("7.3", "uint16", frame as BodyInit, headers);
    const bytes = new Uint8Array(await response.arrayBuffer());
    const text = response.ok ? hex(bytes) : new TextDecoder().decode(bytes);
    return { status: response.status, text };
  };
  return {
    ns,
    keys,
    send,
    insert: (key: string) => send(U16.insert(key, 5, HOURS, 2n)),
    query: (key: string) => send(U16.query(key)),
    purge: (key: string) => send(U16.purge(key)),
    shard: (index: number) => shardStub(index, ns),
  };
}

type Namespace = Awaited<ReturnType<typeof freshNamespace>>;

async function filled(): Promise<Namespace> {
  const namespace = await freshNamespace();
  for (const key of namespace.keys) expect((await namespace.insert(key)).text).toBe("01");
  return namespace;
}

/** What is left of a shard when its files have been removed. */
async function vanish({ shard }: Namespace, index: number): Promise<void> {
  await runInDurableObject(shard(index), (_, { storage }) => storage.deleteAll());
  await evictAllDurableObjects();
}

/** Makes the data of all shards what releases before 0.5.0 have written. */
async function makeOld({ shard }: Namespace): Promise<void> {
  for (const index of INDEXES) {
    await runInDurableObject(shard(index), (_, { storage }) => {
      for (const column of ["hash_key", "is_noted", "noted_shards"]) {
        storage.sql.exec(`ALTER TABLE shard DROP COLUMN ${column}`);
      }
    });
  }
  await evictAllDurableObjects();
}

/** The default of the setting is `off`; other tests accept the loss. */
async function acceptLoss(accepted: "on" | "off"): Promise<void> {
  const settings = await runInDurableObject(hubStub(0, "variables"), (hub) => hub.settings);
  Object.assign(settings, { ACCEPT_DATA_LOSS: accepted });
  await evictAllDurableObjects();
}

beforeAll(async () => {
  await acceptLoss("off");
});

afterAll(async () => {
  await acceptLoss("on");
});

const missing = { status: 503, text: expect.stringContaining("shard_data_missing") as string };

describe("a shard whose database vanished", () => {
  it.each(INDEXES)(
    "a shard whose database vanished refuses every request, and the others serve theirs (shard %i)",
    async (lost) => {
      const namespace = await filled();
      await vanish(namespace, lost);
      for (let start = 0; start < 2; start++) {
        for (const index of INDEXES) {
          const answer = await namespace.query(namespace.keys[index]!);
          if (index === lost) expect(answer).toMatchObject(missing);
          else expect(answer).toMatchObject({ status: 200, text: /^010500/ });
        }
        expect(await namespace.insert(namespace.keys[lost]!)).toMatchObject(missing);
        expect(await namespace.send(LIST)).toMatchObject(missing);
        expect(await namespace.send(INFO)).toMatchObject(missing);
        await evictAllDurableObjects();
      }
    },
  );

  it("a shard that gets its first request while it is listed is not taken for one whose data is gone", async () => {
    const { send, insert, keys } = await freshNamespace();
    expect((await insert(keys[0]!)).text).toBe("01");
    const notes = vi.spyOn(Shard.prototype, "note");
    const isNoted = (): boolean => notes.mock.calls.some(([index]) => index === 1);
    // Shard 0 answers the listing of shard 1 when it has a note of the data that came meanwhile.
    const late = async (index: number): Promise<boolean> => {
      if (index !== 1) return false;
      for (let i = 0; i < 500 && !isNoted(); i++) await scheduler.wait(10);
      return isNoted();
    };
    const asked = vi.spyOn(Shard.prototype, "hasNoted");
    asked.mockImplementation(late as unknown as Shard["hasNoted"]);
    const listed = send(LIST);
    while (!asked.mock.calls.some(([index]) => index === 1)) await scheduler.wait(10);
    expect((await insert(keys[1]!)).text).toBe("01");
    expect(await listed).toMatchObject({ status: 200 });
    vi.restoreAllMocks();
  });

  it("a body of which other shards apply their part is not refused for the part of a vanished shard", async () => {
    const namespace = await filled();
    await vanish(namespace, 2);
    const { status, text } = await namespace.send(
      concat([U16.increase(namespace.keys[1]!), U16.increase(namespace.keys[2]!)]),
    );
    expect([status, JSON.parse(text)]).toMatchObject([503, { code: "outcome_unknown" }]);
    expect(text).toContain("shard_data_missing");
    expect((await namespace.query(namespace.keys[1]!)).text).toMatch(/^010600/);
  });

  it("a body is refused where all shards of its requests refuse their part", async () => {
    const namespace = await filled();
    for (const lost of [1, 2]) await vanish(namespace, lost);
    const { status, text } = await namespace.send(
      concat([U16.increase(namespace.keys[1]!), U16.increase(namespace.keys[2]!)]),
    );
    expect([status, JSON.parse(text)]).toMatchObject([503, { code: "shard_data_missing" }]);
  });

  it("a body is not refused for a later run, as those before it were applied", async () => {
    const namespace = await filled();
    await vanish(namespace, 2);
    const { status, text } = await namespace.send(
      concat([U16.increase(namespace.keys[1]!), LIST, U16.increase(namespace.keys[1]!)]),
    );
    expect([status, JSON.parse(text)]).toMatchObject([503, { code: "outcome_unknown" }]);
    expect((await namespace.query(namespace.keys[1]!)).text).toMatch(/^010600/);
  });

  it("the refusal of a vanished shard names the shard and the remedy", async () => {
    const namespace = await filled();
    await vanish(namespace, 2);
    const { text } = await namespace.query(namespace.keys[2]!);
    expect(text).toContain(`${namespace.ns}/2`);
    expect(text).toContain("ACCEPT_DATA_LOSS=on");
  });

  it.each([0, 2])(
    "a vanished shard starts again where the loss is accepted, and is missed again later (shard %i)",
    async (lost) => {
      const namespace = await filled();
      const key = namespace.keys[lost]!;
      await vanish(namespace, lost);
      await withSettings({ ACCEPT_DATA_LOSS: "on" }, async () => {
        expect((await namespace.query(key)).text).toBe("00");
        expect((await namespace.insert(key)).text).toBe("01");
      });
      expect((await namespace.query(key)).text).toMatch(/^010500/);
      expect((await namespace.send(LIST)).status).toBe(200);
      for (const index of [lost, 3]) {
        await vanish(namespace, index);
        expect(await namespace.query(namespace.keys[index]!)).toMatchObject(missing);
      }
    },
  );

  it("a vanished shard is noticed in data of an earlier release, once its shards have started", async () => {
    const namespace = await filled();
    await makeOld(namespace);
    for (const index of INDEXES) await namespace.shard(index).figures();
    await expect
      .poll(async () => {
        const noted = await Promise.all(
          [1, 2, 3].map((index) => namespace.shard(0).hasNoted(index)),
        );
        return noted.every(Boolean);
      })
      .toBe(true);
    for (const key of namespace.keys) expect((await namespace.query(key)).status).toBe(200);
    for (const lost of [3, 0]) {
      await vanish(namespace, lost);
      expect(await namespace.query(namespace.keys[lost]!)).toMatchObject(missing);
    }
  });
});

describe("first calls to a shard", () => {
  const failureOf = async (call: Promise<unknown>): Promise<string> =>
    await call.then(
      () => "none",
      (error: Error) => error.message,
    );
  const { SHARDS, SHARD_SECRET } = parseSettings(env);
  const placementOf = (ns: string, secret = SHARD_SECRET): Placement =>
    new InitialShards(ns, SHARDS, secret).placement;
  const calls: readonly [string, (ns: string) => Placement, RegExp][] = [
    ["of an old door", placementOf, /^01$/],
    ["with a range", (ns) => ({ ...placementOf(ns), range: initialRange(1, SHARDS) }), /^02$/],
    ["with another secret", (ns) => placementOf(ns, "another"), /^shards_mismatch: .*SHARD_SECRET/],
    [
      "of an old door with another SHARDS",
      (ns) => ({ ...placementOf(ns), shards: SHARDS + 1 }),
      /^shards_mismatch: .*SHARDS=/,
    ],
  ];

  it.each(calls.map(([name], i) => [name, i] as const))(
    "calls that come together are each judged by their own secret and shards (first one %s)",
    async (_, i) => {
      const { ns, insert, keys, shard } = await freshNamespace();
      expect((await insert(keys[0]!)).text).toBe("01");
      const together = [calls[i]!, ...calls.toSpliced(i, 1)];
      const stub = shard(1);
      const answers = together.map(async ([, placement, expected]) => {
        const call = stub.apply(emptyBatch(placement(ns)));
        expect(await call.then(hex, (error: Error) => error.message)).toMatch(expected);
      });
      await Promise.all(answers);
    },
  );

  it("a shard whose deployment has another secret than its callers begins no data and adopts none", async () => {
    const { ns, shard } = await freshNamespace();
    const placement = placementOf(ns);
    await withSettings({ SHARD_SECRET: "another" }, async () => {
      const range = initialRange(1, SHARDS);
      const begun = await failureOf(shard(1).apply(emptyBatch({ ...placement, range })));
      const half = { from: 2 ** 31, to: 0 };
      const offer = { placement, hashKey: randomHashKey(), range: half, parent: 0, attempt: 1 };
      const other = env.SHARD.getByName(`${ns}/80000000`);
      const adopted = await failureOf(other.adopt(offer, 1, NONE, NONE));
      for (const failure of [begun, adopted]) {
        expect(failure).toMatch(/^shards_mismatch: .*SHARD_SECRET/);
      }
    });
    expect(await shard(0).hasData()).toBe(false);
  });
});

describe("a shard without records", () => {
  it("a shard whose records were all removed is not missed after a restart", async () => {
    const namespace = await filled();
    for (const key of namespace.keys) expect((await namespace.purge(key)).text).toBe("01");
    for (const restart of [evictAllDurableObjects, abortAllDurableObjects]) {
      await restart();
      for (const key of namespace.keys) expect((await namespace.query(key)).text).toBe("00");
      expect((await namespace.send(LIST)).status).toBe(200);
    }
  });

  it("a shard that never had records is not missed", async () => {
    const namespace = await freshNamespace();
    expect((await namespace.send(LIST)).text).toBe("010000000000000000");
    expect((await namespace.insert(namespace.keys[3]!)).text).toBe("01");
    await evictAllDurableObjects();
    expect((await namespace.send(LIST)).status).toBe(200);
    for (const key of namespace.keys.slice(0, 3)) {
      expect((await namespace.query(key)).text).toBe("00");
    }
  });

  it("a shard whose first batch was lost in a crash is not missed", async () => {
    const namespace = await freshNamespace();
    const key = namespace.keys[1]!;
    await namespace.insert(namespace.keys[0]!);
    // Shard 0 has heard of the claim, and not of data.
    const { SHARDS, SHARD_SECRET } = parseSettings(env);
    const { placement } = new InitialShards(namespace.ns, SHARDS, SHARD_SECRET);
    await namespace.shard(0).claim(placement, 1);
    await evictAllDurableObjects();
    expect((await namespace.insert(key)).text).toBe("01");
  });
});

describe("the note of a shard's data", () => {
  it("the note of a shard's data costs rows with the first batch only", async () => {
    const namespace = await filled();
    const meters = await Promise.all(INDEXES.map((index) => meterOf(namespace.shard(index))));
    const increases = namespace.keys.map((key) => U16.increase(key));
    expect((await namespace.send(concat(increases))).text).toBe("01010101");
    expect(meters.map(({ rows }) => rows)).toEqual([1, 1, 1, 1]);
  });
});
