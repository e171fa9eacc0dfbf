/**
 * A limiter of rate-limiter-flexible that counts on the server.
 *
 * The index of the library lacks the base class of stores, and loads all of its stores: both are imported by their files.
 */
import type {
  IRateLimiterStoreOptions,
  RateLimiterRes,
  RateLimiterStoreAbstract,
} from "rate-limiter-flexible";
import Result from "rate-limiter-flexible/lib/RateLimiterRes.js";
import StoreAbstract from "rate-limiter-flexible/lib/RateLimiterStoreAbstract.js";
import { ThrottrError } from "../../wire/edge/error.ts";
import type { OperationCalls } from "../../wire/edge/operation-calls.ts";
import type { ThrottrService } from "../../wire/edge/service.ts";
import {
  BoundedCalls,
  checkBackend,
  valueIn,
  type Batches,
  type Ending,
} from "../shared/bounded-calls.ts";
import { count } from "../shared/counting.ts";
import { FOREVER_MS, wholeMs } from "../shared/lifetime.ts";
import { checkPrefix, recordKey } from "../shared/prefix.ts";

/**
 * What the limiter needs of a server: a client and a service binding both have it.
 *
 * @example
 * const backend: PointsBackend = env.THROTTR;
 */
export type PointsBackend = Pick<OperationCalls, "query" | "purge"> & Pick<ThrottrService, "batch">;

/**
 * Options of the limiter: those of all stores of the library, and these.
 *
 * @example
 * const options: RateLimiterThrottrOptions = { storeClient: env.THROTTR, points: 5, duration: 60 };
 */
export interface RateLimiterThrottrOptions extends Pick<
  IRateLimiterStoreOptions,
  | "keyPrefix"
  | "points"
  | "duration"
  | "execEvenly"
  | "execEvenlyMinDelayMs"
  | "blockDuration"
  | "blockOnConsumed"
  | "inMemoryBlockOnConsumed"
  | "inMemoryBlockDuration"
  | "insuranceLimiter"
> {
  /** The server that counts: a client, or the service binding of a Worker. */
  readonly storeClient: PointsBackend;
  /** How long a call may take, in ms: 1 to 2^31 - 1; 5,000 unless given. One that took longer may have counted. */
  readonly timeoutMs?: number | undefined;
}

/** Keys of the library. Where `keyPrefix` is empty, it passes on numbers as they are. */
type Key = string | number;

/** Points of a key in the store. */
interface Points {
  readonly consumed: number;
  /** -1 for points that stay. */
  readonly msBeforeNext: number;
  readonly isNew: boolean;
}

/**
 * The quota of a counter without consumed points. Quotas have no sign, and rewards may lead below 0; a power of ten, so
 * that people can read the points in a list of records.
 */
const ZERO = 10 ** 15;

const REPLACE_ATTEMPTS = 3;

/** Its types are those that the main module of the library shows: files of its `lib` have none. */
const Base: typeof RateLimiterStoreAbstract = StoreAbstract;

/**
 * A limiter of rate-limiter-flexible 11: exact counters, shared by all processes and isolates.
 *
 * `consume`, `penalty`, `reward`, `get`, `set`, `block` and `delete` are one call to the server each; the one `consume` that
 * blocks a key for `blockDuration` is two. Points are integers. A call that fails, or takes longer than `timeoutMs`, rejects
 * with an error, or asks the `insuranceLimiter`.
 *
 * @example
 * import { RateLimiterThrottr } from "throttr-edge/rate-limiter-flexible";
 *
 * const limiter = new RateLimiterThrottr({ storeClient: env.THROTTR, points: 5, duration: 60 });
 * const { remainingPoints } = await limiter.consume("203.0.113.7");
 */
export class RateLimiterThrottr extends Base {
  readonly #throttr: PointsBackend & Batches;
  readonly #calls: BoundedCalls;

  /**
   * @throws Error without a `storeClient`; ThrottrError `option_invalid`; RateLimitError `configuration_invalid` for what is
   * not a server, and for a `keyPrefix` above 127 bytes; what the library throws for its options
   */
  constructor(options: RateLimiterThrottrOptions) {
    super(options);
    const { storeClient, timeoutMs } = options;
    if (storeClient == null) throw new Error("storeClient is not set");
    this.#throttr = checkBackend(storeClient, "storeClient");
    this.#calls = new BoundedCalls(storeClient, { timeoutMs });
    this.#prefix();
  }

  // The names and parameters of these four are those of the library, which calls them.

  /** @param isForced sets points and duration, whatever there was */
  _upsert(rlKey: Key, points: number, msDuration: number, isForced = false): Promise<Points> {
    return this.#call(rlKey, async (record, ending) => {
      if (!Number.isSafeInteger(points)) {
        throw new ThrottrError("amount_invalid", `points: expected an integer, got ${points}`);
      }
      const ttlMs = wholeMs(msDuration);
      if (isForced) return await this.#replace(record, points, ttlMs, ending);
      const change = { amount: points, start: ZERO, ttlMs };
      return pointsOf(await count(this.#throttr, record, change, ending));
    });
  }

  _get(rlKey: Key): Promise<Points | null> {
    return this.#call(rlKey, async (record) => {
      const counter = await this.#throttr.query(record);
      return counter === null ? null : pointsOf({ ...counter, isNew: false });
    });
  }

  _delete(rlKey: Key): Promise<boolean> {
    return this.#call(rlKey, async (record) => await this.#throttr.purge(record));
  }

  _getRateLimiterRes(_rlKey: Key, _changed: number, points: Points): RateLimiterRes {
    const { consumed, msBeforeNext, isNew } = points;
    return new Result(Math.max(this.points - consumed, 0), msBeforeNext, consumed, isNew);
  }

  /** Nothing comes between the two operations of a batch on one key, unless a client had to send them one by one. */
  async #replace(record: string, points: number, ttlMs: number, ending: Ending): Promise<Points> {
    const quota = BigInt(ZERO) + BigInt(points);
    for (let attempt = 1; attempt <= REPLACE_ATTEMPTS; attempt++) {
      const [removed, inserted] = await this.#throttr.batch(
        [
          ["purge", record],
          ["insert", record, { quota, ttlMs }],
        ],
        ...ending,
      );
      valueIn(removed);
      if (valueIn(inserted)) return pointsOf({ quota, ttlMs, isNew: true });
    }
    throw new ThrottrError("exists", "other callers created the key again each time: try again");
  }

  async #call<Answer>(
    rlKey: Key,
    call: (record: string, ending: Ending) => Promise<Answer>,
  ): Promise<Answer> {
    const record = await recordKey(this.#prefix(), this.parseKey(String(rlKey)));
    return await this.#calls.run(async (ending) => await call(record, ending));
  }

  /**
   * The beginning of the name of each record, of the present `keyPrefix`: the library lets its users change that. Only the key
   * behind it is encoded, so that rights to a prefix reach all records.
   *
   * @throws RateLimitError `configuration_invalid`
   */
  #prefix(): string {
    const { keyPrefix } = this;
    return keyPrefix === "" ? "" : checkPrefix(keyPrefix, "keyPrefix", ":");
  }
}

function pointsOf(counter: { quota: bigint; ttlMs: number; isNew: boolean }): Points {
  // The record of a key that stays has an end in a hundred years.
  const isEndless = counter.ttlMs > FOREVER_MS / 2;
  return {
    consumed: Number(counter.quota - BigInt(ZERO)),
    msBeforeNext: isEndless ? -1 : counter.ttlMs,
    isNew: counter.isNew,
  };
}
