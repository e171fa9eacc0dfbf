/** Semaphores: resources that callers without a connection hold by leases. */
import { ByteWriter } from "../bytes.ts";
import {
  cursorOf,
  integerOf,
  leaseTtlOf,
  nameOf,
  objectOf,
  semaphoreNameOf,
  type Text,
} from "./argument.ts";
import {
  Command,
  HOLDER_CURSOR_BYTES,
  HOLDER_KINDS,
  HOLDER_ROW_BYTES,
  SCAN_RECORDS_MAX,
  ScanOption,
  SEMAPHORE_NAME_BYTES_MAX,
  SEMAPHORE_ROW_BYTES,
  U32_MAX,
} from "./command.ts";
import { leaseIdOf } from "./lease-id.ts";
import { msOf } from "./milliseconds.ts";
import { reading, writeTtl } from "./on-key.ts";
import { commandOf, type CommandReply, type Operation } from "./operation.ts";
import { isApplied, OUTCOME_BYTES, readLease } from "./outcome.ts";
import { uuidOf } from "./uuid.ts";

export interface AcquireOptions {
  /** How much is held, 1 to 2^32 - 1; 1 unless given. */
  readonly resources?: number | undefined;
  /** What all that is held together must not exceed: `resources` to 2^32 - 1. Nothing of it is kept. */
  readonly maximum: number;
  /**
   * When the lease ends, unless it is renewed or released before: an integer from 1 to 86,400,000, a day.
   * Resources of a caller that is gone are in use until then.
   */
  readonly ttlMs: number;
  /**
   * A UUID; a new one unless given. The same call with the same id holds no more than once, and renews
   * what it holds: so it may be made again when its answer was lost.
   */
  readonly leaseId?: string | undefined;
}

export interface RenewOptions {
  /** From now to the end of the lease: an integer from 1 to 86,400,000. */
  readonly ttlMs: number;
}

/** Resources that a caller holds of a semaphore, until a time. */
export interface Lease {
  /** A UUID. Each caller that has it, and the rights to the name, may renew and release the lease. */
  readonly leaseId: string;
  /** Of the semaphore. */
  readonly name: Text;
  readonly resources: number;
  readonly ttlMs: number;
  /** Since the epoch, by the server's clock. */
  readonly expiresAtMs: number;
}

/** What is in use of a semaphore. */
export interface SemaphoreState {
  /** All that is held together. */
  readonly consumption: number;
  /** The largest consumption in this interval, a day unless the server is told otherwise. */
  readonly mostHeld: number;
  /** @deprecated It is no maximum of `acquire`: use `mostHeld`, which is the same. */
  readonly maximum: number;
}

export interface SemaphoreListOptions {
  /** Names begin with it; all unless given. */
  readonly prefix?: Text | undefined;
  /** Semaphores of a page, 1 to 1,000; 1,000 unless given. Long names make pages shorter. */
  readonly limit?: number | undefined;
  /** `cursor` of the page before. */
  readonly cursor?: Text | undefined;
}

export interface ListedSemaphore extends SemaphoreState {
  /** 1 to 255 bytes; up to 65,535 where it came over the yrmcds protocol. */
  readonly name: Uint8Array;
}

/** Semaphores in the order of their names. */
export interface SemaphorePage {
  readonly semaphores: readonly ListedSemaphore[];
  /** For the next page; null behind the last one. */
  readonly cursor: Uint8Array | null;
}

export interface HolderListOptions {
  /** Holders of a page, 1 to 1,000; 1,000 unless given. */
  readonly limit?: number | undefined;
  /** `cursor` of the page before. */
  readonly cursor?: Uint8Array | undefined;
}

/** Who holds resources of a semaphore. */
export interface Holder {
  /** A connection of the yrmcds protocol holds until it releases, or ends. */
  readonly kind: "connection" | "lease";
  /** A UUID: of the connection, or of the lease. */
  readonly id: string;
  readonly resources: number;
  /** Of a lease: since the epoch, by the server's clock. */
  readonly expiresAtMs: number | null;
}

/** Connections, then leases, each in the order of their ids. */
export interface HolderPage {
  readonly holders: readonly Holder[];
  /** For the next page; null behind the last one. */
  readonly cursor: Uint8Array | null;
}

/** Frames are written here, one after the other. */
const scratch = new ByteWriter(256);
const NOTHING = new Uint8Array(0);
/** Before the rows of a page: whether it is the last one. */
const PAGE_HEADER_BYTES = 1;
const HOLDER_AT = HOLDER_ROW_BYTES - HOLDER_CURSOR_BYTES;

