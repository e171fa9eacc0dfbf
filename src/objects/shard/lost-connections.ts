/**
 * Which connections have ended without their Hub's word: asked of the Hubs that their ids name.
 *
 * A Hub tells shards when a connection ends that may hold something there. A Hub that was reset could not: its sockets
 * ended with it, and no other object knows them.
 */
import type { Environment } from "../../base/environment.ts";
import { joinBytes } from "../../wire/bytes.ts";
import { askHubs } from "../../dispatch/ask-hubs.ts";
import { hubOfConnection, splitIds } from "../../base/connection-id.ts";
import { logWarning } from "../../base/log.ts";
import { hubName } from "../../base/names.ts";

/** The answer of the Hubs. */
export interface LostConnections {
  /** Ids of 16 bytes. */
  readonly lost: Uint8Array[];
  /** Every Hub has answered. Connections of a Hub that has not are not in `lost`, whether they live or not. */
  readonly isComplete: boolean;
}

/** @param ids of connections of a namespace, 16 bytes each */
export async function lostConnections(
  env: Environment,
  namespace: string,
  ids: Uint8Array,
): Promise<LostConnections> {
  const lost: Uint8Array[] = [];
  const idsOfHub = new Map<string, Uint8Array[]>();
  for (const id of splitIds(ids)) {
    const address = hubOfConnection(id);
    if (address === null) {
      lost.push(id);
      continue;
    }
    const hub = hubName.format(namespace, address);
    const known = idsOfHub.get(hub);
    if (known === undefined) idsOfHub.set(hub, [id]);
    else known.push(id);
  }
  const hubs = [...idsOfHub.keys()];
  try {
    const answers = await askHubs(env, hubs, (stub, hub) =>
      stub.gone(joinBytes(idsOfHub.get(hub)!)),
    );
    for (const { answer } of answers) lost.push(...splitIds(answer));
    return { lost, isComplete: answers.length === hubs.length };
  } catch (error) {
    // The Worker lacks the class, as one may that has taken over the data of a server: what else is due must not wait for it.
    logWarning("hub_failed", { object: hubs[0], error: String(error) });
    return { lost, isComplete: false };
  }
}
