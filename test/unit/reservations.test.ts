/** RESERVE and SETTLE in the engine: charged once, settled once, by the rules of a return. */
import { describe, expect, it } from "vitest";
import { LIMIT_OUTCOMES, LimitRow } from "../../src/engine/limit-figures.ts";
import * as operations from "../../src/wire/edge/operations.ts";
import type { LimitStrategy } from "../../src/wire/edge/limit.ts";
import { Keyspace } from "../../src/wire/keyspace.ts";
import { fillUp } from "../support/engine/full.ts";
import { isTaken } from "../support/engine/taken.ts";
import { uuidOfNumber } from "../support/frames/index.ts";
import { ReservingShard, START_MS } from "../support/rate-limits/reserving-shard.ts";

const BUCKET = { strategy: "token_bucket", burst: 1000, rate: 10 } as const;
const LEAKY = { ...BUCKET, strategy: "leaky_bucket" } as const;
const GCRA = { ...BUCKET, strategy: "gcra" } as const;
const MINUTE = {
  strategy: "fixed_window",
  quotas: [{ name: "minute", limit: 1000, windowMs: 60_000 }],
} as const;
const SLIDING = { strategy: "sliding_window", limit: 1000, windowMs: 60_000 } as const;
const BOTH = { strategy: "composite", primary: MINUTE, secondary: BUCKET } as const;
const ALL: readonly [string, LimitStrategy][] = [
  ["token bucket", BUCKET],
  ["leaky bucket", LEAKY],
  ["GCRA", GCRA],
  ["fixed window", MINUTE],
  ["sliding window", SLIDING],
  ["composite", BOTH],
];