export function acquire(name: Text, options: AcquireOptions): Operation<Lease | null> {
  const key = semaphoreNameOf(name);
  objectOf(options, "options", "maximum and ttlMs");
  const resources = integerOf(options.resources ?? 1, "resources", 1, U32_MAX);
  const maximum = integerOf(options.maximum, "maximum", resources, U32_MAX);
  const ttlMs = leaseTtlOf(options.ttlMs);
  const id = leaseIdOf(options.leaseId);
  const read = (reply: CommandReply): Lease | null => leaseOf(name, id, reply);
  return onSemaphore(Command.acquire, key, read, (out) => {
    out.copy(id);
    out.u32(resources);
    out.u32(maximum);
    writeTtl(out, ttlMs);
  });
}

export function renew(name: Text, leaseId: string, options: RenewOptions): Operation<Lease | null> {
  const key = semaphoreNameOf(name);
  const id = leaseIdOf(leaseId);
  const ttlMs = leaseTtlOf(objectOf(options, "options", "ttlMs").ttlMs);
  const read = (reply: CommandReply): Lease | null => leaseOf(name, id, reply);
  return onSemaphore(Command.renew, key, read, (out) => {
    out.copy(id);
    writeTtl(out, ttlMs);
  });
}

export function release(name: Text, leaseId: string): Operation<boolean> {
  const key = semaphoreNameOf(name);
  const id = leaseIdOf(leaseId);
  return onSemaphore(Command.release, key, isApplied, (out) => out.copy(id));
}

export function inspectSemaphore(name: Text): Operation<SemaphoreState | null> {
  return reading(Command.semaphore, semaphoreNameOf(name), (reply) =>
    isApplied(reply) ? stateAt(reply, OUTCOME_BYTES) : null,
  );
}

export function semaphores(options: SemaphoreListOptions = {}): Operation<SemaphorePage> {
  const { cursor } = options;
  const prefix = nameOf(options.prefix ?? "", "prefix");
  const after = cursorOf(cursor, SEMAPHORE_NAME_BYTES_MAX);
  return reading(Command.semaphores, prefix, semaphorePageOf, pageBody(options.limit, after));
}

export function holders(name: Text, options: HolderListOptions = {}): Operation<HolderPage> {
  const { cursor } = options;
  const key = semaphoreNameOf(name);
  const after = cursorOf(cursor);
  return reading(Command.holders, key, holderPageOf, pageBody(options.limit, after));
}

function onSemaphore<Result>(
  type: number,
  key: Uint8Array,
  read: (reply: CommandReply) => Result,
  body: (out: ByteWriter) => void,
): Operation<Result> {
  return commandOf(scratch, { type, key, isRepeatable: true, body }, read);
}

/** @throws ThrottrError `limit_invalid` */
function pageBody(rowsMax = SCAN_RECORDS_MAX, after: Uint8Array | null): (out: ByteWriter) => void {
  integerOf(rowsMax, "limit", 1, SCAN_RECORDS_MAX);
  return (out) => {
    out.u16(rowsMax);
    out.u8(after === null ? 0 : ScanOption.isBehind);
    out.copy(after ?? NOTHING);
  };
}

function leaseOf(name: Text, id: Uint8Array, reply: CommandReply): Lease | null {
  if (!isApplied(reply)) return null;
  const { resources, leftNs, expiresAtNs } = readLease(reply.view);
  return {
    leaseId: uuidOf(id),
    name,
    resources,
    ttlMs: msOf(leftNs),
    expiresAtMs: msOf(expiresAtNs),
  };
}

function stateAt({ view }: CommandReply, at: number): SemaphoreState {
  const mostHeld = view.getUint32(at + 4, true);
  return { consumption: view.getUint32(at, true), mostHeld, maximum: mostHeld };
}

function semaphorePageOf(reply: CommandReply): SemaphorePage {
  const { bytes, view } = reply;
  const listed: ListedSemaphore[] = [];
  for (let at = PAGE_HEADER_BYTES; at < bytes.length;) {
    const nameAt = at + SEMAPHORE_ROW_BYTES;
    const end = nameAt + view.getUint16(at, true);
    listed.push({ name: bytes.slice(nameAt, end), ...stateAt(reply, at + 2) });
    at = end;
  }
  return { semaphores: listed, cursor: isLast(reply) ? null : listed.at(-1)!.name };
}

function holderPageOf(reply: CommandReply): HolderPage {
  const { bytes, view } = reply;
  const listed: Holder[] = [];
  for (let at = PAGE_HEADER_BYTES; at < bytes.length; at += HOLDER_ROW_BYTES) {
    const kind = HOLDER_KINDS[bytes[at + HOLDER_AT] as keyof typeof HOLDER_KINDS];
    listed.push({
      kind,
      id: uuidOf(bytes.subarray(at + HOLDER_AT + 1, at + HOLDER_ROW_BYTES)),
      resources: view.getUint32(at, true),
      expiresAtMs: kind === "lease" ? msOf(view.getBigUint64(at + 4, true)) : null,
    });
  }
  return { holders: listed, cursor: isLast(reply) ? null : bytes.slice(-HOLDER_CURSOR_BYTES) };
}

const isLast = ({ bytes }: CommandReply): boolean => bytes[0] === 1;
