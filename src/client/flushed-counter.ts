/**
 * Counters for statistics: increments add up in memory, and are sent now and then, so no caller waits for them.
 *
 * Amounts leave the memory when they are sent. So an isolate that dies takes along what it has added up since its last
 * flush, and nothing is ever counted twice. Not for limits.
 */
import {
  checkOptions,
  clockOption,
  invalid,
  nameOf,
  ttlOf,
  u64Of,
  type FieldNames,
} from "../wire/edge/argument.ts";
import { ThrottrError } from "../wire/edge/error.ts";
import type { BatchCall, BatchOutcome } from "../wire/edge/service.ts";
import type { Clock } from "../wire/clock.ts";
import { IS_WORKER } from "../wire/is-worker.ts";
import { checkFunction, wholeOption } from "./options.ts";
import { platform } from "./platform.ts";
import { systemClock } from "./timing/clock.ts";

/** What a counter needs of a server: a client, a service binding and an embedded server have it. */
export interface CounterBackend {
  /** Executes operations in order, and gives the outcome of each. */
  batch(calls: readonly BatchCall[]): PromiseLike<readonly BatchOutcome<unknown>[]>;
}

/**
 * How increments are gathered.
 *
 * @example
 * import { waitUntil } from "cloudflare:workers";
 *
 * const options: FlushedCounterOptions = { flushMs: 1_000, ttlMs: 86_400_000, waitUntil };
 */
export interface FlushedCounterOptions {
  /** TTL of a counter that a flush creates, in ms, from 1; an existing counter keeps its own. */
  readonly ttlMs: number;
  /** How long increments are gathered before they are sent, in ms: 10 to 10,000; 1,000 unless given. */
  readonly flushMs?: number | undefined;
  /** Most keys that are gathered: 1 to 10,000; 10,000 unless given. An increment of one more sends them first. */
  readonly keysMax?: number | undefined;
  /**
   * Keeps a flush alive after the response to a request: `waitUntil` of `cloudflare:workers`. A Worker must give it, except
   * to the counter of an embedded server, which has it.
   */
  readonly waitUntil?: ((work: Promise<unknown>) => void) | undefined;
  /** Called when a flush in the background has failed, in whole or in part; unless given, a warning is logged. */
  readonly onError?: ((error: ThrottrError) => void) | undefined;
  /** The clock of the runtime unless given. */
  readonly clock?: Clock | undefined;
}

const OPTIONS: FieldNames<FlushedCounterOptions> = {
  ttlMs: true,
  flushMs: true,
  keysMax: true,
  waitUntil: true,
  onError: true,
  clock: true,
};
const FLUSH_MS = 1_000;
const FLUSH_MS_MIN = 10;
/** In a Worker, `waitUntil` lasts for 30 s. */
const FLUSH_MS_MAX = 10_000;
/** Operations of one batch. */
const KEYS_MAX = 10_000;
const U64_MAX = (1n << 64n) - 1n;
const WAIT_UNTIL = "that of cloudflare:workers";
const CAN_NOT_WAIT = "waitUntil failed: expected (work) => ctx.waitUntil(work)";

/**
 * Certainly not applied, and worth another try. `batch_version` is not among them: a door of release 0.4.0 answers a whole
 * flush with it although other shards have applied their part.
 */
const NOT_APPLIED = [
  "connection_failed",
  "queue_full",
  "shard_full",
  "shards_unsettled",
  "bodies_max",
  "token_expired",
];

/**
 * Counters whose increments are gathered in memory, and sent together: for statistics, such as views of pages.
 *
 * An increment costs no call and no wait; one `increment` for each key is sent every `flushMs`. What was gathered since the
 * last flush is lost with the isolate. A flush whose outcome is unknown is not sent again, so that nothing is counted
 * twice; one that was certainly not applied goes with the next one. The counter of a key is the record `name:key`, which
 * `query` reads.
 *
 * In a Worker, make it once, at module level, over the binding.
 *
 * @example
 * import { env, waitUntil } from "cloudflare:workers";
 * import { FlushedCounter } from "throttr-edge/client";
 *
 * const views = new FlushedCounter(env.THROTTR, "views", { ttlMs: 86_400_000, waitUntil });
 * views.increment(path);
 */
export class FlushedCounter {
  readonly #throttr: CounterBackend;
  readonly #prefix: string;
  readonly #options: FlushedCounterOptions;
  readonly #flushMs: number;
  readonly #keysMax: number;
  readonly #clock: Clock;
  #amounts = new Map<string, bigint>();
  /** Until when a timer is expected to flush. In a Worker it may be lost with its request. */
  #timerUntilMs = -Infinity;
  /** Settled when all flushes so far have an outcome. */
  #sent: Promise<unknown> | undefined;
  /** Clears the timer. */
  #stopWaiting = (): void => {};
  #isClosed = false;
  #hasWarned = false;

  /** @throws ThrottrError `name_invalid`, `option_invalid`, `ttl_invalid`, `argument_invalid` */
  constructor(throttr: CounterBackend, name: string, options: FlushedCounterOptions) {
    checkOptions(options ?? null, OPTIONS, "FlushedCounter");
    if (throttr == null) {
      throw invalid("throttr", "a client or a service binding", throttr, "argument_invalid");
    }
    if (typeof name !== "string") throw invalid("name", "text", name);
    const prefix = `${name}:`;
    nameOf(prefix, "name");
    const { ttlMs, flushMs, keysMax, waitUntil, onError, clock = systemClock } = options;
    ttlOf(ttlMs);
    if (IS_WORKER && waitUntil === undefined) {
      throw invalid("waitUntil", WAIT_UNTIL, waitUntil, "option_invalid");
    }
    checkFunction("waitUntil", waitUntil, WAIT_UNTIL);
    checkFunction("onError", onError);
    this.#throttr = throttr;
    this.#prefix = prefix;
    this.#options = options;
    this.#flushMs = wholeOption("flushMs", flushMs, FLUSH_MS, FLUSH_MS_MAX, FLUSH_MS_MIN);
    this.#keysMax = wholeOption("keysMax", keysMax, KEYS_MAX, KEYS_MAX);
    this.#clock = clockOption(clock);
  }

