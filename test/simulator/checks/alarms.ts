/**
 * An object's alarm rings at most about once a second. Each ring is billed as a request, and each setting as a row. Objects set
 * alarms for a second from now at the earliest, so the alarm of a busy object rings once a second; faults add some rings.
 *
 * An object that has just started does not know by how much the platform's alarms are ahead of its clock. It learns that from alarms
 * that ring at once: docs/prices.md. An object whose disk is full starts for each request.
 */
import type { Violation } from "./history.ts";

const MINUTE_MS = 60_000;
/** Of one object, in any minute without a start. */
export const RINGS_MAX = 100;
/** The lead that an object assumes is doubled with each ring, from a second to an hour. */
export const RINGS_PER_START = 13;

/** Rings of an object that it had reason for, and those that it had. */
interface Rings {
  readonly rings: number;
  readonly allowed: number;
}

/** Moments of the last minute. */
class LastMinute {
  readonly #times: number[] = [];

  add(ms: number): void {
    this.#times.push(ms);
  }

  countAt(ms: number): number {
    while (this.#times.length > 0 && this.#times[0]! <= ms - MINUTE_MS) this.#times.shift();
    return this.#times.length;
  }
}

export class AlarmCounts {
  readonly #rings = new Map<string, LastMinute>();
  readonly #starts = new Map<string, LastMinute>();
  readonly #most = new Map<string, number>();
  readonly #tooMany = new Map<string, Rings>();

  /** An object starts. Called in the order of time. */
  noteStart(object: string, ms: number): void {
    lastMinuteOf(this.#starts, object).add(ms);
  }

  /** The alarm of an object rings. Called in the order of time. */
  note(object: string, ms: number): void {
    const recent = lastMinuteOf(this.#rings, object);
    recent.add(ms);
    const rings = recent.countAt(ms);
    this.#most.set(object, Math.max(rings, this.mostOf(object)));
    const starts = lastMinuteOf(this.#starts, object).countAt(ms);
    const allowed = RINGS_MAX + starts * RINGS_PER_START;
    if (rings > allowed) this.#tooMany.set(object, { rings, allowed });
  }

  /** How often the alarm of an object has rung in one minute, at most. */
  mostOf(object: string): number {
    return this.#most.get(object) ?? 0;
  }

  violations(): Violation[] {
    return [...this.#tooMany].map(([subject, { rings, allowed }]) => ({
      promise: "Alarms",
      subject,
      message: `its alarm has rung ${rings} times in a minute; ${allowed} are the most that it has reason for`,
    }));
  }

  /** Of all objects. */
  get most(): number {
    return Math.max(0, ...this.#most.values());
  }
}

function lastMinuteOf(all: Map<string, LastMinute>, object: string): LastMinute {
  let minute = all.get(object);
  if (minute === undefined) all.set(object, (minute = new LastMinute()));
  return minute;
}
