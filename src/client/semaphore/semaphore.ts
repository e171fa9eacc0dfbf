/** Semaphores: the client waits for room, acquires a lease, renews it, and releases it. */
/// <reference lib="esnext.disposable" preserve="true" />
import {
  checkOptions,
  integerOf,
  invalid,
  semaphoreNameOf,
  type FieldNames,
  type Text,
} from "../../wire/edge/argument.ts";
import { pause, TIMER_MS_MAX } from "../../wire/clock.ts";
import { LEASE_TTL_MS_MAX, U32_MAX } from "../../wire/edge/command.ts";
import type { Code } from "../../wire/edge/codes.ts";
import { UNKNOWN_CODES } from "../../wire/edge/outcome-codes.ts";
import { ThrottrError } from "../../wire/edge/error.ts";
import type { Lease } from "../../wire/edge/semaphores.ts";
import { backoffMs } from "../timing/backoff.ts";
import { momentOf, type Moment } from "../timing/clock.ts";
import type { CallOptions } from "../calls/call.ts";
import { Held } from "./held-lease.ts";
import { newRandomLeaseId } from "./lease-id.ts";
import type { HeldLease, LeaseCalls, Leases } from "./leases.ts";
import { wholeOption, type Settings } from "../options.ts";
import { platform, type Signal } from "../platform.ts";

/** The shortest TTL. Leases are renewed after a third of it, so this is three calls a second. */
const TTL_MS_MIN = 1000;
const TTL_MS = 30_000;
/** How long `with` waits. */
const WAIT_MS = 10_000;
/** Bounds of the waits between two attempts: they double, up to the second. */
const POLLING = { backoffBaseMs: 100, backoffMaxMs: 2000 };

/** Defaults for the calls of a semaphore. */
export interface SemaphoreOptions {
  /** How many resources a lease holds: 1 to 2^32 - 1; 1 unless given. */
  readonly resources?: number | undefined;
  /**
   * How long a lease lasts without being renewed, in ms: 1,000 to 86,400,000; 30,000 unless given. The client renews it
   * after a third of that.
   */
  readonly ttlMs?: number | undefined;
}

/** Options of one acquisition. */
export interface HoldOptions extends SemaphoreOptions {
  /**
   * How long to wait for room, in ms: 0, for a single attempt, to 2^31 - 1. `acquire` makes a single attempt unless given,
   * `with` waits 10,000 ms. Each attempt has the client's `timeoutMs` besides.
   */
  readonly waitMs?: number | undefined;
  /** Ends the wait with `aborted`. A lease that is held already stays held. */
  readonly signal?: Signal | undefined;
}

export const SEMAPHORE: FieldNames<SemaphoreOptions> = { resources: true, ttlMs: true };

const HOLD: FieldNames<HoldOptions> = { ...SEMAPHORE, waitMs: true, signal: true };

/**
 * A semaphore: all callers together hold at most `maximum` resources at a time.
 *
 * Waiting callers are served in no particular order. A lease that is neither released nor renewed ends with its TTL.
 *
 * @example
 * const gpu = throttr.semaphore("gpu", 4, { ttlMs: 10_000 });
 * const image = await gpu.with(({ signal }) => render(scene, { signal }));
 */
export interface Semaphore {
  readonly name: Text;
  readonly maximum: number;
  /**
   * Acquires a lease; null when there is no room.
   *
   * Rejects with ThrottrError `option_invalid`, `maximum_invalid`, `aborted`, `closed`, `lease_lost` where the answer came
   * so late that the lease may have ended, as on a machine that was suspended, or as any call.
   */
  acquire(options?: HoldOptions): Promise<HeldLease | null>;
  /**
   * Runs a function while it holds a lease, and releases it afterwards. It settles as the function does, except where the
   * lease was lost before the function resolved: then it rejects with `lease_lost`, as others may have run meanwhile.
   *
   * Rejects with ThrottrError `semaphore_unavailable`, without running the function, when there was no room for `waitMs`; or
   * as `acquire` does.
   */
  with<Result>(
    run: (lease: HeldLease) => Result | PromiseLike<Result>,
    options?: HoldOptions,
  ): Promise<Result>;
}

interface Wanted {
  readonly resources: number;
  readonly ttlMs: number;
  readonly waitMs: number;
  readonly signal: Signal | undefined;
}

export class LeasedSemaphore implements Semaphore {
  readonly name: Text;
  readonly maximum: number;
  readonly #options: SemaphoreOptions;
  readonly #calls: LeaseCalls;
  readonly #settings: Settings;
  readonly #leases: Leases;