describe.each(ALL)("a reservation of a %s", (_, strategy) => {
  it("a reservation is charged at once, and settling it gives the difference back", () => {
    const shard = new ReservingShard(strategy);
    const { id, success, remaining } = shard.reserve(800);
    expect([success, remaining]).toEqual([true, 200]);
    expect(shard.limit(201).success).toBe(false);
    expect(shard.settle(id, 523)).toMatchObject({ success: true, remaining: 477, settled: 523 });
    expect(shard.peek().remaining).toBe(477);
  });

  it("a reservation that does not fit is refused as a limit is, and reserves nothing", () => {
    const shard = new ReservingShard(strategy);
    shard.limit(900);
    const refused = shard.limit(101);
    const id = shard.newId();
    expect(shard.reserve(101, 60_000, id)).toEqual({ ...refused, id: null });
    expect(shard.peek().remaining).toBe(100);
    expect(() => shard.settle(id, 1)).toThrow("reservation_ended");
    expect(shard.reserve(1001)).toMatchObject({ success: false, reason: "cost_exceeds_limit" });
  });

  it("a released reservation leaves nothing charged", () => {
    const shard = new ReservingShard(strategy);
    expect(shard.settle(shard.reserve(800).id, 0)).toMatchObject({ remaining: 1000, settled: 0 });
  });

  it("a cost beyond the limit is a debt, and the limit says when it is paid", () => {
    const shard = new ReservingShard(strategy);
    const { id } = shard.reserve(800);
    expect(shard.settle(id, 1100)).toMatchObject({ success: false, remaining: 0, settled: 1100 });
    const refused = shard.limit();
    expect(refused).toMatchObject({ success: false, remaining: 0 });
    shard.nowMs += refused.retryAfterMs! - 1;
    expect(shard.limit().success).toBe(false);
    shard.nowMs += 1;
    expect(shard.limit().success).toBe(true);
  });

  it("a reservation is settled once, whatever the later calls say", () => {
    const shard = new ReservingShard(strategy);
    const { id } = shard.reserve(800);
    const first = shard.settle(id, 523);
    for (const cost of [523, 0, 5000]) expect(shard.settle(id, cost)).toEqual(first);
    shard.restart();
    expect(shard.settle(id, 7)).toEqual(first);
    expect(shard.peek().remaining).toBe(477);
  });

  it("an id is charged once, also after it was settled", () => {
    const shard = new ReservingShard(strategy);
    const id = shard.newId();
    const first = shard.reserve(800, 60_000, id);
    expect(shard.reserve(800, 60_000, id)).toMatchObject({ success: true, id, remaining: 200 });
    shard.restart();
    expect(shard.reserve(800, 60_000, id)).toMatchObject({ success: true, id });
    expect(first.id).toBe(id);
    shard.settle(id, 1000);
    expect(shard.reserve(800, 60_000, id)).toMatchObject({ success: true, id, remaining: 0 });
    expect(shard.peek().remaining).toBe(0);
    expect(() => shard.reserve(801, 60_000, id)).toThrow("reservation_conflict");
  });

  it("a reservation settles after a restart as it would have without it", () => {
    const shard = new ReservingShard(strategy);
    const { id } = shard.reserve(800);
    shard.limit(50);
    shard.restart();
    expect(shard.settle(id, 523)).toMatchObject({ remaining: 427 });
  });

  it("a settlement that a crash undid can be made again", () => {
    const shard = new ReservingShard(strategy);
    const { id } = shard.reserve(800);
    shard.commit();
    shard.settle(id, 523);
    shard.crash();
    expect(shard.peek().remaining).toBe(200);
    expect(shard.settle(id, 523)).toMatchObject({ remaining: 477 });
  });

  it("after its TTL a reservation can't be settled, and its charge stays", () => {
    const shard = new ReservingShard(strategy);
    const { id } = shard.reserve(800, 1000);
    shard.nowMs += 1000;
    const { remaining } = shard.peek();
    expect(() => shard.settle(id, 0)).toThrow("reservation_ended");
    expect(shard.peek().remaining).toBe(remaining);
    expect(remaining).toBeLessThan(1000);
  });

  it.each(["reset", "set"])("after a %s nothing is given back or charged", (how) => {
    const shard = new ReservingShard(strategy);
    const low = shard.reserve(300);
    const { text } = shard.state()!;
    const high = shard.reserve(300);
    if (how === "reset") shard.reset();
    else shard.call(operations.set(shard.stateKey, text, { ttlMs: 60_000 }));
    shard.limit(20);
    const { remaining } = shard.peek();
    shard.restart();
    expect(shard.settle(low.id, 0)).toMatchObject({ remaining, settled: 0 });
    expect(shard.settle(high.id, 900)).toMatchObject({ remaining, settled: 900 });
  });

  it("a SET of the text that is stored changes nothing, also for a restart", () => {
    const shard = new ReservingShard(strategy);
    const low = shard.reserve(300);
    const high = shard.reserve(300);
    shard.call(operations.set(shard.stateKey, shard.state()!.text, { ttlMs: 60_000 }));
    expect(shard.settle(low.id, 0)).toMatchObject({ remaining: 700, settled: 0 });
    shard.call(operations.set(shard.stateKey, shard.state()!.text, { ttlMs: 60_000 }));
    shard.restart();
    expect(shard.settle(high.id, 100)).toMatchObject({ remaining: 900, settled: 100 });
  });

  it("a reservation from before a reset stays unknown among those after it", () => {
    const shard = new ReservingShard(strategy);
    const before = shard.reserve(300);
    shard.reset();
    const after = shard.reserve(300);
    shard.limit(300);
    shard.restart();
    shard.settle(before.id, 0);
    expect(shard.peek().remaining).toBe(400);
    shard.settle(after.id, 0);
    expect(shard.peek().remaining).toBe(700);
  });

  it("a debt lives as long as it takes to be paid, also in the store", () => {
    const shard = new ReservingShard(strategy);
    shard.settle(shard.reserve(800).id, 9000);
    const { retryAfterMs } = shard.limit();
    expect(shard.state()!.ttlMs).toBeGreaterThan(retryAfterMs!);
  });

  it("a debt beyond what a state can hold stops at its end, and the state stays readable", () => {
    const shard = new ReservingShard(strategy);
    for (let i = 0; i < 3; i++) {
      const { id } = shard.reserve(1, 86_400_000);
      if (id === null) break;
      shard.settle(id, Number.MAX_SAFE_INTEGER);
    }
    const { retryAfterMs } = shard.limit();
    expect(retryAfterMs).toBeGreaterThan(0);
    shard.nowMs += 86_400_000;
    shard.refund(1);
  });
});

