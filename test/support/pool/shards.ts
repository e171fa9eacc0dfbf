/** Looking into the shards: their stubs, what they write, and how to make writing fail. */
import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import type { Shard } from "../../../src/objects/shard/shard.ts";

export function shardStub(index: number, namespace = "default"): DurableObjectStub<Shard> {
  return env.SHARD.getByName(`${namespace}/${index}`);
}

/** What a shard has written since it was last looked at. */
export interface Meter {
  rows: number;
  alarms: number;
}

/** Counts rows and alarms that the running instance writes, without that of the deployment's list of namespaces. */
export async function meterOf(stub: DurableObjectStub<Shard>): Promise<Meter> {
  await registered(stub);
  return await runInDurableObject(stub, (_, { storage }) => {
    const meter: Meter = { rows: 0, alarms: 0 };
    const exec = storage.sql.exec.bind(storage.sql);
    storage.sql.exec = ((query: string, ...bindings: unknown[]) => {
      const cursor = exec(query, ...bindings);
      meter.rows += cursor.rowsWritten;
      return cursor;
    }) as typeof storage.sql.exec;
    const setAlarm = storage.setAlarm.bind(storage);
    storage.setAlarm = async (at) => {
      meter.alarms++;
      await setAlarm(at);
    };
    return meter;
  });
}

/** Waits for shard 0 to note that its namespace is listed: no request waits for that row, so it may come at any time. */
async function registered(stub: DurableObjectStub<Shard>): Promise<void> {
  await runInDurableObject(stub, async (_, { id, storage }) => {
    const isDone = (): boolean => {
      const tables = storage.sql.exec("SELECT 1 FROM sqlite_master WHERE name = 'shard'").toArray();
      if (tables.length === 0 || !id.name!.endsWith("/0")) return true;
      return storage.sql.exec("SELECT is_registered FROM shard").one()["is_registered"] === 1;
    };
    for (let i = 0; i < 50 && !isDone(); i++) await scheduler.wait(10);
  });
}

/** Makes every write to a journal fail from now on, until the object starts again. */
export async function breakJournal(stub: DurableObjectStub<Shard>): Promise<void> {
  await runInDurableObject(stub, (_, { storage }) => {
    const exec = storage.sql.exec.bind(storage.sql);
    storage.sql.exec = ((query: string, ...bindings: unknown[]) => {
      if (query.startsWith("INSERT INTO journal")) throw new Error("disk full");
      return exec(query, ...bindings);
    }) as typeof storage.sql.exec;
  });
}

/** Holds the commit that is on its way to the disk, until released. */
export async function holdSync(stub: DurableObjectStub<Shard>): Promise<() => Promise<void>> {
  const { promise, resolve } = Promise.withResolvers<void>();
  await runInDurableObject(stub, (_, { storage }) => {
    const sync = storage.sync.bind(storage);
    storage.sync = async () => {
      storage.sync = sync;
      await promise;
    };
  });
  return () => runInDurableObject(stub, () => resolve());
}

/** Makes the one row about a shard what releases before 0.5.0 have written. */
export async function makeOldRow(stub: DurableObjectStub<Shard>): Promise<void> {
  await runInDurableObject(stub, (_, { storage }) => {
    const { shards, fingerprint, generation } = storage.sql
      .exec<{ shards: number; fingerprint: number; generation: number }>("SELECT * FROM shard")
      .one();
    storage.sql.exec("DROP TABLE shard");
    storage.sql.exec(
      "CREATE TABLE shard (format INTEGER, shards INTEGER, fingerprint INTEGER, generation INTEGER)",
    );
    storage.sql.exec("INSERT INTO shard VALUES (1, ?, ?, ?)", shards, fingerprint, generation);
  });
}
