/** DRAW in the engine: units that are charged at once, given back once, and lost rather than spent twice. */
import { describe, expect, it, vi } from "vitest";
import { Engine } from "../../src/engine/engine.ts";
import { Records } from "../../src/engine/records.ts";
import { LIMIT_COUNTS, LimitRow } from "../../src/engine/limit-figures.ts";
import { settle, type Operation } from "../../src/wire/edge/operation.ts";
import * as operations from "../../src/wire/edge/operations.ts";
import type { DrawRequest, DrawResult } from "../../src/wire/edge/operations.ts";
import { edgeBatch, partsOf, uuidOfNumber } from "../support/frames/index.ts";
import { fillUp } from "../support/engine/full.ts";
import { isTaken } from "../support/engine/taken.ts";

const NOW_MS = 1_700_000_040_000;
const BUCKET = { strategy: "token_bucket", burst: 100, rate: 10 } as const;
const MINUTE = {
  strategy: "fixed_window",
  quotas: [{ name: "minute", limit: 100, windowMs: 60_000 }],
} as const;
const ADA = { name: "api", key: "ada" };

/** An engine at a time that the test moves. */
class Shard {
  nowMs = NOW_MS;
  readonly engine: Engine;

  constructor(drawSalt = 1, bytesMax = 1 << 22) {
    const hashKey = { low: 1, high: 2 };
    this.engine = new Engine({ hashKey, drawSalt, bytesMax, isCounting: true });
  }

  call<Result>(operation: Operation<Result>): Result {
    const answer = this.engine.apply(edgeBatch([operation.frame]), this.nowMs);
    const [settled] = settle([operation], partsOf(answer)[0]!.replies);
    if (!settled!.ok) throw settled!.error;
    return settled!.value;
  }

  draw(request: Partial<DrawRequest> = {}): DrawResult {
    return this.call(operations.draw({ ...ADA, strategy: BUCKET, ...request }));
  }

  remaining(strategy: DrawRequest["strategy"] = BUCKET): number {
    return this.call(operations.peek({ ...ADA, strategy })).remaining;
  }

  /** Allowed, refused, errors and local decisions of all limits. */
  counts(): number[] {
    const { counts } = this.engine.limitFigures.counts(this.nowMs);
    return [...counts.subarray(LimitRow.all, LIMIT_COUNTS)];
  }
}

/** Gives a draw back. */
const back = ({ draw }: DrawResult, units: number): { draw: number; units: number }[] => [
  { draw: draw!, units },
];

