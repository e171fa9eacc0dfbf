/** Backup and moving of leases: all that there is to know of them, out of a namespace and into one. */
import { ByteWriter } from "../bytes.ts";
import { integerOf, nameOf, objectOf, semaphoreNameOf, type Text } from "./argument.ts";
import {
  Command,
  EXPORT_BYTES_MAX,
  EXPORT_RECORDS_MAX,
  EXPORT_ROW_BYTES,
  ExportOption,
  LEASE_ID_BYTES,
  U32_MAX,
} from "./command.ts";
import { leaseIdOf } from "./lease-id.ts";
import { msOf } from "./milliseconds.ts";
import { writeU64 } from "./on-key.ts";
import { commandOf, type CommandReply, type Operation } from "./operation.ts";
import {
  policyOf,
  readRestoreResult,
  type RestoreOptions,
  type RestoreResult,
} from "./transfer.ts";
import { uuidOf } from "./uuid.ts";

/** A lease with all there is to know of it. */
export interface StoredLease {
  /** Of the semaphore, 1 to 255 bytes. */
  readonly name: Text;
  /** A UUID. */
  readonly leaseId: string;
  /** 1 to 2^32 - 1. */
  readonly resources: number;
  /** When it ends, in ms since the epoch by the server's clock. */
  readonly expiresAtMs: number;
}

/** A lease as it is stored. */
export interface ExportedLease extends StoredLease {
  readonly name: Uint8Array;
}

export interface LeaseExportOptions {
  /** Names of semaphores begin with it; all unless given. */
  readonly prefix?: Text | undefined;
  /** Leases of a page, 1 to 10,000; 10,000 unless given. */
  readonly limit?: number | undefined;
  /** Bytes of a page, 1 to 2^20, unless a single lease has more; 2^20 unless given. */
  readonly bytesMax?: number | undefined;
  /** `cursor` of the page before, or any lease. */
  readonly cursor?: Pick<StoredLease, "name" | "leaseId"> | undefined;
}

export interface LeasePage {
  readonly leases: readonly ExportedLease[];
  /** For the next page; null behind the last one. */
  readonly cursor: ExportedLease | null;
}

/** Frames are written here, one after the other. */
const scratch = new ByteWriter(512);
/** Before the rows of a page: whether it is the last one. */
const PAGE_HEADER_BYTES = 1;
/** In a row: sizes, kind and unit stand around it. */
const END_AT = 4;
const NS_PER_MS = 1_000_000n;

export function exportLeases(options: LeaseExportOptions = {}): Operation<LeasePage> {
  const { limit = EXPORT_RECORDS_MAX, bytesMax = EXPORT_BYTES_MAX, cursor } = options;
  integerOf(limit, "limit", 1, EXPORT_RECORDS_MAX);
  integerOf(bytesMax, "bytesMax", 1, EXPORT_BYTES_MAX, "bytes_max_invalid");
  const after = cursor === undefined ? null : afterOf(cursor);
  const body = (out: ByteWriter): void => {
    out.u16(limit);
    out.u32(bytesMax);
    out.u8(after === null ? 0 : ExportOption.isBehind);
    if (after === null) return;
    out.copy(after.id);
    out.copy(after.name);
  };
  const key = nameOf(options.prefix ?? "", "prefix");
  return commandOf(scratch, { type: Command.exportLeases, key, isRead: true, body }, pageOf);
}

export function restoreLease(
  lease: StoredLease,
  options: RestoreOptions = {},
): Operation<RestoreResult> {
  objectOf(lease, "lease", "name, leaseId, resources and expiresAtMs");
  const key = semaphoreNameOf(lease.name);
  const policy = policyOf(options.policy ?? "keep");
  const id = leaseIdOf(lease.leaseId);
  const resources = integerOf(lease.resources, "resources", 1, U32_MAX);
  const { expiresAtMs } = lease;
  integerOf(expiresAtMs, "expiresAtMs", 0, MS_MAX, "expires_at_ms_invalid");
  const body = (out: ByteWriter): void => {
    out.u8(policy);
    out.copy(id);
    out.u32(resources);
    writeU64(out, BigInt(expiresAtMs) * NS_PER_MS);
  };
  return commandOf(scratch, { type: Command.restoreLease, key, body }, readRestoreResult);
}

/** A u64 of nanoseconds holds it. */
const MS_MAX = Number(((1n << 64n) - 1n) / NS_PER_MS);

/** A lease to go on behind: its ID, and its name. */
function afterOf(cursor: Pick<StoredLease, "name" | "leaseId">): {
  readonly id: Uint8Array;
  readonly name: Uint8Array;
} {
  objectOf(cursor, "cursor", "the name and the leaseId of a lease");
  return { id: leaseIdOf(cursor.leaseId), name: semaphoreNameOf(cursor.name) };
}

function pageOf({ bytes, view }: CommandReply): LeasePage {
  const leases: ExportedLease[] = [];
  for (let at = PAGE_HEADER_BYTES; at < bytes.length;) {
    const idAt = at + EXPORT_ROW_BYTES;
    const nameAt = idAt + LEASE_ID_BYTES;
    const valueAt = idAt + view.getUint16(at, true);
    leases.push({
      name: bytes.slice(nameAt, valueAt),
      leaseId: uuidOf(bytes.subarray(idAt, nameAt)),
      resources: view.getUint32(valueAt, true),
      expiresAtMs: msOf(view.getBigUint64(at + END_AT, true)),
    });
    at = valueAt + view.getUint32(at + EXPORT_ROW_BYTES - 4, true);
  }
  return { leases, cursor: bytes[0] === 1 ? null : leases.at(-1)! };
}
