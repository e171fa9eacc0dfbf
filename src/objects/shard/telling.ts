/**
 * Telling: a shard that has given a part of its range says so to the shard that has it, again and again until that one
 * answers. The other shard also asks by itself, so after a while this one tells it by its alarm only, and sleeps meanwhile.
 */
import { presentMs } from "../../base/clock.ts";
import { withTimeout } from "../../base/in-time.ts";
import type { Timers } from "../../base/timers.ts";
import type { Engine } from "../../engine/engine.ts";
import { SPLIT_WAIT_MS } from "../../engine/sizes.ts";
import type { Journal } from "./journal.ts";

/**
 * Pauses between the calls that tell another shard. Each is twice as long as the one before. These are
 * the first pause, the longest in which this shard stays awake, and the longest of all.
 */
export const TELL_MS_MIN = 1000;
export const TELL_AWAKE_MS_MAX = 32_000;
const TELL_MS_MAX = 300_000;

/** The shard. */
export interface TellingHost extends Timers {
  readonly engine: Pick<Engine, "advance" | "nowMs">;
  readonly journal: { readonly split: Pick<Journal["split"], "attempt" | "noteActivated"> };
  /** Calls the shard whose range begins at a hash: see `SplitCalls.given`. */
  given(at: number, attempt: number, nowMs: number): Promise<boolean>;
  /** Executes what writes; a failure resets the object. */
  write(write: () => void): void;
  /** Sets the alarm for what is due next. */
  setAlarm(): Promise<void>;
  /** The other shard does not answer, or refuses. */
  onUntold(reason: string): void;
  onTold(): void;
}

/** Of one shard. */
export class Telling {
  /** When the other shard is told again by the alarm, ms since the epoch; Infinity unless the shard waits for that. */
  atMs = Infinity;
  readonly #host: TellingHost;
  /** Before the other shard is told again. */
  #pauseMs = TELL_MS_MIN;

  constructor(host: TellingHost) {
    this.#host = host;
  }

  /** By the alarm. Not awaited: what else the alarm has to do must not wait for a shard that hangs. */
  runDue(at: number): void {
    if (isDue(this.atMs, this.#host.nowMs())) this.#host.waitUntil(this.tell(at));
  }

  /** Tells the shard whose range begins at a hash. Resolves when it knows, or when the alarm is set to tell it again. */
  async tell(at: number): Promise<void> {
    this.atMs = Infinity;
    while (!(await this.#isTold(at))) {
      const pauseMs = this.#pauseMs;
      this.#pauseMs = Math.min(2 * pauseMs, TELL_MS_MAX);
      if (pauseMs > TELL_AWAKE_MS_MAX) {
        this.atMs = this.#host.nowMs() + pauseMs;
        await this.#host.setAlarm();
        return;
      }
      await this.#host.wait(pauseMs);
    }
    this.#pauseMs = TELL_MS_MIN;
    this.#host.write(() => this.#host.journal.split.noteActivated());
    this.#host.onTold();
  }

  async #isTold(at: number): Promise<boolean> {
    const { journal, engine } = this.#host;
    let reason = "the other shard has no such range";
    try {
      engine.advance(presentMs());
      const given = this.#host.given(at, journal.split.attempt, engine.nowMs);
      if (await withTimeout(given, SPLIT_WAIT_MS)) return true;
    } catch (error) {
      reason = String(error);
    }
    this.#host.onUntold(reason);
    return false;
  }
}

/** Whether a deadline has come. One further away than the longest pause is due, too: the clock has gone back since it was set. */
export function isDue(atMs: number, nowMs: number): boolean {
  return atMs <= nowMs || (atMs < Infinity && atMs - nowMs > TELL_MS_MAX);
}
