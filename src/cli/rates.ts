/** Rates of records: what lies between one look at them and the next. */
import type { InfoFigures } from "../wire/throttr/info.ts";
import { binaryString } from "../wire/bytes.ts";
import type { RecordUsage, Usage } from "./usage.ts";

/** A record, and how busy it was since the look before. */
export interface Busy extends RecordUsage {
  readonly readsPerSecond: number;
  readonly writesPerSecond: number;
}

/** One look. */
export interface Sample {
  readonly figures: InfoFigures;
  readonly requestsPerSecond: number;
  readonly records: readonly Busy[];
}

interface Look {
  readonly atMs: number;
  readonly requests: number;
  readonly usages: ReadonlyMap<string, Usage>;
}

export class Rates {
  #before: Look | null = null;

  /**
   * Adds a look. Of the first one, and of records that are new, the server's estimates of the last
   * minute stand for rates; what has started anew meanwhile counts from 0.
   *
   * @param atMs by a clock that is never set back
   */
  add(atMs: number, figures: InfoFigures, usages: readonly RecordUsage[]): Sample {
    const before = this.#before;
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
      requestsPerSecond: rate(requests, before?.requests, seconds, requestsPerMinute),
      records,
    };
  }
}

function rate(
  total: number,
  before: number | undefined,
  seconds: number,
  perMinute: number,
): number {
  if (before === undefined || seconds <= 0) return perMinute / 60;
  return (total < before ? total : total - before) / seconds;
}
