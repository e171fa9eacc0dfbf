/** Commands on semaphores against the model: any leases, times and restarts; and what lists them. */
import fc from "fast-check";
import { describe, expect, inject, it } from "vitest";
import { Engine, type EngineOptions } from "../../src/engine/engine.ts";
import { connectionHolder } from "../../src/engine/semaphores/holder.ts";
import { Keyspace } from "../../src/wire/keyspace.ts";
import { PageReader } from "../../src/wire/page.ts";
import {
  acquire,
  bytesOf,
  commandFrame,
  commandReplies,
  type CommandReply,
  concat,
  edgeBatch,
  FOREVER,
  hex,
  HOURS,
  idOf,
  insert,
  inspect,
  KEEP,
  KEPT,
  leaseKey,
  type LeaseRow,
  leaseRows,
  partsOf,
  read,
  release,
  renew,
  REPLACE,
  RESTORED,
  restoreLease,
  EXPIRED,
  type Ttl,
  ttlMs,
} from "../support/frames/index.ts";
import { imagesOf } from "../support/commands/disk.ts";
import { Disk } from "../support/engine/disk.ts";
import { LeaseModel } from "../support/models/leases.ts";
import { finish } from "../support/engine/steps.ts";
import { runs } from "../support/runs.ts";

const seed = inject("seed");
const INTERVAL_MS = 10_000;
/** A boundary. */
const START_MS = 1_700_000_000_000;
const DAY_MS = 86_400_000;
const U32_MAX = 2 ** 32 - 1;
const OPTIONS: EngineOptions = {
  hashKey: { low: seed, high: 5 },
  bytesMax: 64 << 20,
  isCounting: true,
  semaphoreIntervalMs: INTERVAL_MS,
};

const engineOf = (options: Partial<EngineOptions> = {}): Engine =>
  new Engine({ ...OPTIONS, ...options });

function run(engine: Engine, frames: readonly Uint8Array[], nowMs = START_MS): CommandReply[] {
  const [part] = partsOf(engine.apply(edgeBatch(frames), nowMs));
  expect(part!.count).toBe(frames.length);
  return commandReplies(part!.replies);
}

const one = (engine: Engine, frame: Uint8Array, nowMs = START_MS): CommandReply =>
  run(engine, [frame], nowMs)[0]!;

const isApplied = (reply: CommandReply): boolean => {
  expect(reply.code).toBe("");
  return reply.body[0] === 1;
};

/** Consumption and maximum; null for none. */
function stateOf(engine: Engine, name: string, nowMs = START_MS): number[] | null {
  const { body } = one(engine, inspect(name), nowMs);
  if (body[0] === 0) return null;
  const view = new DataView(body.buffer);
  return [view.getUint32(1, true), view.getUint32(5, true)];
}

const name = fc.constantFrom("a", "ab", "b", "\0", "\xff".repeat(255));
const id = fc.nat(5).map(idOf);
const amount = fc.oneof(
  { weight: 6, arbitrary: fc.nat(6) },
  { weight: 1, arbitrary: fc.constantFrom(2 ** 31, U32_MAX - 1, U32_MAX) },
);
const lease: fc.Arbitrary<Ttl> = fc.oneof(
  { weight: 6, arbitrary: fc.integer({ min: 1, max: 30 }).map(ttlMs) },
  { weight: 3, arbitrary: fc.integer({ min: 1, max: 3 * INTERVAL_MS }).map(ttlMs) },
  {
    weight: 1,
    arbitrary: fc.record({
      unit: fc.integer({ min: 0, max: 7 }),
      count: fc.constantFrom(0n, 1n, 24n, 25n, 999_999n, 1_000_001n, 86_400_000n, 2n ** 64n - 1n),
    }),
  },
);
const good: fc.Arbitrary<Uint8Array> = fc.oneof(
  { weight: 5, arbitrary: fc.tuple(name, id, amount, amount, lease).map((a) => acquire(...a)) },
  { weight: 2, arbitrary: fc.tuple(name, id, lease).map((a) => renew(...a)) },
  { weight: 3, arbitrary: fc.tuple(name, id).map((a) => release(...a)) },
  { weight: 2, arbitrary: name.map((text) => inspect(text)) },
  {
    weight: 4,
    arbitrary: fc
      .tuple(name, id, amount, fc.integer({ min: -3, max: 3 * INTERVAL_MS }), fc.constantFrom(0, 1))
      .map(([name, id, resources, afterMs, policy]) =>
        restoreLease(
          { id: textOf(id), name, resources, endsNs: BigInt(START_MS + afterMs) * 1_000_000n },
          policy,
        ),
      ),
  },
);
const bad: fc.Arbitrary<Uint8Array> = fc
  .record({
    type: fc.constantFrom(0x2d, 0x2e, 0x2f, 0x30, 0x3b),
    name: fc.oneof(name, fc.constant("")),
    body: fc.oneof(
      fc
        .constantFrom(0, 1, 15, 16, 17, 24, 25, 26, 28, 29, 30, 32, 33, 34)
        .map((n) => new Uint8Array(n)),
      fc.uint8Array({ minLength: 33, maxLength: 33 }),
      fc.uint8Array({ minLength: 29, maxLength: 29 }),
    ),
    flags: fc.constantFrom(0, 0, 0, 1, 2, 255),
  })
  .map(({ type, name, body, flags }) => commandFrame(type, name, body, { flags }));
