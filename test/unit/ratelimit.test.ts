/** Rate limits: what each strategy promises, its states through the ages, and what is refused. */
import fc from "fast-check";
import { describe, expect, inject, it } from "vitest";
import {
  createLimiter,
  NOW_NS_MAX,
  type StoredDecision,
  type Limiter,
} from "../../src/engine/ratelimit/limiter.ts";
import { firstMoment } from "../../src/engine/ratelimit/moments.ts";
import { leakyBucketCodec, tokenBucketCodec } from "../../src/wire/ratelimit/bucket-state.ts";
import { compositeCodec } from "../../src/wire/ratelimit/composite-state.ts";
import type {
  BucketConfiguration,
  QuotaConfiguration,
  RateLimitConfiguration,
} from "../../src/wire/ratelimit/configuration.ts";
import { RateLimitError } from "../../src/wire/ratelimit/error.ts";
import { fixedWindowCodec } from "../../src/wire/ratelimit/fixed-window-state.ts";
import { gcraCodec } from "../../src/wire/ratelimit/gcra-state.ts";
import { storageKey } from "../../src/wire/ratelimit/keys.ts";
import { formatFloat, INT64_MAX, readFloat } from "../../src/wire/ratelimit/numbers.ts";
import { slidingWindowCodec } from "../../src/wire/ratelimit/sliding-window-state.ts";
import { StateError, type Codec } from "../../src/wire/ratelimit/state.ts";
import {
  scenarioArbitrary,
  STRATEGIES,
  type Request,
  type Scenario,
} from "../support/rate-limits/arbitraries.ts";
import { modelOf } from "../support/models/rate-limits.ts";
import { runs } from "../support/runs.ts";

const seed = inject("seed");
const START_NS = 1761884055342794596n;
const SECOND_NS = 1_000_000_000n;
const RUNS = { seed, numRuns: runs(300) };

/** Where a scenario stands before one of its requests. */
interface Moment {
  limiter: Limiter;
  stored: string | null;
  nowNs: bigint;
  request: Request;
}

/** Plays a scenario, and lets a check look at every moment of it. */
function play({ configuration, requests }: Scenario, check: (moment: Moment) => void): void {
  const limiter = createLimiter(configuration);
  let stored: string | null = null;
  let nowNs = START_NS;
  for (const request of requests) {
    nowNs += request.afterNs;
    check({ limiter, stored, nowNs, request });
    const { operation, cost } = request;
    const decision: StoredDecision =
      operation === "peek" ? limiter.peek(stored, nowNs) : limiter[operation](stored, nowNs, cost);
    stored = decision.state ?? stored;
  }
}

interface Grant {
  atNs: bigint;
  cost: number;
}

/** What a scenario grants when nothing is given back. */
function grantsOf(scenario: Scenario): Grant[] {
  const grants: Grant[] = [];
  const requests = scenario.requests.map((request) => ({
    ...request,
    operation: "limit" as const,
  }));
  play({ ...scenario, requests }, ({ limiter, stored, nowNs, request: { cost } }) => {
    if (limiter.limit(stored, nowNs, cost).allowed) grants.push({ atNs: nowNs, cost });
  });
  return grants;
}

const sumOf = (grants: readonly Grant[]): number => grants.reduce((sum, { cost }) => sum + cost, 0);

/** Checks what was granted in every fixed window: the first grant begins one, as does the first behind its end. */
function expectWindowsWithin(
  { limit, windowNs }: QuotaConfiguration,
  grants: readonly Grant[],
): void {
  let startNs: bigint | null = null;
  let sum = 0;
  for (const { atNs, cost } of grants) {
    if (startNs === null || atNs - startNs >= windowNs) {
      startNs = atNs;
      sum = 0;
    }
    sum += cost;
    expect(sum).toBeLessThanOrEqual(limit);
  }
}

/** Checks what was granted in every stretch of time that begins and ends with a grant. */
function expectGrantsWithin(configuration: RateLimitConfiguration, grants: readonly Grant[]): void {
  if (configuration.strategy === "fixed_window") {
    for (const quota of configuration.quotas) expectWindowsWithin(quota, grants);
  }
  for (let from = 0; from < grants.length; from++) {
    for (let end = from; end < grants.length; end++) {
      const spanNs = grants[end]!.atNs - grants[from]!.atNs;
      const sum = sumOf(grants.slice(from, end + 1));
      switch (configuration.strategy) {
        case "token_bucket":
        case "leaky_bucket": {
          const refill = (Number(spanNs) * configuration.rate) / 1e9;
          expect(sum).toBeLessThanOrEqual((configuration.burst + refill) * (1 + 1e-12));
          break;
        }
        case "gcra": {
          const emissionNs = BigInt(Math.trunc(1e9 / configuration.rate));
          const limitNs = BigInt(configuration.burst) * emissionNs;
          expect(BigInt(sum) * emissionNs <= limitNs + spanNs).toBe(true);
          break;
        }
        case "fixed_window":
          // A stretch that is shorter than a window meets two of them at most.
          for (const { limit, windowNs } of configuration.quotas) {
            expect(sum).toBeLessThanOrEqual(limit * (2 + Number(spanNs / windowNs)));
          }
          break;
        case "sliding_window": {
          // What the approximation may miss is what it takes for evenly spread in the bucket before.
          const { limit, windowNs } = configuration;
          if (spanNs >= windowNs) break;
          const bucket = grants[end]!.atNs / windowNs;
          const elapsedNs = grants[end]!.atNs % windowNs;
          const before = sumOf(grants.filter(({ atNs }) => atNs / windowNs === bucket - 1n));
          const most = BigInt(limit) * windowNs + BigInt(before) * elapsedNs;
          expect(BigInt(sum) * windowNs <= most).toBe(true);
          break;
        }
        default:
          break;
      }
    }
  }
}

