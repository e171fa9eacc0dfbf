/**
 * What a server does whose time moves in whole hours: counters that end, and limits whose windows end and whose buckets
 * refill. Written from docs/guarantees.md and docs/rate-limits.md.
 *
 * The time that a test really takes, minutes at most, comes on top: it adds less than an hour to what has passed, and all
 * ends are whole hours away from their begin.
 */

/** Quota of a fixed window of two hours, which begins with its first request. */
export const WINDOW = { hours: 2, limit: 3 };
/** A bucket that gets a token an hour. */
export const BUCKET = { burst: 4, tokensAnHour: 1 };

interface Counter {
  quota: number;
  endsAtHour: number;
}

export class HoursModel {
  #hour = 0;
  readonly #counters = new Map<string, Counter>();
  readonly #windows = new Map<string, { endsAtHour: number; used: number }>();
  readonly #buckets = new Map<string, { tokens: number; atHour: number }>();

  advance(hours: number): void {
    this.#hour += hours;
  }

  /** A counter that has ended is a new one; one that lives keeps its end. */
  increment(key: string, ttlHours: number): number {
    const counter = this.#alive(key) ?? { quota: 0, endsAtHour: this.#hour + ttlHours };
    counter.quota++;
    this.#counters.set(key, counter);
    return counter.quota;
  }

  /** Quota and whole hours to its end. */
  query(key: string): { quota: number; hours: number } | null {
    const counter = this.#alive(key);
    return counter === undefined
      ? null
      : { quota: counter.quota, hours: counter.endsAtHour - this.#hour };
  }

  /** Keys of all counters that live. */
  keys(): string[] {
    return [...this.#counters.keys()].filter((key) => this.#alive(key) !== undefined).toSorted();
  }

  window(key: string): { success: boolean; remaining: number } {
    let window = this.#windows.get(key);
    if (window === undefined || window.endsAtHour <= this.#hour) {
      window = { endsAtHour: this.#hour + WINDOW.hours, used: 0 };
      this.#windows.set(key, window);
    }
    const success = window.used < WINDOW.limit;
    if (success) window.used++;
    return { success, remaining: WINDOW.limit - window.used };
  }

  bucket(key: string): { success: boolean; remaining: number } {
    const bucket = this.#buckets.get(key) ?? { tokens: BUCKET.burst, atHour: this.#hour };
    const refilled = bucket.tokens + (this.#hour - bucket.atHour) * BUCKET.tokensAnHour;
    bucket.tokens = Math.min(BUCKET.burst, refilled);
    bucket.atHour = this.#hour;
    this.#buckets.set(key, bucket);
    const success = bucket.tokens >= 1;
    if (success) bucket.tokens--;
    return { success, remaining: bucket.tokens };
  }

  #alive(key: string): Counter | undefined {
    const counter = this.#counters.get(key);
    return counter !== undefined && counter.endsAtHour > this.#hour ? counter : undefined;
  }
}