const step = fc.record({
  frames: fc.array(fc.oneof({ weight: 9, arbitrary: good }, { weight: 1, arbitrary: bad }), {
    maxLength: 12,
  }),
  afterMs: fc.oneof(
    fc.constantFrom(0, 1, 2, 999, INTERVAL_MS - 1, INTERVAL_MS),
    fc.nat(30),
    fc.nat(3 * INTERVAL_MS),
  ),
  next: fc.constantFrom("commit", "crash", "restart", "snapshot step", "look", "nothing"),
});

const textOf = (bytes: Uint8Array): string => String.fromCharCode(...bytes);

interface Row {
  readonly key: string;
  readonly numbers: readonly number[];
}

/** Rows of pages, with their numbers of so many bytes. */
function rowsOf(
  engine: Engine,
  keyspace: Keyspace,
  prefix: string,
  rowsMax: number,
  { prefixes = [] as string[], sizes = [4, 4] as readonly number[] } = {},
): { rows: Row[]; pages: number } {
  const query = { keyspace, prefix: bytesOf(prefix), prefixes: prefixes.map(bytesOf) };
  const rows: Row[] = [];
  for (let after: Uint8Array | null = null, pages = 1; ; pages++) {
    const reader: PageReader = new PageReader(finish(engine.scan.page(query, after, rowsMax)));
    const before = rows.length;
    while (reader.next()) {
      let at = reader.rowAt;
      const numbers = sizes.map((size) => {
        at += size;
        return size === 4
          ? reader.view.getUint32(at - 4, true)
          : Number(reader.view.getBigUint64(at - 8, true));
      });
      after = reader.key();
      rows.push({ key: String.fromCharCode(...after), numbers });
    }
    expect(rows.length - before).toBeLessThanOrEqual(rowsMax);
    if (reader.isLast) return { rows, pages };
    expect(rows.length).toBeGreaterThan(before);
  }
}

const semaphoresOf = (
  engine: Engine,
  rowsMax = 1000,
  prefix = "",
  prefixes: string[] = [],
): Row[] => rowsOf(engine, Keyspace.semaphores, prefix, rowsMax, { prefixes }).rows;
const holdersOf = (engine: Engine, of: string, rowsMax = 1000): Row[] =>
  rowsOf(engine, Keyspace.holdings, of, rowsMax, { sizes: [4, 8] }).rows;

/** All leases, page by page. */
function leasesOf(
  engine: Engine,
  {
    prefix = "",
    prefixes = [] as string[],
    leasesMax = 10_000,
    bytesMax = 1 << 20,
    between = () => {},
  } = {},
): LeaseRow[] {
  const query = { prefix: bytesOf(prefix), prefixes: prefixes.map(bytesOf) };
  const leases: LeaseRow[] = [];
  for (let after: Uint8Array | null = null; ; between()) {
    const page = finish(engine.leasePages.page(query, after, leasesMax, bytesMax));
    const { isLast, rows } = leaseRows(concat([page.subarray(0, 1), page.subarray(3)]));
    expect(page[1]! | (page[2]! << 8)).toBe(rows.length);
    expect(rows.length).toBeLessThanOrEqual(leasesMax);
    expect(page.length - 3 <= bytesMax || rows.length === 1).toBe(true);
    leases.push(...rows);
    if (isLast) return leases;
    // A page that is not the last one says where to go on.
    after = bytesOf(leaseKey(rows.at(-1)!));
  }
}

const modelRows = (model: LeaseModel): LeaseRow[] =>
  model.leases.map(({ id, name, resources, endsAtMs }) => ({
    id,
    name,
    resources,
    endsNs: BigInt(endsAtMs) * 1_000_000n,
  }));

function expectAlike(engine: Engine, model: LeaseModel, rowsMax: number): void {
  const bytesMax = rowsMax === 1 ? 1 : 100 * rowsMax;
  expect(leasesOf(engine, { leasesMax: rowsMax })).toEqual(modelRows(model));
  expect(leasesOf(engine, { bytesMax })).toEqual(modelRows(model));
  expect(semaphoresOf(engine, rowsMax)).toEqual(
    model.semaphores.map(({ name, consumption, maximum }) => ({
      key: name,
      numbers: [consumption, maximum],
    })),
  );
  for (const { name } of model.semaphores) {
    expect(holdersOf(engine, name, rowsMax)).toEqual(
      model.holders(name).map(({ id, resources, endsAtMs }) => ({
        key: `\x02${id}`,
        numbers: [resources, endsAtMs * 1e6],
      })),
    );
  }
}

