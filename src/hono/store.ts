/** A store for hono-rate-limiter, so that its users need change but one line. */
import type { Clock } from "../wire/clock.ts";
import { clockOf, systemClock, type LegacyClock } from "../ratelimit/clock.ts";
import { optionsOf } from "../ratelimit/known-options.ts";
import type { FieldNames } from "../wire/edge/argument.ts";
import { encodeKey } from "../ratelimit/key.ts";
import { ThrottrError } from "../wire/edge/error.ts";
import type { CounterChange, CounterRecord, IncrementOptions } from "../wire/edge/operations.ts";
import { configurationInvalid } from "../wire/ratelimit/error.ts";

/**
 * Counts. A client of Throttr Edge does, and so does the binding of a Worker to it.
 *
 * @example
 * const backend: CounterBackend = env.THROTTR;
 */
export interface CounterBackend {
  /** Adds to a counter, or makes one, and gives its new quota. */
  increment(key: string, options: IncrementOptions): PromiseLike<bigint>;
  /** Adds to a counter; null where there is none. */
  increase(key: string, amount: number): PromiseLike<CounterChange | null>;
  /** Subtracts from a counter, if it has as much; null where there is none. */
  decrease(key: string, amount: number): PromiseLike<CounterChange | null>;
  /** A counter; null where there is none. */
  query(key: string): PromiseLike<CounterRecord | null>;
  /** Removes a counter; false where there is none. */
  purge(key: string): PromiseLike<boolean>;
  /** Removes all records of a prefix, and gives their number. */
  removeAll(prefix: string): PromiseLike<number>;
}

/**
 * Where a store counts.
 *
 * @example
 * const options: ThrottrStoreOptions = { throttr: env.THROTTR, prefix: "login:" };
 */
export interface ThrottrStoreOptions {
  readonly throttr: CounterBackend;
  /** Keys of records begin with it, so that limiters do not share counters: 1 to 128 bytes; `hrl:` unless given. */
  readonly prefix?: string;
  /** The platform's unless given. */
  readonly clock?: Clock | LegacyClock;
}

/**
 * How often a client came, and when that is forgotten.
 *
 * @example
 * const { totalHits, resetTime }: ClientHits = await store.increment("203.0.113.7");
 */
export interface ClientHits {
  totalHits: number;
  resetTime?: Date;
}

const OPTIONS: FieldNames<ThrottrStoreOptions> = { throttr: true, prefix: true, clock: true };
const PREFIX = "hrl:";
const PREFIX_BYTES_MAX = 128;

/**
 * A `Store` of hono-rate-limiter 0.5: exact counters, shared by all isolates. Windows are fixed, and begin
 * with the first request of a client.
 *
 * A request is one call, two where it is the first of its window. Keys are any text; see `encodeKey`.
 *
 * @example
 * import { rateLimiter } from "hono-rate-limiter";
 * import { ThrottrStore } from "throttr-edge/hono";
 *
 * app.use(
 *   rateLimiter({
 *     windowMs: 60_000,
 *     limit: 100,
 *     keyGenerator: (c) => c.req.header("cf-connecting-ip") ?? "unknown",
 *     store: new ThrottrStore({ throttr }),
 *   }),
 * );
 */
export class ThrottrStore {
  /** What stands before keys. */
  readonly prefix: string;
  /** Keys that one store counts, others of the same prefix count too. */
  readonly localKeys = false;
  readonly #throttr: CounterBackend;
  readonly #clock: Clock;
  #windowMs: number | null = null;

  /** @throws RateLimitError `configuration_invalid` */
  constructor(options: ThrottrStoreOptions) {
    const { throttr, prefix = PREFIX, clock = systemClock } = optionsOf(options, OPTIONS);
    const bytes = new TextEncoder().encode(prefix).length;
    if (bytes < 1 || bytes > PREFIX_BYTES_MAX) {
      throw configurationInvalid("prefix", `expected 1 to ${PREFIX_BYTES_MAX} bytes`, prefix);
    }
    this.prefix = prefix;
    this.#throttr = throttr;
    this.#clock = clockOf(clock);
  }

  /** Takes the window of a middleware; it is called before anything else. */
  init({ windowMs }: { windowMs: number }): void {
    this.#windowMs = Math.ceil(windowMs);
  }

  /** How often a client came; undefined where it did not. */
  async get(key: string): Promise<ClientHits | undefined> {
    const counter = await this.#call(key, async (record) => await this.#throttr.query(record));
    return counter === null ? undefined : this.#hitsOf(counter);
  }

  /** Counts a request of a client. */
  async increment(key: string): Promise<ClientHits> {
    const ttlMs = this.#windowMs;
    if (ttlMs === null)
      throw configurationInvalid("windowMs", "expected a call of init first", null);
    return await this.#call(key, async (record) => {
      // The one that exists tells when it ends, which `increment` does not.
      const counter = await this.#throttr.increase(record, 1);
      if (counter !== null) return this.#hitsOf(counter);
      return this.#hitsOf({ quota: await this.#throttr.increment(record, { ttlMs }), ttlMs });
    });
  }

  /** Counts a request less. A count of 0 stays, and a window that has ended. */
  async decrement(key: string): Promise<void> {
    await this.#call(key, async (record) => await this.#throttr.decrease(record, 1));
  }

  /** Forgets the requests of a client. */
  async resetKey(key: string): Promise<void> {
    await this.#call(key, async (record) => await this.#throttr.purge(record));
  }

  /** Forgets the requests of all clients: it removes every record whose key begins with the prefix. */
  async resetAll(): Promise<void> {
    await failing(async () => await this.#throttr.removeAll(this.prefix));
  }

  async #call<Result>(key: string, call: (record: string) => Promise<Result>): Promise<Result> {
    // Stores take an empty key too: its record is the prefix alone, which no other key becomes.
    const record = this.prefix + (key === "" ? "" : await encodeKey(key));
    return await failing(async () => await call(record));
  }

  /** By our clock: the one who asks has no other. */
  #hitsOf({ quota, ttlMs }: { quota: bigint; ttlMs: number }): ClientHits {
    return { totalHits: Number(quota), resetTime: new Date(this.#clock.nowMs() + ttlMs) };
  }
}

/** @throws ThrottrError */
async function failing<Result>(call: () => Promise<Result>): Promise<Result> {
  try {
    return await call();
  } catch (error) {
    throw ThrottrError.from(error, "outcome_unknown");
  }
}