describe.each(STRATEGIES)("%s", (strategy) => {
  it("the strategy decides as its model does", () => {
    const property = fc.property(scenarioArbitrary(strategy), (scenario) => {
      const model = modelOf(scenario.configuration);
      play(scenario, ({ limiter, stored, nowNs, request: { operation, cost } }) => {
        const remaining = (quotas: readonly { name: string; remaining: number }[]): object =>
          Object.fromEntries(quotas.map(({ name, remaining }) => [name, remaining]));
        expect(remaining(limiter.peek(stored, nowNs).quotas)).toEqual(model.remaining(nowNs));
        if (operation === "limit") {
          const isAllowed = model.allows(nowNs, cost);
          const decision = limiter.limit(stored, nowNs, cost);
          expect(decision.allowed).toBe(isAllowed);
          expect(decision.state !== null).toBe(isAllowed);
          if (isAllowed) model.charge(nowNs, cost);
          expect(model.remaining(nowNs)).toMatchObject(remaining(decision.quotas));
        } else if (operation === "refund") {
          const decision = limiter.refund(stored, nowNs, cost);
          model.refund(nowNs, cost);
          expect(remaining(decision.quotas)).toEqual(model.remaining(nowNs));
        }
      });
    });
    fc.assert(property, RUNS);
  });

  it("the strategy grants no more than it says in any stretch of time", () => {
    const property = fc.property(scenarioArbitrary(strategy), (scenario) => {
      const { configuration } = scenario;
      const grants = grantsOf(scenario);
      if (configuration.strategy === "composite") {
        expectGrantsWithin(configuration.primary, grants);
        expectGrantsWithin(configuration.secondary, grants);
      } else {
        expectGrantsWithin(configuration, grants);
      }
    });
    fc.assert(property, RUNS);
  });

  it("the strategy grants no more when the clock goes back and forth", () => {
    const isBack = fc.array(fc.boolean(), { minLength: 40, maxLength: 40 });
    const property = fc.property(scenarioArbitrary(strategy), isBack, (scenario, isBack) => {
      const requests = scenario.requests.map((request, i) => ({
        ...request,
        afterNs: isBack[i]! ? -request.afterNs : request.afterNs,
      }));
      const grants = grantsOf({ ...scenario, requests });
      if (grants.length === 0) return;
      const sum = sumOf(grants);
      const timesNs = grants.map(({ atNs }) => atNs);
      const spanNs = timesNs.reduce(later) - timesNs.reduce(earlier);
      expect(sum).toBeLessThanOrEqual(mostWithin(scenario.configuration, spanNs) * (1 + 1e-12));
    });
    fc.assert(property, RUNS);
  });

  const later = (a: bigint, b: bigint): bigint => (a > b ? a : b);
  const earlier = (a: bigint, b: bigint): bigint => (a < b ? a : b);

  /** The most that may be granted between two moments, in whatever order. */
  function mostWithin(configuration: RateLimitConfiguration, spanNs: bigint): number {
    switch (configuration.strategy) {
      case "fixed_window":
        return Math.min(
          ...configuration.quotas.map(
            (quota) => quota.limit * (1 + Number(spanNs / quota.windowNs)),
          ),
        );
      case "sliding_window":
        return configuration.limit * (2 + Number(spanNs / configuration.windowNs));
      case "composite":
        return Math.min(
          mostWithin(configuration.primary, spanNs),
          mostWithin(configuration.secondary, spanNs),
        );
      case "gcra":
        return configuration.burst + Number(spanNs) / Math.trunc(1e9 / configuration.rate);
      default:
        return configuration.burst + (Number(spanNs) * configuration.rate) / 1e9;
    }
  }

  it("the strategy grants a refused cost at its reset, and not a nanosecond before", () => {
    let refusals = 0;
    const property = fc.property(scenarioArbitrary(strategy), (scenario) => {
      play(scenario, ({ limiter, stored, nowNs, request: { cost } }) => {
        const { allowed, reason, resetNs, retryAfterNs, quotas } = limiter.limit(
          stored,
          nowNs,
          cost,
        );
        if (allowed || reason !== null) return;
        refusals++;
        expect(retryAfterNs).toBe(resetNs! - nowNs);
        expect(limiter.limit(stored, resetNs!, cost).allowed).toBe(true);
        expect(limiter.limit(stored, resetNs! - 1n, cost).allowed).toBe(false);
        for (const quota of quotas.filter((quota) => !quota.allowed)) {
          const named = (ns: bigint) =>
            limiter.limit(stored, ns, cost).quotas.find(({ name }) => name === quota.name);
          // It may be hidden when others refuse.
          expect(named(quota.resetNs!)?.allowed).not.toBe(false);
          expect(named(quota.resetNs! - 1n)?.allowed).not.toBe(true);
        }
      });
    });
    fc.assert(property, RUNS);
    expect(refusals).toBeGreaterThan(0);
  });

  it.each([false, true])(
    "a peek says what a limit of 1 would say, and writes nothing (exact: %s)",
    (isExact) => {
      const property = fc.property(scenarioArbitrary(strategy, isExact), (scenario) => {
        play(scenario, ({ limiter, stored, nowNs }) => {
          const peeked = limiter.peek(stored, nowNs);
          const limited = limiter.limit(stored, nowNs);
          expect(peeked).toMatchObject({ state: null, ttlNs: 0n });
          const { allowed, reason, resetNs, retryAfterNs } = peeked;
          expect(limited).toMatchObject({ allowed, reason, retryAfterNs });
          if (allowed) {
            const after = limiter.peek(limited.state, nowNs);
            const remainingOf = ({ quotas }: StoredDecision): number[] =>
              quotas.map(({ remaining }) => remaining);
            expect(remainingOf(limited)).toEqual(remainingOf(after));
            // The double of a leaky bucket may be rounded on its way up.
            if (isExact) {
              expect(limited.remaining).toBe(peeked.remaining - 1);
              expect(remainingOf(limited)).toEqual(remainingOf(peeked).map((left) => left - 1));
            }
          } else {
            expect(limited.resetNs).toBe(resetNs);
            expect(limited.remaining).toBe(peeked.remaining);
          }
          for (const { name, allowed, resetNs } of limited.quotas) {
            const quota = peeked.quotas.find((quota) => quota.name === name)!;
            expect(quota).toMatchObject({ allowed, resetNs });
          }
        });
      });
      fc.assert(property, RUNS);
    },
  );

  it("the strategy grants exactly what remains", () => {
    const property = fc.property(scenarioArbitrary(strategy), (scenario) => {
      play(scenario, ({ limiter, stored, nowNs }) => {
        const { remaining, allowed, limit } = limiter.peek(stored, nowNs);
        expect(allowed).toBe(remaining > 0);
        expect(remaining).toBeLessThanOrEqual(limit);
        expect(limiter.limit(stored, nowNs, remaining + 1).allowed).toBe(false);
        if (remaining === 0) return;
        const { state, ...decision } = limiter.limit(stored, nowNs, remaining);
        expect(decision).toMatchObject({ allowed: true, remaining: 0, retryAfterNs: 0n });
        expect(limiter.peek(state, nowNs).remaining).toBe(0);
      });
    });
    fc.assert(property, RUNS);
  });

  it("a refund gives back what was granted, and no more", () => {
    const property = fc.property(scenarioArbitrary(strategy, true), (scenario) => {
      play(scenario, ({ limiter, stored, nowNs, request: { cost } }) => {
        const before = limiter.peek(stored, nowNs);
        const { state } = limiter.limit(stored, nowNs, cost);
        if (state === null) return;
        const { state: refunded, ttlNs, ...after } = limiter.refund(state, nowNs, cost);
        expect(after.quotas).toEqual(before.quotas);
        expect(ttlNs >= SECOND_NS).toBe(true);
        expect(limiter.peek(refunded, nowNs).quotas).toEqual(before.quotas);
        const all = limiter.refund(state, nowNs, 1_000_000);
        expect(all.quotas).toEqual(limiter.peek(null, nowNs).quotas);
        expect(limiter.peek(all.state, nowNs).quotas).toEqual(all.quotas);
      });
    });
    fc.assert(property, RUNS);
  });

  it("a refund without a state, or behind its end, gives nothing back", () => {
    const property = fc.property(scenarioArbitrary(strategy), (scenario) => {
      const limiter = createLimiter(scenario.configuration);
      const { state, ttlNs } = limiter.limit(null, START_NS);
      const endNs = START_NS + ttlNs;
      expect(limiter.refund(null, endNs)).toEqual(limiter.peek(null, endNs));
      expect(limiter.refund(state, endNs)).toEqual(limiter.peek(null, endNs));
    });
    fc.assert(property, RUNS);
  });

  it("a state is stored until it makes no difference", () => {
    const property = fc.property(scenarioArbitrary(strategy), (scenario) => {
      play(scenario, ({ limiter, stored, nowNs, request: { cost } }) => {
        const { state, ttlNs } = limiter.limit(stored, nowNs, cost);
        if (state === null) return;
        expect(ttlNs >= SECOND_NS).toBe(true);
        expect(limiter.peek(state, nowNs + ttlNs)).toEqual(limiter.peek(null, nowNs + ttlNs));
      });
    });
    fc.assert(property, RUNS);
  });

  it("a cost above the limit is refused for good", () => {
    const property = fc.property(scenarioArbitrary(strategy), (scenario) => {
      play(scenario, ({ limiter, stored, nowNs }) => {
        const limit = Math.min(...limiter.peek(stored, nowNs).quotas.map(({ limit }) => limit));
        expect(limiter.limit(null, nowNs, limit).allowed).toBe(true);
        expect(limiter.limit(stored, nowNs, limit).reason).toBeNull();
        const decision = limiter.limit(stored, nowNs, limit + 1);
        expect(decision).toMatchObject({
          allowed: false,
          reason: "cost_exceeds_limit",
          resetNs: null,
          retryAfterNs: null,
          state: null,
        });
      });
    });
    fc.assert(property, RUNS);
  });
});

