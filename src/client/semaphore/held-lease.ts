/** A lease that is held: it is renewed in time, and counts as lost as soon as the server may have ended it. */
/// <reference lib="esnext.disposable" preserve="true" />
import type { Text } from "../../wire/edge/argument.ts";
import { ThrottrError } from "../../wire/edge/error.ts";
import type { Lease } from "../../wire/edge/semaphores.ts";
import { Alarm } from "../timing/alarm.ts";
import { backoffMs } from "../timing/backoff.ts";
import { momentOf, type Moment } from "../timing/clock.ts";
import type { HeldLease, LeaseCalls, Leases } from "./leases.ts";
import type { Settings } from "../options.ts";
import { platform, type Signal } from "../platform.ts";

/** Part of the TTL after which a lease is renewed: two attempts may fail before it ends. */
const RENEWAL_SHARE = 1 / 3;

export class Held implements HeldLease {
  readonly leaseId: string;
  readonly name: Text;
  readonly resources: number;
  readonly #ttlMs: number;
  readonly #calls: LeaseCalls;
  readonly #settings: Settings;
  readonly #leases: Leases;
  readonly #alarm: Alarm;
  readonly #aborter = new platform.AbortController();
  #isHeld = true;
  /** `Infinity` while a renewal is under way. */
  #renewAtMs = 0;
  /** The server may have ended it from then on, by either clock. */
  #endsAt: Moment = { nowMs: 0, wallMs: 0 };
  /** Failed renewals in a row, and the error of the last one. */
  #failures = 0;
  #error: unknown = null;
  #release: Promise<boolean> | null = null;

  /**
   * Not held from the beginning where the lease may have ended before its answer came, or the client was closed.
   *
   * @param sentAt when the server was first asked for it: it ends no earlier than `ttlMs` after that
   */
  constructor(
    lease: Lease,
    ttlMs: number,
    sentAt: Moment,
    calls: LeaseCalls,
    settings: Settings,
    leases: Leases,
  ) {
    this.leaseId = lease.leaseId;
    this.name = lease.name;
    this.resources = lease.resources;
    this.#ttlMs = ttlMs;
    this.#calls = calls;
    this.#settings = settings;
    this.#leases = leases;
    this.#alarm = new Alarm(settings.clock, (nowMs) => this.#ring(nowMs));
    this.#renewed(sentAt);
    if (this.#isHeld) leases.add(this);
  }

  get signal(): Signal {
    return this.#aborter.signal;
  }

  get isHeld(): boolean {
    this.#look();
    return this.#isHeld;
  }

  /** @throws ThrottrError `lease_lost` */
  assertHeld(): void {
    this.#look();
    if (this.signal.aborted) throw this.signal.reason;
  }

  release(): Promise<boolean> {
    this.#end();
    this.#release ??= this.#calls.release(this.name, this.leaseId);
    return this.#release;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    try {
      await this.release();
    } catch {
      // The lease ends by itself at the end of its TTL.
    }
  }

  /** The client was closed: the lease is not renewed any more. */
  close(): void {
    this.#lose("the client was closed and no longer renews the lease", null);
  }

  /** Checks the time itself: code that blocks the thread keeps the alarm from ringing. */
  #look(): void {
    if (this.#isHeld && this.#isOver) this.#loseUnrenewed();
  }

  get #isOver(): boolean {
    const { nowMs, wallMs } = momentOf(this.#settings.clock);
    return nowMs >= this.#endsAt.nowMs || wallMs >= this.#endsAt.wallMs;
  }

  #ring(nowMs: number): number {
    if (this.#isOver) {
      this.#loseUnrenewed();
      return Infinity;
    }
    if (nowMs >= this.#renewAtMs) void this.#renew();
    // While a renewal is under way, too: the lease may end with a suspension, during which timers stand still.
    return Math.min(this.#dueAtMs, nowMs + this.#ttlMs * RENEWAL_SHARE);
  }

  get #dueAtMs(): number {
    return Math.min(this.#renewAtMs, this.#endsAt.nowMs);
  }

  async #renew(): Promise<void> {
    const { clock, timeoutMs } = this.#settings;
    const sentAt = momentOf(clock);
    this.#renewAtMs = Infinity;
    try {
      const lease = await this.#calls.renew(
        this.name,
        this.leaseId,
        { ttlMs: this.#ttlMs },
        { timeoutMs: Math.min(timeoutMs, Math.ceil(this.#endsAt.nowMs - sentAt.nowMs)) },
      );
      if (!this.#isHeld) return;
      if (lease === null) this.#lose("the server reports that the lease has ended", null);
      else this.#renewed(sentAt);
    } catch (error) {
      if (this.#isHeld) this.#failed(error);
    }
  }

  #renewed({ nowMs, wallMs }: Moment): void {
    this.#failures = 0;
    this.#error = null;
    this.#endsAt = { nowMs: nowMs + this.#ttlMs, wallMs: wallMs + this.#ttlMs };
    this.#renewAtMs = nowMs + this.#ttlMs * RENEWAL_SHARE;
    this.#alarm.setBy(this.#dueAtMs);
    // The machine may have been suspended while the answer was on its way.
    this.#look();
  }

  #failed(error: unknown): void {
    const { clock, backoffBaseMs } = this.#settings;
    const bounds = { backoffBaseMs, backoffMaxMs: this.#ttlMs * RENEWAL_SHARE };
    this.#error = error;
    this.#renewAtMs = clock.nowMs() + backoffMs(bounds, this.#failures++, clock.random());
    this.#alarm.setBy(this.#dueAtMs);
  }

  #loseUnrenewed(): void {
    this.#lose(`the lease could not be renewed within ${this.#ttlMs} ms`, this.#error);
  }

  #lose(why: string, cause: unknown): void {
    if (!this.#isHeld) return;
    this.#end();
    const options = cause === null ? {} : { cause };
    this.#aborter.abort(new ThrottrError("lease_lost", why, options));
  }

  #end(): void {
    this.#isHeld = false;
    this.#alarm.clear();
    this.#leases.delete(this);
  }
}
