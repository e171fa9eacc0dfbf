/**
 * Group commit: one row makes durable what many calls have changed.
 *
 * A commit takes the disk as long for a thousand changes as for one, and each row is billed. So while one commit is on
 * its way, all that is applied meanwhile waits for the next one. The class knows when to write, and neither what a row
 * is nor where it goes: its host does. `GroupCommit` holds no answers back until the disk has them: the platform's
 * output gate does that, for everything that an object sends after a write.
 */
import type { Timers } from "../../base/timers.ts";
import { turn } from "../../base/turn.ts";
import { RELAXED_FLUSH_MS } from "../../engine/sizes.ts";

/** The shard whose changes are written. */
export interface CommitHost extends Pick<Timers, "wait" | "waitUntil"> {
  /** Something was applied that no row has. */
  hasChanges(): boolean;
  /**
   * Writes it. Resolves when what goes with the row was asked for, too.
   *
   * @param isDue at once: changes that were answered already must not wait any longer
   */
  write(isDue: boolean): Promise<void>;
  /** Resolves when all that was written is on disk. */
  sync(): Promise<void>;
}

/** Of one shard. Strict calls wait for their row; relaxed ones are answered before it. */
export class GroupCommit {
  /** Writes the row, and knows whether there is anything to write. */
  readonly #host: CommitHost;
  readonly #isStrict: boolean;
  /** The flush that everything applied by now waits for; null when nothing waits. */
  #next: Promise<void> | null = null;
  /** The commit that is on its way to the disk; null when the disk is idle. */
  #syncing: Promise<void> | null = null;
  /** Calls come faster than commits end: each flush waits for the calls that the last one has set off. */
  #isBusy = false;
  /** Calls that share the next flush. */
  #sharing = 0;
  /** Changes that no call waits for get their row when a timer ends, unless a call flushes them before. */
  #isRowDue = false;
  /** That timer has ended, and the next flush has those changes. */
  #isOverdue = false;

  /** @param isStrict answers wait for their row, except those of relaxed calls; else all calls are relaxed */
  constructor(host: CommitHost, isStrict: boolean) {
    this.#host = host;
    this.#isStrict = isStrict;
  }

  /**
   * Resolves when answers may be given about all that was applied so far: at once, where nothing waits for a row. Calls
   * that only read wait as well, since what they saw may not survive a crash before the row. A row has all changes, so
   * the flush of a strict call also covers what relaxed calls have changed before it.
   *
   * @param isRelaxed the call does not wait: its changes get their row with the next flush, or within 50 ms
   */
  async flush(isRelaxed = false): Promise<void> {
    if (!this.#host.hasChanges()) return;
    if (this.#isStrict && !isRelaxed) await this.#flushNow();
    else this.#flushLater();
  }

  /** One timer for all relaxed calls: it keeps the object awake, as an answered call no longer does. */
  #flushLater(): void {
    if (this.#isRowDue) return;
    this.#isRowDue = true;
    this.#host.waitUntil(this.#flushWhenDue());
  }

  async #flushWhenDue(): Promise<void> {
    await this.#host.wait(RELAXED_FLUSH_MS);
    this.#isRowDue = false;
    // A flush that strict calls share is about to begin, and covers these changes, too.
    if (this.#next !== null) this.#isOverdue = true;
    else if (this.#host.hasChanges()) await this.#write(true);
  }

  /**
   * Writes at once when the disk is idle. Otherwise all share the next flush. Among many callers a commit ends before
   * the calls have arrived that its end sets off: then a flush waits a turn for them, until one has been of a single
   * call again.
   */
  #flushNow(): Promise<void> {
    if (this.#syncing !== null) this.#isBusy = true;
    if (this.#next === null && !this.#isBusy) return this.#write(false);
    this.#sharing++;
    this.#next ??= this.#flushAfter(this.#gather());
    return this.#next;
  }

  /** Waits for the commit under way, and a turn for the calls that its end sets off. */
  async #gather(): Promise<void> {
    if (this.#syncing !== null) await this.#syncing;
    await turn();
    this.#isBusy = this.#sharing > 1;
    this.#sharing = 0;
  }

  /** The flush that calls share until it begins: those that come later get the next one. */
  async #flushAfter(event: Promise<void>): Promise<void> {
    await event;
    this.#next = null;
    const isDue = this.#isOverdue;
    this.#isOverdue = false;
    await this.#write(isDue);
  }

  /**
   * Writes at once, and notes that the disk is busy. Callers need not wait for the disk: the output gate holds their
   * answers until the row is there.
   */
  async #write(isDue: boolean): Promise<void> {
    const written = this.#host.write(isDue);
    this.#syncing = this.#sync();
    await written;
  }

  /** Only tells when the disk is idle again. */
  async #sync(): Promise<void> {
    try {
      await this.#host.sync();
    } catch {
      // The platform resets an object whose commit failed, and fails its calls.
    }
    this.#syncing = null;
  }
}