describe("leaky_bucket and token_bucket", () => {
  it.each(["token_bucket", "leaky_bucket"] as const)(
    "leaky_bucket and token_bucket grant what remains, one by one, where no double is rounded: %s",
    (strategy) => {
      const property = fc.property(scenarioArbitrary(strategy, true), (scenario) => {
        play(scenario, ({ limiter, stored, nowNs }) => {
          let state = stored;
          for (let left = limiter.peek(stored, nowNs).remaining; left > 0; left--) {
            const decision = limiter.limit(state, nowNs);
            expect(decision).toMatchObject({ allowed: true, remaining: left - 1 });
            state = decision.state;
          }
          expect(limiter.limit(state, nowNs).allowed).toBe(false);
        });
      });
      fc.assert(property, RUNS);
    },
  );
});

describe("composite", () => {
  it("composite charges both parts or neither, as each would alone", () => {
    let refusals = 0;
    const property = fc.property(scenarioArbitrary("composite"), (scenario) => {
      const { configuration } = scenario;
      if (configuration.strategy !== "composite") return;
      const primary = createLimiter(configuration.primary);
      const secondary = createLimiter(configuration.secondary);
      play(scenario, ({ limiter, stored, nowNs, request: { cost } }) => {
        const [primaryStored, secondaryStored] = partsOf(stored);
        const parts = [
          primary.limit(primaryStored, nowNs, cost),
          secondary.limit(secondaryStored, nowNs, cost),
        ] as const;
        expect(limiter.peek(stored, nowNs).remaining).toBe(
          Math.min(
            primary.peek(primaryStored, nowNs).remaining,
            secondary.peek(secondaryStored, nowNs).remaining,
          ),
        );
        const decision = limiter.limit(stored, nowNs, cost);
        const names = decision.quotas.map(({ name }) => name);
        expect(decision.allowed).toBe(parts.every(({ allowed }) => allowed));
        expect(names.includes("secondary_default")).toBe(parts[0].allowed);
        if (decision.allowed) {
          expect(partsOf(decision.state)).toEqual(parts.map(({ state }) => state));
          expect(decision.ttlNs).toBe(
            parts[0].ttlNs > parts[1].ttlNs ? parts[0].ttlNs : parts[1].ttlNs,
          );
        } else {
          refusals++;
          expect(decision.state).toBeNull();
        }
      });
    });
    fc.assert(property, RUNS);
    expect(refusals).toBeGreaterThan(0);
  });

  function partsOf(stored: string | null): [primary: string | null, secondary: string | null] {
    if (stored === null) return [null, null];
    const [primary, secondary] = stored.slice("51|".length).split("$");
    return [primary!, secondary!];
  }

  it("composite reports the wait for both parts when it shows the primary's results alone", () => {
    const limiter = createLimiter({
      strategy: "composite",
      primary: { strategy: "fixed_window", quotas: [{ name: "s", limit: 1, windowNs: SECOND_NS }] },
      secondary: { strategy: "gcra", burst: 1, rate: 0.5 },
    });
    const { state } = limiter.limit(null, START_NS);
    const { quotas, retryAfterNs } = limiter.limit(state, START_NS);
    expect(quotas.map(({ name, resetNs }) => [name, resetNs])).toEqual([
      ["primary_s", START_NS + SECOND_NS],
    ]);
    expect(retryAfterNs).toBe(2n * SECOND_NS);
  });
});

