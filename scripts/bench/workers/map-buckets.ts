/**
 * A yardstick for decisions without a call: token buckets in a `Map` of the isolate. It counts in this isolate alone, and
 * forgets with it; its result has the fields of ours.
 */
interface Bucket {
  tokens: number;
  atMs: number;
}

interface Verdict {
  readonly success: boolean;
  readonly limit: number;
  readonly remaining: number;
  readonly reset: number;
  readonly retryAfterMs: number;
}

export class MapBuckets {
  readonly #buckets = new Map<string, Bucket>();
  readonly #burst: number;
  readonly #ratePerMs: number;

  constructor(burst: number, ratePerS: number) {
    this.#burst = burst;
    this.#ratePerMs = ratePerS / 1000;
  }

  async limit(key: string): Promise<Verdict> {
    const nowMs = Date.now();
    const limit = this.#burst;
    let bucket = this.#buckets.get(key);
    if (bucket === undefined) {
      bucket = { tokens: limit, atMs: nowMs };
      this.#buckets.set(key, bucket);
    }
    bucket.tokens = Math.min(limit, bucket.tokens + (nowMs - bucket.atMs) * this.#ratePerMs);
    bucket.atMs = nowMs;
    const success = bucket.tokens >= 1;
    if (success) bucket.tokens -= 1;
    const missing = success ? 0 : 1 - bucket.tokens;
    return {
      success,
      limit,
      remaining: Math.floor(bucket.tokens),
      reset: nowMs + (limit - bucket.tokens) / this.#ratePerMs,
      retryAfterMs: Math.ceil(missing / this.#ratePerMs),
    };
  }
}
