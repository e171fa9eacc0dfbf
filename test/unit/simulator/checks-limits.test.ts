/** The checkers of limits: they accept what shards answer, and refuse forged histories with what was granted too much. */
import { describe, expect, inject, it } from "vitest";
import type { LimitResult, LimitStrategy } from "../../../src/wire/edge/limit.ts";
import {
  composite,
  fixedWindow,
  gcra,
  leakyBucket,
  slidingWindow,
  tokenBucket,
} from "../../../src/ratelimit/strategies.ts";
import { ClockHistory } from "../../simulator/checks/clocks.ts";
import {
  checkLimits,
  type LimitOperation,
  type LimitOutcome,
  type LimitTerms,
} from "../../simulator/checks/limits.ts";
import { Facts } from "../../simulator/checks/facts.ts";
import { hasLostRelaxed } from "../../simulator/checks/relaxed-calls.ts";
import { Random } from "../../simulator/kernel/random.ts";
import { ReservingShard } from "../../support/rate-limits/reserving-shard.ts";
import type { MsSpan } from "../../support/models/span.ts";
import { forge, type ForgedCall } from "../../support/simulator/forge.ts";

const seed = inject("seed");
const key = "api:ada";

type Forged = ForgedCall<LimitOperation, LimitOutcome>;

function termsOf(strategy: LimitStrategy, more: Partial<LimitTerms> = {}): LimitTerms {
  return {
    clocks: new ClockHistory(),
    objectOf: () => "shard 0",
    strategyOf: () => strategy,
    answersKept: { fromMs: 10_000, toMs: 10_000 },
    hasLostRelaxed: () => false,
    ...more,
  };
}

const messagesOf = (
  strategy: LimitStrategy,
  calls: readonly Forged[],
  more?: Partial<LimitTerms>,
): string[] => checkLimits(forge(calls), termsOf(strategy, more)).map(({ message }) => message);

/** A result of the one quota of a limit, or of the named one. */
function result(
  success: boolean,
  remaining: number,
  reset = 60_000,
  name = "default",
): LimitResult {
  const quota = { allowed: success, limit: 10, remaining, reset };
  return {
    success,
    limit: 10,
    remaining,
    reset,
    retryAfterMs: success ? 0 : 1,
    quotas: { [name]: quota },
  };
}

/** A refusal of a look or of a cost, with what is left, and its times. */
const refusal = (remaining: number, reset: number | null, retryAfterMs: number | null) =>
  says({ ...result(false, remaining), reset, retryAfterMs });

const says = (said: LimitResult): LimitOutcome => ({ success: said.success, results: [said] });
const call = (
  begunMs: number,
  endedMs: number | null,
  operation: LimitOperation,
  outcome: Forged["outcome"],
): Forged => ({ begunMs, endedMs, operation, outcome });
const limit = (cost = 1, more: object = {}): LimitOperation => ({
  name: "limit",
  key,
  cost,
  ...more,
});
const refund = (cost: number): LimitOperation => ({ name: "refund", key, cost });
const PEEK: LimitOperation = { name: "peek", key };
const RESET: LimitOperation = { name: "reset", key };
const local = (cost: number): LimitOperation => ({ name: "local", key, cost, leaseMs: 1000 });
const granted: LimitOutcome = { success: true };
const refused: LimitOutcome = { success: false };

/** Grants of 1 that follow each other. */
const grants = (count: number, fromMs: number, everyMs = 1, operation = limit()): Forged[] =>
  Array.from({ length: count }, (_, i) => {
    const begunMs = fromMs + i * everyMs;
    return call(begunMs, begunMs + everyMs / 2, operation, granted);
  });

const BUCKET = tokenBucket({ burst: 10, rate: 1 });
const WINDOW = fixedWindow({ limit: 10, window: "1 m" });
const SLIDING = slidingWindow({ limit: 10, window: "10 s" });

const STRATEGIES: Readonly<Record<string, LimitStrategy>> = {
  "token bucket": tokenBucket({ burst: 20, rate: 30 }),
  "leaky bucket": leakyBucket({ burst: 15, rate: 7.3 }),
  GCRA: gcra({ burst: 12, rate: 9 }),
  "fixed window": fixedWindow({ limit: 20, window: "1 s" }),
  "several windows": fixedWindow([
    { name: "second", limit: 10, window: "1 s" },
    { name: "minute", limit: 60, window: "10 s" },
  ]),
  "sliding window": slidingWindow({ limit: 20, window: "2 s" }),
  composite: composite({
    primary: fixedWindow({ limit: 30, window: "2 s" }),
    secondary: tokenBucket({ burst: 8, rate: 20 }),
  }),
};

