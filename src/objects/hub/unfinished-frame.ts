/**
 * Keeps the Hub awake while a large frame is unfinished, and ends the connection when it does not go on.
 *
 * Up to 1 KiB of an unfinished frame outlives hibernation in the attachment. A longer one is in memory only, and
 * hibernation, which comes after 10 s without I/O, would lose it.
 */
import type { Timers } from "../../base/timers.ts";

/** How many looks make a timeout. */
const LOOKS = 16;
/** How many timeouts a frame may take in all. */
const STALLS_MAX = 4;

/**
 * The large unfinished frames of a Hub.
 *
 * One timer serves them all: an object has 10,000 timers, and clients may begin more frames than that. It looks at each frame again
 * and again, and frames count the looks: so a clock that is set does not change how long they are waited for.
 */
export class UnfinishedFrames {
  readonly timeoutMs: number;
  readonly #timers: Pick<Timers, "wait" | "waitUntil">;
  readonly #waiting = new Set<UnfinishedFrame>();
  #isWatched = false;

  /** @param timeoutMs `STALL_TIMEOUT_MS` */
  constructor(timeoutMs: number, timers: Pick<Timers, "wait" | "waitUntil">) {
    this.timeoutMs = timeoutMs;
    this.#timers = timers;
  }

  add(frame: UnfinishedFrame): void {
    this.#waiting.add(frame);
    if (!this.#isWatched) this.#timers.waitUntil(this.#watch());
  }

  remove(frame: UnfinishedFrame): void {
    this.#waiting.delete(frame);
  }

  async #watch(): Promise<void> {
    this.#isWatched = true;
    try {
      while (this.#waiting.size > 0) {
        await this.#timers.wait(this.timeoutMs / LOOKS);
        for (const frame of this.#waiting) frame.look();
      }
    } finally {
      this.#isWatched = false;
    }
  }
}

/** Of one connection; most never have one, as clients send small frames. */
export class UnfinishedFrame {
  readonly #frames: UnfinishedFrames;
  readonly #onTimeout: (timeoutMs: number) => void;
  /** Looks since the frame has last gone on. */
  #stalled = 0;
  /** Looks since the frame was first waited for. */
  #age = 0;

  /** @param onTimeout the frame has not gone on for too long, or takes too long in all */
  constructor(frames: UnfinishedFrames, onTimeout: (timeoutMs: number) => void) {
    this.#frames = frames;
    this.#onTimeout = onTimeout;
  }

  /** More bytes have come. */
  noteProgress(): void {
    this.#frames.remove(this);
    this.#stalled = 0;
  }

  /** The frame is finished, or small enough to be stored, or its connection is closed. */
  end(): void {
    this.noteProgress();
    this.#age = 0;
  }

  /** Keeps the object in memory until the frame goes on, or the time is over. */
  stayAwake(): void {
    this.#frames.add(this);
  }

  /** The first look may come at once: one more than `LOOKS` has a whole timeout behind it. */
  look(): void {
    const { timeoutMs } = this.#frames;
    this.#stalled++;
    this.#age++;
    if (this.#stalled > LOOKS) this.#end(timeoutMs);
    else if (this.#age > STALLS_MAX * LOOKS) this.#end(STALLS_MAX * timeoutMs);
  }

  #end(timeoutMs: number): void {
    this.end();
    this.#onTimeout(timeoutMs);
  }
}