/** Acquires for a connection, as a frame of the yrmcds protocol does. */
function acquireFor(
  engine: Engine,
  name: Uint8Array,
  resources: number,
  maximum: number,
  holder: Uint8Array,
): void {
  const request = { nameAt: 0, nameBytes: name.length, resources, maximum };
  engine.semaphores.acquire(name, request, holder, START_MS);
}

describe("commands on semaphores", () => {
  it("commands on semaphores answer as the model does, whatever is restarted at any time", () => {
    const property = fc.property(
      fc.array(step, { maxLength: 20 }),
      fc.constantFrom(300, 1_900_000),
      fc.integer({ min: 1, max: 4 }),
      (steps, rowBytesMax, rowsMax) => {
        const disk = new Disk(rowBytesMax);
        let nowMs = START_MS;
        let latestMs = nowMs;
        let engine = engineOf();
        let model = new LeaseModel(INTERVAL_MS);
        let durable = model.clone();
        for (const { frames, afterMs, next } of steps) {
          nowMs += afterMs;
          latestMs = Math.max(latestMs, nowMs);
          const replies = run(engine, frames, nowMs);
          model.advance(nowMs);
          for (const [i, frame] of frames.entries()) {
            const expected = model.command(frame);
            const { code, body } = replies[i]!;
            if ("codes" in expected) expect([code]).toEqual(expected.codes);
            else expect(`${code} ${hex(body)}`).toBe(` ${hex(expected.bytes as number[])}`);
          }
          // Leases that are not asked for end when something is.
          if (next !== "nothing" && next !== "crash") {
            engine.semaphores.expire(nowMs);
            disk.flush(engine);
            durable = model.clone();
          }
          if (next === "snapshot step") {
            disk.commit(engine);
            disk.snapshotStep(engine);
          }
          if (next === "look") expectAlike(engine, model, rowsMax);
          if (next === "crash" || next === "restart") {
            nowMs = latestMs;
            engine = disk.load({ ...OPTIONS, hashKey: { low: nowMs, high: 1 } }, nowMs);
            model = durable.clone();
            model.advance(nowMs);
          }
        }
        engine.advance(nowMs);
        model.advance(nowMs);
        expectAlike(engine, model, rowsMax);
      },
    );
    fc.assert(property, { seed, numRuns: runs(600) });
  });

  it("refused commands on semaphores change nothing", () => {
    const property = fc.property(
      fc.array(fc.oneof(good, bad), { minLength: 1, maxLength: 30 }),
      (frames) => {
        const engine = engineOf();
        for (const frame of frames) {
          const before = imagesOf(engine);
          if (one(engine, frame).isError) expect(imagesOf(engine)).toEqual(before);
        }
      },
    );
    fc.assert(property, { seed, numRuns: runs(200) });
  });

  it("replies on leases say how much is held, until when, and for how long", () => {
    const engine = engineOf();
    const ends = BigInt(START_MS + 1500) * 1_000_000n;
    const u64Hex = (value: bigint): string =>
      hex(new Uint8Array(new BigUint64Array([value]).buffer));
    const leased = `0103000000${u64Hex(ends)}${u64Hex(1_500_000_000n)}`;
    expect(hex(one(engine, acquire("a", idOf(0), 3, 4, ttlMs(1500))).bytes)).toBe(
      `0115000000${leased}`,
    );
    expect(hex(one(engine, acquire("a", idOf(1), 2, 4, ttlMs(1500))).bytes)).toBe("010100000000");
    expect(hex(one(engine, inspect("a")).bytes)).toBe("0109000000010300000003000000");
    expect(hex(one(engine, inspect("b")).bytes)).toBe("010100000000");
    expect(hex(one(engine, renew("a", idOf(0), ttlMs(1000)), START_MS + 500).body)).toBe(
      `0103000000${u64Hex(ends)}${u64Hex(1_000_000_000n)}`,
    );
    expect(hex(one(engine, release("a", idOf(0))).body)).toBe("01");
    expect(hex(one(engine, release("a", idOf(0))).body)).toBe("00");
    expect(hex(one(engine, renew("a", idOf(0), ttlMs(1))).body)).toBe("00");
    expect(stateOf(engine, "a")).toEqual([0, 3]);
  });

  it("commands reach only their lease's part of the semaphore", () => {
    const engine = engineOf();
    one(engine, acquire("mine", idOf(0), 1, 1, ttlMs(50)));
    expect(isApplied(one(engine, renew("yours", idOf(0), ttlMs(5000))))).toBe(false);
    expect(isApplied(one(engine, release("yours", idOf(0))))).toBe(false);
    // There is one of the name, too.
    one(engine, acquire("yours", idOf(1), 1, 1, ttlMs(50)));
    expect(isApplied(one(engine, renew("yours", idOf(0), ttlMs(5000))))).toBe(false);
    expect(isApplied(one(engine, release("yours", idOf(0))))).toBe(false);
    // The same id holds resources of both, each until an end of its own.
    expect(isApplied(one(engine, acquire("yours", idOf(0), 2, 9, ttlMs(5000))))).toBe(true);
    expect(one(engine, acquire("yours", idOf(0), 1, 9, ttlMs(5000))).code).toBe("lease_conflict");
    expect(holdersOf(engine, "mine").map(({ numbers }) => numbers)).toEqual([
      [1, (START_MS + 50) * 1e6],
    ]);
    expect(stateOf(engine, "yours")).toEqual([3, 3]);
  });

  it("commands on leases do not reach holdings of a connection with the same id", () => {
    const engine = engineOf();
    const holder = connectionHolder(idOf(0));
    acquireFor(engine, bytesOf("a"), 2, 9, holder);
    expect(isApplied(one(engine, release("a", idOf(0))))).toBe(false);
    expect(isApplied(one(engine, renew("a", idOf(0), ttlMs(5))))).toBe(false);
    expect(isApplied(one(engine, acquire("a", idOf(0), 3, 9, ttlMs(5))))).toBe(true);
    expect(isApplied(one(engine, release("a", idOf(0))))).toBe(true);
    expect(stateOf(engine, "a")).toEqual([2, 5]);
  });

  it("a lease gives its resources back to the millisecond", () => {
    const engine = engineOf();
    one(engine, acquire("a", idOf(0), 1, 1, ttlMs(1000)));
    const again = acquire("a", idOf(1), 1, 1, ttlMs(1000));
    expect(isApplied(one(engine, again, START_MS + 999))).toBe(false);
    expect(isApplied(one(engine, renew("a", idOf(0), ttlMs(1)), START_MS + 999))).toBe(true);
    expect(isApplied(one(engine, again, START_MS + 1000))).toBe(true);
    expect(isApplied(one(engine, renew("a", idOf(0), ttlMs(1)), START_MS + 1000))).toBe(false);
  });

  it("a lease is held once, however often it is acquired, whatever the maximum then is", () => {
    const engine = engineOf();
    const times = [0, 10, 20].map((afterMs) =>
      one(engine, acquire("a", idOf(0), 2, 2, ttlMs(100)), START_MS + afterMs),
    );
    expect(times.map(isApplied)).toEqual([true, true, true]);
    expect(stateOf(engine, "a", START_MS + 119)).toEqual([2, 2]);
    expect(stateOf(engine, "a", START_MS + 120)).toEqual([0, 2]);
  });

  it("leases never exceed the maximum, nor 32 bits", () => {
    const engine = engineOf();
    expect(isApplied(one(engine, acquire("a", idOf(0), U32_MAX, U32_MAX, ttlMs(5))))).toBe(true);
    expect(isApplied(one(engine, acquire("a", idOf(1), 1, U32_MAX, ttlMs(5))))).toBe(false);
    expect(isApplied(one(engine, acquire("a", idOf(1), U32_MAX, U32_MAX, ttlMs(5))))).toBe(false);
    expect(stateOf(engine, "a")).toEqual([U32_MAX, U32_MAX]);
  });

  it.each<[string, Uint8Array, string]>([
    ["no resources", acquire("a", idOf(0), 0, 5, ttlMs(1)), "resources_invalid"],
    ["less than the resources", acquire("a", idOf(0), 5, 4, ttlMs(1)), "maximum_invalid"],
    ["no time", acquire("a", idOf(0), 1, 1, ttlMs(0)), "ttl_invalid"],
    ["more than a day", acquire("a", idOf(0), 1, 1, ttlMs(DAY_MS + 1)), "ttl_invalid"],
    ["ages", acquire("a", idOf(0), 1, 1, { unit: HOURS, count: 2n ** 64n - 1n }), "ttl_invalid"],
    ["a unit that is none", renew("a", idOf(0), { unit: 7, count: 1n }), "unit_invalid"],
    ["no time to renew", renew("a", idOf(0), ttlMs(0)), "ttl_invalid"],
    ["no name", inspect(""), "name_invalid"],
    ["no name to acquire", acquire("", idOf(0), 1, 1, ttlMs(1)), "name_invalid"],
    ["a short id", release("a", new Uint8Array(15)), "body_invalid"],
    ["a long id", release("a", new Uint8Array(17)), "body_invalid"],
    [
      "a key to apply it once",
      acquire("a", idOf(0), 1, 1, ttlMs(1), { once: "x" }),
      "flags_invalid",
    ],
    ["a key to release once", release("a", idOf(0), { once: "x" }), "flags_invalid"],
  ])("a semaphore command is refused: %s", (_, frame, code) => {
    const engine = engineOf();
    const reply = one(engine, frame);
    expect(reply.code).toBe(code);
    expect(imagesOf(engine)).toEqual([]);
    expect(new TextDecoder().decode(reply.body)).toMatch(/\d/);
  });

  it("a lease takes up to a day in any unit, rounded up to a millisecond", () => {
    const engine = engineOf();
    const ends = (ttl: Ttl, number: number): number => {
      const { body, code } = one(engine, acquire("a", idOf(number), 1, 9, ttl));
      expect(code).toBe("");
      return Number(new DataView(body.buffer).getBigUint64(5, true) / 1_000_000n) - START_MS;
    };
    expect(ends({ unit: HOURS, count: 24n }, 0)).toBe(DAY_MS);
    expect(ends(ttlMs(DAY_MS), 1)).toBe(DAY_MS);
    expect(ends({ unit: 1, count: 1n }, 2)).toBe(1);
    expect(ends({ unit: 1, count: 1_000_001n }, 3)).toBe(2);
  });

  it("semaphores and records of the same name are different things", () => {
    const engine = engineOf();
    run(engine, [insert("a", 7n, FOREVER), acquire("a", idOf(0), 1, 1, ttlMs(5000))]);
    expect(one(engine, read("a")).body[1]).toBe(1);
    expect(stateOf(engine, "a")).toEqual([1, 1]);
    expect(rowsOf(engine, Keyspace.throttr, "", 10).rows.map(({ key }) => key)).toEqual(["a"]);
  });

  it("a full shard refuses new leases, and still renews and releases", () => {
    const engine = engineOf({ bytesMax: 1 << 20 });
    let held = 0;
    let reply: CommandReply;
    const idAt = (number: number): Uint8Array => {
      const id = new Uint8Array(16);
      new DataView(id.buffer).setUint32(0, number);
      return id;
    };
    do reply = one(engine, acquire(`name ${held}`, idAt(held), 1, 1, ttlMs(5000)));
    while (!reply.isError && ++held < 100_000);
    expect(reply.code).toBe("shard_full");
    expect(held).toBeGreaterThan(1000);
    expect(stateOf(engine, `name ${held}`)).toBe(null);
    expect(isApplied(one(engine, renew("name 0", idAt(0), ttlMs(9000))))).toBe(true);
    expect(isApplied(one(engine, release("name 0", idAt(0))))).toBe(true);
    expect(engine.figures.bytes).toBeLessThanOrEqual(1 << 20);
    // What has ended makes room for leases; names stay until they are collected.
    const again = acquire("name 1", idAt(held), 1, 1, ttlMs(5000));
    expect(isApplied(one(engine, again, START_MS + 5000))).toBe(true);
  });
});

