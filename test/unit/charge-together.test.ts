/** The door of LIMIT_ALL: it splits the limits by shard, and has what some have charged given back where one refuses. */
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { ThrottrError } from "../../src/wire/edge/error.ts";
import { readEntries, type LimitEntry } from "../../src/engine/limit-all-entries.ts";
import { Keyspace } from "../../src/wire/keyspace.ts";
import type { LimitStrategy } from "../../src/wire/edge/limit.ts";
import type { LimitAllEntry } from "../../src/wire/edge/limit-all.ts";
import * as operations from "../../src/wire/edge/operations.ts";
import {
  SimulatedShards,
  type Fate,
  type Method,
} from "../support/rate-limits/simulated-shards.ts";

const TEN: LimitStrategy = { strategy: "token_bucket", burst: 10, rate: 0.001 };

let shards: SimulatedShards;
let warnings: { event: string; object?: string }[];

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["Date", "setTimeout", "clearTimeout"], now: 1_700_000_040_000 });
  shards = new SimulatedShards(3);
  warnings = [];
  vi.spyOn(console, "warn").mockImplementation((line: string) => {
    warnings.push(JSON.parse(line) as { event: string });
  });
});
afterEach(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
});

/** A limit in a shard. */
const inShard = (shard: number, cost: number, i = 0): LimitAllEntry => ({
  name: "api",
  key: shards.nameIn(shard, "api", i),
  strategy: TEN,
  cost,
});

const remaining = (shard: number, i = 0): number => {
  const { name, key, strategy } = inShard(shard, 1, i);
  return shards.callOne(shard, operations.peek({ name, key, strategy })).remaining;
};

/** How often each shard got each call. */
const sent = (): string[] => shards.sent.map(({ method, shard }) => `${method} ${shard}`);

const fates = (table: Partial<Record<`${Method} ${number}`, Fate>>): void => {
  shards.fateOf = ({ method, shard }) => table[`${method} ${shard}`] ?? {};
};

async function codeOf(call: Promise<unknown>): Promise<string> {
  const outcome = await Promise.allSettled([call, vi.advanceTimersByTimeAsync(60_000)]);
  const [{ status }] = outcome;
  if (status === "fulfilled") throw new Error("the call did not fail");
  return ThrottrError.from((outcome[0] as PromiseRejectedResult).reason, "unknown").code;
}

/** The result of a call, after all that follows from it, and how long it took in ms. */
async function timed<Result>(call: Promise<Result>): Promise<{ result: Result; tookMs: number }> {
  const fromMs = Date.now();
  let untilMs = fromMs;
  const ended = call.then((result) => {
    untilMs = Date.now();
    return result;
  });
  await vi.advanceTimersByTimeAsync(60_000);
  return { result: await ended, tookMs: untilMs - fromMs };
}

describe("limits of one shard", () => {
  it("limits of one shard are one call and one row, granted, and one call and no row, refused", async () => {
    const both = [inShard(1, 3), inShard(1, 4, 1)];
    expect(await shards.ask(both)).toMatchObject({
      success: true,
      results: [{ remaining: 7 }, { remaining: 6 }],
    });
    expect([sent(), shards.rows]).toEqual([["limitAll 1"], 1]);
    expect(await shards.ask([inShard(1, 3), inShard(1, 7, 1)])).toMatchObject({ refusedBy: 1 });
    expect([sent(), shards.rows]).toEqual([["limitAll 1", "limitAll 1"], 1]);
    expect([remaining(1), remaining(1, 1)]).toEqual([7, 6]);
  });
});

