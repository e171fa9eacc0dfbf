/**
 * Pages of all Hubs of a namespace, merged: what CONNECTIONS, CHANNELS and `GET /v1/connections` are made of.
 *
 * Hubs that fail or take too long are left out.
 */
import type { Environment } from "../base/environment.ts";
import { PageWriter } from "../wire/page.ts";
import {
  CONNECTION_KEY_BYTES,
  COUNTED_ROW_BYTES,
  readConnectionRow,
  type ConnectionRow,
} from "../wire/throttr/connection-row.ts";
import { askHubs } from "./ask-hubs.ts";
import type { HubCalls } from "../base/calls/hub.ts";
import { inTime } from "../base/in-time.ts";
import { Merge, pageBytesOf } from "./merge.ts";
import { directoryStub, hubStub } from "../base/stubs.ts";

/** Asks a Hub for its page behind a key. */
type AskPage = (
  hub: DurableObjectStub<HubCalls>,
  after: Uint8Array | null,
  bytesMax: number,
) => Promise<Uint8Array>;

/**
 * Merges pages of all Hubs that have connections. A caller that goes through the merge once need not open it again.
 *
 * @param page is called for each Hub at once, and again for what follows
 */
export async function mergeHubs(
  env: Environment,
  namespace: string,
  page: AskPage,
): Promise<Merge> {
  const directory = directoryStub(env, namespace);
  const hubs = await directory.hubs();
  const bytesMax = pageBytesOf(hubs.length);
  const firsts = await askHubs(env, hubs, (hub) => page(hub, null, bytesMax));
  // A Hub that was reset lost its connections, and could not tell the Directory: the door that finds it empty does.
  const empty = firsts.filter(({ answer }) => isEmptyPage(answer)).map(({ hub }) => hub);
  if (empty.length > 0) await directory.suspect(empty);
  return await Merge.open(
    firsts.map(({ hub, answer }) => {
      let first: Uint8Array | null = answer;
      return async (after) => {
        const kept = first;
        first = null;
        if (after === null && kept !== null) return kept;
        // A Hub that dies meanwhile has nothing more.
        const next = await inTime(page(hubStub(env, hub), after, bytesMax), hub);
        return next ?? new PageWriter(0, 0).take(true);
      };
    }),
  );
}

/** Connections in the order of their keys. */
export interface ConnectionsPage {
  readonly connections: readonly ConnectionRow[];
  /** Key of the last one; null when none follows. */
  readonly cursor: Uint8Array | null;
}

/**
 * The connections behind a cursor, with the counts of all types of requests.
 *
 * @param cursor of the page before; null for the first one
 */
export async function pageOfConnections(
  env: Environment,
  namespace: string,
  cursor: Uint8Array | null,
  limit: number,
): Promise<ConnectionsPage> {
  // One more than asked for tells whether any follow: a page that ends with the last row then has no cursor.
  const rowsBytes = (limit + 1) * (1 + COUNTED_ROW_BYTES + CONNECTION_KEY_BYTES);
  const merge = await mergeHubs(env, namespace, (hub, after, bytesMax) =>
    hub.connectionsPage(after ?? cursor, Math.min(bytesMax, rowsBytes), true),
  );
  const connections: ConnectionRow[] = [];
  let last: Uint8Array | null = null;
  let isLast = true;
  await merge.forEach(([entry]) => {
    isLast = connections.length < limit;
    if (!isLast) return "end";
    connections.push(readConnectionRow(entry!));
    last = entry!.key();
    return "next";
  });
  return { connections, cursor: isLast ? null : last };
}

/** By the total in its head: `wire/page.ts`. */
function isEmptyPage(page: Uint8Array): boolean {
  return new DataView(page.buffer, page.byteOffset).getUint32(4, true) === 0;
}
