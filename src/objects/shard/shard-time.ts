/**
 * What a shard does when the platform's clock goes back, or stands still.
 *
 * The engine keeps the time itself (`ShardClock`). Here a long lag is stored and logged, an instance whose clock stands
 * still ends, and an operator can set the time of all records back.
 */
import { presentMs } from "../../base/clock.ts";
import type { AlarmClock } from "../../base/alarm-clock.ts";
import { logWarning } from "../../base/log.ts";
import { isWithin } from "../../base/recent.ts";
import { turn } from "../../base/turn.ts";
import type { Engine } from "../../engine/engine.ts";
import { ClockWatch } from "./clock-watch.ts";
import type { Journal } from "./journal.ts";
import { LagWatch } from "./lag-watch.ts";

/** The pause after a failed attempt to store the time. */
const RETRY_MS = 60_000;
/** Calls to another object, which take some milliseconds in all: one takes 0.1 ms in the same process, and more elsewhere. */
const PROBES = 100;

/** The shard. */
interface TimeHost {
  /** Name of the object. */
  readonly name: string;
  readonly engine: Engine;
  readonly journal: Journal;
  readonly alarm: AlarmClock;
  /** Executes what writes; a failure resets the object. */
  write(write: () => void): void;
  /** Resolves when all that was written is on disk. */
  sync(): Promise<void>;
  /** Calls another object. */
  probe(): Promise<unknown>;
  /** Ends the instance; the next one starts from the disk. */
  abort(reason: string): void;
  waitUntil(work: Promise<void>): void;
}

/** Of one instance of a shard. */
export class ShardTime {
  readonly #host: TimeHost;
  readonly #lag: LagWatch;
  /** Notices that the clock stands still for this instance. */
  readonly #clock = new ClockWatch();
  /** When the time could not be stored last, in ms since the epoch; -Infinity for never. */
  #failedAtMs = -Infinity;

  constructor(host: TimeHost) {
    const { name, engine, alarm } = host;
    this.#host = host;
    this.#lag = new LagWatch(name, {
      onGrown: () => host.waitUntil(alarm.setForNext()),
      onLong: () => {
        if (engine.isClockUnstored && !isWithin(this.#failedAtMs, RETRY_MS)) this.#storeClock();
      },
    });
  }

  /** A failure does not reset the shard: reads go on though the disk is full. */
  #storeClock(): void {
    const host = this.#host;
    const { name, engine, journal, alarm } = host;
    try {
      journal.storeClock();
    } catch (error) {
      engine.noteClockUnstored();
      this.#failedAtMs = presentMs();
      logWarning("clock_unstored", { shard: name, error: String(error) });
      return;
    }
    // The journal may have to be cut, and no commit may come that would begin that.
    if (journal.isCutDue) host.waitUntil(alarm.setFor(presentMs()));
  }

  /** After each move of the engine's clock. */
  note(): void {
    this.#lag.note(this.#host.engine.clockLagMs);
  }

  /** After a call was applied at `nowMs`, that came from a door whose clock said `doorMs`. */
  noteCall(nowMs: number, doorMs: number | undefined): void {
    if (this.#clock.isStill(nowMs, doorMs)) this.#host.waitUntil(this.#restart(nowMs));
    this.note();
  }

  /**
   * The clock that this instance reads stands still (`ClockWatch`): ends the instance, and the next one goes on from the
   * time that is stored. All that was applied is on disk before, so calls that have been answered lose nothing.
   */
  async #restart(nowMs: number): Promise<void> {
    const host = this.#host;
    if (host.engine.needsRow) {
      host.write(() => host.journal.append());
      // The shard may live on, and no other commit may come that would set the alarm.
      host.waitUntil(host.alarm.setForNext());
    }
    await host.sync();
    if (await this.#hasMoved(nowMs)) return;
    logWarning("clock_still", { shard: host.name });
    host.abort("clock_still: the shard restarts to read the machine's clock again");
  }

  /**
   * Whether the clock is running. Calls that had to wait until the object had started, or until its machine went on, are served in
   * one moment, though their doors sent them in several: to `ClockWatch` this looks like a clock that stands still. A timer
   * can't tell the two apart, as it stands still along with the clock. Calls to another object take time in both cases, so after
   * them a clock that is running shows another time.
   */
  async #hasMoved(sinceMs: number): Promise<boolean> {
    for (let probe = 0; probe < PROBES && presentMs() === sinceMs; probe++) {
      await this.#host.probe().catch(() => {});
    }
    return presentMs() !== sinceMs;
  }

  /**
   * For an operator whose machine's clock was ahead: without it, records written then expire too late, by as much.
   *
   * @param advance moves the engine's clock, which it has done just before this is called, too
   * @returns by how many ms, 0 where there was no lag: nothing was done then
   */
  async setBack(advance: () => void): Promise<number> {
    const host = this.#host;
    const { engine, journal } = host;
    if (engine.clockLagMs === 0) return 0;
    // A snapshot must not have times of records from before and from after: one that is under way is finished first.
    while (journal.isCutting) {
      host.write(() => journal.append());
      // Changes of relaxed calls are in that row, and no other commit may come that would set the alarm.
      host.waitUntil(host.alarm.setForNext());
      await turn();
    }
    advance();
    const lagMs = engine.clockLagMs;
    if (lagMs === 0) return 0;
    host.write(() => journal.setClockBack());
    logWarning("clock_set_back", { shard: host.name, byMs: lagMs });
    this.note();
    return lagMs;
  }
}
