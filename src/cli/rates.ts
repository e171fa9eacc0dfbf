/**
 * Rates of records for `monitor`: the difference between two samples of their totals.
 *
 * The server counts totals and estimates the last minute. The difference of totals is exact for the seconds between
 * two samples, so it replaces the estimate as soon as there are two.
 */
import type { InfoFigures } from "../wire/throttr/info.ts";
import { binaryString } from "../wire/bytes.ts";
import type { RecordUsage, Usage } from "./usage.ts";

/** A record and its rates since the previous sample. */
export interface Busy extends RecordUsage {
  /** Since the previous sample; from the server's estimate in the first. */
  readonly readsPerSecond: number;
  readonly writesPerSecond: number;
}

/** A sample with its rates. */
export interface Sample {
  readonly figures: InfoFigures;
  /** Of the whole namespace. */
  readonly requestsPerSecond: number;
  readonly records: readonly Busy[];
}

/** What the next sample is compared with. */
interface Look {
  readonly atMs: number;
  /** Total of all requests. */
  readonly requests: number;
  /** By key, as binary text: maps compare bytes by identity. */
  readonly usages: ReadonlyMap<string, Usage>;
}

/** Remembers one sample, and compares the next with it. */
export class Rates {
  /** Null before the first sample. */
  #before: Look | null = null;

  /**
   * Adds a sample. The first sample, and records that are new in it, use the server's estimate of the last minute.
   * A total that went down belongs to a record that was created again, so it counts from 0.
   *
   * @param atMs a monotonic clock, such as `performance.now()`
   */
  add(atMs: number, figures: InfoFigures, usages: readonly RecordUsage[]): Sample {
    const before = this.#before;
    // The real time between two samples: an interval grows with the time of its calls.
    const seconds = before === null ? 0 : (atMs - before.atMs) / 1000;
    const now = new Map<string, Usage>();
    const records = usages.map(({ key, usage }): Busy => {
      const name = binaryString(key, 0, key.length);
      now.set(name, usage);
      const last = before?.usages.get(name);
      return {
        key,
        usage,
        readsPerSecond: rate(usage.reads, last?.reads, seconds, usage.readsPerMinute),
        writesPerSecond: rate(usage.writes, last?.writes, seconds, usage.writesPerMinute),
      };
    });
    const { requests, requestsPerMinute } = figures;
    this.#before = { atMs, requests, usages: now };
    return {
      figures,
      // A sum that went down lacks the last counts of an object that was restarted: no requests are known of.
      requestsPerSecond: rate(
        Math.max(requests, before?.requests ?? 0),
        before?.requests,
        seconds,
        requestsPerMinute,
      ),
      records,
    };
  }
}

/** Per second. A total that went down began again at 0. */
function rate(
  total: number,
  before: number | undefined,
  seconds: number,
  perMinute: number,
): number {
  if (before === undefined || seconds <= 0) return perMinute / 60;
  return (total < before ? total : total - before) / seconds;
}