/** What clients see of a shard that is called all the while. `forgets` loses a charge now and then, unseen. */
function play(strategy: LimitStrategy, random: Random, forgets = false): Forged[] {
  const shard = new ReservingShard(strategy);
  const calls: Forged[] = [];
  const held: { id: string; answeredMs: number }[] = [];
  for (let i = 0; i < 150; i++) {
    shard.nowMs += random.int(10) === 0 ? random.int(3000) : random.int(60);
    const at = {
      begunMs: shard.nowMs - random.next() * 20 - 0.01,
      endedMs: shard.nowMs + random.next() * 20 + 1,
    };
    const cost = 1 + random.int(4);
    const kind = random.int(20);
    if (kind === 0)
      calls.push({ ...at, operation: refund(cost), outcome: says(shard.refund(cost)) });
    else if (kind === 1) {
      const { id, ...said } = shard.reserve(cost);
      if (id !== null) held.push({ id, answeredMs: at.endedMs });
      const operation = { name: "reserve", key, id: id ?? "none", cost } as const;
      calls.push({ ...at, operation, outcome: says(said) });
    } else if (kind === 2 && held.length > 0 && held[0]!.answeredMs < at.begunMs) {
      const { id } = held.shift()!;
      const { settled, ...said } = shard.settle(id, cost);
      const operation = { name: "settle", key, id, cost } as const;
      calls.push({ ...at, operation, outcome: { ...says(said), settled } });
    } else if (kind < 6)
      calls.push({ ...at, operation: { name: "peek", key }, outcome: says(shard.peek()) });
    else if (kind === 6) {
      shard.limit(1);
      calls.push({ ...at, operation: limit(1), outcome: "unknown" });
    } else calls.push({ ...at, operation: limit(cost), outcome: says(shard.limit(cost)) });
    if (forgets && i % 20 === 19) shard.reset();
  }
  return calls;
}

describe.each(Object.entries(STRATEGIES))("%s", (_, strategy) => {
  it("the answers of a shard are accepted", () => {
    const isRefusal = ({ outcome }: Forged): boolean =>
      typeof outcome === "object" && !outcome.success;
    let refusals = 0;
    for (let i = 0; i < 30; i++) {
      const calls = play(strategy, new Random(seed + i));
      refusals += calls.filter(isRefusal).length;
      expect(messagesOf(strategy, calls)).toEqual([]);
    }
    expect(refusals).toBeGreaterThan(30);
  });

  it("a shard that forgets charges is found out", () => {
    const found = Array.from({ length: 30 }, (_, i) =>
      messagesOf(strategy, play(strategy, new Random(seed + i), true)),
    );
    expect(found.filter((messages) => messages.length > 0).length).toBeGreaterThan(10);
  });
});

