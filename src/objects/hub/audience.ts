/**
 * Audience: the subscribers of one channel in a Hub, and whether the channel's group knows that there are any.
 *
 * The group needs to know no more than that: it sends the Hub one copy of a message, whatever the number of subscribers.
 * It is called only when the answer has changed, and one call is under way at a time, so a thousand changes meanwhile
 * cost one further call, and join and leave never overtake each other. It knows no platform: its owner makes the calls.
 */
import { logWarning } from "../../base/log.ts";
import type { Subscriber, Subscription } from "./subscription.ts";

/** Tells the group of a channel that this Hub has subscribers from now on, or has none any more. */
export type TellGroup = (isJoin: boolean) => Promise<void>;

/**
 * All fields are in memory only: after hibernation the roster adds the subscribers that the sockets' attachments
 * name.
 */
export class Audience {
  /** The roster adds and removes subscribers itself, then calls `settle`. */
  readonly members = new Map<Subscriber, Subscription>();
  /** Of the channel's name, once the roster has made it: it is asked for with all figures. */
  hash: number | null = null;
  readonly #tellGroup: TellGroup | null;
  readonly #onEmpty: () => void;
  /** The group has this Hub on its list, as far as the Hub knows. */
  #isTold = false;
  /** How often the group has asked while there were no subscribers: it may have dropped the Hub then. */
  #denials = 0;
  /** The calls under way; null when there are none. */
  #telling: Promise<void> | null = null;
  /** How often `settle` was called. */
  #arrivals = 0;

  /**
   * @param tellGroup null for `*`: the Directory knows which Hubs have connections
   * @param onEmpty is called when there are no subscribers, and the group knows that
   */
  constructor(tellGroup: TellGroup | null, onEmpty: () => void) {
    this.#tellGroup = tellGroup;
    this.#onEmpty = onEmpty;
  }

  /** Adds a subscriber that was restored after hibernation; `isKnown`: the group has this Hub on its list already. */
  add(subscriber: Subscriber, subscription: Subscription, isKnown: boolean): void {
    this.members.set(subscriber, subscription);
    // Calls under way say what the group knows by now: one whose socket has closed is restored when others have come and gone.
    if (this.#telling === null) this.#isTold ||= isKnown;
  }

  /** After subscribers have come or gone: null when the group knows enough, else a promise that it will. */
  settle(): Promise<void> | null {
    this.#arrivals++;
    const hasMembers = this.members.size > 0;
    if (this.#tellGroup !== null && this.#telling === null && this.#isTold !== hasMembers) {
      this.#telling = this.#tell(this.#tellGroup);
    }
    if (this.#telling === null && !hasMembers) this.#onEmpty();
    return this.#telling;
  }

  /**
   * Answers the group, which asks with every message and once a day: false when there are no subscribers, and it can drop
   * this Hub. Then the first new subscriber joins again, even where a join was under way while the group asked.
   */
  confirm(): boolean {
    if (this.members.size > 0) return true;
    this.#denials++;
    this.#isTold = false;
    return false;
  }

  /** Calls the group until it knows what is so. Members may change during each call, so the loop looks again. */
  async #tell(tellGroup: TellGroup): Promise<void> {
    try {
      while (this.#isTold !== this.members.size > 0) {
        if (this.members.size === 0) {
          // Not on the list from here on: a call that fails may have reached the group.
          this.#isTold = false;
          await leave(tellGroup);
        } else {
          await this.#join(tellGroup);
        }
      }
    } finally {
      this.#telling = null;
      if (this.members.size === 0) this.#onEmpty();
    }
  }

  /** @throws what the call throws, where no subscriber has come since it began */
  async #join(tellGroup: TellGroup): Promise<void> {
    const denials = this.#denials;
    const arrivals = this.#arrivals;
    try {
      await tellGroup(true);
      // If the group asked during the call, the Hub answered that it has no subscriber, and the group may have dropped the join.
      this.#isTold = this.#denials === denials;
    } catch (error) {
      // A subscriber that has come since was not refused yet: the loop tries again for it.
      if (this.#arrivals === arrivals) throw error;
    }
  }
}

/** A group that can't be told finds out when it asks the next time. */
async function leave(tellGroup: TellGroup): Promise<void> {
  try {
    await tellGroup(false);
  } catch (error) {
    logWarning("leave_failed", { error: String(error) });
  }
}