describe("leases that are put back", () => {
  const lease = (rest: Partial<LeaseRow> & { endsAfterMs?: number } = {}): LeaseRow => {
    const { endsAfterMs = 1000, ...fields } = rest;
    const endsNs = BigInt(START_MS + endsAfterMs) * 1_000_000n;
    return { id: textOf(idOf(0)), name: "a", resources: 2, endsNs, ...fields };
  };
  const restored = (engine: Engine, frame: Uint8Array, nowMs = START_MS): number => {
    const { code, body } = one(engine, frame, nowMs);
    expect(code).toBe("");
    expect(body).toHaveLength(1);
    return body[0]!;
  };

  it("a lease that is put back ends when it would have, to the millisecond", () => {
    const engine = engineOf();
    expect(restored(engine, restoreLease(lease(), KEEP), START_MS + 400)).toBe(RESTORED);
    expect(stateOf(engine, "a", START_MS + 999)).toEqual([2, 2]);
    expect(stateOf(engine, "a", START_MS + 1000)).toEqual([0, 2]);
    // A part of a millisecond counts as a whole one.
    const odd = { ...lease(), endsNs: BigInt(START_MS + 2000) * 1_000_000n + 1n };
    expect(restored(engine, restoreLease(odd, KEEP), START_MS + 1000)).toBe(RESTORED);
    expect(stateOf(engine, "a", START_MS + 2000)).toEqual([2, 2]);
    expect(stateOf(engine, "a", START_MS + 2001)).toEqual([0, 2]);
  });

  it("a lease may be put back again: it is held once", () => {
    const engine = engineOf();
    const outcomes = [KEEP, REPLACE, KEEP].map((policy) =>
      restored(engine, restoreLease(lease(), policy)),
    );
    expect(outcomes).toEqual([RESTORED, RESTORED, KEPT]);
    expect(stateOf(engine, "a")).toEqual([2, 2]);
    expect(leasesOf(engine)).toEqual([lease()]);
  });

  it("a live lease is kept, or takes the resources and the end of the one put back", () => {
    const engine = engineOf();
    one(engine, acquire("a", idOf(0), 5, 9, ttlMs(7000)));
    one(engine, acquire("a", idOf(1), 1, 9, ttlMs(7000)));
    expect(restored(engine, restoreLease(lease(), KEEP))).toBe(KEPT);
    expect(stateOf(engine, "a")).toEqual([6, 6]);
    expect(restored(engine, restoreLease(lease({ resources: 8 }), REPLACE))).toBe(RESTORED);
    expect(stateOf(engine, "a")).toEqual([9, 9]);
    expect(restored(engine, restoreLease(lease({ resources: 3 }), REPLACE))).toBe(RESTORED);
    expect(stateOf(engine, "a", START_MS + 999)).toEqual([4, 9]);
    expect(stateOf(engine, "a", START_MS + 1000)).toEqual([1, 9]);
  });

  it("a lease whose end has passed is not put back, and replaces nothing", () => {
    const engine = engineOf();
    one(engine, acquire("a", idOf(0), 5, 9, ttlMs(7000)));
    const images = imagesOf(engine);
    for (const endsAfterMs of [-START_MS, -1, 0]) {
      for (const policy of [KEEP, REPLACE]) {
        expect(restored(engine, restoreLease(lease({ endsAfterMs }), policy))).toBe(EXPIRED);
        const other = lease({ endsAfterMs, name: "b" });
        expect(restored(engine, restoreLease(other, policy))).toBe(EXPIRED);
      }
    }
    expect(imagesOf(engine)).toEqual(images);
  });

  it("a lease is put back whatever is in use, and then others wait until there is room", () => {
    const engine = engineOf();
    one(engine, acquire("a", idOf(1), 4, 4, ttlMs(500)));
    expect(restored(engine, restoreLease(lease(), KEEP))).toBe(RESTORED);
    expect(stateOf(engine, "a")).toEqual([6, 6]);
    const next = acquire("a", idOf(2), 3, 4, ttlMs(500));
    expect(isApplied(one(engine, next, START_MS + 500))).toBe(false);
    expect(isApplied(one(engine, next, START_MS + 1000))).toBe(true);
  });

  it.each<[string, Partial<LeaseRow> & { endsAfterMs?: number }, number, string]>([
    ["no name", { name: "" }, KEEP, "name_invalid"],
    ["no resources", { resources: 0 }, KEEP, "resources_invalid"],
    ["an unknown policy", {}, 2, "policy_invalid"],
    [
      "an end in more than two days",
      { endsAfterMs: 2 * DAY_MS + 1 },
      KEEP,
      "expires_at_ms_invalid",
    ],
    ["an end in ages", { endsNs: 2n ** 64n - 1n }, KEEP, "expires_at_ms_invalid"],
    ["more than 32 bits in use", { resources: U32_MAX }, KEEP, "resources_invalid"],
    [
      "more than 32 bits in use in place of a lease",
      { id: textOf(idOf(1)), resources: U32_MAX },
      REPLACE,
      "resources_invalid",
    ],
  ])("a lease is not put back: %s", (_, fields, policy, code) => {
    const engine = engineOf();
    one(engine, acquire("a", idOf(1), 1, 9, ttlMs(5000)));
    one(engine, acquire("a", idOf(2), 1, 9, ttlMs(5000)));
    const images = imagesOf(engine);
    expect(one(engine, restoreLease(lease(fields), policy)).code).toBe(code);
    expect(imagesOf(engine)).toEqual(images);
    expect(restored(engine, restoreLease(lease({ endsAfterMs: 2 * DAY_MS }), KEEP))).toBe(RESTORED);
  });

  it("a full shard refuses to put leases back, and still changes those that it has", () => {
    const engine = engineOf({ bytesMax: 1 << 20 });
    let held = 0;
    const numbered = (number: number, resources: number): Uint8Array =>
      restoreLease(lease({ name: `name ${number}`, resources, endsAfterMs: 5000 }), REPLACE);
    let reply: CommandReply;
    do reply = one(engine, numbered(held, 1));
    while (!reply.isError && ++held < 100_000);
    expect(reply.code).toBe("shard_full");
    expect(stateOf(engine, `name ${held}`)).toBe(null);
    expect(restored(engine, numbered(0, 7))).toBe(RESTORED);
    expect(stateOf(engine, "name 0")).toEqual([7, 7]);
  });

  it("leases of a shard whose clock was ahead are exported and restored with ends by the platform's clock", () => {
    const [ahead, right] = [engineOf(), engineOf()];
    // An hour ahead, and then set right: the shard's time goes at nine tenths of the pace.
    ahead.advance(START_MS + 3_600_000);
    one(ahead, acquire("a", idOf(0), 2, 9, ttlMs(60_000)), START_MS);
    const [exported] = leasesOf(ahead);
    const leftMs = Number(exported!.endsNs / 1_000_000n) - START_MS;
    expect(leftMs).toBeGreaterThan(66_000);
    expect(leftMs).toBeLessThanOrEqual(67_000);
    expect(restored(right, restoreLease(exported!, KEEP))).toBe(RESTORED);
    const other = { ...exported!, name: "b" };
    expect(restored(ahead, restoreLease(other, KEEP), START_MS)).toBe(RESTORED);
    for (const afterMs of [leftMs - 1, leftMs]) {
      const inUse = afterMs < leftMs ? 2 : 0;
      expect(stateOf(right, "a", START_MS + afterMs)![0]).toBe(inUse);
    }
    // What came back to the shard that is ahead ends when the lease that it was made of does.
    const [a, b] = ["a", "b"].map((name) => leasesOf(ahead, { prefix: name })[0]!.endsNs);
    expect(Math.abs(Number(a! - b!))).toBeLessThanOrEqual(1_000_000);
  });
});

