/**
 * The way of a copied range to the shard that adopts it: one row under way at a time, sent until it is acknowledged.
 *
 * A row keeps its number when it is sent again, and the other shard applies each number once. So it does no harm where the
 * answer was lost, or where the first call comes late.
 */
import type { AdoptOutcome } from "../../base/calls/splits.ts";
import { withTimeout } from "../../base/in-time.ts";
import type { Timers } from "../../base/timers.ts";
import { turn } from "../../base/turn.ts";
import type { CopiedRow } from "../../engine/copy-queue.ts";
import type { RangeCopy } from "../../engine/range-copy.ts";
import { SPLIT_RESEND_MS, SPLIT_SWITCH_MS, SPLIT_WAIT_MS } from "../../engine/sizes.ts";

/** The attempt at a split can't succeed any more. */
export class AttemptFailed extends Error {}

/** Offers a row under its number. */
type Offer = (number: number, row: CopiedRow) => Promise<AdoptOutcome>;

/** Of one attempt. */
export class RangeTransfer {
  readonly copy: RangeCopy;
  readonly #timers: Timers;
  readonly #offer: Offer;
  /** The row that was not acknowledged yet. */
  #row: CopiedRow | null = null;
  #number = 0;
  #sending: Promise<boolean> | null = null;
  #isStopped = false;
  /** The wait for room that all commits share; null when none waits. */
  #making: Promise<void> | null = null;
  /** The last such wait was in vain, and the queue is full since. */
  #isBehind = false;

  constructor(timers: Timers, copy: RangeCopy, offer: Offer) {
    this.#timers = timers;
    this.copy = copy;
    this.#offer = offer;
  }

  /** Everything was copied and acknowledged. */
  get isTaken(): boolean {
    return this.copy.isTaken && this.#row === null && !this.#isStopped;
  }

  /** Settled when the row under way, or what comes before the first one, has ended or failed; null when nothing is under way. */
  get progress(): Promise<void> | null {
    return this.#sending?.then(ignore, ignore) ?? null;
  }

  /**
   * While the queue is full: settled when the other shard has taken enough of it, or a second has passed. After a second in vain
   * nothing waits any more until there was room, so a shard that hangs holds callers back once.
   *
   * @returns null when there is nothing to wait for
   */
  get room(): Promise<void> | null {
    if (!this.copy.isFull) this.#isBehind = false;
    if (!this.copy.isFull || this.#isBehind) return null;
    this.#making ??= this.#makeRoom().finally(() => (this.#making = null));
    return this.#making;
  }

  async #makeRoom(): Promise<void> {
    const late = this.#timers.wait(SPLIT_SWITCH_MS).then(() => true);
    while (this.copy.isFull && !this.#isStopped) {
      // Between two rows the walk has its turn, which must come before commits look again.
      const next = this.progress ?? turn();
      if (await Promise.race([late, next.then(() => false)])) break;
    }
    this.#isBehind = this.copy.isFull;
  }

  /**
   * Waits for what has to come before the first row.
   *
   * @throws AttemptFailed when that fails, or does not end
   */
  async prepare(work: Promise<void>): Promise<void> {
    this.#sending = this.#prepared(work).finally(() => (this.#sending = null));
    await this.#sending;
  }

  async #prepared(work: Promise<void>): Promise<true> {
    try {
      await withTimeout(work, SPLIT_WAIT_MS);
      return true;
    } catch (error) {
      throw new AttemptFailed(String(error));
    }
  }

  /**
   * Sends the next row, or waits for the one that is under way.
   *
   * @returns false when there is none
   * @throws AttemptFailed
   */
  async send(): Promise<boolean> {
    this.#sending ??= this.#send().finally(() => (this.#sending = null));
    return await this.#sending;
  }

  /** The attempt is over: what is under way fails. */
  stop(): void {
    this.#isStopped = true;
  }

  async #send(): Promise<boolean> {
    this.#assertGoesOn();
    this.#row = this.copy.next();
    if (this.#row === null) return false;
    this.#number++;
    const sinceMs = this.#timers.nowMs();
    for (;;) {
      const failure = await this.#attempt(this.#row);
      this.#assertGoesOn();
      if (failure === null) break;
      const tookMs = this.#timers.nowMs() - sinceMs;
      // A clock that has gone back must not make it longer.
      if (tookMs < 0 || tookMs >= SPLIT_WAIT_MS) throw new AttemptFailed(failure);
      await this.#timers.wait(SPLIT_RESEND_MS);
      this.#assertGoesOn();
    }
    this.#row = null;
    return true;
  }

  /** Null once the row is acknowledged; else why it is not, though it may be applied. */
  async #attempt(row: CopiedRow): Promise<string | null> {
    let outcome: AdoptOutcome;
    try {
      outcome = await withTimeout(this.#offer(this.#number, row), SPLIT_WAIT_MS);
    } catch (error) {
      return String(error);
    }
    if (outcome !== "applied") throw new AttemptFailed(`the other shard says: ${outcome}`);
    return null;
  }

  #assertGoesOn(): void {
    if (this.#isStopped) throw new AttemptFailed("the attempt was given up");
  }
}

function ignore(): void {
  // What follows from a failure is up to the attempt.
}
