/** What is acknowledged is there: after eviction, abort, alarm and failing disks, in any order. */
import {
  abortAllDurableObjects,
  evictAllDurableObjects,
  reset,
  runDurableObjectAlarm,
  runInDurableObject,
} from "cloudflare:test";
import fc from "fast-check";
import { env } from "cloudflare:workers";
import { afterEach, describe, expect, inject, it, vi } from "vitest";
import { requestArbitrary } from "../support/engine/arbitraries.ts";
import { batchOf, concat, frameOf, hex, partsOf } from "../support/frames/index.ts";
import { CommandModel } from "../support/models/commands.ts";
import type { ModelProtocol, ModelRequest } from "../support/models/requests.ts";
import { InitialShards } from "../support/shards.ts";
import { Shard } from "../../src/objects/shard/shard.ts";
import { post } from "../support/pool/doors.ts";
import { bearerOf } from "../support/pool/tokens.ts";
import { breakJournal, holdSync, meterOf, shardStub } from "../support/pool/shards.ts";

const seed = inject("seed");
const protocol: ModelProtocol = { dialect: "7.3", valueSize: 8 };
const FOREVER = 1_000_000n;
const HOURS = 6;

afterEach(async () => {
  await reset();
});

const insert = (key: string, quota = 1n, ttl = FOREVER): ModelRequest => ({
  type: "insert",
  key,
  quota,
  ttlType: HOURS,
  ttl,
});
const query = (key: string): ModelRequest => ({ type: "query", key });
const increase = (key: string): ModelRequest => ({
  type: "update",
  key,
  attribute: 0,
  change: 1,
  value: 1n,
});

/** One shard addressed directly, as doors of a deployment with SHARDS=1 would. */
const placement = new InitialShards("default", 1, "");
const stub = () => shardStub(0);
async function apply(...requests: ModelRequest[]): Promise<string> {
  const frames = requests.map((request) => frameOf(protocol, request));
  const answer = await stub().apply(batchOf([{ protocol, frames }], placement));
  return hex(partsOf(answer)[0]!.replies);
}

/** Requests whose replies don't depend on the time between them. */
const timeless = requestArbitrary(protocol)
  .filter((request) => !(request.type === "update" && request.attribute === 1))
  .map((request): ModelRequest => {
    if (request.type === "insert" || request.type === "set")
      return { ...request, ttlType: HOURS, ttl: FOREVER };
    return request;
  });

const event = fc.oneof(
  { weight: 3, arbitrary: fc.array(timeless, { minLength: 1, maxLength: 20 }) },
  { weight: 1, arbitrary: fc.constantFrom("evict" as const, "abort" as const, "alarm" as const) },
);

/** The reply with its TTL, which time changes, masked. */
function masked(request: ModelRequest, reply: readonly number[]): string {
  const copy = [...reply];
  const at = request.type === "query" ? 10 : request.type === "get" ? 2 : -1;
  if (at > 0 && reply.length > 1) copy.fill(0, at, at + 8);
  return hex(copy);
}