describe("a bucket", () => {
  it("a burst, and what comes back meanwhile, is accepted", () => {
    expect(messagesOf(BUCKET, [...grants(10, 0), ...grants(20, 1100, 1000)])).toEqual([]);
  });

  it("a grant above the burst is refused", () => {
    expect(messagesOf(BUCKET, grants(11, 0))).toEqual([
      expect.stringMatching(
        /^11 units were granted within 10\.5 ms, where 10\.0\d+ are allowed; the last of them by client 1/,
      ),
    ]);
  });

  it("a grant above the rate of a later interval is refused", () => {
    const calls = [...grants(1, 0), ...grants(12, 100_000, 10)];
    expect(messagesOf(BUCKET, calls)).toEqual([expect.stringMatching(/^11 units/)]);
  });

  it("as much as a clock that jumps forwards gives back is accepted, and no more", () => {
    const clocks = new ClockHistory();
    clocks.set("shard 0", 50, 4000);
    expect(messagesOf(BUCKET, [...grants(10, 0), ...grants(4, 60)], { clocks })).toEqual([]);
    expect(messagesOf(BUCKET, [...grants(10, 0), ...grants(5, 60)], { clocks })).toHaveLength(1);
  });

  describe("of a shard that restarts with a clock that went back", () => {
    const peek = (ms: number, left: number) =>
      call(ms, ms + 1, { name: "peek", key }, says(result(true, left)));
    const charged = call(0, 1, limit(8), says(result(true, 2)));
    const wentBack = (startMs: number | null): ClockHistory => {
      const clocks = new ClockHistory();
      clocks.set("shard 0", 5100, -4000);
      if (startMs !== null) clocks.start("shard 0", startMs);
      return clocks;
    };

    it("a look may have found more than is left when the shard continues from the time of its last row", () => {
      const calls = [charged, peek(5000, 7), peek(5300, 3)];
      expect(messagesOf(BUCKET, calls, { clocks: wentBack(5200) })).toEqual([]);
      expect(messagesOf(BUCKET, calls, { clocks: wentBack(null) })).toEqual([
        expect.stringContaining("too much was charged"),
      ]);
    });

    it("a charge with a row of its own leaves no less than it did", () => {
      const row = call(5050, 5051, limit(1), says(result(true, 6)));
      const left = (units: number) =>
        messagesOf(BUCKET, [charged, row, peek(5300, units)], { clocks: wentBack(5200) });
      expect(left(6)).toEqual([]);
      expect(left(4)).toEqual([expect.stringContaining("too much was charged")]);
    });
  });

  it("a clock that went back while the first of several grants was under way may have gone back before it", () => {
    const clocks = new ClockHistory();
    clocks.set("shard 0", -Infinity, 500);
    clocks.set("shard 0", 20, -500);
    const granting = (beginMs: number, endMs: number, cost: number) =>
      call(beginMs, endMs, limit(cost), granted);
    const first = granting(0, 30, 10);
    expect(messagesOf(BUCKET, [first, granting(1100, 1101, 1)], { clocks })).toEqual([]);
    expect(messagesOf(BUCKET, [first, granting(1100, 1101, 2)], { clocks })).toHaveLength(1);
    const known = granting(0, 10, 10);
    expect(messagesOf(BUCKET, [known, granting(1100, 1101, 1)], { clocks })).toHaveLength(1);
  });

  it("what was refunded is granted again, and no more", () => {
    const back = call(20, 21, refund(3), granted);
    expect(messagesOf(BUCKET, [...grants(10, 0), back, ...grants(3, 30)])).toEqual([]);
    expect(messagesOf(BUCKET, [...grants(10, 0), back, ...grants(4, 30)])).toHaveLength(1);
  });

  it("after a reset, also one whose outcome is unknown, all is granted again", () => {
    const reset = call(20, null, { name: "reset", key }, "unknown");
    expect(messagesOf(BUCKET, [...grants(10, 0), reset, ...grants(10, 30)])).toEqual([]);
  });

  it("a reset restores no more than the burst, however late it may have been executed", () => {
    const reset = call(20, null, RESET, "unknown");
    expect(messagesOf(BUCKET, [...grants(10, 0), reset, ...grants(11, 30)])).toEqual([
      expect.stringMatching(/^21 units were granted within .* where 20\.\d+ are allowed/),
    ]);
    const looks = [
      call(0, 1, PEEK, says(result(true, 5))),
      call(2, 3, RESET, granted),
      call(4, 5, limit(8), granted),
    ];
    const left = (units: number) =>
      messagesOf(BUCKET, [...looks, call(6, 7, PEEK, says(result(true, units)))]);
    expect(left(7)).toEqual([]);
    expect(left(9)).toEqual([expect.stringContaining("a charge is lost, as at most 8.0")]);
  });

  it("calls that were refused or may not have been granted count for nothing", () => {
    const calls = [
      ...grants(10, 0),
      call(20, 21, limit(), refused),
      call(22, null, limit(), "unknown"),
    ];
    expect(messagesOf(BUCKET, [...calls, call(23, 24, limit(), "refused")])).toEqual([]);
  });

  it("calls with one idempotency key are one grant, and count as that", () => {
    const once = limit(5, { once: "x" });
    const twice = [
      call(0, null, once, "unknown"),
      call(1, 2, once, granted),
      call(3, 4, once, granted),
    ];
    expect(messagesOf(BUCKET, [...twice, ...grants(5, 10)])).toEqual([]);
    expect(messagesOf(BUCKET, [...twice, ...grants(6, 10)])).toHaveLength(1);
  });

  it("a charge that is not in a later figure is refused as lost", () => {
    const calls = [
      call(0, 1, limit(2), says(result(true, 8))),
      call(2, 3, limit(2), granted),
      call(4, 5, { name: "peek", key }, says(result(true, 8))),
    ];
    expect(messagesOf(BUCKET, calls)).toEqual([
      expect.stringMatching(/8 were left .*a charge is lost, as at most 7\.\d+/),
    ]);
  });

  it("a call of unknown outcome charges until it has settled, and no later", () => {
    const open = call(0, 1, limit(5), "unknown");
    const looks = [
      call(500, 501, PEEK, says(result(true, 10))),
      call(510, 511, PEEK, says(result(true, 5))),
    ];
    expect(messagesOf(BUCKET, [open, ...looks])).toEqual([]);
    expect(messagesOf(BUCKET, [{ ...open, settledMs: 505 }, ...looks])).toEqual([]);
    expect(messagesOf(BUCKET, [{ ...open, settledMs: 400 }, ...looks])).toEqual([
      expect.stringContaining("too much was charged"),
    ]);
  });

  it("a charge that was made twice is refused", () => {
    const calls = [
      call(0, 1, limit(2), says(result(true, 8))),
      call(2, 3, limit(2), says(result(true, 4))),
    ];
    expect(messagesOf(BUCKET, calls)).toEqual([
      expect.stringMatching(/too much was charged, as at least 5\.000/),
    ]);
  });

  describe("a limitAll that was refused", () => {
    const peek = (ms: number, left: number) =>
      call(ms, ms + 1, { name: "peek", key }, says(result(true, left)));
    const entries = [
      { key, cost: 4 },
      { key: "other", cost: 1 },
    ];
    const all = call(2, 3, { name: "limitAll", key, entries }, refused);
    const overShards = { objectOf: (name: string) => name };

    it("may have charged for a while over several shards, and its charge comes back", () => {
      expect(messagesOf(BUCKET, [peek(0, 10), all, peek(4, 6), peek(6, 10)], overShards)).toEqual(
        [],
      );
      expect(messagesOf(BUCKET, [peek(0, 10), peek(4, 6)])).toHaveLength(1);
    });

    it("has given everything back before its answer, where nothing goes wrong", () => {
      const terms = { ...overShards, returnsAll: true };
      expect(messagesOf(BUCKET, [peek(0, 10), all, peek(4, 10)], terms)).toEqual([]);
      expect(messagesOf(BUCKET, [peek(0, 10), all, peek(4, 6)], terms)).toEqual([
        expect.stringContaining("too much was charged"),
      ]);
      const meanwhile = call(2, 3, { name: "peek", key }, says(result(true, 6)));
      expect(messagesOf(BUCKET, [peek(0, 10), all, meanwhile, peek(4, 10)], terms)).toEqual([]);
    });

    it("may leave its charge where a split of the shard had begun by its end, and not before", () => {
      const partedFrom = (ms: number): Partial<LimitTerms> => ({
        areParted: (keys, by) => keys.join() === `${key},other` && by.ms >= ms,
      });
      const calls = [peek(0, 10), all, peek(4, 6)];
      expect(messagesOf(BUCKET, calls, partedFrom(3))).toEqual([]);
      expect(messagesOf(BUCKET, calls, partedFrom(4))).toEqual([
        expect.stringContaining("too much was charged"),
      ]);
      expect(messagesOf(BUCKET, [peek(0, 10), all, peek(4, 4)], partedFrom(3))).toEqual([
        expect.stringContaining("too much was charged"),
      ]);
    });

    it("with an error may have charged for a while, where one of its shards may have refused its part", () => {
      const failed = { ...all, outcome: "refused" } as const;
      const calls = [peek(0, 10), failed, peek(4, 6), peek(6, 10)];
      const refused = { ...overShards, mayRefusePart: (object: string) => object === "other" };
      expect(messagesOf(BUCKET, calls, refused)).toEqual([]);
      expect(messagesOf(BUCKET, calls, overShards)).toHaveLength(1);
    });

    it("charges nothing in a shard that has all of its limits", () => {
      expect(messagesOf(BUCKET, [peek(0, 10), all, peek(4, 10)])).toEqual([]);
      expect(messagesOf(BUCKET, [peek(0, 10), all, peek(4, 6)])).toEqual([
        expect.stringContaining("too much was charged"),
      ]);
    });
  });

  it("what a limitAll was granted counts in each of its limits, except shadows that refused", () => {
    const entries = [
      { key: "a", cost: 6 },
      { key: "b", cost: 6, isShadow: true },
    ];
    const all: LimitOperation = { name: "limitAll", key: "a", entries };
    const outcome = { success: true, results: [result(true, 4), result(false, 4)] };
    const violations = checkLimits(
      forge([call(0, 1, all, outcome), call(2, 3, all, outcome)]),
      termsOf(BUCKET),
    );
    expect(violations.map(({ subject }) => subject)).toEqual(["a"]);
  });

  it("a reservation counts with what it was settled with, and with its estimate where that is less", () => {
    const reserve = (ms: number, id: string) =>
      call(ms, ms + 1, { name: "reserve", key, id, cost: 8 }, granted);
    const settle = (ms: number, id: string, cost: number) =>
      call(ms, ms + 1, { name: "settle", key, id, cost }, { success: true, settled: cost });
    expect(
      messagesOf(BUCKET, [reserve(0, "x"), reserve(2, "x"), settle(4, "x", 1), reserve(6, "y")]),
    ).toEqual([]);
    expect(messagesOf(BUCKET, [reserve(0, "x"), settle(4, "x", 3), reserve(6, "y")])).toHaveLength(
      1,
    );
    expect(messagesOf(BUCKET, [reserve(0, "x"), settle(4, "x", 50)])).toEqual([]);
  });

  describe("a reservation", () => {
    const peek = (ms: number, left: number) =>
      call(ms, ms + 1, { name: "peek", key }, says(result(true, left)));
    const reserve = call(2, 3, { name: "reserve", key, id: "x", cost: 8, ttlMs: 1000 }, granted);
    const settle = (ms: number, outcome: Forged["outcome"]) =>
      call(ms, ms + 1, { name: "settle", key, id: "x", cost: 3 }, outcome);
    const settled: LimitOutcome = { success: true, settled: 3 };
    const ended: LimitOutcome = { success: false, isEnded: true };

    it("that is settled without other callers leaves the limit where the real cost would have", () => {
      expect(messagesOf(BUCKET, [peek(0, 10), reserve, settle(4, settled), peek(6, 7)])).toEqual(
        [],
      );
      expect(messagesOf(BUCKET, [peek(0, 10), reserve, settle(4, settled), peek(6, 2)])).toEqual([
        expect.stringContaining("too much was charged"),
      ]);
    });

    it("may leave it lower where others charge meanwhile", () => {
      const other = call(3.5, 4, limit(1), granted);
      const calls = [peek(0, 10), reserve, other, settle(5, settled), peek(7, 2)];
      expect(messagesOf(BUCKET, calls)).toEqual([]);
    });

    it("that is settled later gives back what was not used between the two looks at the limit", () => {
      expect(messagesOf(BUCKET, [reserve, peek(4, 2), settle(6, settled), peek(8, 7)])).toEqual([]);
      expect(
        messagesOf(BUCKET, [reserve, peek(4, 2), settle(6, settled), peek(8, 10)]),
      ).toHaveLength(1);
    });

    it("that is repeated after its TTL is another one", () => {
      const again = (ms: number) =>
        call(ms, ms + 1, { name: "reserve", key, id: "x", cost: 8, ttlMs: 1000 }, granted);
      const left = (ms: number) =>
        messagesOf(BUCKET, [
          peek(0, 10),
          reserve,
          again(ms),
          settle(ms + 2, settled),
          peek(ms + 4, 0),
        ]);
      expect(left(500)).toEqual([expect.stringContaining("too much was charged")]);
      expect(left(1500)).toEqual([]);
    });

    it("may be another one where a call that was given up comes after the TTL of the call that repeated it", () => {
      const givenUp = { ...reserve, endedMs: 300, outcome: "unknown" as const };
      const again = call(
        400,
        500,
        { name: "reserve", key, id: "x", cost: 8, ttlMs: 1000 },
        granted,
      );
      const left = (settledMs: number) =>
        messagesOf(BUCKET, [peek(0, 10), { ...givenUp, settledMs }, again, peek(1700, 0)]);
      expect(left(900)).toEqual([expect.stringContaining("too much was charged")]);
      expect(left(1600)).toEqual([]);
    });

    it("is there until its TTL has passed", () => {
      expect(messagesOf(BUCKET, [reserve, settle(500, ended)])).toEqual([
        expect.stringMatching(/found it ended, but .* had reserved it for 1000 ms/),
      ]);
      expect(messagesOf(BUCKET, [reserve, settle(1003, ended)])).toEqual([]);
      expect(messagesOf(BUCKET, [settle(500, ended)])).toEqual([]);
      const unknown = { ...reserve, outcome: "unknown" as const };
      expect(messagesOf(BUCKET, [unknown, settle(500, ended)])).toEqual([]);
    });

    describe("that is settled twice", () => {
      const again = (ms: number, cost: number, settledWith: number) =>
        call(
          ms,
          ms + 1,
          { name: "settle", key, id: "x", cost },
          { success: true, settled: settledWith },
        );

      it("is answered with the first cost, whatever the second one is", () => {
        expect(messagesOf(BUCKET, [reserve, settle(4, settled), again(6, 5, 3)])).toEqual([]);
        expect(messagesOf(BUCKET, [reserve, settle(4, settled), again(6, 5, 5)])).toEqual([
          expect.stringMatching(
            /had reserved was settled with 3 \(client 1 .*\), and with 5 \(client 1/,
          ),
        ]);
      });

      it("may have been settled first by a call of unknown outcome, and by none that was not made", () => {
        const open = settle(4, "unknown");
        expect(messagesOf(BUCKET, [reserve, open, again(6, 5, 3)])).toEqual([]);
        expect(messagesOf(BUCKET, [reserve, open, again(6, 5, 4)])).toHaveLength(1);
      });

      it("has the cost that the answers say, though one that was lost asked for less", () => {
        const settlements = [
          settle(4, settled),
          { ...again(6, 0, 3), outcome: "unknown" as const },
        ];
        const leaves = (left: number) =>
          messagesOf(BUCKET, [peek(0, 10), reserve, ...settlements, peek(8, left)]);
        expect(leaves(7)).toEqual([]);
        expect(leaves(10)).toEqual([expect.stringContaining("a charge is lost")]);
      });

      it("may be another one where its call was repeated after its TTL", () => {
        const later = call(
          2000,
          2001,
          { name: "reserve", key, id: "x", cost: 8, ttlMs: 1000 },
          granted,
        );
        const calls = [reserve, settle(4, settled), later, again(2010, 5, 5)];
        expect(messagesOf(BUCKET, calls)).toEqual([]);
      });
    });

    it("that leaves a debt does not excuse what was wrong before it", () => {
      const twice = [
        call(0, 0.5, limit(2), says(result(true, 8))),
        call(1, 1.5, limit(2), says(result(true, 4))),
      ];
      const small = call(2, 3, { name: "reserve", key, id: "x", cost: 1 }, granted);
      const debt = settle(4, settled);
      expect(messagesOf(BUCKET, [...twice, small, debt])).toEqual([
        expect.stringContaining("too much was charged"),
      ]);
      const relaxed = call(5, 6, limit(1, { isRelaxed: true }), granted);
      expect(messagesOf(BUCKET, [...twice, relaxed])).toHaveLength(1);
      expect(messagesOf(BUCKET, [...twice, call(5000, 5001, local(1), granted)])).toHaveLength(1);
    });

    it("that is settled with more than its estimate leaves a debt, which is not judged", () => {
      const more = call(
        4,
        5,
        { name: "settle", key, id: "x", cost: 20 },
        { success: true, settled: 20 },
      );
      expect(messagesOf(BUCKET, [peek(0, 10), reserve, more, peek(6, 0)])).toEqual([]);
    });
  });

  it("a relaxed grant counts unless a crash took it back", () => {
    const relaxed = grants(10, 0, 1, limit(1, { isRelaxed: true }));
    const calls = [...relaxed, ...grants(1, 30)];
    expect(messagesOf(BUCKET, calls)).toHaveLength(1);
    expect(messagesOf(BUCKET, calls, { hasLostRelaxed: (_, { fromMs }) => fromMs > 5 })).toEqual(
      [],
    );
  });

  it("where all calls are relaxed, each one counts unless a crash took it back", () => {
    const calls = [...grants(10, 0), ...grants(1, 30)];
    const areRelaxed = { areRelaxed: true };
    expect(messagesOf(BUCKET, calls, areRelaxed)).toHaveLength(1);
    const hasLostRelaxed = (_: string, { fromMs }: MsSpan): boolean => fromMs > 5 && fromMs < 20;
    expect(messagesOf(BUCKET, calls, { ...areRelaxed, hasLostRelaxed })).toEqual([]);
    expect(messagesOf(BUCKET, calls, { hasLostRelaxed })).toHaveLength(1);
  });

  describe("whose shard was reset after a relaxed grant", () => {
    const lostAt = (ms: number, commitMsMost: number): boolean => {
      const facts = new Facts();
      const [begun, ended] = [0, ms].map((at) => ({ tick: at, ms: at }));
      facts.addLife("shard 0", { begun: begun!, ended: ended!, isReset: true });
      return hasLostRelaxed(facts, "shard 0", { fromMs: 10, toMs: 20 }, commitMsMost);
    };

    it("may have lost it until its row is on disk, and no longer", () => {
      expect(lostAt(15, 10)).toBe(true);
      expect(lostAt(139, 10)).toBe(true);
      expect(lostAt(200, 10)).toBe(false);
      expect(lostAt(5, 10)).toBe(false);
    });

    it("may have lost it later where commits took longer", () => {
      expect(lostAt(5000, 3000)).toBe(true);
      expect(lostAt(9000, 3000)).toBe(false);
    });
  });

  it("local decisions are dated back by the life of units, and no further", () => {
    const fast = tokenBucket({ burst: 100, rate: 10 });
    const burst = call(0, 1, limit(100), granted);
    // Units live for a second.
    const later = (units: number): Forged[] => grants(units, 1000, 1, local(1));
    expect(messagesOf(fast, [burst, ...later(10)])).toEqual([]);
    expect(messagesOf(fast, [burst, ...grants(11, 1000, 0.01)])).toHaveLength(1);
    expect(messagesOf(fast, [burst, call(1000, 1001, local(21), granted)])).toHaveLength(1);
  });

  it("an answer that a limiter with local decisions got from the shard is not dated back", () => {
    const fast = tokenBucket({ burst: 100, rate: 10 });
    const asked = says(result(true, 0));
    const calls = [call(1000, 1001, limit(100), granted), call(1002, 1003, local(9), granted)];
    expect(messagesOf(fast, calls)).toEqual([]);
    const answered = { ...calls[1]!, outcome: asked };
    expect(messagesOf(fast, [calls[0]!, answered])).toHaveLength(1);
  });
});

describe("a window", () => {
  const inWindow = (count: number, fromMs: number, end: number): Forged[] =>
    grants(count, fromMs).map((each) => ({ ...each, outcome: says(result(true, 0, end)) }));

  it("two full windows that follow each other are accepted", () => {
    const calls = [...inWindow(10, 59_000, 60_000), ...inWindow(10, 60_010, 120_010)];
    expect(
      messagesOf(
        WINDOW,
        calls.map((each) => ({ ...each, outcome: granted })),
      ),
    ).toEqual([]);
  });

  it("a grant above the limit of a window is refused", () => {
    const named = fixedWindow([{ name: "default", limit: 10, window: "1 m" }]);
    expect(messagesOf(named, inWindow(11, 0, 60_000))).toEqual([
      expect.stringMatching(
        /^default: 11 units were granted in the window that ends at 60000, where 10 are allowed/,
      ),
    ]);
  });

  describe("with its end in each answer", () => {
    const named = fixedWindow([{ name: "default", limit: 10, window: "1 m" }]);
    const counted = (count: number, fromMs: number, end: number): Forged[] =>
      grants(count, fromMs).map((each, i) => ({
        ...each,
        outcome: says(result(true, Math.max(0, 9 - i), end)),
      }));
    const first = counted(10, 0, 60_000);
    const early = counted(10, 31_000, 91_000);

    it("begins when the one before has ended", () => {
      expect(messagesOf(named, [...first, ...counted(10, 60_010, 120_010)])).toEqual([]);
      expect(messagesOf(named, [...first, ...early])).toEqual([
        expect.stringMatching(
          /^default: a window that ends at 91000 began while the one that ends at 60000 lasted/,
        ),
      ]);
    });

    it("may begin anew where units came back, or where a clock was set", () => {
      const back = call(30_000, 30_001, refund(1), granted);
      expect(messagesOf(named, [...first, back, ...early])).toEqual([]);
      const after = call(60_500, 60_501, refund(1), granted);
      expect(messagesOf(named, [...first, ...early, after])).toHaveLength(1);
      const clocks = new ClockHistory();
      clocks.set("shard 0", 30_000, 30_000);
      expect(messagesOf(named, [...first, ...early], { clocks })).toEqual([]);
    });

    it("grants its limit once more after a reset, and no more", () => {
      const reset = call(20, 21, RESET, granted);
      const again = (count: number) => [...first, reset, ...counted(count, 30, 60_030)];
      expect(messagesOf(named, again(10))).toEqual([]);
      expect(messagesOf(named, again(11))).toEqual([
        expect.stringMatching(
          /^default: 21 units were granted in the window .* where 20 are allowed/,
        ),
      ]);
      const unnamed = (count: number) =>
        again(count).map((each) => (each === reset ? each : { ...each, outcome: granted }));
      expect(messagesOf(WINDOW, unnamed(20))).toEqual([]);
      expect(messagesOf(WINDOW, unnamed(21))).toHaveLength(1);
    });
  });

  describe("that isolates spend units of", () => {
    const named = fixedWindow([{ name: "default", limit: 10, window: "1 m" }]);
    const opened = call(0, 1, limit(2), says(result(true, 8, 60_000)));
    const spent = (units: number, atMs: number) => call(atMs, atMs + 1, local(units), granted);

    it("has them within its limit", () => {
      expect(messagesOf(named, [opened, spent(8, 30_000)])).toEqual([]);
      expect(messagesOf(named, [opened, spent(9, 30_000)])).toEqual([
        expect.stringMatching(/^default: 11 units were granted in the window that ends at 60000/),
      ]);
    });

    it("is not the one of units that may be of another window", () => {
      expect(messagesOf(named, [opened, spent(9, 60_500)])).toEqual([]);
      const next = call(60_200, 60_201, limit(2), says(result(true, 8, 120_200)));
      expect(messagesOf(named, [opened, next, spent(9, 60_700)])).toEqual([]);
      expect(messagesOf(named, [opened, next, spent(9, 61_300)])).toHaveLength(1);
    });
  });

  it("more than two windows allow within the length of one is refused without their ends", () => {
    expect(messagesOf(WINDOW, grants(20, 0))).toEqual([]);
    expect(messagesOf(WINDOW, grants(21, 0))).toEqual([
      expect.stringMatching(/21 units .*where 20\.000 are allowed/),
    ]);
  });
});

describe("a sliding window", () => {
  it("the limit in each window of the grid is accepted where the one before was empty", () => {
    expect(messagesOf(SLIDING, grants(10, 9000))).toEqual([]);
  });

  it("a grant above the limit is refused", () => {
    expect(messagesOf(SLIDING, grants(11, 1000))).toEqual([
      expect.stringMatching(/^11 units were granted after 0/),
    ]);
  });

  it("grants count in the next window for the share that is still covered", () => {
    expect(messagesOf(SLIDING, [...grants(10, 9000), ...grants(5, 15_100)])).toEqual([]);
    expect(messagesOf(SLIDING, [...grants(10, 9000), ...grants(6, 15_100)])).toEqual([
      expect.stringMatching(/^6 units were granted after 10 in the window before/),
    ]);
  });

  describe("says what is left", () => {
    const look = (ms: number, left: number, outcome = says(result(true, left))) =>
      call(ms, ms + 1, PEEK, outcome);
    const charged = call(1000, 1001, limit(6), granted);
    const found = (calls: readonly Forged[], terms?: Partial<LimitTerms>) =>
      messagesOf(SLIDING, calls, terms);

    it("after what was charged in its bucket", () => {
      expect(found([charged, look(9000, 4)])).toEqual([]);
      expect(found([charged, look(9000, 5)])).toEqual([
        expect.stringMatching(/^5 are left after client 1 .*: a charge is lost, as at most 4\.000/),
      ]);
      expect(found([charged, look(9000, 3)])).toEqual([
        expect.stringMatching(/^3 are left after .*: too much was charged, as at least 4 must/),
      ]);
      const twice = call(1000, 1001, limit(1), says(result(true, 8)));
      expect(found([twice])).toHaveLength(1);
    });

    it("after the share of the bucket before that is covered, and nothing older", () => {
      expect(found([charged, look(15_000, 7)])).toEqual([]);
      expect(found([charged, look(15_000, 8)])).toHaveLength(1);
      expect(found([charged, look(15_100, 6)])).toHaveLength(1);
      expect(found([charged, look(20_100, 10)])).toEqual([]);
      const forEver = look(20_100, 0, refusal(0, 30_100, 10_000));
      expect(found([charged, forEver])).toEqual([
        expect.stringContaining("too much was charged, as at least 10 must be left"),
      ]);
    });

    it("after what may have been charged, or come back", () => {
      const open = call(1500, null, limit(3), "unknown");
      expect(found([charged, open, look(3000, 4)])).toEqual([]);
      expect(found([charged, open, look(3000, 1)])).toEqual([]);
      expect(found([charged, open, look(3000, 0)])).toHaveLength(1);
      const back = call(1500, 1501, refund(2), granted);
      expect(found([charged, back, look(3000, 6)])).toEqual([]);
      expect(found([charged, back, look(3000, 7)])).toHaveLength(1);
    });

    it("which is not judged where a bucket may have begun meanwhile, or where a clock was set", () => {
      expect(found([charged, { ...look(9990, 10), endedMs: 10_010 }])).toEqual([]);
      const clocks = new ClockHistory();
      clocks.set("shard 0", 2000, 50_000);
      expect(found([charged, look(9000, 10)], { clocks })).toEqual([]);
    });
  });

  it("a reset restores no more than the limit", () => {
    const reset = call(1500, 1501, RESET, granted);
    expect(messagesOf(SLIDING, [...grants(10, 1000), reset, ...grants(10, 1600)])).toEqual([]);
    expect(messagesOf(SLIDING, [...grants(10, 1000), reset, ...grants(11, 1600)])).toHaveLength(1);
  });
});

describe("calls with one idempotency key", () => {
  const once = (ms: number, left: number, more: object = {}): Forged =>
    call(ms, ms + 1, limit(1, { once: "x", ...more }), says(result(true, left)));

  it("get one answer, which a second charge would have changed", () => {
    expect(messagesOf(SLIDING, [once(0, 9), once(2, 9)])).toEqual([]);
    expect(messagesOf(SLIDING, [once(0, 9), once(2, 8)])).toEqual([
      expect.stringMatching(/^a repeated call was not answered as the first one: x was answered/),
    ]);
  });

  it("may get another answer when the first is forgotten, over another door, or where a crash may take it back", () => {
    expect(messagesOf(SLIDING, [once(0, 9), once(10_010, 8)])).toEqual([]);
    expect(messagesOf(SLIDING, [once(0, 9), { ...once(2, 8), door: "tcp" }])).toEqual([]);
    const relaxed = { isRelaxed: true };
    expect(messagesOf(SLIDING, [once(0, 9, relaxed), once(2, 8, relaxed)])).toEqual([]);
  });

  const slow = tokenBucket({ burst: 10, rate: 0.001 });

  /** What a look may find left of 10 after a call that took 3 s, and another one under its key. */
  const mayBeLeft = (secondMs: number): number[] =>
    [0, 5, 7].filter((left) => {
      const calls = [
        call(0, 1, PEEK, says(result(true, 10))),
        call(10, 3000, limit(5, { once: "x" }), granted),
        call(secondMs, secondMs + 1, limit(5, { once: "x" }), granted),
        call(secondMs + 2, secondMs + 3, PEEK, says(result(true, left))),
      ];
      return messagesOf(slow, calls).length === 0;
    });

  it("charge once while the answer is kept, each when it is forgotten, and between them once or each", () => {
    expect(mayBeLeft(9990)).toEqual([5]);
    expect(mayBeLeft(10_500)).toEqual([0, 5]);
    expect(mayBeLeft(13_010)).toEqual([0]);
  });

  it("charge once more where the first of them comes when the answer of another one is forgotten", () => {
    const leftAfter = (settledMs: number): number[] =>
      [0, 5, 7].filter((left) => {
        const lost = call(10, null, limit(5, { once: "x" }), "unknown");
        const calls = [
          call(0, 1, PEEK, says(result(true, 10))),
          { ...lost, settledMs },
          call(20, 21, limit(5, { once: "x" }), granted),
          call(20_000, 20_001, PEEK, says(result(true, left))),
        ];
        return messagesOf(slow, calls).length === 0;
      });
    expect(leftAfter(10_000)).toEqual([5]);
    expect(leftAfter(11_000)).toEqual([0, 5]);
  });
});

describe("a refusal", () => {
  const refusing = (ms: number, cost: number, outcome: LimitOutcome): Forged =>
    call(ms, ms + 1, limit(cost), outcome);
  const first = refusing(1000, 2, refusal(1, 6000, 5000));

  it("of a cost has less left than that, in one of its quotas", () => {
    expect(messagesOf(WINDOW, [first])).toEqual([]);
    expect(messagesOf(WINDOW, [refusing(1000, 1, refusal(5, 6000, 5000))])).toEqual([
      expect.stringMatching(/^1 were refused where 5 were left/),
    ]);
    expect(messagesOf(WINDOW, [call(0, 1, PEEK, refusal(0, 6000, 6000))])).toEqual([]);
    expect(messagesOf(WINDOW, [call(0, 1, PEEK, refusal(1, 6000, 6000))])).toHaveLength(1);
  });

  it("ends after it was answered, by the time of its object", () => {
    const ended = refusing(7000, 2, refusal(1, 6000, 1));
    expect(messagesOf(WINDOW, [ended])).toEqual([
      expect.stringMatching(/^a refusal lasts for 1 ms until 6000, which was over at 6998: client/),
    ]);
    const clocks = new ClockHistory();
    clocks.set("shard 0", -Infinity, -2000);
    const behind = refusing(7000, 2, refusal(1, 6000, 1000));
    expect(messagesOf(WINDOW, [behind], { clocks })).toEqual([]);
    expect(messagesOf(WINDOW, [refusing(7000, 11, refusal(10, null, null))])).toEqual([]);
  });

  it("lasts from the moment of its answer", () => {
    const lasting = (ms: number) => messagesOf(WINDOW, [refusing(1000, 2, refusal(1, 6000, ms))]);
    expect(lasting(4999)).toEqual([]);
    expect(lasting(2500)).toEqual([
      expect.stringMatching(
        /^a refusal lasts for 2500 ms until 6000, and it was 998 to 1001 then: client/,
      ),
    ]);
    expect(lasting(5100)).toHaveLength(1);
    const relaxed = call(1000, 1001, limit(2, { isRelaxed: true }), refusal(1, 6000, 2500));
    expect(messagesOf(WINDOW, [relaxed])).toHaveLength(1);
  });

  it("lasts no longer than a limit needs to be fresh", () => {
    const lasting = (strategy: LimitStrategy, ms: number) =>
      messagesOf(strategy, [
        call(500, 501, limit(9), granted),
        refusing(1000, 2, refusal(1, 1000 + ms, ms)),
      ]);
    expect(lasting(SLIDING, 20_000)).toEqual([]);
    expect(lasting(SLIDING, 21_000)).toEqual([
      expect.stringMatching(/^a refusal lasts for 21000 ms, where all comes back in 20001 ms/),
    ]);
    expect(lasting(WINDOW, 61_000)).toHaveLength(1);
    expect(lasting(BUCKET, 11_000)).toHaveLength(1);
    const both = composite({ primary: WINDOW, secondary: BUCKET });
    expect(lasting(both, 60_000)).toEqual([]);
    expect(lasting(both, 61_000)).toHaveLength(1);
  });

  describe("that comes again", () => {
    const again = (ms: number, cost: number): Forged =>
      refusing(ms, cost, refusal(cost - 1, ms + 100, 100));
    const found = (more: readonly Forged[], terms?: Partial<LimitTerms>): string[] =>
      messagesOf(WINDOW, [first, ...more], terms);

    it("is wrong when the wait of the first one is over", () => {
      expect(found([again(6010, 2)])).toEqual([
        expect.stringMatching(/^2 were refused, though 2 were to be granted after 5000 ms/),
      ]);
      expect(found([again(6010, 1)])).toHaveLength(1);
    });

    it("is right before that, where it asks for more, and where another caller may have come between", () => {
      expect(found([again(5900, 2)])).toEqual([]);
      expect(found([again(6010, 3)])).toEqual([]);
      expect(found([call(3000, 3001, limit(), granted), again(6010, 2)])).toEqual([]);
      expect(found([call(3000, 3001, limit(), "unknown"), again(6010, 2)])).toEqual([]);
      expect(found([call(5000, 7000, limit(), granted), again(6010, 2)])).toEqual([]);
      expect(found([call(3000, 3001, local(1), refused), again(6010, 2)])).toEqual([]);
    });

    it("is right where less of the object's time has passed", () => {
      const clocks = new ClockHistory();
      clocks.set("shard 0", 2000, -3000);
      const later = refusing(6010, 2, refusal(1, 5600, 100));
      expect(found([later], { clocks })).toEqual([]);
    });
  });
});
