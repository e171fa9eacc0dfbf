/** The storage of @nestjs/throttler: hits and blocks of a key are one counter of the server. */
import { invalid, type FieldNames } from "../../wire/edge/argument.ts";
import type { ThrottrService } from "../../wire/edge/service.ts";
import { optionsOf } from "../../ratelimit/known-options.ts";
import {
  BoundedCalls,
  checkBackend,
  valueIn,
  type Batches,
  type CallLimits,
  type Ending,
} from "../shared/bounded-calls.ts";
import { count } from "../shared/counting.ts";
import { FOREVER_MS } from "../shared/lifetime.ts";
import { checkPrefix, recordKey } from "../shared/prefix.ts";

/**
 * What the storage needs of a server: a client and a service binding both have it.
 *
 * @example
 * const backend: HitsBackend = throttr;
 */
export type HitsBackend = Pick<ThrottrService, "batch">;

/**
 * Options of `ThrottrStorage`.
 *
 * @example
 * const options: ThrottrStorageOptions = { throttr, prefix: "api:" };
 */
export interface ThrottrStorageOptions extends CallLimits {
  /** The server that counts: a client, or a service binding. */
  readonly throttr: HitsBackend;
  /**
   * Keys of records begin with it: 1 to 128 bytes; `nest:` unless given. No prefix of one namespace may begin with another one:
   * nothing ends it, so that `a` with the key `bc` and `ab` with `c` are one record.
   */
  readonly prefix?: string | undefined;
}

/**
 * `ThrottlerStorageRecord` of @nestjs/throttler 6. Times are seconds, rounded up.
 *
 * @example
 * const { isBlocked }: ThrottlerHits = await storage.increment(key, 60_000, 10, 60_000, "default");
 */
export interface ThrottlerHits {
  /** Hits of the window with this one; the limit and one while the key is blocked. */
  totalHits: number;
  /** Until the hits are forgotten, and with them a block. */
  timeToExpire: number;
  isBlocked: boolean;
  /** 0 while the key is not blocked. */
  timeToBlockExpire: number;
}

const OPTIONS: FieldNames<ThrottrStorageOptions> = {
  throttr: true,
  prefix: true,
  timeoutMs: true,
  clock: true,
};

/** The quota of a blocked key, above any count of hits: its record ends with the block. */
const BLOCKED = 2n ** 63n;

/**
 * A storage for @nestjs/throttler 6, exact for all processes that share a server. A window begins with the first hit and
 * lasts `ttl`. A hit above its limit blocks the key for `blockDuration`; then its hits begin anew. Without a
 * `blockDuration`, 0, the key is refused until its window ends. Hits of a blocked key don't count.
 *
 * A decision is one call to the server; one that blocks a key is two. A hit above the limit that comes between the two
 * blocks the key as well, and the block ends with the later one.
 * A call that fails rejects with a ThrottrError, and Nest answers 500.
 *
 * @example
 * import { ThrottlerModule } from "@nestjs/throttler";
 * import { ThrottrStorage } from "throttr-edge/nestjs";
 *
 * const storage = new ThrottrStorage({ throttr });
 * ThrottlerModule.forRoot({ throttlers: [{ ttl: 60_000, limit: 10 }], storage });
 */
export class ThrottrStorage {
  readonly #throttr: Batches;
  readonly #prefix: string;
  readonly #calls: BoundedCalls;

  /** @throws RateLimitError `configuration_invalid`, ThrottrError `option_invalid` */
  constructor(options: ThrottrStorageOptions) {
    const { throttr, prefix = "nest:", ...limits } = optionsOf(options, OPTIONS);
    this.#throttr = checkBackend(throttr);
    this.#prefix = checkPrefix(prefix);
    this.#calls = new BoundedCalls(throttr, limits);
  }

  /**
   * Counts a hit. The parameters are those of `ThrottlerStorage`, which the guard calls.
   *
   * @param ttl of a window, in ms
   * @param blockDuration in ms; 0 for a key that is refused until its window ends
   * @throws ThrottrError `argument_invalid` for a limit that is not a number; or as a call
   */
  async increment(
    key: string,
    ttl: number,
    limit: number,
    blockDuration: number,
    throttlerName: string,
  ): Promise<ThrottlerHits> {
    // Any count would be above it, and each key blocked.
    if (typeof limit !== "number" || Number.isNaN(limit)) {
      throw invalid("limit", "a number", limit, "argument_invalid");
    }
    const record = await recordKey(this.#prefix, `${throttlerName}\0${key}`);
    const hit = { amount: 1, start: 0, ttlMs: msOf(ttl) };
    const { quota, ttlMs } = await this.#calls.run(
      async (ending) => await count(this.#throttr, record, hit, ending),
    );
    const isBlocked = quota >= BLOCKED;
    if (!isBlocked && quota <= limit) return hitsOf(Number(quota), ttlMs);
    if (isBlocked || blockDuration <= 0) return blockedOf(limit, ttlMs);
    const blockMs = msOf(blockDuration);
    await this.#calls.run(async (ending) => await this.#block(record, blockMs, ending));
    return blockedOf(limit, blockMs);
  }

  /** Blocks a key, also one whose window has ended since its hit was counted. */
  async #block(record: string, ttlMs: number, ending: Ending): Promise<void> {
    const outcomes = await this.#throttr.batch(
      [
        ["insert", record, { quota: BLOCKED, ttlMs }],
        ["patch", record, BLOCKED],
        ["ttl", record, { ttlMs }],
      ],
      ...ending,
    );
    for (const outcome of outcomes) valueIn<unknown>(outcome);
  }
}

function msOf(duration: number): number {
  return Math.min(Math.max(1, Math.ceil(duration)), FOREVER_MS);
}

function hitsOf(totalHits: number, ttlMs: number): ThrottlerHits {
  return { totalHits, timeToExpire: secondsOf(ttlMs), isBlocked: false, timeToBlockExpire: 0 };
}

function blockedOf(limit: number, ttlMs: number): ThrottlerHits {
  const seconds = secondsOf(ttlMs);
  return {
    totalHits: limit + 1,
    timeToExpire: seconds,
    isBlocked: true,
    timeToBlockExpire: seconds,
  };
}

function secondsOf(ms: number): number {
  return Math.ceil(ms / 1000);
}
