/**
 * Counts: totals that a shard tells never go down while it lives, those that a scrape has shown not even when it restarts
 * (docs/metrics.md), and sums of what is there are those that a listing finds.
 */
import { isAnswered, type Call, type Moment, type Violation } from "./history.ts";
import { describeMoment } from "./order.ts";

/** What a shard was told to have counted. */
export interface CountSample {
  readonly shard: string;
  /** Such as `requests`, or a series of metrics with its labels. */
  readonly series: string;
  readonly value: number;
  readonly begun: Moment;
  readonly ended: Moment;
  /** Until when the next sample may not be lower: `life` where the next may be of another start of the shard, and lower then. */
  readonly lasts: "life" | "restarts";
  /** When the shard had started, as it says. */
  readonly startedAtMs: number | null;
}

/** What is known of a run beside the samples. */
export interface CountTerms {
  /** Whether an old copy of a shard may have answered a sample. */
  mayBeStale(sample: CountSample): boolean;
  /** Whether a shard started between two samples. Starts have the same time where a clock stands still, as it was set back. */
  hasStarted(shard: string, before: CountSample, after: CountSample): boolean;
  /** Whether a shard could not write its counts. */
  hasLost(shard: string): boolean;
}

const PROMISE = "Counts";

/** @param samples in the order in which they were asked for, one after the other */
export function checkTotals(samples: readonly CountSample[], terms: CountTerms): Violation[] {
  const violations: Violation[] = [];
  const last = new Map<string, CountSample>();
  for (const sample of samples) {
    if (terms.mayBeStale(sample)) continue;
    const { shard, series, lasts } = sample;
    const key = `${lasts} ${shard} ${series}`;
    const before = last.get(key);
    last.set(key, sample);
    if (before === undefined || sample.value >= before.value) continue;
    const mayBeLower =
      lasts === "life"
        ? before.startedAtMs !== sample.startedAtMs || terms.hasStarted(shard, before, sample)
        : terms.hasLost(shard);
    if (mayBeLower) continue;
    violations.push({
      promise: PROMISE,
      subject: `shard ${shard}`,
      message: `${series} went down: ${before.value} at ${describeMoment(before.ended)}, and ${sample.value} at ${describeMoment(sample.begun)}`,
    });
  }
  return violations;
}

/** A sum that was told between two listings of the same things, while some of them could end and none begin. */
export interface CountedSum {
  /** Such as `counters of INFO`. */
  readonly what: string;
  readonly told: number;
  readonly before: number;
  readonly after: number;
}

export const checkSums = (sums: readonly CountedSum[]): Violation[] =>
  sums
    .filter(({ told, before, after }) => told > before || told < after)
    .map(({ what, told, before, after }) => ({
      promise: PROMISE,
      subject: what,
      message: `are ${told}, but listings found ${before} before, and ${after} behind that`,
    }));

/**
 * The total of requests of one kind, of which these are all: it has each of them once at most.
 *
 * @param isCounted whether it certainly has a call that was answered
 */
export function checkRequests<Made extends Call<unknown, unknown>>(
  kind: string,
  told: number,
  calls: readonly Made[],
  isCounted: (call: Made) => boolean,
): Violation[] {
  const least = calls.filter((call) => isAnswered(call) && isCounted(call)).length;
  if (told >= least && told <= calls.length) return [];
  const message = `${told} in all, but ${least} to ${calls.length} were made`;
  return [{ promise: PROMISE, subject: `requests of ${kind}`, message }];
}