describe("limits of three shards", () => {
  it("limits of three shards are a call and a row each, and their results are in the order of the requests", async () => {
    const requests = [inShard(2, 1), inShard(0, 2), inShard(1, 3), inShard(0, 4, 1)];
    expect(await shards.ask(requests)).toMatchObject({
      success: true,
      refusedBy: null,
      results: [{ remaining: 9 }, { remaining: 8 }, { remaining: 7 }, { remaining: 6 }],
    });
    expect([sent().toSorted(), shards.rows]).toEqual([
      ["limitAll 0", "limitAll 1", "limitAll 2"],
      3,
    ]);
    expect(vi.getTimerCount()).toBe(0);
    expect([remaining(0), remaining(0, 1), remaining(1), remaining(2)]).toEqual([8, 6, 7, 9]);
  });

  it("where one shard refuses, the two others give back what they charged: five calls, and four rows", async () => {
    await shards.ask([inShard(1, 8)]);
    const before = { sent: shards.sent.length, rows: shards.rows };
    expect(await shards.ask([inShard(0, 2), inShard(1, 3), inShard(2, 4)])).toMatchObject({
      success: false,
      refusedBy: 1,
      retryAfterMs: 1_000_000,
      results: [
        { success: true, remaining: 8 },
        { success: false, remaining: 2 },
        { success: true, remaining: 6 },
      ],
    });
    expect(sent().slice(before.sent).toSorted()).toEqual([
      "cancelLimits 0",
      "cancelLimits 2",
      "limitAll 0",
      "limitAll 1",
      "limitAll 2",
    ]);
    expect(shards.rows - before.rows).toBe(4);
    expect([remaining(0), remaining(1), remaining(2)]).toEqual([10, 2, 10]);
    expect(warnings).toEqual([]);
  });

  it("a refusal is answered when the others have given back, and not before", async () => {
    await shards.ask([inShard(1, 8)]);
    fates({ "limitAll 0": { replyMs: 30 }, "cancelLimits 2": { delayMs: 20, replyMs: 5 } });
    const { tookMs } = await timed(shards.ask([inShard(0, 2), inShard(1, 3), inShard(2, 4)]));
    expect(tookMs).toBe(55);
  });

  it("a shard whose limits are all in shadow mode does not keep the others from being charged", async () => {
    await shards.ask([inShard(1, 8)]);
    const shadow = { ...inShard(1, 3), shadow: true };
    expect(await shards.ask([inShard(0, 2), shadow])).toMatchObject({
      success: true,
      results: [{ remaining: 8 }, { success: false, remaining: 2 }],
    });
    expect(sent()).not.toContain("cancelLimits 0");
  });
});

describe("a shard that fails", () => {
  it("a charge that never arrived is cancelled with the others, and the caller is told that the outcome is unknown", async () => {
    fates({ "limitAll 1": { delayMs: 10, end: "lost" } });
    expect(await codeOf(shards.ask([inShard(0, 2), inShard(1, 3)]))).toBe("unknown");
    expect(sent().toSorted()).toEqual([
      "cancelLimits 0",
      "cancelLimits 1",
      "limitAll 0",
      "limitAll 1",
    ]);
    expect([remaining(0), remaining(1)]).toEqual([10, 10]);
  });

  it("a charge whose answer was lost is given back, and not twice", async () => {
    await shards.ask([inShard(1, 2)]);
    fates({ "limitAll 1": { end: "unanswered" } });
    expect(await codeOf(shards.ask([inShard(0, 2), inShard(1, 3)]))).toBe("unknown");
    expect([remaining(0), remaining(1)]).toEqual([10, 8]);
  });

  it("a charge that is slower than five seconds is cancelled, and refused when it comes at last", async () => {
    fates({ "limitAll 1": { delayMs: 20_000 } });
    const fromMs = Date.now();
    let tookMs = 0;
    const asked = shards.ask([inShard(0, 2), inShard(1, 3)]).finally(() => {
      tookMs = Date.now() - fromMs;
    });
    expect(await codeOf(asked)).toBe("unknown");
    expect(tookMs).toBe(5000);
    expect([remaining(0), remaining(1)]).toEqual([10, 10]);
  });

  it("a charge that was answered too late is given back", async () => {
    fates({ "limitAll 1": { replyMs: 6_000 } });
    expect(await codeOf(shards.ask([inShard(0, 2), inShard(1, 3)]))).toBe("unknown");
    expect([remaining(0), remaining(1)]).toEqual([10, 10]);
  });

  it("a refusal is answered though a cancel fails or takes too long, and the log names the shard", async () => {
    await shards.ask([inShard(1, 8)]);
    fates({ "cancelLimits 0": { end: "lost" }, "cancelLimits 2": { delayMs: 3_000 } });
    const asked = shards.ask([inShard(0, 2), inShard(1, 3), inShard(2, 4)]);
    const { result, tookMs } = await timed(asked);
    expect(result).toMatchObject({ success: false, refusedBy: 1 });
    expect(tookMs).toBe(2_000);
    expect(warnings).toMatchObject([
      { event: "cancel_failed", object: "default/0" },
      { event: "cancel_failed", object: "default/2" },
    ]);
    expect([remaining(0), remaining(2)]).toEqual([8, 10]);
  });

  it("a shard that has restarted since keeps its charge, and gives back nothing that others were charged", async () => {
    await shards.ask([inShard(0, 1), inShard(1, 8)]);
    fates({ "cancelLimits 0": { delayMs: 10 } });
    const asked = timed(shards.ask([inShard(0, 2), inShard(1, 3)]));
    setTimeout(() => shards.restart(0), 5);
    expect((await asked).result.success).toBe(false);
    expect(remaining(0)).toBe(7);
  });

  it("the error of an entry fails the call with its own code, and the others are given back", async () => {
    const { key } = inShard(1, 1);
    shards.callOne(1, operations.insert(`api:${key}`, { quota: 5, ttlMs: 60_000 }));
    expect(await codeOf(shards.ask([inShard(0, 2), inShard(1, 3)]))).toBe("kind_mismatch");
    expect(remaining(0)).toBe(10);
    expect(sent()).not.toContain("cancelLimits 1");
  });

  it("where one shard names an error and the outcome of another is unknown, so is that of the call", async () => {
    const { key } = inShard(0, 1);
    shards.callOne(0, operations.insert(`api:${key}`, { quota: 5, ttlMs: 60_000 }));
    fates({ "limitAll 1": { end: "unanswered" } });
    expect(await codeOf(shards.ask([inShard(0, 2), inShard(1, 3)]))).toBe("unknown");
  });

  it("a shard that refuses all of a deployment is not cancelled, and its code is answered", async () => {
    fates({ "limitAll 1": { end: new Error("shards_mismatch: 3 and 4") } });
    expect(await codeOf(shards.ask([inShard(0, 2), inShard(1, 3)]))).toBe("shards_mismatch");
    expect(remaining(0)).toBe(10);
    expect(sent()).not.toContain("cancelLimits 1");
  });

  it.each([[[1]], [[0, 1]]])(
    "where a shard of %j runs an old release, the call is refused and nothing is charged",
    async (asked) => {
      const message = 'The RPC receiver does not implement the method "limitAll".';
      fates({ "limitAll 1": { end: new TypeError(message) } });
      const requests = asked.map((shard) => inShard(shard, 2));
      expect(await codeOf(shards.ask(requests))).toBe("request_type_unknown");
      expect([remaining(0), remaining(1)]).toEqual([10, 10]);
      expect(sent()).not.toContain("cancelLimits 1");
    },
  );
});

