/**
 * ClockWatch: notices that the platform's clock stands still for this instance of a shard.
 *
 * The runtime never lets `Date.now()` of a living object go back. When the machine's clock is set back, `Date.now()` stands
 * still instead, and timers with it, until the machine has caught up: for hours, if the clock was hours ahead. A request
 * that a door serves reads the machine's clock anew, and so does a new instance of the object. So calls say what time it is
 * at their door. Where that goes on, and the object's own time does not, the object has to restart.
 */

/** Doors are on other machines, whose clocks differ: so much must have passed there. */
const PASSED_MS = 2000;
/** By how much the clock that stands still must be ahead of a door's. */
const AHEAD_MS = 1000;

/** Of one instance of a shard. */
export class ClockWatch {
  /** What the clock of this object said last; it never goes back. */
  #nowMs = -1;
  /** The earliest time at a door since the object's own has been what it is. */
  #doorMs = Infinity;

  /**
   * Takes what the object's clock says at the beginning of a call, and what it said at the call's door, which doors
   * of release 0.4 leave out. True when the object's clock stands still; calls of the same moment do not repeat it.
   */
  isStill(nowMs: number, doorMs = nowMs): boolean {
    if (nowMs !== this.#nowMs) {
      this.#nowMs = nowMs;
      this.#doorMs = doorMs;
      return false;
    }
    this.#doorMs = Math.min(this.#doorMs, doorMs);
    if (doorMs - this.#doorMs < PASSED_MS || nowMs - doorMs < AHEAD_MS) return false;
    this.#doorMs = doorMs;
    return true;
  }
}