describe("fixed_window", () => {
  const day = { name: "day", limit: 5, windowNs: 86_400n * SECOND_NS };
  const second = { name: "second", limit: 2, windowNs: SECOND_NS };
  const limiterOf = (...quotas: object[]): Limiter =>
    createLimiter({ strategy: "fixed_window", quotas });

  it("fixed_window starts an added quota fresh, and enforces it", () => {
    const { state: old } = limiterOf(day).limit(null, START_NS, 3);
    const limiter = limiterOf(second, day);
    const nowNs = START_NS + 1n;
    expect(limiter.peek(old, nowNs).quotas.map(({ remaining }) => remaining)).toEqual([2, 2]);
    const { state } = limiter.limit(old, nowNs, 2);
    expect(state).toBe(`23|2|second|2|${nowNs}|day|5|${START_NS}`);
    expect(limiter.limit(state, nowNs).quotas.map(({ allowed }) => allowed)).toEqual([
      false,
      false,
    ]);
    const added = limiterOf(day, second).refund(old, nowNs);
    expect(added.state).toBe(`23|1|day|2|${START_NS}`);
  });

  it("fixed_window forgets a removed quota with the next grant, and not before", () => {
    const { state: old } = limiterOf(second, day).limit(null, START_NS, 2);
    const limiter = limiterOf(day);
    expect(limiter.limit(old, START_NS, 4)).toMatchObject({ allowed: false, state: null });
    expect(limiter.limit(old, START_NS, 3).state).toBe(`23|1|day|5|${START_NS}`);
  });

  it("fixed_window reports the smallest remaining, and the latest reset of the quotas that refuse", () => {
    const limiter = limiterOf(second, day);
    const state = `23|2|second|2|${START_NS}|day|3|${START_NS - 5n}`;
    const { remaining, limit, resetNs } = limiter.peek(state, START_NS);
    expect([remaining, limit, resetNs]).toEqual([0, 2, START_NS + SECOND_NS]);
    expect(limiter.limit(state, START_NS, 2).resetNs).toBe(START_NS + SECOND_NS);
    const full = state.replace("day|3", "day|4");
    expect(limiter.limit(full, START_NS, 2).resetNs).toBe(START_NS - 5n + day.windowNs);
  });

  it("fixed_window starts anew after everything was given back", () => {
    const limiter = limiterOf(second);
    const { state } = limiter.refund(limiter.limit(null, START_NS).state, START_NS);
    expect(state).toBe(`23|1|second|0|${START_NS}`);
    expect(limiter.limit(state, START_NS + 7n).state).toBe(`23|1|second|1|${START_NS + 7n}`);
  });
});

