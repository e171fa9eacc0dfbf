/** How a connection becomes a listener of Server-Sent Events: a subscriber of one channel, which first gets what it has missed. */
import { presentMs } from "../../base/clock.ts";
import type { Environment } from "../../base/environment.ts";
import type { Listened } from "../../base/calls/channel.ts";
import { EVERYBODY } from "../../base/names.ts";
import { directoryStub } from "../../base/stubs.ts";
import { groupStubOf } from "../../dispatch/groups.ts";
import type { Connection } from "./connection.ts";
import { CHANNEL_FAILED, SUBSCRIPTIONS_MAX } from "./ending.ts";
import { GroupFull } from "./memberships.ts";
import type { Roster } from "./roster.ts";

/** The Hub. */
export interface ListeningHub {
  readonly env: Environment;
  readonly namespace: string;
  /** Of the object. */
  readonly name: string;
  /** ID of this instance of it. */
  readonly life: string;
  readonly roster: Roster;
}

/**
 * Subscribes a connection to its channel.
 *
 * @param after number of the last message that the listener knows; null for none
 * @returns null, or the status of a refusal: 503 where this Hub has no room, and 507 where the channel's group has none,
 * so that no other Hub can help
 */
export async function listen(
  hub: ListeningHub,
  connection: Connection,
  channel: string,
  after: number | null,
): Promise<number | null> {
  // Messages that come between the subscription and the group's answer follow what the group gives again.
  connection.holdPushes();
  try {
    const change = hub.roster.subscribe(connection, channel, presentMs());
    if (change === "refused") {
      connection.close(SUBSCRIPTIONS_MAX);
      return 503;
    }
    if (change !== "done") await change;
    connection.startListening(await listened(hub, channel, after));
    connection.store();
    return null;
  } catch (error) {
    if (error instanceof GroupFull) {
      connection.close(SUBSCRIPTIONS_MAX);
      return 507;
    }
    connection.close(CHANNEL_FAILED);
    throw error;
  }
}

/** @throws GroupFull */
async function listened(
  { env, namespace, name, life }: ListeningHub,
  channel: string,
  after: number | null,
): Promise<Listened> {
  if (channel === EVERYBODY) return await directoryStub(env, namespace).listen(name, after);
  const listened = await groupStubOf(env, namespace, channel).listenTo(channel, name, after, life);
  if (listened === null) throw new GroupFull();
  return listened;
}