describe("acknowledged writes", () => {
  it("acknowledged writes survive eviction, abort and alarm in any order", async () => {
    let run = 0;
    const property = fc.asyncProperty(
      fc.array(event, { minLength: 1, maxLength: 15 }),
      async (events) => {
        const namespace = `run-${run++}`;
        const headers = await bearerOf({ ns: namespace });
        const model = new CommandModel(0);
        model.advance(1_700_000_000_000);
        for (const happening of events) {
          if (happening === "evict") await evictAllDurableObjects();
          else if (happening === "abort") await abortAllDurableObjects();
          else if (happening === "alarm")
            for (let i = 0; i < 4; i++) await runDurableObjectAlarm(shardStub(i, namespace));
          else await expectLikeModel(model, headers, happening);
        }
      },
    );
    await fc.assert(property, { seed, numRuns: 40 });
  });

  async function expectLikeModel(
    model: CommandModel,
    headers: HeadersInit,
    requests: ModelRequest[],
  ): Promise<void> {
    const body = concat(requests.map((request) => frameOf(protocol, request)));
    const response = await post("7.3", "uint64", body, headers);
    const replies = [...new Uint8Array(await response.arrayBuffer())];
    let at = 0;
    for (const request of requests) {
      const expected = model.throttr(protocol.valueSize, request).bytes;
      const reply = replies.slice(at, at + expected.length);
      expect(masked(request, reply)).toBe(masked(request, expected));
      at += expected.length;
    }
    expect(at).toBe(replies.length);
  }

  it("acknowledged writes survive many commits, with journal cuts between", async () => {
    await apply(insert("k", 0n));
    for (let i = 0; i < 4200; i++)
      await stub().apply(
        batchOf([{ protocol, frames: [frameOf(protocol, increase("k"))] }], placement),
      );
    const tables = await runInDurableObject(stub(), (_, { storage }) =>
      storage.sql
        .exec<{ name: string }>("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
        .toArray()
        .map(({ name }) => name),
    );
    expect(tables.filter((name) => !name.startsWith("_cf"))).toEqual([
      "journal_1",
      "shard",
      "snapshot_1",
    ]);
    await abortAllDurableObjects();
    expect((await apply(query("k"))).slice(0, 18)).toBe("01" + "6810000000000000");
  });
});

describe("replies", () => {
  it("a write is not acknowledged when its row cannot be written", async () => {
    await apply(insert("before"));
    await breakJournal(stub());
    await expect(apply(insert("lost"))).rejects.toThrow(/disk full/);
    expect(await apply(query("lost"))).toBe("00");
    expect((await apply(query("before"))).slice(0, 2)).toBe("01");
  });

  it("a reply waits for its row", async () => {
    await apply(insert("before"));
    const release = await holdSync(stub());
    await apply(increase("before"));
    const meter = await meterOf(stub());
    const call = apply(insert("k")).then((reply) => ({ reply, rows: meter.rows }));
    expect(await Promise.race([call, scheduler.wait(50).then(() => "waiting")])).toBe("waiting");
    expect(meter.rows).toBe(0);
    await release();
    expect(await call).toEqual({ reply: "01", rows: 1 });
  });

  it("a reply does not show a change of another caller before its row is written", async () => {
    await apply(insert("before"));
    const release = await holdSync(stub());
    // The first commit is on its way to the disk; what follows waits for the next.
    await apply(increase("before"));
    const writer = apply(insert("lost"));
    const reader = apply(query("lost"));
    const refused = apply(insert("lost"));
    const calls = [writer, reader, refused].map((call) =>
      call.then(
        () => "told",
        () => "failed",
      ),
    );
    expect(await Promise.race([...calls, scheduler.wait(50).then(() => "waiting")])).toBe(
      "waiting",
    );
    await breakJournal(stub());
    await release();
    expect(await Promise.all(calls)).toEqual(["failed", "failed", "failed"]);
    expect(await apply(query("lost"))).toBe("00");
  });

  it("a body is answered outcome_unknown when its shard fails, and later requests are served", async () => {
    const body = frameOf(protocol, insert("k"));
    expect((await post("7.3", "uint64", body)).status).toBe(200);
    for (let i = 0; i < 4; i++)
      await runInDurableObject(shardStub(i), () => {}).then(() => breakJournal(shardStub(i)));
    const failed = await post("7.3", "uint64", frameOf(protocol, increase("k")));
    expect(failed.status).toBe(503);
    expect(await failed.json()).toMatchObject({ code: "outcome_unknown" });
    const response = await post("7.3", "uint64", frameOf(protocol, query("k")));
    expect(hex(new Uint8Array(await response.arrayBuffer())).slice(0, 18)).toBe(
      "01" + "0100000000000000",
    );
  });
});

describe("rows written", () => {
  it("a commit writes one row, whatever the batch", async () => {
    await apply(insert("k"));
    const meter = await meterOf(stub());
    await apply(increase("k"));
    expect(meter.rows).toBe(1);
    await apply(...Array.from({ length: 5000 }, (_, i) => insert(`key:${i}`)));
    expect(meter.rows).toBe(2);
    await apply(query("k"), query("absent"), insert("k"));
    expect(meter.rows).toBe(2);
  });

  it("a body writes one row for each shard, however many frames it has", async () => {
    const body = (requests: ModelRequest[]) => concat(requests.map((r) => frameOf(protocol, r)));
    const keys = Array.from({ length: 5000 }, (_, i) => `key:${i}`);
    await post("7.3", "uint64", body(keys.map((key) => insert(key))));
    const meters = await Promise.all([0, 1, 2, 3].map((index) => meterOf(shardStub(index))));
    await post("7.3", "uint64", body(keys.map(increase)));
    expect(meters.map(({ rows }) => rows)).toEqual([1, 1, 1, 1]);
  });

  it("callers that come during a commit share the next row", async () => {
    await apply(insert("k", 0n));
    const meter = await meterOf(stub());
    const release = await holdSync(stub());
    await apply(increase("k"));
    const calls = Array.from({ length: 16 }, () => apply(increase("k")));
    await scheduler.wait(50);
    await release();
    await Promise.all(calls);
    expect(meter.rows).toBe(2);
    expect((await apply(query("k"))).slice(0, 4)).toBe("0111");
  });

  it("commits write at most 1.1 rows each, journal cuts and snapshots included", async () => {
    await apply(...Array.from({ length: 40_000 }, (_, i) => insert(`key:${i}`)));
    const meter = await meterOf(stub());
    const commits = 8500;
    const batch = batchOf(
      [{ protocol, frames: [frameOf(protocol, increase("key:7"))] }],
      placement,
    );
    for (let i = 0; i < commits; i++) await stub().apply(batch);
    const { generation } = await runInDurableObject(stub(), (_, { storage }) =>
      storage.sql.exec<{ generation: number }>("SELECT generation FROM shard").one(),
    );
    expect(generation).toBeGreaterThanOrEqual(2);
    expect(meter.rows).toBeGreaterThan(commits);
    expect(meter.rows).toBeLessThanOrEqual(commits * 1.1);
  });
});

describe("a cut of the journal", () => {
  const MEGABYTES = 6;
  const bufferOf = (i: number): ModelRequest => ({
    type: "set",
    key: `buffer:${i}`,
    ttlType: HOURS,
    ttl: FOREVER,
    value: new Uint8Array(60_000).fill(i),
  });
  const tables = async (): Promise<string[]> =>
    await runInDurableObject(stub(), (_, { storage }) =>
      storage.sql
        .exec<{ name: string }>("SELECT name FROM sqlite_master WHERE name LIKE 'journal%'")
        .toArray()
        .map(({ name }) => name),
    );

  /** Commits until the next generation has its journal. */
  async function beginCut(): Promise<void> {
    for (let i = 0; i < MEGABYTES * 17; i++) await apply(bufferOf(i));
    await apply(insert("k", 0n));
    for (let i = 0; i < 500; i++) {
      await apply(increase("k"));
      if ((await tables()).includes("journal_1")) return;
    }
    throw new Error("no cut has begun");
  }

  it("a cut ends though the shard restarts after each commit, and nothing is lost", async () => {
    await beginCut();
    for (let i = 0; i < MEGABYTES + 2; i++) {
      await abortAllDurableObjects();
      await apply(increase("k"));
    }
    expect(await tables()).toEqual(["journal_1"]);
    await abortAllDurableObjects();
    expect((await stub().figures()).records).toBe(MEGABYTES * 17 + 1);
    const last = { type: "get", key: `buffer:${MEGABYTES * 17 - 1}` } as const;
    expect(await apply(last)).toMatch(/(65){100}$/);
  });

  it("a shard that restarts during a cut counts the rows of the next journal alone", async () => {
    await beginCut();
    const { journalRows } = await stub().figures();
    await abortAllDurableObjects();
    expect(await stub().figures()).toMatchObject({ journalRows });
    await apply(increase("k"));
    expect(await stub().figures()).toMatchObject({ journalRows: journalRows + 1 });
  });

  describe("of a shard that is only read", () => {
    /** More rows than a journal has before it is cut. */
    const MANY = 4200;
    const readOften = async (between: () => void, isKept: boolean): Promise<void> => {
      const read = batchOf([{ protocol, frames: [frameOf(protocol, query("k"))] }], placement);
      await runInDurableObject(stub(), async (shard: Shard) => {
        for (let i = 0; i < MANY; i++) {
          between();
          await shard.apply(read);
          if (isKept) await shard.summary(placement, true);
        }
      });
    };

    it("is made by an alarm where its clock goes back thousands of times", async () => {
      await apply(insert("k"));
      let nowMs = Date.now();
      vi.spyOn(Date, "now").mockImplementation(() => nowMs);
      vi.spyOn(console, "warn").mockImplementation(() => {});
      await readOften(() => (nowMs -= 1100), false);
      vi.restoreAllMocks();
      await runDurableObjectAlarm(stub());
      expect(await tables()).toEqual(["journal_1"]);
      await abortAllDurableObjects();
      expect((await stub().figures()).journalRows).toBeLessThan(MANY / 10);
      expect((await apply(query("k"))).slice(0, 2)).toBe("01");
    });

    it("is made by an alarm where scrapes have stored its counts thousands of times, and nothing else is due", async () => {
      await apply(insert("k"));
      await readOften(() => {}, true);
      expect(await tables()).toEqual(["journal_0"]);
      await runDurableObjectAlarm(stub());
      expect(await tables()).toEqual(["journal_1"]);
      expect(await stub().figures()).toMatchObject({ journalRows: 0, records: 1 });
    });
  });
});

describe("alarm", () => {
  const short = (key: string, ttl: bigint): ModelRequest => ({
    type: "insert",
    key,
    quota: 1n,
    ttlType: 3,
    ttl,
  });

  it("an alarm is written for an earlier deadline only", async () => {
    await apply(short("first", 60_000n));
    const meter = await meterOf(stub());
    await apply(short("later", 90_000n));
    await apply(increase("first"));
    await apply({ type: "purge", key: "first" });
    expect(meter.alarms).toBe(0);
    await apply(short("earlier", 30_000n));
    // At most one a second: it may have to wait for that.
    await expect.poll(() => meter.alarms, { timeout: 3000 }).toBe(1);
  });

  it("an alarm is written at most once a second, and for the earliest deadline in the end", async () => {
    await apply(short("first", 60_000n));
    const meter = await meterOf(stub());
    for (let i = 0; i < 20; i++) await apply(short(`k${i}`, BigInt(50_000 - 1000 * i)));
    expect(meter.alarms).toBeLessThanOrEqual(1);
    await scheduler.wait(1200);
    expect(meter.alarms).toBeLessThanOrEqual(2);
    const alarmAtMs = await runInDurableObject(stub(), (_, { storage }) => storage.getAlarm());
    expect(alarmAtMs! - Date.now()).toBeLessThan(31_000);
  });

  it("an alarm collects expired records, and frees the storage of an empty shard", async () => {
    for (let commit = 0; commit < 60; commit++) {
      await apply(...Array.from({ length: 200 }, (_, i) => short(`key:${commit}:${i}`, 500n)));
    }
    expect((await stub().figures()).records).toBe(12_000);
    await scheduler.wait(600);
    // On a slow machine it has rung already.
    await runDurableObjectAlarm(stub());
    const figures = await stub().figures();
    expect(figures).toMatchObject({ records: 0, journalRows: 0, journalBytes: 0 });
    expect(figures.bytes).toBeLessThan(100_000);
    const { n } = await runInDurableObject(stub(), (_, { storage }) =>
      storage.sql.exec<{ n: number }>("SELECT count(*) AS n FROM journal_1").one(),
    );
    expect(n).toBe(0);
    await abortAllDurableObjects();
    expect(await apply(query("key:1:1"))).toBe("00");
  });

  it("an alarm does not spend rows on the few records that a quiet shard leaves", async () => {
    await apply(short("k", 10n));
    const meter = await meterOf(stub());
    for (let round = 0; round < 5; round++) {
      await apply(short(`k${round}`, 10n));
      await scheduler.wait(20);
      await runDurableObjectAlarm(stub());
    }
    expect((await stub().figures()).records).toBe(0);
    expect(meter.rows).toBe(5);
  });

  it("an alarm is never set for a time that the platform refuses", async () => {
    const far = (key: string, ttl: bigint): ModelRequest =>
      ({ ...insert(key), ttl }) as ModelRequest;
    expect(await apply(far("far", 2_628_000n))).toBe("01");
    expect(await apply(far("farther", 2n ** 64n - 1n))).toBe("01");
    expect(await apply(short("near", 100n))).toBe("01");
    await expect.poll(async () => (await stub().figures()).records, { timeout: 5000 }).toBe(2);
    await abortAllDurableObjects();
    expect(await apply(increase("far"))).toBe("01");
    const alarmAtMs = await runInDurableObject(stub(), (_, { storage }) => storage.getAlarm());
    expect(alarmAtMs).toBeGreaterThan(Date.now() + 300 * 86_400_000);
  });

  it("an alarm collects an expired record that is never asked for", async () => {
    await apply(short("k", 100n));
    await expect.poll(async () => (await stub().figures()).records, { timeout: 5000 }).toBe(0);
  });
});

describe("variables", () => {
  /** Runs as the object would in a deployment with other variables. */
  async function withShard(variables: object, run: (shard: Shard) => Promise<void>): Promise<void> {
    await runInDurableObject(stub(), async (_, state) => {
      const shard = new Shard(state, { ...env, ...variables } as Env);
      // Events wait until the data is loaded; we are inside one.
      await scheduler.wait(10);
      await run(shard);
    });
  }
  const batchOfRequests = (...requests: ModelRequest[]): Uint8Array =>
    batchOf([{ protocol, frames: requests.map((r) => frameOf(protocol, r)) }], placement);

  it("DURABILITY=relaxed replies first, and writes soon after", async () => {
    await apply(insert("k"));
    const meter = await meterOf(stub());
    await withShard({ DURABILITY: "relaxed" }, async (shard) => {
      await shard.apply(batchOfRequests(increase("k")));
      expect(meter.rows).toBe(0);
      await shard.apply(batchOfRequests(increase("k")));
      await expect.poll(() => meter.rows).toBe(1);
    });
    await abortAllDurableObjects();
    expect((await apply(query("k"))).slice(0, 4)).toBe("0103");
  });

  it("SHARD_BYTES_MAX refuses new records beyond it, says so, and serves all others", async () => {
    const warn = vi.spyOn(console, "warn").mockImplementation(() => {});
    await withShard({ SHARD_BYTES_MAX: "1048576" }, async (shard) => {
      const inserts = Array.from({ length: 30_000 }, (_, i) => insert(`key:${i}`));
      const [part] = partsOf(await shard.apply(batchOfRequests(...inserts)));
      expect(part!.replies).toContain(0);
      expect(shard.figures().bytes).toBeLessThanOrEqual(1 << 20);
      const others = batchOfRequests(increase("key:0"), { type: "purge", key: "key:1" });
      expect(hex(partsOf(await shard.apply(others))[0]!.replies)).toBe("0101");
    });
    expect(warn.mock.calls.flat().join()).toMatch(/"event":"shard_full".*"bytesMax":1048576/);
    warn.mockRestore();
  });
});

describe("formats", () => {
  it("data in the format of another release is refused by name, and kept", async () => {
    await apply(insert("k"));
    await runInDurableObject(stub(), (_, { storage }) =>
      storage.sql.exec("UPDATE shard SET format = 99"),
    );
    await abortAllDurableObjects();
    await expect(apply(query("k"))).rejects.toThrow(/format_unknown: .* 99/);
  });

  it("a shard with unreadable rows does not touch its data, in alarms neither", async () => {
    // What can be read has expired by the time of the alarm: to it, the shard looks empty.
    await apply({ type: "insert", key: "short", quota: 1n, ttlType: 3, ttl: 500n });
    await apply(insert("k"));
    await runInDurableObject(stub(), (_, { storage: { sql } }) => {
      const [last] = sql
        .exec<{ n: number; row: ArrayBuffer }>(
          "SELECT n, row FROM journal_0 ORDER BY n DESC LIMIT 1",
        )
        .toArray();
      const row = new Uint8Array(last!.row);
      row[0] = 2;
      sql.exec("UPDATE journal_0 SET row = ? WHERE n = ?", row, last!.n);
    });
    await abortAllDurableObjects();
    await expect(apply(query("k"))).rejects.toThrow(/row_version: 2/);
    await scheduler.wait(600);
    await runDurableObjectAlarm(stub());
    await abortAllDurableObjects();
    const { rows } = await runInDurableObject(stub(), (_, { storage: { sql } }) =>
      sql.exec<{ rows: number }>("SELECT count(*) AS rows FROM journal_0").one(),
    );
    expect(rows).toBe(2);
  });

  it.each([
    ["of another version", Uint8Array.of(9, 0, 1, 0, 0, 0, 0, 0), /batch_version/],
    ["cut short", new Uint8Array(5), /batch_version/],
    ["with a section cut short", Uint8Array.of(1, 0, 1, 0, 0, 0, 0, 0, 0x12), /batch: cut short/],
    [
      "of an unknown protocol",
      Uint8Array.of(1, 0, 1, 0, 0, 0, 0, 0, 0xff, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0),
      /batch: unknown protocol/,
    ],
  ])("a batch %s is refused", async (_, batch, message) => {
    const view = new DataView(batch.buffer);
    if (batch.length >= 8) view.setUint32(4, placement.fingerprint, true);
    await expect((async () => await stub().apply(batch))()).rejects.toThrow(message);
  });
});