describe("pages of leases", () => {
  const START = { endsNs: BigInt(START_MS + 5000) * 1_000_000n };

  it("pages of leases have those of the prefixes, and none of connections", () => {
    const engine = engineOf();
    const names = ["a", "ab", "b", "ba", "c"];
    const acquired = names.flatMap((name) =>
      [0, 1, 2].map((number) => ({
        id: textOf(idOf(number)),
        name,
        resources: number + 1,
        ...START,
      })),
    );
    for (const { id, name, resources } of acquired) {
      one(engine, acquire(name, bytesOf(id), resources, 99, ttlMs(5000)));
      acquireFor(engine, bytesOf(name), 7, 99, connectionHolder(bytesOf(id)));
    }
    const inOrder = acquired.toSorted((x, y) => (leaseKey(x) < leaseKey(y) ? -1 : 1));
    expect(leasesOf(engine)).toEqual(inOrder);
    for (const leasesMax of [1, 2, 3, 4, 14, 15, 16]) {
      expect(leasesOf(engine, { leasesMax })).toEqual(inOrder);
    }
    const starting = (...prefixes: string[]): LeaseRow[] =>
      inOrder.filter(({ name }) => prefixes.some((prefix) => name.startsWith(prefix)));
    expect(leasesOf(engine, { prefix: "b", leasesMax: 2 })).toEqual(starting("b"));
    expect(leasesOf(engine, { prefixes: ["ab", "c"] })).toEqual(starting("ab", "c"));
    expect(leasesOf(engine, { prefix: "a", prefixes: ["ab", "c"] })).toEqual(starting("ab"));
    expect(leasesOf(engine, { prefix: "x" })).toEqual([]);
  });

  it("a lease that stays is on one page, whatever comes, ends and is released meanwhile", () => {
    const property = fc.property(
      fc.uniqueArray(fc.nat(250), { minLength: 1, maxLength: 40 }),
      fc.integer({ min: 1, max: 5 }),
      fc.array(fc.tuple(fc.nat(250), fc.boolean()), { maxLength: 40 }),
      (staying, leasesMax, changes) => {
        const engine = engineOf();
        const names = ["a", "b", "c"];
        for (const number of staying) {
          one(engine, acquire(names[number % 3]!, idOf(number), 1, 999, ttlMs(5000)));
        }
        const stays = new Set(staying);
        const passing = changes.filter(([number]) => !stays.has(number));
        for (const [number] of passing) one(engine, acquire("d", idOf(number), 1, 999, ttlMs(50)));
        const seen = leasesOf(engine, {
          leasesMax,
          between: () => {
            const change = passing.pop();
            if (change === undefined) return;
            const [number, isReleased] = change;
            if (isReleased) one(engine, release("d", idOf(number)));
            else one(engine, acquire("e", idOf(number), 1, 999, ttlMs(50)));
          },
        });
        const keys = seen.map(leaseKey);
        expect(new Set(keys).size).toBe(keys.length);
        const expected = staying.map((number) => textOf(idOf(number)) + names[number % 3]!);
        expect(expected.filter((key) => !keys.includes(key))).toEqual([]);
      },
    );
    fc.assert(property, { seed, numRuns: runs(100) });
  });

  it("a page takes the next leases where all that it had found end before they are written", () => {
    const engine = engineOf();
    for (let number = 0; number < 20; number++) {
      one(engine, acquire("a", idOf(number), 1, 99, ttlMs(number < 15 ? 100 : 5000)));
    }
    // A walk over many records has steps, between which time passes.
    const fill = Array.from({ length: 60_000 }, (_, i) => insert(`k${i}`, 1n, FOREVER));
    for (let at = 0; at < fill.length; at += 5000) run(engine, fill.slice(at, at + 5000));
    const query = { prefix: bytesOf(""), prefixes: [] };
    const steps = engine.leasePages.page(query, null, 3, 1 << 20);
    let count = 0;
    for (;;) {
      const step = steps.next();
      if (step.done === true) {
        const { isLast, rows } = leaseRows(
          concat([step.value.subarray(0, 1), step.value.subarray(3)]),
        );
        expect(rows.map(({ id }) => id)).toEqual([15, 16, 17].map((i) => textOf(idOf(i))));
        expect(isLast).toBe(false);
        break;
      }
      count++;
      engine.advance(START_MS + 100);
    }
    expect(count).toBeGreaterThan(1);
  });
});

