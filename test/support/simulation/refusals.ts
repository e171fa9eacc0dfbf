/**
 * How much is refused too much: a limiter whose isolates draw allowances, beside an exact one that sees the same requests at
 * once, in the order in which they come.
 */
import {
  fixedWindow,
  gcra,
  slidingWindow,
  tokenBucket,
} from "../../../src/ratelimit/strategies.ts";
import { configurationOf, type LimitStrategy } from "../../../src/wire/edge/limit.ts";
import { modelOf } from "../models/rate-limits.ts";
import { calmWorld } from "./calm-world.ts";

/** What the compared limits allow in a second, in the long run. */
const PACE = 200;
const COMPARED: Readonly<Record<string, LimitStrategy>> = {
  "token bucket": tokenBucket({ burst: 10 * PACE, rate: PACE }),
  GCRA: gcra({ burst: 10 * PACE, rate: PACE }),
  "fixed window": fixedWindow({ limit: 10 * PACE, window: "10 s" }),
  "sliding window": slidingWindow({ limit: 10 * PACE, window: "10 s" }),
};
export const COMPARED_LIMITS: readonly string[] = Object.keys(COMPARED);
const LOADS: readonly number[] = [0.5, 0.9, 1, 1.5];
const ISOLATES: readonly number[] = [3, 30];
const DURATION_MS = 120_000;
const KEY = "k";
const EPOCH_MS = 1_761_884_055_342;

interface Comparison {
  readonly limit: string;
  /** Requests, as a share of what the limit allows. */
  readonly load: number;
  readonly isolates: number;
  readonly seed: number;
}

interface RefusalFigures {
  readonly checks: number;
  readonly calls: number;
  /** Requests that the exact limiter grants and the other refuses, as a share of all. */
  readonly refusedTooMuch: number;
}

/** Requests come at random moments, each on any of the isolates. */
export async function compareRefusals(compared: Comparison): Promise<RefusalFigures> {
  const { limit, load, seed } = compared;
  const strategy = COMPARED[limit]!;
  const world = calmWorld({ seed, strategy, isolates: compared.isolates });
  const { time, random, isolates, callsAtMs } = world;
  const exact = modelOf(configurationOf(strategy));
  const meanMs = 1000 / (PACE * load);
  let checks = 0;
  let granted = 0;
  let grantedExactly = 0;
  const arrive = (): void => {
    const isolate = isolates[Math.floor(random() * isolates.length)]!;
    const nowNs = BigInt(Math.floor((EPOCH_MS + time.nowMs) * 1e3)) * 1000n;
    checks++;
    if (exact.allows(nowNs, 1)) {
      exact.charge(nowNs, 1);
      grantedExactly++;
    }
    isolate.enter(() => {
      void isolate
        .ask(KEY, 1, () => isolate.limiter.limit(KEY))
        .then((isGranted) => {
          if (isGranted) granted++;
        });
    });
    time.after(-Math.log(1 - random()) * meanMs, arrive);
  };
  arrive();
  await time.runUntil(DURATION_MS);
  return { checks, calls: callsAtMs.length, refusedTooMuch: (grantedExactly - granted) / checks };
}

/** Markdown. */
export async function refusalTable(seed: number): Promise<string> {
  const lines = [
    "| limit | requests, of what it allows | isolates | refused too much | calls for 1,000 requests |",
    "| --- | --- | --- | --- | --- |",
  ];
  for (const limit of COMPARED_LIMITS) {
    for (const load of LOADS) {
      for (const isolates of ISOLATES) {
        const compared = { limit, load, isolates, seed };
        const { checks, calls, refusedTooMuch } = await compareRefusals(compared);
        const share = `${(refusedTooMuch * 100).toFixed(2)} %`;
        const thousand = Math.round((calls / checks) * 1000);
        lines.push(`| ${limit} | ${load * 100} % | ${isolates} | ${share} | ${thousand} |`);
      }
    }
  }
  return lines.join("\n");
}
