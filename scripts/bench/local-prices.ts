/** What a million decisions on one hot key cost at a steady rate: requests and rows, as the server's objects count them. */
import type { Lab, RestartableTarget } from "./lab.ts";
import { billOf, type Bill } from "./limits-price.ts";
import { portOf } from "./limits.ts";
import type { Options } from "./options.ts";
import type { PacedLoad, PacedMeasurement } from "./paced-load.ts";
import type { CheckName } from "./workers/check-load.ts";

/** In the order of the table. */
export const PRICED_WAYS = ["limit", "relaxed", "local"] as const satisfies CheckName[];
export type PricedWay = (typeof PRICED_WAYS)[number];

export interface RatePrice extends Bill {
  readonly way: PricedWay;
  /** Decisions a second on the key that were asked for. */
  readonly askedPerS: number;
  /** And those that were made: fewer, where the server is not that fast. */
  readonly checksPerS: number;
}

const RATES_PER_S = [1, 10, 100, 1000, 10_000];
/** Requests of a Worker that are under way together: one must not wait for what another one has asked for. */
const SOCKETS = 32;
const DURATION_MS = 20_000;
const QUICK_DURATION_MS = 6_000;
/** A quiet key is measured for as long as it takes to ask so often. */
const CHECKS_MIN = 20;
/** Longer than an allowance: its size follows the demand. */
const WARM_UP_MS = 4_000;
const SHARDS = 1;

export async function measurePrices(
  lab: Lab,
  target: RestartableTarget,
  { isQuick }: Options,
): Promise<RatePrice[]> {
  const prices: RatePrice[] = [];
  for (const askedPerS of RATES_PER_S) {
    const durationMs = Math.max(
      isQuick ? QUICK_DURATION_MS : DURATION_MS,
      (CHECKS_MIN / askedPerS) * 1000,
    );
    for (const way of PRICED_WAYS) {
      const load: PacedLoad = {
        port: portOf(target),
        meterPort: target.httpPort,
        ask: { check: way, checks: 1, keys: 1, walkFrom: null },
        sockets: SOCKETS,
        perS: askedPerS,
        warmUpMs: WARM_UP_MS,
        durationMs,
      };
      const forMs = WARM_UP_MS + durationMs;
      const measured = await lab.generate<PacedMeasurement>("paced-load.ts", load, forMs);
      const { meter, checks, checksPerS } = measured;
      prices.push({ way, askedPerS, checksPerS, ...billOf(meter, checks, checksPerS, SHARDS) });
    }
  }
  return prices;
}
