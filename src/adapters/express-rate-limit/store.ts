/** The store of express-rate-limit and hono-rate-limiter, which have one interface. */
import type { Clock } from "../../wire/clock.ts";
import type { FieldNames } from "../../wire/edge/argument.ts";
import type { OperationCalls } from "../../wire/edge/operation-calls.ts";
import type { ThrottrService } from "../../wire/edge/service.ts";
import { configurationInvalid } from "../../wire/ratelimit/error.ts";
import { clockOf, systemClock, type LegacyClock } from "../../ratelimit/clock.ts";
import { optionsOf } from "../../ratelimit/known-options.ts";
import { BoundedCalls, checkBackend, type Ending } from "../shared/bounded-calls.ts";
import { count, type Counted } from "../shared/counting.ts";
import { FOREVER_MS } from "../shared/lifetime.ts";
import { checkPrefix, recordKey } from "../shared/prefix.ts";

/**
 * Counts. A client of Throttr Edge does, and so does the binding of a Worker to it.
 *
 * @example
 * const backend: CounterBackend = env.THROTTR;
 */
export type CounterBackend = Pick<OperationCalls, "decrease" | "query" | "purge" | "removeAll"> &
  Pick<ThrottrService, "batch">;

/**
 * Where a store counts.
 *
 * @example
 * const options: ThrottrStoreOptions = { throttr: env.THROTTR, prefix: "login:" };
 */
export interface ThrottrStoreOptions {
  readonly throttr: CounterBackend;
  /**
   * Keys of records begin with it, so that limiters do not share counters: 1 to 128 bytes; `erl:` unless given, `hrl:` for
   * the store of `throttr-edge/hono`. No prefix of one namespace may begin with another one: nothing ends it, so that `a`
   * with the key `bc` and `ab` with `c` are one record.
   */
  readonly prefix?: string | undefined;
  /** How long a call may take, in ms: 1 to 2^31 - 1; 5,000 unless given. One that took longer may have counted. */
  readonly timeoutMs?: number | undefined;
  /** The platform's unless given. */
  readonly clock?: Clock | LegacyClock | undefined;
}

/**
 * How often a client came, and when that is forgotten.
 *
 * @example
 * const { totalHits, resetTime }: ClientHits = await store.increment("203.0.113.7");
 */
export interface ClientHits {
  totalHits: number;
  /** By our clock. */
  resetTime: Date;
}

const OPTIONS: FieldNames<ThrottrStoreOptions> = {
  throttr: true,
  prefix: true,
  timeoutMs: true,
  clock: true,
};
const PREFIX = "erl:";

/**
 * A `Store` of express-rate-limit 8, and of hono-rate-limiter 0.5: exact counters, shared by all processes and
 * isolates. Windows are fixed, and begin with the first request of a client.
 *
 * Each method is one call to the server. Keys are any text; see `encodeKey`. A call that fails, rejects: `passOnStoreError`
 * of express-rate-limit says whether the request passes then.
 *
 * @example
 * import { rateLimit } from "express-rate-limit";
 * import { http, ThrottrClient } from "throttr-edge/client";
 * import { ThrottrStore } from "throttr-edge/express-rate-limit";
 *
 * const throttr = new ThrottrClient(http("https://throttr.example.com", { token }));
 * app.use(rateLimit({ windowMs: 60_000, limit: 100, store: new ThrottrStore({ throttr }) }));
 */
export class ThrottrStore {
  /** What stands before keys. */
  readonly prefix: string;
  /** False: keys that one store counts, others of the same prefix count too. */
  readonly localKeys = false;
  readonly #throttr: CounterBackend;
  readonly #clock: Clock;
  readonly #calls: BoundedCalls;
  #windowMs: number | null = null;

  /**
   * @param defaultPrefix of stores for other libraries
   * @throws RateLimitError `configuration_invalid`, ThrottrError `option_invalid`
   */
  constructor(options: ThrottrStoreOptions, defaultPrefix = PREFIX) {
    const { throttr, prefix = defaultPrefix, timeoutMs, clock } = optionsOf(options, OPTIONS);
    this.prefix = checkPrefix(prefix);
    this.#throttr = checkBackend(throttr);
    this.#clock = clockOf(clock ?? systemClock);
    this.#calls = new BoundedCalls(throttr, { timeoutMs, clock: this.#clock });
  }

  /** Takes the window of a middleware; the middleware calls it before anything else. */
  init({ windowMs }: { windowMs: number }): void {
    if (!(windowMs > 0)) {
      throw configurationInvalid("windowMs", "expected milliseconds above 0", windowMs);
    }
    this.#windowMs = Math.min(Math.ceil(windowMs), FOREVER_MS);
  }

  /** How often a client came; undefined where it did not. */
  async get(key: string): Promise<ClientHits | undefined> {
    const counter = await this.#call(key, async (record) => await this.#throttr.query(record));
    return counter === null ? undefined : this.#hitsOf(counter);
  }

  /** Counts a request of a client. */
  async increment(key: string): Promise<ClientHits> {
    const ttlMs = this.#windowMs;
    if (ttlMs === null) {
      throw configurationInvalid("windowMs", "expected a call of init first", null);
    }
    const counter = await this.#call(key, async (record, ending) => {
      return await count(this.#throttr, record, { amount: 1, start: 0, ttlMs }, ending);
    });
    return this.#hitsOf(counter);
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
    await this.#calls.run(async () => await this.#throttr.removeAll(this.prefix));
  }

  async #call<Result>(
    key: string,
    call: (record: string, ending: Ending) => Promise<Result>,
  ): Promise<Result> {
    const record = await recordKey(this.prefix, key);
    return await this.#calls.run(async (ending) => await call(record, ending));
  }

  /** By our clock: the caller has no other. */
  #hitsOf({ quota, ttlMs }: Omit<Counted, "isNew">): ClientHits {
    return { totalHits: Number(quota), resetTime: new Date(this.#clock.nowMs() + ttlMs) };
  }
}