  /**
   * Adds to the counter of a key, in memory. `name:key` has at most 255 bytes; `by` is an integer from 0 to 2^64 - 1, 1
   * unless given, and so is the sum that waits for a flush.
   *
   * @throws ThrottrError `key_invalid`, `by_invalid`, `closed`; nothing was added
   *
   * @example
   * views.increment("/pricing");
   */
  increment(key: string, by: bigint | number = 1): void {
    if (this.#isClosed) throw new ThrottrError("closed", "the counter was closed");
    if (typeof key !== "string") throw invalid("key", "text", key);
    const stored = this.#prefix + key;
    const known = this.#amounts.get(stored);
    const sum = u64Of((known ?? 0n) + u64Of(by, "by"), "by");
    if (known === undefined) {
      nameOf(stored, "key");
      if (this.#amounts.size >= this.#keysMax) this.#run(this.#send());
    }
    this.#amounts.set(stored, sum);
    this.#flushLater();
  }

  /**
   * Sends what was gathered, and waits until the server has it; for flushes that began before, too, except in a Worker,
   * where a request must not await what another one has sent.
   *
   * @throws ThrottrError of an increment that failed
   *
   * @example
   * await views.flush();
   */
  async flush(): Promise<void> {
    if (IS_WORKER) return await this.#send();
    await this.#sent;
    const sending = this.#send();
    // With those that began during the wait.
    await this.#sent;
    await sending;
  }

  /**
   * Sends the gathered increments, and rejects later ones: for the end of a process. Close it before its client.
   *
   * @throws ThrottrError of an increment that failed; those that were certainly not applied are sent when it is called
   * again
   */
  async close(): Promise<void> {
    this.#isClosed = true;
    try {
      do {
        await this.flush();
        // What another flush put back is sent again. After a failure of its own, `flush` has thrown.
      } while (this.#amounts.size > 0);
    } finally {
      // It would keep the process alive.
      this.#stopWaiting();
    }
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  /** Flushes when the time has come, unless a timer is running. */
  #flushLater(): void {
    const nowMs = this.#clock.nowMs();
    if (nowMs < this.#timerUntilMs) return;
    // One that is later than this was lost with its request.
    this.#timerUntilMs = nowMs + 2 * this.#flushMs;
    const due = new Promise<void>((resolve, stop) => {
      const timer = this.#clock.setTimer(resolve, this.#flushMs);
      this.#stopWaiting = () => {
        this.#clock.clearTimer(timer);
        stop();
      };
    });
    const flushed = due.then(
      () => {
        this.#timerUntilMs = -Infinity;
        return this.#send();
      },
      () => {},
    );
    this.#run(flushed);
  }

  /** Runs work in the background, and reports its failure. */
  #run(work: Promise<void>): void {
    const { waitUntil, onError = warn } = this.#options;
    const done = work.catch((error: unknown) => onError(error as ThrottrError));
    try {
      waitUntil?.(done);
    } catch {
      // The increment was counted, so its caller must not see an error.
      if (!this.#hasWarned) platform.console.warn(`throttr-edge: ${CAN_NOT_WAIT}`);
      this.#hasWarned = true;
    }
  }

  #send(): Promise<void> {
    const amounts = this.#amounts;
    this.#amounts = new Map();
    const sending = this.#sendAll([...amounts]);
    // In a Worker a flush may never end, and a chain of them would stay in memory.
    if (!IS_WORKER) {
      // Without the results, each of which would hold that of the flush before it.
      this.#sent = Promise.allSettled([this.#sent, sending]).then(() => {});
    }
    return sending;
  }

  /** @throws ThrottrError of an increment that failed */
  async #sendAll(entries: readonly [string, bigint][]): Promise<void> {
    if (entries.length === 0) return;
    const { ttlMs } = this.#options;
    let outcomes: readonly BatchOutcome<unknown>[];
    try {
      outcomes = await this.#throttr.batch(
        entries.map(([key, by]) => ["increment", key, { by, ttlMs }]),
      );
    } catch (cause) {
      const error = ThrottrError.from(cause, "outcome_unknown");
      outcomes = entries.map(() => ({ ok: false, error }));
    }
    let failure: ThrottrError | undefined;
    for (const [i, [key, by]] of entries.entries()) {
      const outcome = outcomes[i]!;
      if (outcome.ok) continue;
      failure = ThrottrError.from(outcome.error.message);
      if (NOT_APPLIED.includes(failure.code)) this.#putBack(key, by);
    }
    if (failure !== undefined) throw failure;
  }

  /** Adds what was not applied to the next flush, as far as there is room. */
  #putBack(key: string, by: bigint): void {
    const sum = (this.#amounts.get(key) ?? 0n) + by;
    if (sum > U64_MAX || (sum === by && this.#amounts.size >= this.#keysMax)) return;
    this.#amounts.set(key, sum);
    if (!this.#isClosed) this.#flushLater();
  }
}

function warn({ message }: ThrottrError): void {
  platform.console.warn(`throttr-edge: a flush failed: ${message}`);
}