describe("what a settled reservation leaves", () => {
  it("GCRA takes back what it still lacks to the nanosecond", () => {
    const shard = new ReservingShard({ strategy: "gcra", burst: 10, rate: 1 });
    const { id } = shard.reserve(2);
    // 1.047 intervals are missing, and as a double their nanoseconds are a little less than whole.
    shard.nowMs += 953;
    expect(shard.settle(id, 0).remaining).toBe(10);
    expect(shard.limit(10).success).toBe(true);
  });

  it("a bucket that has refilled meanwhile takes back only what it lacked at its fullest", () => {
    const shard = new ReservingShard(BUCKET);
    const { id } = shard.reserve(800, 120_000);
    shard.nowMs += 79_000;
    expect(shard.limit(50).remaining).toBe(940);
    shard.nowMs += 1000;
    expect(shard.settle(id, 0)).toMatchObject({ remaining: 960 });
  });

  it.each([
    ["token bucket", BUCKET],
    ["leaky bucket", LEAKY],
    ["GCRA", GCRA],
    ["composite", BOTH],
  ])(
    "a %s takes back what it lacked after a refund, though another charge has left the same state since",
    (_, strategy) => {
      const shard = new ReservingShard(strategy);
      const { id } = shard.reserve(1000);
      const left = shard.state();
      shard.refund(300);
      shard.limit(300);
      expect(shard.state()).toEqual(left);
      expect(shard.settle(id, 0).remaining).toBe(700);
    },
  );

  it.each([
    ["a fixed window that refunds have brought to 0 is charged no more", MINUTE, 1000],
    ["a sliding window that refunds have brought to 0 is charged more", SLIDING, 700],
    ["a bucket that refunds have filled is charged more", BUCKET, 700],
  ])("%s than a reservation has estimated", (_, strategy, remaining) => {
    const shard = new ReservingShard(strategy);
    const { id } = shard.reserve(800);
    shard.refund(800);
    expect(shard.settle(id, 1100)).toMatchObject({ settled: 1100, remaining });
  });

  it("quotas get back what was charged to windows that still run, part by part", () => {
    const shard = new ReservingShard({
      strategy: "fixed_window",
      quotas: [
        { name: "second", limit: 1000, windowMs: 1000 },
        { name: "hour", limit: 5000, windowMs: 3_600_000 },
      ],
    });
    const { id } = shard.reserve(800);
    shard.nowMs += 1000;
    shard.limit(10);
    const { quotas } = shard.settle(id, 500);
    expect([quotas.second!.remaining, quotas.hour!.remaining]).toEqual([990, 4490]);
  });

  it("a debt of a window ends with its window", () => {
    const shard = new ReservingShard(MINUTE);
    shard.settle(shard.reserve(800).id, 50_000);
    shard.nowMs += 59_999;
    expect(shard.limit().success).toBe(false);
    shard.nowMs += 1;
    expect(shard.limit()).toMatchObject({ success: true, remaining: 999 });
  });

  it("a bucket whose state would have expired is still charged a debt", () => {
    const shard = new ReservingShard({ strategy: "token_bucket", burst: 10, rate: 10 });
    const { id } = shard.reserve(5);
    shard.nowMs += 30_000;
    expect(shard.settle(id, 505)).toMatchObject({ success: false, retryAfterMs: 19_600 });
  });

  it("a refund pays off a debt by as much as it says", () => {
    const shard = new ReservingShard({ strategy: "token_bucket", burst: 10, rate: 1 });
    shard.settle(shard.reserve(10).id, 1010);
    shard.refund(900);
    expect(shard.limit().retryAfterMs).toBe(101_000);
    shard.refund(105);
    expect(shard.peek().remaining).toBe(5);
  });
});

