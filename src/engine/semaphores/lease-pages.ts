/**
 * Pages of leases: what an export of leases consists of, in the format of `engine/export.ts`.
 *
 *     row = key size u16, kind u8 (3), unit u8 (ms), end u64 (ns since the epoch), value size u32 (4), lease id 16, name,
 *           resources u32
 *
 * The order is that of lease IDs, and then of names. It does not depend on the numbers that a shard gives its semaphores,
 * so the next page begins behind the last lease of this one, also where a split has moved that lease to another shard. Holdings of
 * connections are left out.
 */
import { beginsWithAny, ByteWriter, compareBytes } from "../../wire/bytes.ts";
import { EXPORT_ROW_BYTES, LEASE_ID_BYTES, LEASE_KIND } from "../../wire/edge/command.ts";
import { Keyspace } from "../../wire/keyspace.ts";
import { EXPORT_PAGE_HEADER_BYTES } from "../export.ts";
import { firstKeys } from "../first-keys.ts";
import { LiveFilter } from "../live.ts";
import type { Records } from "../records.ts";
import { KEY_AT, type Segment } from "../segment.ts";
import { U64 } from "../time.ts";
import type { Steps } from "../walk.ts";
import { HolderKind } from "./holder.ts";
import { Leases } from "./leases.ts";
import type { Semaphores } from "./semaphores.ts";
import { HOLDING_NUMBER, readU32 } from "./stored.ts";
import { EXPORT_STEP_ROWS } from "../sizes.ts";

/** The kind of a holder stands before its ID. */
const ID_AT = 1;
const RESOURCES_BYTES = 4;
/** Milliseconds, by TTL type. */
const MS_UNIT = 3;

/** Which leases to visit: their semaphores have these prefixes. */
export interface LeaseQuery {
  readonly prefix: Uint8Array;
  /** Names also begin with one of these; empty for all names. */
  readonly prefixes: readonly Uint8Array[];
}

export class LeasePages {
  readonly #records: Records;
  readonly #semaphores: Semaphores;
  readonly #leases: Leases;
  readonly #ends = new U64();

  constructor(records: Records, semaphores: Semaphores) {
    this.#records = records;
    this.#semaphores = semaphores;
    this.#leases = new Leases(semaphores);
  }

  /**
   * The first leases behind one, `ORDERED_PAGE_ROWS_MAX` at most. A page that is not the last one has at least one lease.
   *
   * @param after lease ID and name; null for the first page
   * @param bytesMax of all rows; a single one may have more
   */
  *page(
    { prefix, prefixes }: LeaseQuery,
    after: Uint8Array | null,
    leasesMax: number,
    bytesMax: number,
  ): Steps<Uint8Array<ArrayBuffer>> {
    const filter = new LiveFilter(this.#records, Keyspace.holdings);
    const isAsked = (name: Uint8Array): boolean =>
      beginsWithAny(prefixes, name, 0, name.length) &&
      beginsWithAny([prefix], name, 0, name.length);
    const out = new ByteWriter(4096);
    out.reserve(EXPORT_PAGE_HEADER_BYTES);
    let [rows, looked] = [0, 0];
    for (let behind = after; ;) {
      this.#semaphores.expire(this.#records.clock.realMs);
      const { keys, isAll } = yield* firstKeys(this.#records, filter, behind, {
        isAsked: (segment, slot, last) => mayBeOnPage(segment, slot, behind, last),
        keyOf: (segment, slot) => this.#keyOf(segment, slot, isAsked),
        keysMax: leasesMax,
      });
      let isWhole = isAll;
      for (const key of keys) {
        const bytes = EXPORT_ROW_BYTES + key.length + RESOURCES_BYTES;
        if (rows > 0 && out.length - EXPORT_PAGE_HEADER_BYTES + bytes > bytesMax) {
          isWhole = false;
          break;
        }
        if (this.#writeRow(out, key)) rows++;
        if (++looked % EXPORT_STEP_ROWS === 0) yield;
      }
      // All that were found have ended meanwhile: a page without a lease would not say where to go on.
      if (rows === 0 && !isWhole) {
        behind = keys.at(-1)!;
        continue;
      }
      out.bytes[0] = isWhole ? 1 : 0;
      out.view.setUint16(1, rows, true);
      return out.take();
    }
  }

  /** Lease ID and name of a lease; null for the holding of a connection, and for a semaphore that is not asked for. */
  #keyOf(
    { slots, arena }: Segment,
    slot: number,
    isAsked: (name: Uint8Array) => boolean,
  ): Uint8Array | null {
    const keyAt = slots[slot + KEY_AT]!;
    if (arena[keyAt] !== HolderKind.lease) return null;
    const name = this.#semaphores.stored.nameOf(readU32(arena, keyAt + HOLDING_NUMBER));
    if (name === null || !isAsked(name)) return null;
    const key = new Uint8Array(LEASE_ID_BYTES + name.length);
    key.set(arena.subarray(keyAt + ID_AT, keyAt + ID_AT + LEASE_ID_BYTES));
    key.set(name, LEASE_ID_BYTES);
    return key;
  }

  /** Writes the row of a lease; false if it has ended. */
  #writeRow(out: ByteWriter, key: Uint8Array): boolean {
    const records = this.#records;
    const held = this.#leases.find(
      key.subarray(LEASE_ID_BYTES),
      key.subarray(0, LEASE_ID_BYTES),
      records.clock.realMs,
    );
    if (held === null) return false;
    // Rounded up: at another server the lease must not end before it does here.
    const endsMs = records.toReal(this.#ends.setMs(held.endsAtMs)).toMsCeil();
    const ends = this.#ends.setMs(endsMs);
    out.u16(key.length);
    out.u8(LEASE_KIND);
    out.u8(MS_UNIT);
    out.u32(ends.low);
    out.u32(ends.high);
    out.u32(RESOURCES_BYTES);
    out.copy(key);
    out.u32(held.resources);
    return true;
  }
}

/** By its ID alone, whether a lease may lie between two others: names are looked up for few of all leases. */
function mayBeOnPage(
  { slots, arena }: Segment,
  slot: number,
  after: Uint8Array | null,
  last: Uint8Array | null,
): boolean {
  const at = slots[slot + KEY_AT]! + ID_AT;
  const isWithin = (lease: Uint8Array, sign: 1 | -1): boolean =>
    sign * compareBytes(arena, at, LEASE_ID_BYTES, lease, 0, LEASE_ID_BYTES) >= 0;
  return (after === null || isWithin(after, 1)) && (last === null || isWithin(last, -1));
}
