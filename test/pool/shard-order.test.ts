/** The order of a shard's table: plans and cursors are places in it, so it outlives restarts. */
import {
  abortAllDurableObjects,
  evictAllDurableObjects,
  runInDurableObject,
} from "cloudflare:test";
import { describe, expect, it } from "vitest";
import type { ListingQuery } from "../../src/engine/listing.ts";
import { HASH_END } from "../../src/engine/table.ts";
import { InitialShards } from "../support/shards.ts";
import { batchOf, frameOf, parseFragments } from "../support/frames/index.ts";
import type { ModelProtocol } from "../support/models/requests.ts";
import { makeOldRow, meterOf, shardStub } from "../support/pool/shards.ts";

const U16: ModelProtocol = { dialect: "7.3", valueSize: 2 };
const QUERY: ListingQuery = { rows: "list", valueSize: 2, keyspace: 0, prefixes: [] };
const SHAPE = { hasStatus: false, rowBytes: 13, hasNames: true };

let namespaces = 0;
const freshNamespace = (): string => `order-${namespaces++}`;

async function insert(namespace: string, keys: readonly string[]): Promise<void> {
  const frames = keys.map((key) =>
    frameOf(U16, { type: "insert", key, quota: 5n, ttlType: 6, ttl: 2n }),
  );
  const placement = new InitialShards(namespace, 1, "");
  await shardStub(0, namespace).apply(batchOf([{ protocol: U16, frames }], placement));
}

async function planOf(namespace: string) {
  const { placement } = new InitialShards(namespace, 1, "");
  const parts = [];
  let hashes: string | null = null;
  for (let cursor: number | null = 0; cursor !== null;) {
    const step: Awaited<ReturnType<ReturnType<typeof shardStub>["plan"]>> = await shardStub(
      0,
      namespace,
    ).plan(placement, hashes, QUERY, cursor);
    parts.push(...step.parts);
    ({ hashes, cursor } = step);
  }
  return { hashes: hashes!, parts, placement };
}

/** Names that the parts of a plan list. */
async function namesOf(
  namespace: string,
  { hashes, parts, placement }: Awaited<ReturnType<typeof planOf>>,
): Promise<string[]> {
  const fragments = await shardStub(0, namespace).fragments(
    placement,
    hashes,
    QUERY,
    parts,
    HASH_END,
    1,
  );
  const count = parts.reduce((sum, part) => sum + part.fragments, 0);
  const reply = new Uint8Array(8 + fragments.length);
  new DataView(reply.buffer).setBigUint64(0, BigInt(count), true);
  reply.set(fragments, 8);
  return parseFragments(reply, SHAPE).flatMap(({ rows }) => rows.map(({ name }) => name));
}

/** Makes a shard's data what releases before 0.5.0 have written, but of a namespace that is listed: listing it is a write. */
async function makeOld(namespace: string): Promise<void> {
  const stub = shardStub(0, namespace);
  // It waits until the namespace is listed.
  await meterOf(stub);
  await makeOldRow(stub);
  await runInDurableObject(stub, (_, { storage }) => {
    storage.sql.exec("ALTER TABLE shard ADD COLUMN is_registered INTEGER");
    storage.sql.exec("UPDATE shard SET is_registered = 1");
  });
  await evictAllDurableObjects();
}

describe("the order of a shard's table", () => {
  it.each([
    ["has left memory", evictAllDurableObjects],
    ["was reset", abortAllDurableObjects],
  ])(
    "the order of a shard's table outlives its instance, so that a plan lists every record once when it %s",
    async (_, end) => {
      const namespace = freshNamespace();
      const keys = Array.from({ length: 3000 }, (_key, i) => `key:${i}`);
      await insert(namespace, keys);
      const plan = await planOf(namespace);
      await end();
      expect((await namesOf(namespace, plan)).toSorted()).toEqual(keys.toSorted());
    },
  );

  it("a shard of which a full disk has taken the row and not the tables, as under release 0.4.0, starts and takes records", async () => {
    const namespace = freshNamespace();
    await insert(namespace, ["first"]);
    await runInDurableObject(shardStub(0, namespace), (_, { storage }) => {
      for (const table of ["snapshot_0", "journal_0"]) storage.sql.exec(`DROP TABLE ${table}`);
    });
    await abortAllDurableObjects();
    await insert(namespace, ["second"]);
    await abortAllDurableObjects();
    expect(await namesOf(namespace, await planOf(namespace))).toEqual(["second"]);
  });

  it("a shard of which a full disk has taken the table alone, without its row, as under release 0.4.0, starts and takes records", async () => {
    const namespace = freshNamespace();
    await runInDurableObject(shardStub(0, namespace), (_, { storage }) => {
      storage.sql.exec(
        "CREATE TABLE shard (format INTEGER, shards INTEGER, fingerprint INTEGER, generation INTEGER)",
      );
    });
    await abortAllDurableObjects();
    await insert(namespace, ["first"]);
    await abortAllDurableObjects();
    expect(await namesOf(namespace, await planOf(namespace))).toEqual(["first"]);
  });

  it("the order of a shard's table is stored with the row that claims the placement, and with no other", async () => {
    const namespace = freshNamespace();
    await insert(namespace, ["first"]);
    const meter = await meterOf(shardStub(0, namespace));
    await insert(namespace, ["second"]);
    expect(meter.rows).toBe(1);
  });

  it("the order of a table of an earlier release is stored with the next commit, not by reads", async () => {
    const namespace = freshNamespace();
    const keys = Array.from({ length: 300 }, (_key, i) => `key:${i}`);
    await insert(namespace, keys);
    await makeOld(namespace);
    const meter = await meterOf(shardStub(0, namespace));
    const unstored = await planOf(namespace);
    expect((await namesOf(namespace, unstored)).toSorted()).toEqual(keys.toSorted());
    expect(meter.rows).toBe(0);
    await evictAllDurableObjects();
    await expect(namesOf(namespace, unstored)).rejects.toThrow(/listing_lost/);
    const plan = await planOf(namespace);
    await insert(namespace, ["another"]);
    await evictAllDurableObjects();
    expect((await namesOf(namespace, plan)).filter((name) => name !== "another")).toHaveLength(300);
  });
});