describe("the store of reservations", () => {
  it("reservations are in no list and no export, and a full removal takes them along", () => {
    const shard = new ReservingShard(BUCKET);
    const { id } = shard.reserve(10);
    expect(shard.engine.totals).toEqual({
      counters: 0,
      buffers: 1,
      bufferBytes: expect.any(Number),
    });
    expect(shard.engine.figures.records).toBe(3);
    shard.settle(id, 10);
    // The mark went with the last open reservation; the settled one stays, so that it is settled once.
    expect(shard.engine.figures.records).toBe(2);
  });

  it("records and memory of reservations are gone when they have ended", () => {
    const shard = new ReservingShard(BUCKET);
    const { bytes } = shard.engine.figures;
    for (let i = 0; i < 100; i++) shard.reserve(1, 1000);
    expect(shard.engine.figures.records).toBe(102);
    expect(shard.engine.figures.bytes).toBeGreaterThan(bytes + 100 * 320);
    shard.nowMs += 3_600_000;
    for (let cursor: number | null = 0; cursor !== null;) {
      cursor = shard.engine.sweepStep(cursor, shard.nowMs);
    }
    expect(shard.engine.figures.records).toBe(0);
    expect(shard.engine.figures.bytes).toBeLessThan(bytes + 100 * 320);
  });

  it("a removal of all reservations gives their memory back, and keeps those of later ones", () => {
    const shard = new ReservingShard(BUCKET);
    const { bytes } = shard.engine.figures;
    for (let i = 0; i < 100; i++) shard.reserve(1, 86_400_000);
    const all = { prefix: new Uint8Array(0), prefixes: [] };
    const remove = (keyspace: Keyspace): void => {
      for (let cursor: number | null = 0; cursor !== null;) {
        ({ cursor } = shard.engine.remove({ ...all, keyspace }, cursor));
      }
    };
    remove(Keyspace.throttr);
    const { id } = shard.reserve(10);
    remove(Keyspace.throttr);
    expect(shard.settle(id, 0)).toMatchObject({ remaining: 1000 });
    remove(Keyspace.reservations);
    expect(shard.engine.figures.records).toBe(0);
    expect(shard.engine.figures.bytes).toBeLessThan(bytes + 100 * 320);
    expect(shard.settle(shard.reserve(10).id, 4)).toMatchObject({ remaining: 996 });
  });

  it("a shard without room refuses a reservation, and has charged nothing", () => {
    const shard = new ReservingShard({ ...BUCKET, burst: 1_000_000 }, 64 << 10);
    let granted = 0;
    for (;;) {
      try {
        shard.reserve(1);
        granted++;
      } catch (error) {
        expect(String(error)).toContain("shard_full");
        break;
      }
    }
    expect(granted).toBeGreaterThan(10);
    expect(shard.peek().remaining).toBe(1_000_000 - granted);
  });

  it.each([
    ["its limit", false],
    ["its limit after one that has ended", true],
  ])(
    "a reservation of %s that a shard takes with the last room it has is settled after a restart, too",
    (_, isSecond) => {
      const outcomes = new Set<boolean>();
      // Each round leaves a few bytes less than the one before.
      for (let other = 0; other < 400; other += 4) {
        const shard = new ReservingShard(BUCKET, 64 << 10);
        shard.limit(600);
        if (isSecond) shard.reserve(1, 1000);
        shard.nowMs += 2000;
        const set = (key: string, bytes: number): boolean =>
          isTaken(() =>
            shard.call(operations.set(key, new Uint8Array(bytes), { ttlMs: 3_600_000 })),
          );
        set("other", other);
        for (let i = 0; set(`other ${i}`, 250); i++);
        shard.call(operations.purge("other 0"));
        shard.call(operations.purge("other 1"));
        shard.nowMs += 333;
        let id: string | null = null;
        const isGranted = isTaken(() => ({ id } = shard.reserve(100)));
        outcomes.add(isGranted);
        const left = shard.peek().remaining;
        shard.restart();
        if (isGranted) shard.settle(id, 0);
        expect(shard.peek().remaining, `${other}`).toBe(left + (isGranted ? 100 : 0));
      }
      expect(outcomes.size).toBe(2);
    },
  );

  it("a full shard takes what is settled, though the state becomes longer", () => {
    const shard = new ReservingShard(BUCKET, 64 << 10);
    const { id } = shard.reserve(400);
    fillUp(shard.engine, shard.nowMs);
    shard.nowMs += 3333;
    expect(shard.settle(id, 100)).toMatchObject({ remaining: 933, settled: 100 });
  });

  it("a full shard takes a refund, though the state becomes longer", () => {
    const shard = new ReservingShard(BUCKET, 64 << 10);
    shard.limit(950);
    fillUp(shard.engine, shard.nowMs);
    expect(shard.refund(100)).toMatchObject({ remaining: 150 });
  });

  it("one reservation is one decision in the figures of the limit, and settling it is none", () => {
    const shard = new ReservingShard(BUCKET);
    const { id } = shard.reserve(800);
    shard.reserve(800);
    shard.reserve(800, 60_000, id!);
    shard.settle(id, 1);
    expect(() => shard.settle(uuidOfNumber(99), 1)).toThrow("reservation_ended");
    const { counts } = shard.engine.limitFigures.counts(shard.nowMs);
    expect([...counts.subarray(LimitRow.all, LIMIT_OUTCOMES)]).toEqual([1, 1, 0]);
  });

  it("a clock that is set back moves reservations along", () => {
    const shard = new ReservingShard(MINUTE);
    const { id } = shard.reserve(800);
    shard.nowMs = START_MS - 3_600_000;
    shard.peek();
    shard.commit();
    shard.engine.setClockBack();
    expect(shard.settle(id, 500)).toMatchObject({ remaining: 500 });
  });
});

