/**
 * Alarms ring no more often than an object has reason for: each ring is a request, and each setting a row, that is billed. An
 * alarm is set for a second from now at the earliest, so a busy object is rung once a second; faults add some.
 */
import type { Violation } from "./history.ts";

const MINUTE_MS = 60_000;
/** Of one object, in any minute. */
export const RINGS_MAX = 100;

export class AlarmCounts {
  readonly #recent = new Map<string, number[]>();
  readonly #most = new Map<string, number>();

  /** The alarm of an object rings. Called in the order of time. */
  note(object: string, ms: number): void {
    const recent = this.#recent.get(object) ?? [];
    this.#recent.set(object, recent);
    recent.push(ms);
    while (recent[0]! <= ms - MINUTE_MS) recent.shift();
    this.#most.set(object, Math.max(recent.length, this.mostOf(object)));
  }

  /** How often the alarm of an object has rung in one minute, at most. */
  mostOf(object: string): number {
    return this.#most.get(object) ?? 0;
  }

  violations(): Violation[] {
    return [...this.#most]
      .filter(([, rings]) => rings > RINGS_MAX)
      .map(([subject, rings]) => ({
        promise: "Alarms",
        subject,
        message: `its alarm has rung ${rings} times in a minute; ${RINGS_MAX} are the most that it has reason for`,
      }));
  }

  /** Of all objects. */
  get most(): number {
    return Math.max(0, ...this.#most.values());
  }
}
