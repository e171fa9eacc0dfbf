/** Allowances before servers that answer what cannot be: no unit lives longer than its term, and no pause than the lease. */
import { describe, expect, it } from "vitest";
import { Allowance } from "../../src/ratelimit/local/allowance.ts";
import type { DrawResult } from "../../src/wire/edge/draw.ts";

const TARGET = {
  name: "api",
  key: "ada",
  strategy: { strategy: "token_bucket", burst: 100, rate: 10 },
} as const;
const LEASE = { leaseMs: 2000, termMs: 1000 };
const GRANT: DrawResult = {
  success: true,
  limit: 100,
  remaining: 75,
  reset: 0,
  retryAfterMs: 0,
  quotas: {},
  units: 25,
  draw: 1,
  lifeMs: 1000,
  pauseMs: 0,
};
const REFUSAL: DrawResult = {
  ...GRANT,
  success: false,
  remaining: 0,
  retryAfterMs: 10,
  units: 0,
  draw: null,
  lifeMs: 0,
};

/** An allowance that was answered so at 0 ms. */
function answered(drawn: DrawResult): Allowance {
  const allowance = new Allowance(TARGET, LEASE);
  const ask = allowance.ask(1, 0, 0);
  allowance.answer(ask, drawn, 0);
  allowance.finish(ask);
  return allowance;
}

describe("an allowance", () => {
  it("units are spent until their life ends", () => {
    expect(answered(GRANT).decide(1, 999, 999)).toMatchObject({ success: true, local: true });
    expect(answered(GRANT).decide(1, 1000, 1000)).toBeNull();
  });

  it.each([Number.NaN, Infinity, 1e300, 24.5, -25])(
    "units that cannot be a number of units, %d, are not spent",
    (units) => {
      expect(answered({ ...GRANT, units }).decide(1, 1, 1)).toBeNull();
    },
  );

  it.each([1e12, Infinity, Number.NaN, -1])(
    "units with a life of %d ms are not spent after their term",
    (lifeMs) => {
      expect(answered({ ...GRANT, lifeMs }).decide(1, 1000, 1000)).toBeNull();
    },
  );

  it.each([1e12, Infinity, Number.NaN, -1])(
    "a refusal with a pause of %d ms is asked about again after twice the lease",
    (pauseMs) => {
      expect(answered({ ...REFUSAL, pauseMs }).decide(1, 4000, 4000)).toBeNull();
    },
  );

  it("what is refused before the pause of a short grant is over has nothing left, in any quota", () => {
    const quotas = { default: { allowed: true, limit: 100, remaining: 75, reset: 60_000 } };
    const allowance = answered({
      ...GRANT,
      units: 1,
      draw: null,
      quotas,
      reset: 60_000,
      pauseMs: 20,
    });
    expect(allowance.decide(1, 5, 5)).toEqual({
      success: false,
      limit: 100,
      remaining: 0,
      reset: 20,
      retryAfterMs: 15,
      quotas: { default: { allowed: false, limit: 100, remaining: 0, reset: 60_000 } },
      local: true,
    });
  });

  it("a draw whose answer stays out for some round trips makes nobody wait any longer", () => {
    const allowance = new Allowance(TARGET, LEASE);
    const first = allowance.ask(1, 0, 0);
    // How long an answer takes is not known yet: it is awaited for the whole term.
    expect([allowance.isLed(999), allowance.isLed(1000)]).toEqual([true, false]);
    allowance.answer(first, GRANT, 40);
    allowance.finish(first);
    allowance.ask(100, 2000, 2000);
    expect([allowance.isLed(2159), allowance.isLed(2160)]).toEqual([true, false]);
    allowance.ask(1, 2160, 2160);
    expect(allowance.isLed(2161)).toBe(true);
  });
});