describe("pages of semaphores", () => {
  const named = (names: readonly string[]): Engine => {
    const engine = engineOf();
    for (const [i, name] of names.entries()) {
      const bytes = bytesOf(name);
      const holder = connectionHolder(idOf(i % 100));
      acquireFor(engine, bytes, 1, 9, holder);
    }
    engine.advance(START_MS);
    return engine;
  };

  it("pages of semaphores have all those of the prefixes, in order, whatever their number", () => {
    const names = Array.from({ length: 700 }, (_, i) => `${"abc"[i % 3]!}${i}`);
    const engine = named(names);
    const inOrder = (chosen: string[]): string[] => chosen.toSorted((a, b) => (a < b ? -1 : 1));
    const keysOf = (rows: Row[]): string[] => rows.map(({ key }) => key);
    expect(keysOf(semaphoresOf(engine, 1000))).toEqual(inOrder(names));
    expect(keysOf(semaphoresOf(engine, 7))).toEqual(inOrder(names));
    const ofB = inOrder(names.filter((name) => name.startsWith("b")));
    expect(keysOf(semaphoresOf(engine, 50, "b"))).toEqual(ofB);
    const b1 = ofB.filter((name) => name.startsWith("b1"));
    expect(keysOf(semaphoresOf(engine, 50, "b", ["b1", "a"]))).toEqual(b1);
    expect(keysOf(semaphoresOf(engine, 50, "x"))).toEqual([]);
  });

  it("pages of semaphores have names of up to 65,535 bytes, and end before they are too large", () => {
    const names = Array.from({ length: 12 }, (_, i) => {
      return `${String.fromCharCode(97 + i)}${"x".repeat([0, 254, 255, 30_000, 65_534][i % 5]!)}`;
    });
    const engine = named(names);
    const { rows, pages } = rowsOf(engine, Keyspace.semaphores, "", 1000);
    expect(rows.map(({ key }) => key)).toEqual(names);
    expect(pages).toBeGreaterThan(2);
    const query = { keyspace: Keyspace.semaphores, prefix: new Uint8Array(0), prefixes: [] };
    expect(finish(engine.scan.page(query, null, 1000)).length).toBeLessThan(2 << 16);
  });

  it("pages of semaphores have the maximum of the current interval", () => {
    const engine = engineOf();
    run(engine, [
      acquire("a", idOf(0), 5, 9, ttlMs(10)),
      acquire("a", idOf(1), 1, 9, ttlMs(DAY_MS)),
    ]);
    engine.advance(START_MS + 20);
    expect(semaphoresOf(engine)).toEqual([{ key: "a", numbers: [1, 6] }]);
    expect(stateOf(engine, "a", START_MS + 20)).toEqual([1, 6]);
    engine.advance(START_MS + INTERVAL_MS);
    expect(semaphoresOf(engine)).toEqual([{ key: "a", numbers: [1, 1] }]);
    expect(stateOf(engine, "a", START_MS + INTERVAL_MS)).toEqual([1, 1]);
  });
});

