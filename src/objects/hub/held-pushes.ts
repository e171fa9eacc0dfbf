/**
 * Pushes that wait: for the end of a reply that comes in pieces, or for the start of a listener's stream.
 *
 * Frames of a reply and pushes share one stream of bytes. A push between two pieces of a reply would be read as a part
 * of it, since the client counts bytes.
 */
import type { Pushes } from "../../wire/messages.ts";

/** Pushes that wait, with what tells whether a listener has them already. */
export interface HeldPush {
  readonly pushes: Pushes;
  /** Number of the first message; null in a channel whose messages are not numbered. */
  readonly sequence: number | null;
}

/** Of one connection. Few ever hold: those with a reply in pieces, and listeners that begin. */
export class HeldPushes {
  /** Null while pushes need not wait. */
  #held: HeldPush[] | null = null;
  /** Bytes that wait. They count as unread, as they are in memory all the same. */
  bytes = 0;

  /** From now on pushes wait. */
  hold(): void {
    this.#held ??= [];
  }

  /** Keeps a push; false when none has to wait. */
  add(push: HeldPush): boolean {
    if (this.#held === null) return false;
    this.#held.push(push);
    this.bytes += push.pushes.bytes.length;
    return true;
  }

  /** Pushes need not wait any more: returns those that have waited, in their order. */
  release(): readonly HeldPush[] {
    const held = this.#held ?? [];
    this.#held = null;
    this.bytes = 0;
    return held;
  }
}
