/**
 * The row of a connection in CONNECTIONS and CONNECTION.
 *
 * Source: protocol reference, "Connection row". Objects tell each other the row of 7.3; that of 7.1
 * has no type and no kind. It has no place for commands of the edge dialect: `GET /v1/connections` asks Hubs for
 * a longer row, which has counts of types from EVENT on behind it.
 */
import { binaryString } from "../bytes.ts";
import type { PageReader } from "../page.ts";
import type { Dialect } from "./protocol.ts";
import { REQUEST_TYPES_END, RequestType } from "./requests.ts";

export const CONNECTION_ROW_BYTES = 237;
/** Of the longer row: types below have their places in the row of 7.3. */
const FURTHER_TYPES_START = RequestType.event;
export const COUNTED_ROW_BYTES =
  CONNECTION_ROW_BYTES + 8 * (REQUEST_TYPES_END - FURTHER_TYPES_START);
/** Connections are in the order of connected at and id, which are the key of their rows. */
export const CONNECTION_KEY_BYTES = 24;
const NS_PER_MS = 1_000_000n;
const FIGURES_AT = 45;
const COUNTS_AT = 93;
const IP_AT = 19;
const IP_BYTES = 16;
/** Of the fields that 7.1 does not have, and their offset. */
const TYPE_AND_KIND_BYTES = 2;
const TYPE_AT = 16;

/** What carries a connection. 1 would be a UNIX socket. */
export const ConnectionKind = { tcp: 0, websocket: 2, events: 3 } as const;

/** Tallies of requests, in the order of the row. */
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
  view.setBigUint64(at + 37, BigInt(row.connectedAtMs) * NS_PER_MS, true);
  const figures = [
    row.readBytes,
    row.writeBytes,
    row.publishedBytes,
    row.receivedBytes,
    row.allocatedBytes,
    row.consumedBytes,
    ...COUNTED.map((type) => row.counts[type]!),
  ];
  figures.forEach((figure, i) => view.setBigUint64(at + FIGURES_AT + 8 * i, BigInt(figure), true));
}

/** Writes what the longer row has behind the row of 7.3. */
export function writeFurtherCounts(view: DataView, at: number, { counts }: ConnectionRow): void {
  for (let type: number = FURTHER_TYPES_START; type < REQUEST_TYPES_END; type++) {
    view.setFloat64(furtherAt(at, type), counts[type]!, true);
  }
}

const furtherAt = (at: number, type: number): number =>
  at + CONNECTION_ROW_BYTES + 8 * (type - FURTHER_TYPES_START);

/** Reads the current entry of a page of connections. A Hub of release 0.4 knows the row of 7.3 only. */
export function readConnectionRow({ bytes, view, rowAt: at, rowBytes }: PageReader): ConnectionRow {
  const figure = (offset: number): number => Number(view.getBigUint64(at + offset, true));
  const figures = (i: number): number => figure(FIGURES_AT + 8 * i);
  const counts = new Float64Array(REQUEST_TYPES_END);
  COUNTED.forEach((type, i) => (counts[type] = figure(COUNTS_AT + 8 * i)));
  if (rowBytes >= COUNTED_ROW_BYTES) {
    for (let type: number = FURTHER_TYPES_START; type < REQUEST_TYPES_END; type++) {
      counts[type] = view.getFloat64(furtherAt(at, type), true);
    }
  }
  return {
    id: bytes.slice(at, at + 16),
    kind: view.getUint8(at + 17),
    ip: ipOf(view.getUint8(at + 18), bytes.subarray(at + IP_AT, at + IP_AT + IP_BYTES)),
    port: view.getUint16(at + 35, true),
    connectedAtMs: Number(view.getBigUint64(at + 37, true) / NS_PER_MS),
    readBytes: figures(0),
    writeBytes: figures(1),
    publishedBytes: figures(2),
    receivedBytes: figures(3),
    allocatedBytes: figures(4),
    consumedBytes: figures(5),
    counts,
  };
}

/** The text in a field; of its sixteen bytes when they are an address of IPv6 whose text is longer. */
function ipOf(version: number, field: Uint8Array): string {
  const padded = binaryString(field, 0, field.length);
  const text = padded.replace(/\0+$/, "");
  if (version !== 6 || (/^[\da-fA-F.:]*$/.test(text) && text.includes(":"))) return text;
  return Array.from({ length: 8 }, (_, i) =>
    ((field[2 * i]! << 8) | field[2 * i + 1]!).toString(16),
  ).join(":");
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
