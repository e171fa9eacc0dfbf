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

/** With relaxed durability: how long a change may wait for its row. */
const RELAXED_FLUSH_MS = 50;

/** The shard whose changes are written. */
export interface CommitHost extends Pick<Timers, "wait" | "waitUntil"> {
  /** Something was applied that no row has. */
  hasChanges(): boolean;
  /** Writes it, at once. Resolves when what goes with the row was asked for, too. */
  write(): Promise<void>;
  /** Resolves when all that was written is on disk. */
  sync(): Promise<void>;
}

/** Of one shard. With strict durability calls wait for their row; with relaxed ones they are answered before it. */
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

  /** @param isStrict answers wait for their row; else a row follows within 50 ms */
  constructor(host: CommitHost, isStrict: boolean) {
    this.#host = host;
    this.#isStrict = isStrict;
  }

  /**
   * Resolves when answers may be given about all that was applied so far: at once, where nothing waits for a row. Calls
   * that only read wait as well, since what they saw may not survive a crash before the row.
   */
  async flush(): Promise<void> {
    if (!this.#host.hasChanges()) return;
    if (this.#isStrict) await this.#flushNow();
    else this.#host.waitUntil((this.#next ??= this.#flushAfter(this.#host.wait(RELAXED_FLUSH_MS))));
  }

  /**
   * Writes at once when the disk is idle. Otherwise all share the next flush. Among many callers a commit ends before
   * the calls have arrived that its end sets off: then a flush waits a turn for them, until one has been of a single
   * call again.
   */
  #flushNow(): Promise<void> {
    if (this.#syncing !== null) this.#isBusy = true;
    if (this.#next === null && !this.#isBusy) return this.#write();
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
    await this.#write();
  }

  /**
   * Writes at once, and notes that the disk is busy. Callers need not wait for the disk: the output gate holds their
   * answers until the row is there.
   */
  async #write(): Promise<void> {
    const written = this.#host.write();
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
