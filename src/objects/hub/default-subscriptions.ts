/** The subscriptions that a connection begins with. */
import { beginsWithAny, binaryBytes } from "../../wire/bytes.ts";
import type { Protocol } from "../../wire/throttr/protocol.ts";
import { layoutsOf, RequestType, Scope } from "../../wire/throttr/requests.ts";
import type { Access } from "../../base/access.ts";
import { EVERYBODY } from "../../base/names.ts";
import type { Roster } from "./roster.ts";
import { addSubscription, type Subscriber } from "./subscription.ts";

/** The check of prefixes reads bytes. */
const EVERYBODY_BYTES = binaryBytes(EVERYBODY);

/**
 * Subscribes a new connection to its own channel and to `*`, as far as its rights go. Dialects before 7.1 have no
 * pushes, and their clients could not read one; listeners of Server-Sent Events have one channel, which they name.
 */
export function addDefaultSubscriptions(
  subscriber: Subscriber,
  protocol: Protocol | null,
  access: Access,
  roster: Roster,
): void {
  const hasPushes = protocol !== null && layoutsOf(protocol)[RequestType.subscribe] !== undefined;
  const isAllowed = (access.scopes & Scope.subscribe) !== 0;
  if (!hasPushes || !isAllowed || subscriber.transport === "events") return;
  const { connectedAtMs, ownChannel } = subscriber;
  if (beginsWithAny(access.channelPrefixes, EVERYBODY_BYTES, 0, 1)) {
    addSubscription(subscriber, EVERYBODY, roster.sinceMs(connectedAtMs));
  }
  addSubscription(subscriber, ownChannel, roster.sinceMs(connectedAtMs));
}