/** Shards 1 and 2 have split off from 0, one after the other, and the door does not know yet. */
class SplitShards extends SimulatedShards {
  /** The shard that the door takes for the owner, by owner. */
  readonly #known = [0, 0, 0, 3];

  constructor() {
    super(4);
  }

  override shardOf(...key: Parameters<SimulatedShards["shardOf"]>): number {
    return this.#known[super.shardOf(...key)]!;
  }

  /** A shard that has split says which one has the rest; it does not know that this one has split, too. */
  override learn(shard: number): Promise<void> {
    this.#known.forEach((known, owner) => {
      if (known === shard && owner > shard) this.#known[owner] = shard + 1;
    });
    return Promise.resolve();
  }

  override async limitAll(
    ...[shard, body, id]: Parameters<SimulatedShards["limitAll"]>
  ): Promise<Uint8Array> {
    const isOwner = ({ bytes, keyAt, keyBytes }: LimitEntry): boolean =>
      super.shardOf(Keyspace.throttr, bytes, keyAt, keyBytes) === shard;
    if (readEntries(body).every(isOwner)) return await super.limitAll(shard, body, id);
    throw new ThrottrError("shard_moved", "");
  }
}

describe("a shard that has split", () => {
  it.each([
    ["one limit, in the new shard", [1]],
    ["limits in the old and the new shard", [0, 1]],
    ["one limit, in the shard that the new one has split off", [2]],
    ["limits in all three of them", [0, 1, 2]],
  ])("its part is given back where another shard refuses: %s", async (_, charged) => {
    shards = new SplitShards();
    shards.callOne(3, operations.limit(inShard(3, 8)));
    const requests = [...charged.map((shard) => inShard(shard, 2)), inShard(3, 3)];
    expect(await shards.ask(requests)).toMatchObject({ refusedBy: charged.length });
    expect(charged.map((shard) => remaining(shard))).toEqual(charged.map(() => 10));
  });

  it("what one of its parts was charged is given back where another part refuses", async () => {
    shards = new SplitShards();
    shards.callOne(2, operations.limit(inShard(2, 8)));
    const requests = [inShard(1, 2), inShard(2, 3), inShard(3, 2)];
    expect(await shards.ask(requests)).toMatchObject({ refusedBy: 1 });
    expect([1, 2, 3].map((shard) => remaining(shard))).toEqual([10, 2, 10]);
  });
});

it("two strategies for one record are refused before any shard is asked", async () => {
  const other = { ...inShard(1, 1), strategy: { ...TEN, burst: 11 } as LimitStrategy };
  expect(await codeOf(shards.ask([inShard(0, 2), inShard(1, 3), other]))).toBe("limit_all_invalid");
  expect(sent()).toEqual([]);
});