describe("a draw", () => {
  it("a draw charges the cost, and up to a quarter of what remains for what is wanted", () => {
    const shard = new Shard();
    expect(shard.draw({ cost: 1, wanted: 1000 })).toMatchObject({
      success: true,
      limit: 100,
      remaining: 75,
      units: 25,
      lifeMs: 1000,
      pauseMs: 0,
    });
    expect(shard.draw({ cost: 1, wanted: 5 })).toMatchObject({ units: 5, remaining: 70 });
    expect(shard.draw({ cost: 60, wanted: 0 })).toMatchObject({ units: 60, remaining: 10 });
    expect(shard.remaining()).toBe(10);
  });

  it("a draw of a cost that does not fit is refused as by LIMIT, and charges nothing", () => {
    const shard = new Shard();
    shard.draw({ cost: 95 });
    expect(shard.draw({ cost: 10, wanted: 10 })).toMatchObject({
      success: false,
      remaining: 5,
      units: 0,
      draw: null,
      lifeMs: 0,
      retryAfterMs: 500,
    });
    expect(shard.draw({ cost: 101 })).toMatchObject({
      success: false,
      reason: "cost_exceeds_limit",
    });
    expect(shard.remaining()).toBe(5);
  });

  it("a draw without a cost draws ahead where there is room, and refuses nothing", () => {
    const shard = new Shard();
    expect(shard.draw({ cost: 0, wanted: 10 })).toMatchObject({ success: true, units: 10 });
    shard.draw({ cost: 88 });
    expect(shard.draw({ cost: 0, wanted: 10 })).toMatchObject({ units: 0, draw: null });
    expect(shard.remaining()).toBe(2);
  });

  it("units live at most for the lease, a tenth of the window, and until the window ends", () => {
    const shard = new Shard();
    expect(shard.draw({ leaseMs: 50 }).lifeMs).toBe(50);
    const bucket = { ...BUCKET, rate: 1 };
    expect(shard.draw({ key: "bob", strategy: bucket, leaseMs: 10_000 }).lifeMs).toBe(10_000);
    expect(shard.draw({ key: "eve", strategy: MINUTE, leaseMs: 10_000 }).lifeMs).toBe(6000);
    shard.nowMs += 59_700;
    expect(shard.draw({ key: "eve", strategy: MINUTE, leaseMs: 10_000 }).lifeMs).toBe(300);
  });

  it("a cost above the limit makes no caller wait", () => {
    const shard = new Shard();
    shard.draw({ cost: 50 });
    for (let i = 0; i < 100; i++) {
      expect(shard.draw({ cost: 101, leaseMs: 10_000 })).toMatchObject({ units: 0, pauseMs: 0 });
    }
    expect(shard.draw({ cost: 1, wanted: 100 })).toMatchObject({ units: 12, pauseMs: 0 });
  });

  it("a PEEK with another strategy takes no draw its right", () => {
    const shard = new Shard();
    const drawn = shard.draw({ wanted: 20 });
    expect(shard.remaining({ ...BUCKET, burst: 1 })).toBe(1);
    shard.draw({ cost: 0, returns: back(drawn, 20) });
    expect(shard.remaining()).toBe(100);
  });

  it("units that are given back can be drawn again, and count once", () => {
    const shard = new Shard();
    const drawn = shard.draw({ strategy: MINUTE, cost: 1, wanted: 20 });
    expect(shard.remaining(MINUTE)).toBe(80);
    shard.draw({ strategy: MINUTE, cost: 0, returns: back(drawn, 15) });
    expect(shard.remaining(MINUTE)).toBe(95);
    shard.draw({ strategy: MINUTE, cost: 0, returns: back(drawn, 15) });
    expect(shard.remaining(MINUTE)).toBe(95);
  });

  it("more units than were drawn are not given back", () => {
    const shard = new Shard();
    shard.draw({ strategy: MINUTE, cost: 50 });
    const drawn = shard.draw({ strategy: MINUTE, cost: 5 });
    shard.draw({ strategy: MINUTE, cost: 0, returns: back(drawn, 50) });
    expect(shard.remaining(MINUTE)).toBe(50);
  });

  it("what is given back is there for the cost of the same message", () => {
    const shard = new Shard();
    const drawn = shard.draw({ cost: 0, wanted: 25 });
    shard.draw({ cost: 75 });
    expect(shard.draw({ cost: 25, returns: back(drawn, 25) })).toMatchObject({
      success: true,
      units: 25,
    });
  });

  it("units that come back two lives after their draw are spent", () => {
    const shard = new Shard();
    const drawn = shard.draw({ strategy: MINUTE, cost: 0, wanted: 20 });
    shard.nowMs += 2 * drawn.lifeMs;
    shard.draw({ strategy: MINUTE, cost: 0, returns: back(drawn, 20) });
    expect(shard.remaining(MINUTE)).toBe(80);
  });

  it("units of a window that has ended are not given back to the next one", () => {
    const shard = new Shard();
    shard.draw({ strategy: MINUTE });
    shard.nowMs += 59_900;
    const drawn = shard.draw({ strategy: MINUTE, cost: 0, wanted: 20 });
    shard.nowMs += 150;
    shard.draw({ strategy: MINUTE, cost: 30 });
    shard.draw({ strategy: MINUTE, cost: 0, returns: back(drawn, 20) });
    expect(shard.remaining(MINUTE)).toBe(70);
  });

  it.each([
    ["PURGE", operations.purge("api:ada")],
    ["SET", operations.set("api:ada", "12|40|1699999999000000000", { ttlMs: 60_000 })],
  ])("units that were drawn before a %s are not given back after it", (_, change) => {
    const shard = new Shard();
    const drawn = shard.draw({ cost: 0, wanted: 25 });
    shard.call(change as Operation<unknown>);
    shard.draw({ cost: 30 });
    const remaining = shard.remaining();
    shard.draw({ cost: 0, returns: back(drawn, 25) });
    expect(shard.remaining()).toBe(remaining);
  });

  it.each([
    ["a SET", []],
    ["a PURGE and a SET", [operations.purge("api:ada")]],
    ["two SETs", [operations.set("api:ada", "12|40|1699999999000000000", { ttlMs: 60_000 })]],
  ] as const)("%s that leaves the text that was stored changes nothing", (_, before) => {
    const shard = new Shard();
    const drawn = shard.draw({ cost: 0, wanted: 25 });
    shard.draw({ cost: 30 });
    const { value } = shard.call(operations.get("api:ada"))!;
    for (const operation of before) shard.call(operation as Operation<unknown>);
    shard.call(operations.set("api:ada", value, { ttlMs: 60_000 }));
    shard.draw({ cost: 0, returns: back(drawn, 25) });
    expect(shard.remaining()).toBe(70);
  });

  it("a draw of a shard before its restart means nothing to the shard after it", () => {
    const drawn = new Shard(1).draw({ strategy: MINUTE, cost: 0, wanted: 20 });
    const shard = new Shard(2);
    shard.draw({ strategy: MINUTE, cost: 0, wanted: 20 });
    shard.draw({ strategy: MINUTE, cost: 0, returns: back(drawn, 20) });
    expect(shard.remaining(MINUTE)).toBe(80);
  });

  it("a bucket takes back what it lacks, and never more than fills it", () => {
    const shard = new Shard();
    const drawn = shard.draw({ cost: 0, wanted: 20, leaseMs: 1000 });
    shard.nowMs += 1500;
    expect(shard.remaining()).toBe(95);
    // The bucket would have been full: only 5 of the 20 units are not refilled yet.
    shard.call(operations.limit({ ...ADA, strategy: BUCKET, cost: 95 }));
    expect(shard.draw({ cost: 0, returns: back(drawn, 20) }).remaining).toBe(5);
  });

  it("the pause after a refusal grows with the callers that wait for the key, up to the lease", () => {
    const shard = new Shard();
    shard.draw({ cost: 100 });
    const pauses = Array.from({ length: 1000 }, () => shard.draw({ leaseMs: 200 }).pauseMs);
    expect(pauses.slice(0, 3)).toEqual([5, 10, 15]);
    expect(Math.max(...pauses)).toBe(200);
    shard.nowMs += 200;
    expect(shard.draw({ cost: 100, leaseMs: 200 }).pauseMs).toBe(5);
  });

  it("a caller with a short lease does not shorten the pauses of others", () => {
    const shard = new Shard();
    shard.draw({ cost: 100 });
    for (let i = 0; i < 100; i++) shard.draw({ leaseMs: 10_000 });
    expect(shard.draw({ leaseMs: 50 }).pauseMs).toBe(50);
    expect(shard.draw({ leaseMs: 10_000 }).pauseMs).toBe(505);
  });

  it("callers that get less than they want pause as well, once many of them ask", () => {
    const shard = new Shard();
    const strategy = { ...BUCKET, burst: 1_000_000 };
    const draw = (wanted: number): number => shard.draw({ strategy, wanted }).pauseMs;
    expect(Array.from({ length: 24 }, () => draw(1e9)).slice(20)).toEqual([0, 5, 10, 15]);
    expect(draw(0)).toBe(20);
    shard.nowMs += 200;
    expect(draw(1e9)).toBe(0);
  });

  it("decisions that a caller makes from its units are counted with those of the shard", () => {
    const shard = new Shard();
    shard.draw({ wanted: 20 });
    shard.draw({ granted: 19, refused: 3 });
    shard.draw({ cost: 0, granted: 4 });
    shard.draw({ cost: 1000 });
    expect(shard.counts()).toEqual([25, 4, 0, 26]);
  });

  it("a draw reports at most what an isolate decides in the longest life of its units", () => {
    const shard = new Shard();
    const claimed = Number.MAX_SAFE_INTEGER;
    for (let i = 0; i < 3; i++) shard.draw({ cost: 0, granted: claimed, refused: claimed });
    shard.draw({ cost: 1 });
    expect(shard.counts()).toEqual([3e7 + 1, 3e7, 0, 6e7]);
  });
});

