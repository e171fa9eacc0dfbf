/**
 * Pages of a Hub's connections and channels, in the order of their keys. Format: `wire/page.ts`.
 *
 * A page begins behind a key, not at an index: nothing is kept between two pages, and connections come and go.
 */
import { beginsWithAny, binaryBytes, compareBytes } from "../../wire/bytes.ts";
import { PageWriter } from "../../wire/page.ts";
import {
  CONNECTION_KEY_BYTES,
  CONNECTION_ROW_BYTES,
  COUNTED_ROW_BYTES,
  writeConnectionRow,
  writeFurtherCounts,
} from "../../wire/throttr/connection-row.ts";
import type { SubscriberFigures } from "../../base/calls/hub.ts";
import type { Roster } from "./roster.ts";
import type { Subscriber } from "./subscription.ts";

/** Row of CHANNELS among objects: read bytes, write bytes, subscriptions, f64 each. */
const CHANNEL_PAGE_ROW_BYTES = 24;

/** The subscriptions to a channel. Times are split, as an f64 can't hold nanoseconds since the epoch. */
export function subscribersOf(roster: Roster, channel: string): SubscriberFigures[] {
  return Array.from(
    roster.subscribers(channel),
    ([{ id }, { sinceMs, readBytes, writeBytes }]) => ({
      id,
      sinceMs: Math.floor(sinceMs),
      sinceNs: Math.floor((sinceMs % 1) * 1e6),
      readBytes,
      writeBytes,
    }),
  );
}

/** Connections by connected at and id. See `HubCalls.connectionsPage`. */
export function connectionsPage(
  roster: Roster,
  after: Uint8Array | null,
  bytesMax: number,
  hasAllCounts = false,
): Uint8Array {
  // A page ends by bytes, as the caller asks many Hubs at once and has to keep a page of each.
  const connections = roster.connections();
  const rowBytes = hasAllCounts ? COUNTED_ROW_BYTES : CONNECTION_ROW_BYTES;
  const page = new PageWriter(rowBytes, connections.length);
  let i = firstBehind(connections, connectionKey, after);
  for (; i < connections.length && page.length < bytesMax; i++) {
    const connection = connections[i]!;
    const key = connectionKey(connection);
    const at = page.add(key, 0, key.length);
    const row = connection.row();
    writeConnectionRow(page.bytes, page.view, at, row);
    if (hasAllCounts) writeFurtherCounts(page.view, at, row);
  }
  return page.take(i === connections.length);
}

/** Channels with subscribers, by name. See `HubCalls.channelsPage`. */
export function channelsPage(
  roster: Roster,
  after: Uint8Array | null,
  bytesMax: number,
  prefixes: readonly Uint8Array[],
): Uint8Array {
  // Callers may have rights to some names only, so the filter is here: the total counts what they may see.
  const all = roster.channels();
  const isAllowed = (name: string): boolean =>
    beginsWithAny(prefixes, binaryBytes(name), 0, name.length);
  const names = prefixes.length === 0 ? all : all.filter(isAllowed);
  const page = new PageWriter(CHANNEL_PAGE_ROW_BYTES, names.length);
  let i = firstBehind(names, binaryBytes, after);
  for (; i < names.length && page.length < bytesMax; i++) {
    const name = names[i]!;
    const { readBytes, writeBytes, subscriptions } = roster.figuresOf(name);
    const at = page.add(binaryBytes(name), 0, name.length);
    page.view.setFloat64(at, readBytes);
    page.view.setFloat64(at + 8, writeBytes);
    page.view.setFloat64(at + 16, subscriptions);
  }
  return page.take(i === names.length);
}

/** Connections are in the order of this: connected at, then id. */
function connectionKey({ connectedAtMs, id }: Subscriber): Uint8Array {
  const key = new Uint8Array(CONNECTION_KEY_BYTES);
  new DataView(key.buffer).setBigUint64(0, BigInt(connectedAtMs));
  key.set(id, 8);
  return key;
}

/** Index of the first of ordered entries whose key lies behind another; 0 when there is no other. */
function firstBehind<T>(
  entries: readonly T[],
  keyOf: (entry: T) => Uint8Array,
  after: Uint8Array | null,
): number {
  let from = 0;
  let to = after === null ? 0 : entries.length;
  while (from < to) {
    const middle = (from + to) >>> 1;
    const key = keyOf(entries[middle]!);
    if (compareBytes(key, 0, key.length, after!, 0, after!.length) > 0) to = middle;
    else from = middle + 1;
  }
  return from;
}
