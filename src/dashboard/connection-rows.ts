/** The answer to CONNECTIONS, read row by row. Source: protocol reference, "7.3 layouts", "Connection row". */
import { hexOf } from "../wire/bytes.ts";
import { CONNECTION_ROW_BYTES, ConnectionKind } from "../wire/throttr/connection-row.ts";
import { utf8Of } from "./value-text.ts";

const HEAD_BYTES = 9; // status, count of fragments
const FRAGMENT_BYTES = 16; // index, rows
const FIGURE_BYTES = 8;
const NS_PER_MS = 1_000_000n;

/** Names of the counters of requests, in the order of the row. */
export const COUNTED_REQUESTS = [
  "INSERT",
  "SET",
  "QUERY",
  "GET",
  "UPDATE",
  "PURGE",
  "LIST",
  "INFO",
  "STAT",
  "STATS",
  "PUBLISH",
  "SUBSCRIBE",
  "UNSUBSCRIBE",
  "CONNECTIONS",
  "CONNECTION",
  "CHANNELS",
  "CHANNEL",
  "WHOAMI",
] as const;

const KINDS: Readonly<Record<number, string>> = {
  [ConnectionKind.tcp]: "TCP",
  1: "UNIX socket",
  [ConnectionKind.websocket]: "WebSocket",
  [ConnectionKind.events]: "Events",
};

/** A connection with its counters. */
export interface Connection {
  /** 32 hex digits. */
  readonly id: string;
  readonly kind: string;
  /** Empty where it is not known. */
  readonly ip: string;
  readonly port: number;
  readonly connectedAtMs: number;
  readonly readBytes: number;
  readonly writeBytes: number;
  readonly publishedBytes: number;
  readonly receivedBytes: number;
  /** In the order of `COUNTED_REQUESTS`. */
  readonly requests: readonly number[];
}

/** @throws Error for an answer that ends inside a row, or is a refusal */
export function readConnections(reply: Uint8Array): Connection[] {
  const connections: Connection[] = [];
  const view = new DataView(reply.buffer, reply.byteOffset, reply.byteLength);
  if (view.getUint8(0) !== 1) throw new Error("the server refused to list connections");
  let at = HEAD_BYTES;
  for (let fragments = view.getBigUint64(1, true); fragments > 0n; fragments--) {
    let rows = view.getBigUint64(at + 8, true);
    for (at += FRAGMENT_BYTES; rows > 0n; rows--, at += CONNECTION_ROW_BYTES) {
      connections.push(readRow(reply, view, at));
    }
  }
  return connections;
}

function readRow(reply: Uint8Array, view: DataView, at: number): Connection {
  const figure = (offset: number): number => Number(view.getBigUint64(at + offset, true));
  return {
    id: hexOf(reply.subarray(at, at + 16)),
    kind: KINDS[view.getUint8(at + 17)] ?? "unknown",
    ip: addressOf(view.getUint8(at + 18), reply.subarray(at + 19, at + 35)),
    port: view.getUint16(at + 35, true),
    connectedAtMs: Number(view.getBigUint64(at + 37, true) / NS_PER_MS),
    readBytes: figure(45),
    writeBytes: figure(53),
    publishedBytes: figure(61),
    receivedBytes: figure(69),
    requests: COUNTED_REQUESTS.map((_, i) => figure(93 + i * FIGURE_BYTES)),
  };
}

/** Text, padded with zeros; or the sixteen bytes of an IPv6 address whose text is longer. */
function addressOf(version: number, field: Uint8Array): string {
  const end = field.indexOf(0);
  const text = utf8Of(end === -1 ? field : field.subarray(0, end)) ?? "";
  const isText = /^[\da-fA-F.:]*$/.test(text) && field.subarray(text.length).every((b) => b === 0);
  if (version !== 6 || (isText && text.includes(":"))) return text;
  return Array.from({ length: 8 }, (_, i) =>
    ((field[2 * i]! << 8) | field[2 * i + 1]!).toString(16),
  ).join(":");
}