describe("a malformed draw", () => {
  const frameWith = (change: (body: DataView) => void): Operation<unknown> => {
    const operation = operations.draw({
      ...ADA,
      strategy: BUCKET,
      returns: [{ draw: 7, units: 1 }],
    });
    const { frame } = operation;
    change(new DataView(frame.buffer, frame.byteOffset + 14));
    return operation;
  };

  it.each([
    [
      "a lease that is too short",
      (body: DataView) => body.setUint16(0, 49, true),
      "draw_invalid: leaseMs",
    ],
    [
      "a lease that is too long",
      (body: DataView) => body.setUint16(0, 10_001, true),
      "draw_invalid: leaseMs",
    ],
    [
      "a fraction of a unit",
      (body: DataView) => body.setFloat64(2, 0.5, true),
      "draw_invalid: wanted",
    ],
    ["a cost below 0", (body: DataView) => body.setFloat64(10, -1, true), "draw_invalid: cost"],
    [
      "grants that are not a number",
      (body: DataView) => body.setFloat64(18, NaN, true),
      "draw_invalid: granted",
    ],
    [
      "infinite refusals",
      (body: DataView) => body.setFloat64(26, Infinity, true),
      "draw_invalid: refused",
    ],
    ["too many returns", (body: DataView) => body.setUint8(34, 65), "draw_invalid: returns"],
    ["more returns than it has", (body: DataView) => body.setUint8(34, 64), "body_invalid"],
    [
      "a return of a fraction",
      (body: DataView) => body.setFloat64(43, 0.1, true),
      "draw_invalid: units",
    ],
  ])("%s is refused by the shard, and nothing is drawn", (_, change, code) => {
    const shard = new Shard();
    expect(() => shard.call(frameWith(change))).toThrow(code);
    expect(shard.remaining()).toBe(100);
  });

  it("a draw that a full shard refuses gives back what it returns, and leaves the reservations of its key", () => {
    const slow = { strategy: "token_bucket", burst: 1000, rate: 1 } as const;
    const shard = new Shard(1, 1 << 16);
    const id = uuidOfNumber(1);
    shard.call(operations.reserve({ ...ADA, strategy: slow, cost: 400, ttlMs: 60_000, id }));
    const first = shard.draw({ strategy: slow, cost: 50 });
    const second = shard.draw({ strategy: slow, cost: 50 });
    fillUp(shard.engine, shard.nowMs);
    shard.nowMs += 333;
    expect(() => shard.draw({ strategy: slow, cost: 1 })).toThrow("shard_full");
    // What is given back makes the state longer, and then there is room in it.
    const both = [...back(first, 10), ...back(second, 50)];
    expect(shard.draw({ strategy: slow, cost: 1000, returns: both })).toMatchObject({
      success: false,
      units: 0,
    });
    expect(shard.remaining(slow)).toBe(560);
    const settled = shard.call(operations.settle({ ...ADA, strategy: slow, id, cost: 0 }));
    expect(settled).toMatchObject({ remaining: 960 });
  });

  it("units that are given back to a full shard again and again make no room for other records", () => {
    const bytesMax = 1 << 18;
    const slow = { strategy: "token_bucket", burst: 1000, rate: 1 } as const;
    const shard = new Shard(1, bytesMax);
    const names = Array.from({ length: 50 }, (_, i) => `limit-${i}`);
    const drawn = names.map((key) => shard.draw({ key, strategy: slow, cost: 400 }));
    // What others store at each round: new values, and longer ones.
    const others: number[] = [];
    const store = (at: number, bytes: number): boolean =>
      isTaken(() =>
        shard.call(operations.set(`${at}`, new Uint8Array(bytes), { ttlMs: 3_600_000 })),
      );
    const fill = (): void => {
      while (store(others.length, 200)) others.push(200);
      for (const [at, bytes] of others.entries()) if (store(at, bytes + 8)) others[at]! += 8;
    };
    fill();
    for (const [i, key] of names.entries()) {
      shard.nowMs += 333;
      // "600" becomes an amount with many digits.
      shard.draw({ key, strategy: slow, cost: 1000, returns: back(drawn[i]!, 1) });
      fill();
    }
    // Values that grow may take an eighth more than the budget, and each amount became longer by up to 21 characters.
    expect(shard.engine.figures.bytes).toBeLessThan(1.125 * bytesMax + names.length * 32);
  });

  it("a draw that is refused for want of room has given back what it returns", () => {
    const shard = new Shard();
    const drawn = shard.draw({ cost: 10 });
    const set = Reflect.get(Records.prototype, "setBufferFrom") as (...asked: unknown[]) => boolean;
    const full = vi.spyOn(Records.prototype, "setBufferFrom");
    full.mockImplementationOnce(function (this: Records, ...asked) {
      return set.apply(this, asked);
    });
    full.mockReturnValueOnce(false);
    expect(() => shard.draw({ cost: 1, returns: back(drawn, 10) })).toThrow("shard_full");
    full.mockRestore();
    expect(shard.remaining()).toBe(100);
  });

  it("a draw with an idempotency key is refused", () => {
    const shard = new Shard();
    const operation = frameWith(() => {});
    operation.frame[1] = 1;
    expect(() => shard.call(operation)).toThrow("flags_invalid");
  });
});
