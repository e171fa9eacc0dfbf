/**
 * Audience: the subscribers of one channel in a Hub, and what the channel's group knows of them.
 *
 * The group is told whether there is anybody, one call at a time, and only when that differs from what
 * it was told last: a thousand changes while a call is under way cost one call more.
 */
import { logWarning } from "../../base/log.ts";
import type { Subscriber, Subscription } from "./subscription.ts";

/** How the channel's object is told. */
export interface Membership {
  join(): Promise<void>;
  leave(): Promise<void>;
}

export class Audience {
  readonly members = new Map<Subscriber, Subscription>();
  readonly #membership: Membership | null;
  readonly #onEmpty: () => void;
  /** The object knows of us. */
  #isTold = false;
  /** How often the object has heard, when it asked, that nobody is here: it may have dropped us. */
  #denials = 0;
  #telling: Promise<void> | null = null;
  /** How often somebody has come to wait until the object knows. */
  #arrivals = 0;

  /**
   * @param membership null for a channel whose object need not be told
   * @param onEmpty is called when nobody is here and nothing is left to tell
   */
  constructor(membership: Membership | null, onEmpty: () => void) {
    this.#membership = membership;
    this.#onEmpty = onEmpty;
  }

  /** Takes in a subscriber that has come back; `isKnown`: the object knows of us already. */
  add(subscriber: Subscriber, subscription: Subscription, isKnown: boolean): void {
    this.members.set(subscriber, subscription);
    this.#isTold ||= isKnown;
  }

  /** After members have come or gone: null when the object knows, else a promise that it does. */
  settle(): Promise<void> | null {
    this.#arrivals++;
    const hasMembers = this.members.size > 0;
    if (this.#membership !== null && this.#telling === null && this.#isTold !== hasMembers) {
      this.#telling = this.#tell(this.#membership);
    }
    if (this.#telling === null && !hasMembers) this.#onEmpty();
    return this.#telling;
  }

  /** What the object is told when it asks: whether it has to know of us. */
  confirm(): boolean {
    if (this.members.size > 0) return true;
    this.#denials++;
    this.#isTold = false;
    return false;
  }

  async #tell(membership: Membership): Promise<void> {
    try {
      while (this.#isTold !== this.members.size > 0) {
        if (this.members.size === 0) {
          this.#isTold = false;
          await leave(membership);
        } else {
          await this.#join(membership);
        }
      }
    } finally {
      this.#telling = null;
      if (this.members.size === 0) this.#onEmpty();
    }
  }

  async #join(membership: Membership): Promise<void> {
    const denials = this.#denials;
    const arrivals = this.#arrivals;
    try {
      await membership.join();
      this.#isTold = this.#denials === denials;
    } catch (error) {
      // Whoever has come since has not been refused yet: it is tried again for them.
      if (this.#arrivals === arrivals) throw error;
    }
  }
}

/** An object that can't be told finds out by itself when it asks. */
async function leave(membership: Membership): Promise<void> {
  try {
    await membership.leave();
  } catch (error) {
    logWarning("leave_failed", { error: String(error) });
  }
}
