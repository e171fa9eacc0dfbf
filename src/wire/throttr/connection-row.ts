/**
 * The row of a connection in CONNECTIONS and CONNECTION.
 *
 * Source: protocol reference, "Connection row". Objects tell each other the row of 7.3; that of 7.1
 * has no type and no kind.
 */
import type { Dialect } from "./protocol.ts";
import { RequestType } from "./requests.ts";

export const CONNECTION_ROW_BYTES = 237;
const IP_AT = 19;
const IP_BYTES = 16;
/** Of the fields that 7.1 does not have, and their offset. */
const TYPE_AND_KIND_BYTES = 2;
const TYPE_AT = 16;

/** What carries a connection. 1 would be a UNIX socket. */
export const ConnectionKind = { tcp: 0, websocket: 2, events: 3 } as const;

/** Counters of requests, in the order of the row. */
const COUNTED: readonly number[] = [
  RequestType.insert,
  RequestType.set,
  RequestType.query,
  RequestType.get,
  RequestType.update,
  RequestType.purge,
  RequestType.list,
  RequestType.info,
  RequestType.stat,
  RequestType.stats,
  RequestType.publish,
  RequestType.subscribe,
  RequestType.unsubscribe,
  RequestType.connections,
  RequestType.connection,
  RequestType.channels,
  RequestType.channel,
  RequestType.whoami,
];

export interface ConnectionRow {
  readonly id: Uint8Array;
  readonly kind: number;
  /** As text; empty when it is not known. */
  readonly ip: string;
  readonly port: number;
  readonly connectedAtMs: number;
  readonly readBytes: number;
  readonly writeBytes: number;
  readonly publishedBytes: number;
  readonly receivedBytes: number;
  readonly allocatedBytes: number;
  readonly consumedBytes: number;
  /** Requests by type. */
  readonly counts: Float64Array;
}

/** Writes the row of 7.3 over zeros. */
export function writeConnectionRow(
  bytes: Uint8Array,
  view: DataView,
  at: number,
  row: ConnectionRow,
): void {
  bytes.set(row.id, at);
  view.setUint8(at + 17, row.kind);
  const isV6 = row.ip.includes(":");
  view.setUint8(at + 18, isV6 ? 6 : 4);
  bytes.set(ipField(row.ip), at + IP_AT);
  view.setUint16(at + 35, row.port, true);
  view.setBigUint64(at + 37, BigInt(row.connectedAtMs) * 1_000_000n, true);
  const figures = [
    row.readBytes,
    row.writeBytes,
    row.publishedBytes,
    row.receivedBytes,
    row.allocatedBytes,
    row.consumedBytes,
    ...COUNTED.map((type) => row.counts[type]!),
  ];
  figures.forEach((figure, i) => view.setBigUint64(at + 45 + 8 * i, BigInt(figure), true));
}

/** IP addresses as text; longer text, which only IPv6 has, as the 16 bytes that it stands for. */
function ipField(ip: string): Uint8Array {
  if (ip.length <= IP_BYTES) return Uint8Array.from(ip, (character) => character.charCodeAt(0));
  const groups = (text: string): number[] =>
    text === "" ? [] : text.split(":").flatMap((group) => groupBytes(group));
  const [head = "", tail] = ip.split("::");
  const bytes = new Uint8Array(IP_BYTES);
  bytes.set(groups(head).slice(0, IP_BYTES));
  if (tail !== undefined) {
    const end = groups(tail).slice(-IP_BYTES);
    bytes.set(end, IP_BYTES - end.length);
  }
  return bytes;
}

function groupBytes(group: string): number[] {
  if (group.includes(".")) return group.split(".").map(Number);
  const value = Number.parseInt(group, 16);
  return [value >>> 8, value & 0xff];
}

/** The row of 7.3 at `at`, as a dialect has it. */
export function connectionRowOf(dialect: Dialect, bytes: Uint8Array, at: number): Uint8Array {
  const row = bytes.slice(at, at + CONNECTION_ROW_BYTES);
  if (dialect !== "7.1") return row;
  row.copyWithin(TYPE_AT, TYPE_AT + TYPE_AND_KIND_BYTES);
  return row.subarray(0, connectionRowBytes(dialect));
}

export function connectionRowBytes(dialect: Dialect): number {
  return dialect === "7.1" ? CONNECTION_ROW_BYTES - TYPE_AND_KIND_BYTES : CONNECTION_ROW_BYTES;
}
