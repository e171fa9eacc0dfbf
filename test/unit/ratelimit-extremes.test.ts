/** Rate limits at the ends of their ranges, and with states that no limiter has written. */
import fc from "fast-check";
import { describe, expect, inject, it } from "vitest";
import {
  createLimiter,
  NOW_NS_MAX,
  type StoredDecision,
  type Limiter,
} from "../../src/engine/ratelimit/limiter.ts";
import { leakyBucketCodec, tokenBucketCodec } from "../../src/wire/ratelimit/bucket-state.ts";
import { RateLimitError } from "../../src/wire/ratelimit/error.ts";
import { fixedWindowCodec } from "../../src/wire/ratelimit/fixed-window-state.ts";
import { resultNames } from "../../src/wire/ratelimit/names.ts";
import { INT64_MAX, readFloat } from "../../src/wire/ratelimit/numbers.ts";
import { slidingWindowCodec } from "../../src/wire/ratelimit/sliding-window-state.ts";
import { StateError } from "../../src/wire/ratelimit/state.ts";
import { STRATEGIES } from "../support/rate-limits/arbitraries.ts";
import { encounterArbitrary } from "../support/rate-limits/extremes.ts";
import { runs } from "../support/runs.ts";

const seed = inject("seed");
const RUNS = { seed, numRuns: runs(2000) };
const SECOND_NS = 1_000_000_000n;
/** Far more than a decision takes, far less than one that is caught by its input. */
const DECISION_MS_MAX = 1000;

const remainingOf = ({ quotas }: StoredDecision): number[] =>
  quotas.map(({ remaining }) => remaining);

/** Checks what holds for every decision at a present. */
function expectSound(decision: StoredDecision, nowNs: bigint): void {
  for (const { allowed, limit, remaining, resetNs } of [decision, ...decision.quotas]) {
    expect(Number.isSafeInteger(remaining) && !Object.is(remaining, -0)).toBe(true);
    expect(remaining >= 0 && remaining <= limit).toBe(true);
    if (resetNs === null) expect(allowed).toBe(false);
    else expect(resetNs >= nowNs && resetNs <= INT64_MAX).toBe(true);
  }
  const { allowed, reason, resetNs, retryAfterNs, state, ttlNs } = decision;
  expect(resetNs === null).toBe(reason !== null);
  const waitNs = resetNs === null ? null : allowed ? 0n : resetNs - nowNs;
  expect(retryAfterNs).toBe(waitNs);
  if (state === null) expect(ttlNs).toBe(0n);
  else expect(ttlNs >= SECOND_NS && ttlNs <= INT64_MAX).toBe(true);
}

/** Checks that a refused cost is granted at its reset, and no earlier, as far as there are presents. */
function expectFirstMoment(limiter: Limiter, stored: string, resetNs: bigint, cost: number): void {
  const lastRefusedNs = resetNs - 1n < NOW_NS_MAX ? resetNs - 1n : NOW_NS_MAX;
  expect(limiter.limit(stored, lastRefusedNs, cost).allowed).toBe(false);
  if (resetNs <= NOW_NS_MAX) expect(limiter.limit(stored, resetNs, cost).allowed).toBe(true);
}

describe.each(STRATEGIES)("%s, whatever is stored and configured", (strategy) => {
  it("a limiter decides, and grants what it refuses at its reset and not a nanosecond before", () => {
    let refusals = 0;
    let grants = 0;
    const property = fc.property(
      encounterArbitrary(strategy),
      ({ configuration, stored, nowNs, cost }) => {
        const limiter = createLimiter(configuration);
        const decision = limiter.limit(stored, nowNs, cost);
        expectSound(decision, nowNs);
        if (decision.allowed) {
          grants++;
          expect(remainingOf(limiter.peek(decision.state, nowNs))).toEqual(remainingOf(decision));
        } else if (decision.reason === null) {
          refusals++;
          expectFirstMoment(limiter, stored!, decision.resetNs!, cost);
        }
      },
    );
    fc.assert(property, RUNS);
    expect(Math.min(refusals, grants)).toBeGreaterThan(RUNS.numRuns / 20);
  });

  it("a limiter peeks at all limits, by their names, as a limit of 1 finds them", () => {
    const property = fc.property(encounterArbitrary(strategy), (encounter) => {
      const { configuration, stored, nowNs } = encounter;
      const limiter = createLimiter(configuration);
      const peeked = limiter.peek(stored, nowNs);
      expectSound(peeked, nowNs);
      expect(peeked.quotas.map(({ name }) => name)).toEqual(resultNames(configuration));
      const limited = limiter.limit(stored, nowNs);
      expect(limited.allowed).toBe(peeked.allowed);
      expect(limited.retryAfterNs).toBe(peeked.retryAfterNs);
    });
    fc.assert(property, RUNS);
  });

  it("a limiter has no less left after a refund, and reads the state that it stored", () => {
    const property = fc.property(
      encounterArbitrary(strategy),
      ({ configuration, stored, nowNs, cost }) => {
        const limiter = createLimiter(configuration);
        const before = remainingOf(limiter.peek(stored, nowNs));
        const decision = limiter.refund(stored, nowNs, cost);
        expectSound(decision, nowNs);
        for (const [i, remaining] of remainingOf(decision).entries()) {
          expect(remaining).toBeGreaterThanOrEqual(before[i]!);
        }
        expect(limiter.peek(decision.state ?? stored, nowNs).quotas).toEqual(decision.quotas);
      },
    );
    fc.assert(property, RUNS);
  });

  it("a limiter decides over a state with odd characters in it, or refuses it as invalid", () => {
    let invalid = 0;
    const odd = fc.array(
      fc.tuple(fc.double({ min: 0, max: 1, noNaN: true }), fc.string({ maxLength: 2 })),
      { minLength: 1, maxLength: 3 },
    );
    const field = fc.constantFrom("|", "$", "-", "+", ".", "e", "0", "9", "NaN", "Infinity", "v1|");
    const property = fc.property(
      encounterArbitrary(strategy),
      fc.oneof(odd, fc.array(fc.tuple(fc.double({ min: 0, max: 1, noNaN: true }), field))),
      ({ configuration, stored, nowNs, cost }, changes) => {
        let text = stored ?? "";
        for (const [share, piece] of changes) {
          const at = Math.floor(share * text.length);
          text = text.slice(0, at) + piece + text.slice(at + 1);
        }
        const limiter = createLimiter(configuration);
        try {
          expectSound(limiter.limit(text, nowNs, cost), nowNs);
          expectSound(limiter.refund(text, nowNs, cost), nowNs);
        } catch (error) {
          if (!(error instanceof StateError)) throw error;
          invalid++;
          expect(() => limiter.peek(text, nowNs)).toThrow(StateError);
        }
      },
    );
    fc.assert(property, RUNS);
    expect(invalid).toBeGreaterThan(0);
  });
});

