/**
 * When messages may be late, or lost to a Hub: where it does not answer within two seconds, where a call to it fails, and where the
 * Hub or the channel's group has a second copy, or is reset. As docs/guarantees.md has it.
 */
import type { Publication } from "./channel-calls.ts";
import type { Facts } from "./facts.ts";
import type { Moment } from "./history.ts";
import { NEVER } from "./order.ts";

/** A publisher waits so long for a Hub, in ms. */
const HUB_TIMEOUT_MS = 2000;

export class Delivery {
  readonly #facts: Facts;
  readonly #groupOf: ((channel: string) => string) | null;

  /** @param groupOf the object that has a channel; null where no group is ever reset */
  constructor(facts: Facts, groupOf: ((channel: string) => string) | null) {
    this.#facts = facts;
    this.#groupOf = groupOf;
  }

  /** A publication may have been answered without a Hub, which gets the message later, or never. */
  mayMiss(hub: string, { begun, ended, operation }: Publication): boolean {
    const until = ended ?? NEVER;
    if (until.ms - begun.ms >= HUB_TIMEOUT_MS) return true;
    const group = this.#groupOf?.(operation.channel);
    return (
      this.#facts.hadOutage(hub, begun, until) ||
      this.#facts.hadCopy(hub, begun, until) ||
      (group !== undefined && this.#facts.hadCopy(group, begun, until))
    );
  }

  /** A message that came late may have been on its way from a group that has a successor since. */
  mayBeOvertaken(channel: string, begun: Moment, received: Moment): boolean {
    const group = this.#groupOf?.(channel);
    return (
      group !== undefined &&
      (this.#facts.wasReset(group, begun, received) || this.#facts.hadCopy(group, begun, received))
    );
  }
}