describe("sliding_window", () => {
  const limiter = createLimiter({ strategy: "sliding_window", limit: 10, windowNs: 1000n });

  it.each([
    ["61|4|0|5000", 5500n, 6, "the bucket at hand counts in full"],
    ["61|0|10|5000", 5250n, 2, "the one before for what is still covered"],
    ["61|10|0|5000", 6250n, 2, "the one at hand becomes the one before"],
    ["61|10|10|5000", 7000n, 10, "two windows later nothing is left"],
    ["61|9|10|5000", 5999n, 0, "both"],
    ["61|4|1|5000", 4500n, 5, "the clock went back"],
  ])("sliding_window with %s at %d has %d left: %s", (state, nowNs, remaining) => {
    expect(limiter.peek(state, nowNs).remaining).toBe(remaining);
  });

  it("sliding_window begins buckets on the grid, and moves them by whole windows", () => {
    expect(limiter.limit(null, 5432n).state).toBe("61|1|0|5000");
    expect(limiter.limit("61|1|0|5000", 6999n, 2).state).toBe("61|2|1|6000");
    expect(limiter.limit("61|1|0|5000", 7001n, 2).state).toBe("61|2|0|7000");
  });

  it("sliding_window gives back from the current bucket first", () => {
    expect(limiter.refund("61|2|5|5000", 5900n, 3).state).toBe("61|0|4|5000");
    expect(limiter.refund("61|2|5|5000", 6100n, 3).state).toBe("61|0|0|6000");
    expect(limiter.refund("61|2|5|5000", 7000n, 3).state).toBeNull();
  });
});