describe("long texts", () => {
  const SIZE = 1_000_000;
  const NOW_NS = 1761884055342794596n;
  const digits = "1".repeat(SIZE);
  const fixed = { strategy: "fixed_window", quotas: [{ name: "a", limit: 1, windowNs: 1n }] };
  const gcra = { strategy: "gcra", burst: 1, rate: 1 };
  const both = { strategy: "composite", primary: fixed, secondary: gcra };

  it.each([
    ["token_bucket", { strategy: "token_bucket", burst: 1, rate: 1 }, `12|${digits}x|1`],
    ["token_bucket", { strategy: "token_bucket", burst: 1, rate: 1 }, `12|1.${digits}|1`],
    ["leaky_bucket", { strategy: "leaky_bucket", burst: 1, rate: 1 }, `v1|1|1|1|${digits}x`],
    ["gcra", gcra, `42|${digits}`],
    ["gcra", gcra, `42|${"0".repeat(SIZE)}1`],
    ["gcra", gcra, "|".repeat(SIZE)],
    ["fixed_window", fixed, `23|8${"|a".repeat(SIZE)}`],
    ["fixed_window", fixed, `23|1|${"a".repeat(SIZE)}|1|1`],
    ["fixed_window", fixed, `v1|${digits}|1|1`],
    ["sliding_window", { strategy: "sliding_window", limit: 1, windowNs: 1n }, `61|${digits}|1|1`],
    ["composite", both, `51|${"$".repeat(SIZE)}`],
    ["composite", both, `51|23|1|a|1|${digits}$42|1`],
  ])("long texts are refused at once as states of %s", (_strategy, configuration, text) => {
    const limiter = createLimiter(configuration);
    const startedMs = performance.now();
    expect(() => limiter.limit(text, NOW_NS)).toThrow(/^state_invalid: [a-z_]+: .{1,250}$/);
    expect(performance.now() - startedMs).toBeLessThan(DECISION_MS_MAX);
  });

  it("long texts that are almost a number are refused at once", () => {
    const startedMs = performance.now();
    expect(readFloat(`${digits.slice(0, 50_000)}x`)).toBeNull();
    expect(performance.now() - startedMs).toBeLessThan(DECISION_MS_MAX);
  });

  it("the longest valid state is still accepted: eight windows in a composite of old parts", () => {
    const names = Array.from({ length: 8 }, (_, i) => `${i}`.repeat(64));
    const quotas = names.map((name, i) => ({ name, limit: 2 ** 53 - 1 - i, windowNs: 5n }));
    const secondary = { strategy: "token_bucket", burst: 1, rate: 1 };
    const primary = { strategy: "fixed_window", quotas };
    const windows = names.map((name) => `${name}|${2 ** 53 - 1}|${-(2n ** 63n)}`).join("|");
    const number = "1.2345678901234567e-300";
    const text = `cmp1|23|8|${windows}$v1|${number}|${-(2n ** 63n)}|${number}|${number}`;
    const limiter = createLimiter({ strategy: "composite", primary, secondary });
    expect(limiter.peek(text, NOW_NS).allowed).toBe(true);
  });
});

describe("no negative zero", () => {
  it.each([
    ["token_bucket", tokenBucketCodec.decode("12|-0|1"), { amount: 0, atNs: 1n }],
    ["leaky_bucket", leakyBucketCodec.decode("32|-0.0|1"), { amount: 0, atNs: 1n }],
    [
      "fixed_window",
      fixedWindowCodec("a").decode("23|1|a|-0|1"),
      [{ name: "a", count: 0, startNs: 1n }],
    ],
    [
      "sliding_window",
      slidingWindowCodec.decode("61|-0|-0|1"),
      { current: 0, previous: 0, startNs: 1n },
    ],
  ])("states of %s never contain a negative zero", (_strategy, state, expected) => {
    expect(state).toEqual(expected);
  });
});

describe("values that have no text of their own", () => {
  it("values without a text of their own are named by their kind, however deep", () => {
    let deep: unknown[] = [];
    for (let depth = 0; depth < 100_000; depth++) deep = [deep];
    expect(() => createLimiter({ strategy: deep })).toThrow(RateLimitError);
    expect(() => createLimiter({ strategy: deep })).toThrow(/, got a list$/);
    expect(() => createLimiter({ strategy: "gcra", burst: {} })).toThrow(/, got an object$/);
    expect(() => createLimiter({ strategy: "gcra", burst: Symbol("1") })).toThrow(/, got Symbol/);
  });
});