describe("a malformed reservation", () => {
  const shard = new ReservingShard(BUCKET);
  const good = { name: "api", key: "ada", strategy: BUCKET, id: uuidOfNumber(1) };

  it.each([
    [{ ...good, ttlMs: 999 }, "ttl_invalid: ttlMs"],
    [{ ...good, ttlMs: 86_400_001 }, "ttl_invalid: ttlMs"],
    [{ ...good, cost: 0 }, "cost_invalid: cost"],
    [{ ...good, cost: 0.5 }, "cost_invalid: cost"],
    [{ ...good, id: "x" }, "reservation_invalid: id"],
    [{ ...good, id: undefined }, "reservation_invalid: id"],
    [{ ...good, name: "a b" }, "base_key_invalid"],
  ])("the request %j is refused before it is sent", (request, code) => {
    expect(() => operations.reserve(request)).toThrow(code);
  });

  it.each([
    [16, (view: DataView, at: number) => view.setUint32(at, 999, true), "ttl_invalid"],
    [20, (view: DataView, at: number) => view.setFloat64(at, 1.5, true), "cost_invalid"],
    [20, (view: DataView, at: number) => view.setFloat64(at, 0, true), "cost_invalid"],
    [0, (view: DataView, at: number) => view.setBigUint64(at, 0n, true), "reservation_invalid"],
  ])("the shard refuses a RESERVE with a wrong field at byte %d", (offset, change, code) => {
    const operation = operations.reserve({ ...good, id: "00000000-0000-0000-ff00-000000000000" });
    const { frame } = operation;
    const bodyAt = 7 + "api:ada".length;
    const view = new DataView(frame.buffer, frame.byteOffset + bodyAt);
    if (code === "reservation_invalid") view.setBigUint64(8, 0n, true);
    change(view, offset);
    expect(() => shard.call(operation)).toThrow(code);
    expect(shard.peek().remaining).toBe(1000);
  });

  it("the shard refuses a SETTLE with a cost below 0, and one with an idempotency key", () => {
    const { id } = shard.reserve(10);
    const operation = operations.settle({ ...good, id: id!, cost: 1 });
    new DataView(operation.frame.buffer, operation.frame.byteOffset + 14).setFloat64(16, -1, true);
    expect(() => shard.call(operation)).toThrow("cost_invalid");
    operation.frame[1] = 1;
    expect(() => shard.call(operation)).toThrow("flags_invalid");
    expect(shard.settle(id, 0)).toMatchObject({ remaining: 1000 });
  });
});