describe("states", () => {
  const int64 = fc.bigInt(-(2n ** 63n), INT64_MAX);
  const amount = fc.double({ min: 0, noNaN: true, noDefaultInfinity: true });
  const count = fc.maxSafeNat();
  const name = fc.stringMatching(/^[A-Za-z0-9_\-:.@+]{1,64}$/);
  const bucket = fc.record({ amount, atNs: int64 });
  const windows = fc.uniqueArray(fc.record({ name, count, startNs: int64 }), {
    minLength: 1,
    maxLength: 8,
    selector: (window) => window.name,
  });
  const sliding = fc.record({ current: count, previous: count, startNs: int64 });
  const composite = fc.record({ primary: windows, secondary: bucket });

  function expectRoundTrip<State>(codec: Codec<State>, states: fc.Arbitrary<State>): void {
    const property = fc.property(states, (state) => {
      expect(codec.decode(codec.encode(state))).toEqual(state);
    });
    fc.assert(property, RUNS);
  }

  it.each([
    ["token_bucket", () => expectRoundTrip(tokenBucketCodec, bucket)],
    ["leaky_bucket", () => expectRoundTrip(leakyBucketCodec, bucket)],
    ["gcra", () => expectRoundTrip(gcraCodec, int64)],
    ["fixed_window", () => expectRoundTrip(fixedWindowCodec("a"), windows)],
    ["sliding_window", () => expectRoundTrip(slidingWindowCodec, sliding)],
    [
      "composite",
      () => expectRoundTrip(compositeCodec(fixedWindowCodec("a"), tokenBucketCodec), composite),
    ],
  ])("states of %s are read as they were written", (_name, check) => check());

  const T = START_NS;
  const token = { strategy: "token_bucket", burst: 10, rate: 1 };
  const leaky = { strategy: "leaky_bucket", burst: 10, rate: 1 };
  const gcra = { strategy: "gcra", burst: 10, rate: 1 };
  const fixed = {
    strategy: "fixed_window",
    quotas: [
      { name: "a", limit: 5, windowNs: 10n * SECOND_NS },
      { name: "b", limit: 9, windowNs: 60n * SECOND_NS },
    ],
  };
  const slide = { strategy: "sliding_window", limit: 5, windowNs: 10n };
  const both = { strategy: "composite", primary: fixed, secondary: token };
  const fixedNext = `23|2|a|4|${T}|b|1|${T}`;

  it.each([
    [token, `12|8.5|${T}`, `12|7.5|${T}`],
    [token, `11|8.5|${T}|10|1`, `12|7.5|${T}`],
    [token, `v1|8.5|${T}|10|0.5`, `12|7.5|${T}`],
    [token, `v2|8.5|${T}|`, `12|7.5|${T}`],
    [token, `v2|8.5|${T}`, `12|7.5|${T}`],
    [leaky, `32|5.0|${T}`, `32|6|${T}`],
    [leaky, `31|5|${T}|10|1`, `32|6|${T}`],
    [leaky, `v1|5|${T}|10|1.5`, `32|6|${T}`],
    [leaky, `v2|5|${T}|`, `32|6|${T}`],
    [gcra, `42|${T}`, `42|${T + SECOND_NS}`],
    [gcra, `41|${T}|500000000|2500000000`, `42|${T + SECOND_NS}`],
    [gcra, `v1|${T}|500000000|2500000000`, `42|${T + SECOND_NS}`],
    [gcra, `v2|${T}|`, `42|${T + SECOND_NS}`],
    [gcra, `v2|${T}`, `42|${T + SECOND_NS}`],
    [fixed, `23|1|a|3|${T}`, fixedNext],
    [fixed, `22|3|${T}`, fixedNext],
    [fixed, `22|3|${T}|`, fixedNext],
    [fixed, `21|3|${T}|10000000000`, fixedNext],
    [fixed, `v2|3|${T}|`, fixedNext],
    [fixed, `v2|3|${T}`, fixedNext],
    [fixed, `v1|3|${T}|7000000000`, fixedNext],
    // What the library writes where quotas were added while the state lived.
    [fixed, `23|2|a|3|${T}||0|0`, fixedNext],
    [fixed, `23|3||7|${T}|a|3|${T}||0|0`, fixedNext],
    [fixed, `23|2|a|1|${T}|a|3|${T}`, fixedNext],
    [fixed, `23|3|a|9|${T}|c|8|${T}|a|3|${T}`, fixedNext],
    [slide, `61|1|2|${T}`, `61|2|2|${T}`],
    [both, `51|23|2|a|3|${T}||0|0$12|8.5|${T}`, `51|${fixedNext}$12|7.5|${T}`],
    [both, `51|23|1|a|3|${T}$12|8.5|${T}`, `51|${fixedNext}$12|7.5|${T}`],
    [both, `cmp1|23|1|a|3|${T}$12|8.5|${T}`, `51|${fixedNext}$12|7.5|${T}`],
    [both, `cmp1|v2|3|${T}|$v2|8.5|${T}|`, `51|${fixedNext}$12|7.5|${T}`],
    [both, `51|v1|3|${T}|10000000000$11|8.5|${T}|10|1`, `51|${fixedNext}$12|7.5|${T}`],
  ])(
    "the state of %o %s is read, and rewritten with the next grant",
    (configuration, old, next) => {
      const limiter = createLimiter(configuration);
      const peeked = limiter.peek(old, T);
      expect(peeked.remaining).toBeGreaterThan(0);
      expect(peeked.state).toBeNull();
      expect(limiter.limit(old, T).state).toBe(next);
      expect(limiter.limit(old, T, 1000).state).toBeNull();
      const ageless = limiter.refund(limiter.limit(old, T).state, T);
      expect(ageless.quotas).toEqual(peeked.quotas);
    },
  );

  it.each([
    [token, `12|9.5|${T}`, 5, `12|10|${T}`],
    [leaky, `32|2.5|${T}`, 5, `32|0|${T}`],
    [gcra, `42|${T + 3n}`, 1, `42|${T}`],
    [
      fixed,
      `23|2|a|2|${T}|b|7|${T - 60n * SECOND_NS}`,
      3,
      `23|2|a|0|${T}|b|7|${T - 60n * SECOND_NS}`,
    ],
    [token, `12|14|${T + 6n * SECOND_NS}`, 1, null],
    [leaky, `32|14|${T}`, 1, `32|13|${T}`],
    [fixed, `23|1|a|2|${T - 10n * SECOND_NS}`, 1, null],
    [both, `51|23|1|a|2|${T}$12|10|${T}`, 1, `51|23|1|a|1|${T}$12|10|${T}`],
    [
      both,
      `51|23|1|a|2|${T - 10n * SECOND_NS}$12|1|${T}`,
      1,
      `51|23|1|a|2|${T - 10n * SECOND_NS}$12|2|${T}`,
    ],
  ])("a refund of the state of %o, %s, gives %d back", (configuration, stored, cost, refunded) => {
    expect(createLimiter(configuration).refund(stored, T, cost).state).toBe(refunded);
  });

  it.each([
    [token, `12|3|${T + 9n * SECOND_NS}`, "the clock went back"],
    [leaky, `32|14|${T}`, "the burst was more"],
    [gcra, `42|${T + 30n * SECOND_NS}`, "the burst was more"],
    [fixed, `23|1|a|8|${T}`, "the limit was more"],
    [slide, `61|9|0|${T}`, "the limit was more"],
  ])("the state of %o %s has 0 left: %s", (configuration, stored, _why) => {
    expect(createLimiter(configuration).peek(stored, T)).toMatchObject({
      allowed: false,
      remaining: 0,
    });
  });

  it.each([
    [1, "1.1e-16", 1],
    [4503599627370499, "1.5", 4503599627370497],
  ])("a leaky bucket of %d at %s has as many left as it grants", (burst, level, remaining) => {
    const limiter = createLimiter({ strategy: "leaky_bucket", burst, rate: 1e9 });
    const stored = `32|${level}|${T}`;
    expect(limiter.peek(stored, T).remaining).toBe(remaining);
    expect(limiter.limit(stored, T, remaining).allowed).toBe(true);
    expect(limiter.limit(stored, T, remaining + 1).allowed).toBe(false);
  });

  const FOREIGN = [
    "",
    "x",
    "|",
    "13|1|1",
    "52|1$1",
    "61|1|1",
    "v3|1|1",
    "v1",
    "v2|",
    "v1|1|1",
    "0",
    "{}",
  ];
  const ODD_NUMBERS = [
    "NaN",
    "Inf",
    "-Inf",
    "0x1p3",
    "1_0",
    " 1",
    "1 ",
    "",
    "1e999",
    "-1",
    "٣",
    "1e",
    ".",
  ];

  it.each([
    ...[token, leaky, gcra, fixed, slide, both].flatMap((configuration) =>
      FOREIGN.map((text) => [configuration, text] as const),
    ),
    ...ODD_NUMBERS.flatMap(
      (number) =>
        [
          [token, `12|${number}|${T}`],
          [leaky, `32|${number}|${T}`],
          [leaky, `v1|1|${T}|${number === "-1" ? "" : number}|1`],
          [fixed, `23|1|a|${number}|${T}`],
          [fixed, `23|${number}|a|1|${T}`],
          [slide, `61|${number}|0|${T}`],
          [slide, `61|0|${number}|${T}`],
        ] as const,
    ),
    ...["1.5", "9223372036854775808", "-9223372036854775809", "1e3", "", "t"].flatMap(
      (time) =>
        [
          [token, `12|1|${time}`],
          [gcra, `42|${time}`],
          [gcra, `v1|1|${time}|1`],
          [fixed, `23|1|a|1|${time}`],
          [fixed, `v1|1|1|${time}`],
          [slide, `61|1|1|${time}`],
        ] as const,
    ),
    [token, `32|1|${T}`],
    [leaky, `12|1|${T}`],
    [leaky, `v1|5|${T}|10|1|9`],
    [fixed, `23|9${"abcdefghi".replaceAll(/./g, `|$&|1|${T}`)}`],
    [gcra, `12|1|${T}`],
    [fixed, `42|${T}`],
    [fixed, `23|1|a b|1|${T}`],
    [fixed, `23|1|a|9007199254740992|${T}`],
    [slide, `61|1|1|${T}|`],
    [both, `51|23|1|a|1|${T}`],
    [both, `51|23|1|a|1|${T}$`],
    [both, `51|$12|1|${T}`],
    [both, `51|12|1|${T}$23|1|a|1|${T}`],
    [both, `51|23|1|a|1|${T}$12|1|${T}$`],
    [both, `cmp2|23|1|a|1|${T}$12|1|${T}`],
    [both, `23|1|a|1|${T}`],
    [fixed, `51|23|1|a|1|${T}$12|1|${T}`],
  ] as const)("the state of %o %j is refused, not taken for a fresh one", (configuration, text) => {
    const limiter = createLimiter(configuration);
    for (const operation of ["limit", "peek", "refund"] as const) {
      const decide = (): unknown => limiter[operation](text, T);
      expect(decide).toThrow(StateError);
      expect(decide).toThrow(/^state_invalid: [a-z_]+: expected .+, got "/);
    }
  });

  it("long foreign texts are named in short", () => {
    const limiter = createLimiter(token);
    expect(() => limiter.peek("x".repeat(100_000), T)).toThrow(/^.{100,250}$/);
  });

  it("states that never end are refused up to the end of int64", () => {
    const limiter = createLimiter(leaky);
    expect(limiter.peek(`32|1e+300|${T}`, T).resetNs).toBe(INT64_MAX);
    expect(createLimiter(fixed).peek(`23|1|a|5|${INT64_MAX}`, T).resetNs).toBe(INT64_MAX);
    expect(createLimiter(token).peek(`12|0|${INT64_MAX}`, T).resetNs).toBe(INT64_MAX);
  });
});

describe("numbers", () => {
  it("numbers are read from their text, which is the shortest", () => {
    const property = fc.property(fc.double({ noNaN: true, noDefaultInfinity: true }), (value) => {
      const text = formatFloat(value);
      expect(readFloat(text)).toBe(value);
      expect(text.replaceAll(/\D/g, "").length).toBeLessThanOrEqual(17 + 3 + 4);
      expect(text).toMatch(/^-?\d+(\.\d*[1-9])?(e[+-]\d{2,3})?$/);
    });
    fc.assert(property, RUNS);
  });

  it.each([
    [999999, "999999"],
    [999999.5, "999999.5"],
    [1_000_000, "1e+06"],
    [0.0001, "0.0001"],
    [0.00009999, "9.999e-05"],
    [-0, "-0"],
    [1e100, "1e+100"],
  ])("the number %d is written as %s", (value, text) => expect(formatFloat(value)).toBe(text));

  it.each([
    ["5.0", 5],
    ["5.", 5],
    [".5", 0.5],
    ["+4", 4],
    ["05", 5],
    ["1E+2", 100],
    ["1e-999", 0],
    ["-0", -0],
  ])("the number %s is read", (text, value) => expect(readFloat(text)).toBe(value));
});

describe("the first moment", () => {
  it("the first moment of a grant is found from any estimate", () => {
    const moment = fc.bigInt(1n, INT64_MAX);
    const near = fc.bigInt(-1000n, 1000n);
    const property = fc.property(
      moment,
      fc.oneof(moment, near),
      fc.oneof(moment, near),
      (firstNs, refusedBy, estimate) => {
        const refusedNs =
          refusedBy > 1000n ? refusedBy % firstNs : firstNs - 1n - (refusedBy + 1000n);
        const estimateNs = estimate > 1000n ? estimate : firstNs + estimate;
        let questions = 0;
        const holds = (ns: bigint): boolean => {
          questions++;
          return ns >= firstNs;
        };
        expect(firstMoment(refusedNs, estimateNs, holds)).toBe(firstNs);
        expect(questions).toBeLessThan(200);
      },
    );
    fc.assert(property, RUNS);
  });

  it("the first moment of a grant that never comes is the end of int64", () => {
    expect(firstMoment(5n, 7n, () => false)).toBe(INT64_MAX);
  });
});

describe("invalid arguments", () => {
  const bucket: BucketConfiguration = { strategy: "token_bucket", burst: 1, rate: 1 };
  const quota = { name: "a", limit: 1, windowNs: 1n };
  const fixed = { strategy: "fixed_window", quotas: [quota] };
  const quotas = (...list: object[]): object => ({ strategy: "fixed_window", quotas: list });

  it.each([
    [null, "strategy_unknown", "strategy"],
    ["gcra", "strategy_unknown", "strategy"],
    [{ strategy: "constructor" }, "strategy_unknown", "strategy"],
    [{ strategy: "composite", primary: fixed }, "strategy_unknown", "secondary"],
    [{ strategy: "composite", primary: "gcra" }, "strategy_unknown", "primary"],
    [
      { strategy: "composite", primary: { strategy: "composite" } },
      "combination_invalid",
      "primary.strategy",
    ],
    [{ strategy: { toString: 1 } }, "strategy_unknown", "strategy"],
    [{ strategy: Object.create(null) as unknown }, "strategy_unknown", "strategy"],
    [{ strategy: () => "gcra" }, "strategy_unknown", "strategy"],
    [
      { strategy: "composite", primary: bucket, secondary: bucket },
      "combination_invalid",
      "primary.strategy",
    ],
    [
      { strategy: "composite", primary: fixed, secondary: fixed },
      "combination_invalid",
      "secondary.strategy",
    ],
    [
      {
        strategy: "composite",
        primary: fixed,
        secondary: { strategy: "sliding_window", limit: 1, windowNs: 1n },
      },
      "combination_invalid",
      "secondary.strategy",
    ],
    [{ ...bucket, burst: 0 }, "burst_invalid", "burst"],
    [{ ...bucket, burst: 1.5 }, "burst_invalid", "burst"],
    [{ ...bucket, burst: 2 ** 53 }, "burst_invalid", "burst"],
    [{ ...bucket, burst: "1" }, "burst_invalid", "burst"],
    [{ ...bucket, rate: 0 }, "rate_invalid", "rate"],
    [{ ...bucket, rate: Infinity }, "rate_invalid", "rate"],
    [{ ...bucket, rate: NaN }, "rate_invalid", "rate"],
    [{ ...bucket, strategy: "gcra", rate: 1e9 + 1 }, "rate_invalid", "rate"],
    [{ ...bucket, burst: 2, rate: 1e-9 }, "time_overflow", "burst / rate"],
    [{ ...bucket, rate: 5e-324 }, "time_overflow", "burst / rate"],
    [
      { strategy: "composite", primary: fixed, secondary: { ...bucket, rate: -1 } },
      "rate_invalid",
      "secondary.rate",
    ],
    [quotas(), "quotas_invalid", "quotas"],
    [{ strategy: "fixed_window" }, "quotas_invalid", "quotas"],
    [quotas(...Array.from({ length: 9 }, () => quota)), "quotas_invalid", "quotas"],
    [quotas(quota, { ...quota, limit: 2 }), "quota_name_taken", "quotas[1].name"],
    [quotas(quota, { name: "b", limit: 7, windowNs: 7n }), "quota_ratio_taken", "quotas[1].limit"],
    [quotas({ ...quota, name: "a b" }), "quota_name_invalid", "quotas[0].name"],
    [quotas({ ...quota, name: 5 }), "quota_name_invalid", "quotas[0].name"],
    [quotas({ ...quota, limit: 0 }), "limit_invalid", "quotas[0].limit"],
    [quotas({ ...quota, windowNs: 0n }), "window_invalid", "quotas[0].windowNs"],
    [quotas({ ...quota, windowNs: 1 }), "window_invalid", "quotas[0].windowNs"],
    [quotas({ ...quota, windowNs: INT64_MAX / 5n + 1n }), "time_overflow", "quotas[0].windowNs"],
    [{ strategy: "sliding_window", limit: 0, windowNs: 1n }, "limit_invalid", "limit"],
    [{ strategy: "sliding_window", limit: 1, windowNs: -1n }, "window_invalid", "windowNs"],
  ])("the configuration %o is refused with %s of %s", (configuration, code, field) => {
    expectRefusal(() => createLimiter(configuration), code, field);
  });

  it.each([
    ["a b", "k", "base_key_invalid", "name"],
    ["", "k", "base_key_invalid", "name"],
    ["b", "k\n", "key_invalid", "key"],
    ["b", "k".repeat(65), "key_invalid", "key"],
  ])("the key %j with base %j is refused with %s of %s", (baseKey, key, code, field) => {
    expectRefusal(() => storageKey(baseKey, key, false), code, field);
  });

  it.each([0, -1, 1.5, NaN, 2 ** 53])("a cost of %d is refused", (cost) => {
    const limiter = createLimiter(bucket);
    expectRefusal(() => limiter.limit(null, START_NS, cost), "cost_invalid", "cost");
    expectRefusal(() => limiter.refund(null, START_NS, cost), "cost_invalid", "cost");
  });

  it.each([-1n, NOW_NS_MAX + 1n])("a present of %d is refused", (nowNs) => {
    const limiter = createLimiter(bucket);
    expect(() => limiter.limit(null, nowNs)).toThrow(/^nowNs: expected 0 to /);
  });

  it("the largest times fit int64", () => {
    const windowNs = INT64_MAX / 5n;
    for (const configuration of [
      { strategy: "gcra", burst: 1_844_674_407, rate: 1 },
      { strategy: "token_bucket", burst: 1_844_674_407, rate: 1 },
      { strategy: "leaky_bucket", burst: Number.MAX_SAFE_INTEGER, rate: 1e300 },
      { strategy: "sliding_window", limit: Number.MAX_SAFE_INTEGER, windowNs },
      quotas({ name: "a", limit: Number.MAX_SAFE_INTEGER, windowNs }),
    ]) {
      const limiter = createLimiter(configuration);
      const { limit } = limiter.peek(null, NOW_NS_MAX);
      const { resetNs, ttlNs, state } = limiter.limit(null, NOW_NS_MAX, limit);
      expect(resetNs! < INT64_MAX).toBe(true);
      expect(ttlNs <= INT64_MAX).toBe(true);
      expect(limiter.peek(state, NOW_NS_MAX)).toMatchObject({ allowed: false, remaining: 0 });
    }
  });

  function expectRefusal(check: () => unknown, code: string, field: string): void {
    expect(check).toThrow(RateLimitError);
    expect(check).toThrow(expect.objectContaining({ code, field }));
    expect(check).toThrow(`${code}: ${field}: `);
  }
});
