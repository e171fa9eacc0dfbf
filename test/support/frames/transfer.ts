/** RESTORE and EXPORT, of records and of leases, as bytes, written from the text of their formats, and their replies. */
import { bytesOf, concat, u16, u32, u64 } from "./bytes.ts";
import { commandFrame, type CommandOptions } from "./commands.ts";
import type { Pair } from "./pairs.ts";

export const RESTORE = 0x33;
export const EXPORT = 0x34;
export const RESTORE_PAIR = 0x35;
export const EXPORT_LEASES = 0x3a;
export const RESTORE_LEASE = 0x3b;
export const KEEP = 0;
export const REPLACE = 1;
export const KEPT = 0;
export const RESTORED = 1;
export const EXPIRED = 2;
export const COUNTER = 1;
export const BUFFER = 2;

/** A record. Keys and values have one character a byte. */
export interface TransferRecord {
  readonly kind: number;
  readonly unit: number;
  readonly expiresNs: bigint;
  /** Of a counter. */
  readonly quota?: bigint;
  /** Of a buffer. */
  readonly value?: string;
}

export function restoreBody(policy: number, record: TransferRecord): Uint8Array {
  const { kind, unit, expiresNs, quota, value } = record;
  return concat([
    Uint8Array.of(policy, kind, unit),
    u64(expiresNs),
    quota === undefined ? bytesOf(value!) : u64(quota),
  ]);
}

export const restore = (
  key: string,
  policy: number,
  record: TransferRecord,
  options?: CommandOptions,
) => commandFrame(RESTORE, key, restoreBody(policy, record), options);

export function restorePair(
  [consumer, resource]: Pair,
  policy: number,
  record: TransferRecord,
  flags = 0,
): Uint8Array<ArrayBuffer> {
  const body = restoreBody(policy, record);
  return concat([
    Uint8Array.of(RESTORE_PAIR, flags),
    u32(body.length),
    Uint8Array.of(consumer.length, resource.length),
    bytesOf(consumer + resource),
    body,
  ]);
}

export interface ExportAsked {
  readonly prefix?: string;
  readonly limit?: number;
  readonly bytesMax?: number;
  /** In place of the options that the other fields ask for. */
  readonly options?: number;
  readonly isPairs?: boolean;
  /** As it is stored; null for the first page. */
  readonly after?: string | null;
}

export function exportFrame({
  prefix = "",
  limit = 10_000,
  bytesMax = 1 << 20,
  isPairs = false,
  after = null,
  options = (after === null ? 0 : 1) | (isPairs ? 2 : 0),
}: ExportAsked = {}): Uint8Array<ArrayBuffer> {
  const body = concat([u16(limit), u32(bytesMax), Uint8Array.of(options), bytesOf(after ?? "")]);
  return commandFrame(EXPORT, prefix, body);
}

/** The key of a pair, as it is stored. */
export const pairKey = ([consumer, resource]: Pair): string =>
  String.fromCharCode(consumer.length, resource.length) + consumer + resource;

export interface ExportRow extends TransferRecord {
  /** As it is stored. */
  readonly key: string;
}

/** The page that the body of a reply to EXPORT is, or what a shard gives. */
export function exportRows(body: Uint8Array): { isLast: boolean; rows: ExportRow[] } {
  const view = new DataView(body.buffer, body.byteOffset, body.byteLength);
  const rows: ExportRow[] = [];
  for (let at = 1; at < body.length;) {
    const keyAt = at + 16;
    const valueAt = keyAt + view.getUint16(at, true);
    const end = valueAt + view.getUint32(at + 12, true);
    const kind = body[at + 2]!;
    rows.push({
      key: textAt(body, keyAt, valueAt),
      kind,
      unit: body[at + 3]!,
      expiresNs: view.getBigUint64(at + 4, true),
      ...(kind === COUNTER
        ? { quota: view.getBigUint64(valueAt, true) }
        : { value: textAt(body, valueAt, end) }),
    });
    at = end;
  }
  return { isLast: body[0] === 1, rows };
}

/** A lease. Names and IDs have one character a byte. */
export interface LeaseRow {
  readonly id: string;
  readonly name: string;
  readonly resources: number;
  readonly endsNs: bigint;
}

export const restoreLease = (
  { id, name, resources, endsNs }: LeaseRow,
  policy: number,
  options?: CommandOptions,
) =>
  commandFrame(
    RESTORE_LEASE,
    name,
    concat([Uint8Array.of(policy), bytesOf(id), u32(resources), u64(endsNs)]),
    options,
  );

export function exportLeasesFrame({
  prefix = "",
  limit = 10_000,
  bytesMax = 1 << 20,
  after = null,
  options = after === null ? 0 : 1,
}: Omit<ExportAsked, "isPairs"> = {}): Uint8Array<ArrayBuffer> {
  const body = concat([u16(limit), u32(bytesMax), Uint8Array.of(options), bytesOf(after ?? "")]);
  return commandFrame(EXPORT_LEASES, prefix, body);
}

/** The key of a lease, by which EXPORT_LEASES is asked for the page behind it. */
export const leaseKey = ({ id, name }: Pick<LeaseRow, "id" | "name">): string => id + name;

/** The page that the body of a reply to EXPORT_LEASES is, or what a shard gives. */
export function leaseRows(body: Uint8Array): { isLast: boolean; rows: LeaseRow[] } {
  const { isLast, rows } = exportRows(body);
  return {
    isLast,
    rows: rows.map(({ key, kind, unit, value, expiresNs }) => {
      if (kind !== 3 || unit !== 3 || value!.length !== 4) throw new Error("not a lease");
      const resources = new DataView(bytesOf(value!).buffer).getUint32(0, true);
      return { id: key.slice(0, 16), name: key.slice(16), resources, endsNs: expiresNs };
    }),
  };
}

function textAt(bytes: Uint8Array, from: number, to: number): string {
  let text = "";
  for (let at = from; at < to; at++) text += String.fromCharCode(bytes[at]!);
  return text;
}