  /** @throws ThrottrError `name_invalid`, `maximum_invalid`, `option_invalid` */
  constructor(
    name: Text,
    maximum: number,
    options: SemaphoreOptions,
    calls: LeaseCalls,
    settings: Settings,
    leases: Leases,
  ) {
    semaphoreNameOf(name);
    // A copy, as a caller may use its buffer again; `slice` of a Buffer makes none.
    this.name = typeof name === "string" ? name : new Uint8Array(name);
    this.maximum = integerOf(maximum, "maximum", 1, U32_MAX);
    this.#options = options;
    this.#calls = calls;
    this.#settings = settings;
    this.#leases = leases;
    this.#wantedOf(options, 0);
  }

  async acquire(options: HoldOptions = {}): Promise<HeldLease | null> {
    checkOptions(options, HOLD, "acquire");
    return await this.#acquire(this.#wantedOf(options, 0));
  }

  async with<Result>(
    run: (lease: HeldLease) => Result | PromiseLike<Result>,
    options: HoldOptions = {},
  ): Promise<Result> {
    if (typeof run !== "function") {
      throw invalid("run", "a function", run, "argument_invalid");
    }
    checkOptions(options, HOLD, "with");
    const wanted = this.#wantedOf(options, WAIT_MS);
    const lease = await this.#acquire(wanted);
    if (lease === null) {
      const detail = `${wanted.resources} of ${this.maximum} did not become free within ${wanted.waitMs} ms`;
      throw new ThrottrError("semaphore_unavailable", detail);
    }
    try {
      const result = await run(lease);
      lease.assertHeld();
      return result;
    } finally {
      await lease[Symbol.asyncDispose]();
    }
  }

  /** @throws ThrottrError `option_invalid` */
  #wantedOf(options: HoldOptions, waitMs: number): Wanted {
    const { resources, ttlMs } = this.#options;
    return {
      resources: wholeOption("resources", options.resources ?? resources, 1, U32_MAX),
      ttlMs: wholeOption("ttlMs", options.ttlMs ?? ttlMs, TTL_MS, LEASE_TTL_MS_MAX, TTL_MS_MIN),
      waitMs: wholeOption("waitMs", options.waitMs, waitMs, TIMER_MS_MAX, 0),
      signal: options.signal,
    };
  }

  async #acquire(wanted: Wanted): Promise<Held | null> {
    const { clock } = this.#settings;
    const leaseId = newRandomLeaseId();
    const endMs = clock.nowMs() + wanted.waitMs;
    for (let step = 0; ; step++) {
      const sentAt = momentOf(clock);
      const lease = await this.#attempt(leaseId, wanted);
      if (lease !== null) {
        return await this.#held(lease, wanted.ttlMs, sentAt);
      }
      const leftMs = Math.ceil(endMs - clock.nowMs());
      if (leftMs <= 0) return null;
      const delayMs = Math.min(leftMs, 1 + backoffMs(POLLING, step, clock.random()));
      await this.#pause(delayMs, wanted.signal);
    }
  }

  /** @throws ThrottrError `lease_lost` for a lease that may have ended before its answer came, or behind a close */
  async #held(lease: Lease, ttlMs: number, sentAt: Moment): Promise<Held> {
    const held = new Held(lease, ttlMs, sentAt, this.#calls, this.#settings, this.#leases);
    if (held.isHeld) return held;
    await held[Symbol.asyncDispose]();
    throw held.signal.reason;
  }

  /** @throws ThrottrError `aborted`, `closed` */
  async #pause(delayMs: number, signal: Signal | undefined): Promise<void> {
    const closing = new platform.AbortController();
    const wait = { close: () => closing.abort() };
    this.#leases.add(wait);
    try {
      await pause(delayMs, this.#settings.clock, [closing.signal, signal]);
    } catch (cause) {
      throw closing.signal.aborted
        ? new ThrottrError("closed", "the client was closed: nothing is held")
        : abortedBy(cause);
    } finally {
      this.#leases.delete(wait);
    }
  }

  async #attempt(leaseId: string, wanted: Wanted): Promise<Lease | null> {
    const { resources, ttlMs, signal } = wanted;
    if (signal?.aborted) throw abortedBy(signal.reason);
    const options: CallOptions = { signal, timeoutMs: Math.min(ttlMs, this.#settings.timeoutMs) };
    try {
      return await this.#calls.acquire(this.name, {
        resources,
        maximum: this.maximum,
        ttlMs,
        leaseId,
        ...options,
      });
    } catch (error) {
      // The lease may be held though the call failed. If releasing it fails, too, it ends with its TTL.
      if (UNKNOWN_CODES.includes((error as ThrottrError).code as Code)) {
        this.#calls.release(this.name, leaseId).catch(() => {});
      }
      throw error;
    }
  }
}

function abortedBy(cause: unknown): ThrottrError {
  return new ThrottrError("aborted", "the signal was aborted: nothing is held", { cause });
}