describe("pages of holders", () => {
  it("pages of holders have all holders of the semaphore and no others, page by page", () => {
    const engine = engineOf();
    const leases = Array.from({ length: 20 }, (_, i) => i);
    const holder = connectionHolder(idOf(3));
    acquireFor(engine, bytesOf("a"), 7, U32_MAX, holder);
    run(
      engine,
      leases.map((i) => acquire(i % 2 === 0 ? "a" : "b", idOf(i), i + 1, U32_MAX, ttlMs(1000 + i))),
    );
    const expected = [
      { key: `\x01${"\x04".repeat(16)}`, numbers: [7, 0] },
      ...leases
        .filter((i) => i % 2 === 0)
        .map((i) => ({
          key: `\x02${String.fromCharCode(i + 1).repeat(16)}`,
          numbers: [i + 1, (START_MS + 1000 + i) * 1e6],
        })),
    ];
    for (const rowsMax of [1, 3, 11, 1000]) {
      expect(holdersOf(engine, "a", rowsMax)).toEqual(expected);
    }
    expect(rowsOf(engine, Keyspace.holdings, "a", 3, { sizes: [4, 8] }).pages).toBe(4);
    expect(holdersOf(engine, "none")).toEqual([]);
    engine.advance(START_MS + 1000);
    expect(holdersOf(engine, "a")).toHaveLength(10);
  });
});

it("a page of an unknown version is refused", () => {
  expect(() => new PageReader(Uint8Array.of(3, 1, 0, 0, 0, 0, 0, 0))).toThrow(/^page_version: /);
});
