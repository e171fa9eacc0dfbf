/**
 * The one alarm of an object.
 *
 * The platform gives an object a single alarm, and bills each time that it is set as a row written. So it is set only
 * where something is due before it would ring, and at most once a second. One that rings too early does no harm: the
 * object finds nothing to do, and sets the next one. The class knows no platform: its host has storage and timers.
 */
import type { Timers } from "./timers.ts";

/** Times at which an alarm is set are at least so far apart, and an alarm rings no earlier from now. */
export const ALARM_INTERVAL_MS = 1000;
/** `setAlarm` refuses dates of later centuries, and the expiry of a record may be any u64. */
const ALARM_HORIZON_MS = 365 * 86_400_000;

/** A lead that is larger than the clocks of a data centre differ by is not believed. */
const AHEAD_MAX_MS = 3_600_000;

/** The object that an alarm is for. */
export interface AlarmHost extends Timers {
  /** The deadline: when something is due next, in ms since the epoch; Infinity when nothing is. */
  findDeadlineMs(): number;
  /** The storage of the object, or a part of it. */
  readonly storage: {
    getAlarm(): Promise<number | null>;
    setAlarm(atMs: number): Promise<void>;
  };
}

/** Of one object, which calls `resume` after its start and `noteRing` first thing in its `alarm`. */
export class AlarmClock {
  readonly #host: AlarmHost;
  /** When the alarm rings; Infinity when none is set, null before storage was asked. */
  #ringsAtMs: number | null = null;
  /**
   * By how much the platform's alarms are ahead of this object's clock, as far as rings have shown. An alarm for a second
   * from now has passed already where it is more, and would ring at once, again and again until the clock has caught up.
   */
  #aheadMs = 0;
  /** When the alarm was set last, by this object's clock. */
  #setAtMs = -Infinity;
  /** How often the alarm was set since the object started: each time is a row that is billed. */
  timesSet = 0;
  /** The alarm has rung since the object started. */
  #hasRung = false;
  /** Under way while a further alarm waits for its second. */
  #delayed: Promise<void> | null = null;

  constructor(host: AlarmHost) {
    this.#host = host;
  }

  /** When the alarm rings, as storage has it; Infinity when none is set. */
  async load(): Promise<number> {
    if (this.#ringsAtMs === null) {
      const ringsAtMs = (await this.#host.storage.getAlarm()) ?? Infinity;
      // Another call may have set it meanwhile, or it has rung.
      this.#ringsAtMs ??= ringsAtMs;
    }
    return this.#ringsAtMs;
  }

  /**
   * After a start of the object: a crash may have come between a row and the alarm for it.
   *
   * The platform takes an alarm out of storage before it wakes the object for it. So no alarm may mean that one is
   * about to ring, which then sets the next one; it is set here only when none has rung after a second.
   */
  async resume(): Promise<void> {
    if ((await this.load()) < Infinity) await this.setForNext();
    else if (this.#host.findDeadlineMs() < Infinity) this.#host.waitUntil(this.#setUnlessRung());
  }

  /** The platform has rung the alarm and dropped it. */
  noteRing(): void {
    const nowMs = this.#host.nowMs();
    this.#aheadMs = aheadAfterRing(this.#aheadMs, this.#setAtMs, this.#ringsAtMs ?? nowMs, nowMs);
    this.#ringsAtMs = Infinity;
    this.#hasRung = true;
  }

  /** Sets the alarm for what is due next. */
  async setForNext(): Promise<void> {
    await this.setFor(this.#host.findDeadlineMs());
  }

  /**
   * Sets the alarm for a moment in ms since the epoch, unless it rings before that anyway. Once it was loaded, storage
   * is asked for the alarm before this returns: so a row that was written just before is committed together with it.
   */
  async setFor(deadlineMs: number): Promise<void> {
    if (deadlineMs === Infinity) return;
    if (this.#ringsAtMs === null) await this.load();
    const nowMs = this.#host.nowMs();
    const ringsAtMs = alarmTime(deadlineMs, nowMs) + this.#aheadMs;
    if (ringsAtMs >= this.#ringsAtMs!) return;
    // Where the clock has gone back since the last time, a second is enough all the same.
    const waitMs = Math.min(this.#setAtMs + ALARM_INTERVAL_MS - nowMs, ALARM_INTERVAL_MS);
    if (waitMs > 0 && this.#ringsAtMs !== Infinity) {
      this.#delayed ??= this.#setLater(waitMs);
      this.#host.waitUntil(this.#delayed);
      return;
    }
    this.#setAtMs = nowMs;
    this.#ringsAtMs = ringsAtMs;
    this.timesSet++;
    await this.#host.storage.setAlarm(ringsAtMs);
  }

  /** Sets the alarm once a second has passed since it was set last, for what is due by then. */
  async #setLater(waitMs: number): Promise<void> {
    const { timesSet } = this;
    await this.#host.wait(waitMs);
    this.#delayed = null;
    // The second has passed, whatever the clock shows, unless the alarm was set meanwhile.
    if (this.timesSet === timesSet) this.#setAtMs = -Infinity;
    await this.setForNext();
  }

  /** See `resume`. */
  async #setUnlessRung(): Promise<void> {
    await this.#host.wait(ALARM_INTERVAL_MS);
    if (!this.#hasRung) await this.setForNext();
  }
}

/**
 * By how much the platform's alarms are ahead of an object's clock, when one has rung. One that rings within the second for which it
 * was set rang at once: a larger lead is tried, until one is enough. Another one shows how much of it is needed. One that rings
 * without reason costs a second this way.
 *
 * @param aheadMs as it was known before
 * @param setAtMs when the alarm was set
 * @param ringsAtMs for which it was set
 */
export function aheadAfterRing(
  aheadMs: number,
  setAtMs: number,
  ringsAtMs: number,
  nowMs: number,
): number {
  const sinceSetMs = nowMs - setAtMs;
  return sinceSetMs >= 0 && sinceSetMs < ALARM_INTERVAL_MS
    ? Math.min(Math.max(2 * aheadMs, ALARM_INTERVAL_MS), AHEAD_MAX_MS)
    : Math.min(aheadMs, Math.max(0, ringsAtMs - nowMs));
}

/** Not before a second from now, and not after what `setAlarm` takes. */
function alarmTime(deadlineMs: number, nowMs: number): number {
  return Math.min(Math.max(deadlineMs, nowMs + ALARM_INTERVAL_MS), nowMs + ALARM_HORIZON_MS);
}
