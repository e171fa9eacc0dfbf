/**
 * Live records: those of one keyspace that have not expired, by the prefixes of their keys.
 *
 * Every walk over records uses this filter, so a record past its expiry is on no page, whether it was collected or not.
 */
import { beginsWithAny } from "../wire/bytes.ts";
import { RESERVATION_ID_BYTES } from "../wire/edge/reservation-bounds.ts";
import { Keyspace } from "../wire/keyspace.ts";
import type { Records } from "./records.ts";
import {
  hasExpired,
  KEY_AT,
  keyLengthOf,
  keyspaceOf,
  META,
  SLOT_WORDS,
  type Segment,
} from "./segment.ts";

/** A pair has the sizes of its two names in front. */
const PAIR_SIZES_BYTES = 2;

/**
 * The live records that a walk visits: those of a keyspace whose keys have the prefixes. Records that were given to another
 * shard are not among them, though they may still be there.
 */
export class LiveFilter {
  readonly keyspace: Keyspace;
  /** Given records are live, too: for a walk that began before they were given away. */
  hasGiven = false;
  readonly #records: Pick<Records, "now" | "table">;
  readonly #prefixes: readonly Uint8Array[];
  readonly #prefix: readonly Uint8Array[];

  /**
   * @param records have the shard's time, which moves on during a walk
   * @param prefixes keys begin with one of them; empty for all keys
   * @param prefix keys begin with it, too
   */
  constructor(
    records: Pick<Records, "now" | "table">,
    keyspace: Keyspace,
    prefixes: readonly Uint8Array[] = [],
    prefix: Uint8Array = new Uint8Array(0),
  ) {
    this.#records = records;
    this.keyspace = keyspace;
    this.#prefixes = prefixes;
    this.#prefix = prefix.length === 0 ? [] : [prefix];
  }

  /** True for a slot with such a record. */
  has(segment: Segment, slot: number): boolean {
    const { slots } = segment;
    const meta = slots[slot + META]!;
    if (meta === 0 || keyspaceOf(meta) !== this.keyspace) return false;
    const { now, table } = this.#records;
    if (hasExpired(slots, slot, now) || (table.isGiven(meta) && !this.hasGiven)) return false;
    return hasPrefix(segment, slot, this.#prefixes) && hasPrefix(segment, slot, this.#prefix);
  }

  /** Visits the slots of a segment that have such a record. */
  forEach(segment: Segment, visit: (slot: number) => void): void {
    for (let slot = 0; slot < segment.slots.length; slot += SLOT_WORDS) {
      if (this.has(segment, slot)) visit(slot);
    }
  }
}

/**
 * True for a record whose key has one of the prefixes, or if there are no prefixes. The consumer of a pair must have it,
 * as with tokens; of a kept answer or a reservation, the key of the command.
 */
function hasPrefix(
  { slots, arena }: Segment,
  slot: number,
  prefixes: readonly Uint8Array[],
): boolean {
  const meta = slots[slot + META]!;
  const at = slots[slot + KEY_AT]!;
  const bytes = keyLengthOf(meta);
  switch (keyspaceOf(meta)) {
    case Keyspace.throttrPairs:
      return beginsWithAny(prefixes, arena, at + PAIR_SIZES_BYTES, arena[at]!);
    case Keyspace.answers: {
      // The idempotency key stands before it, and its size before both.
      const idBytes = 1 + arena[at]!;
      return beginsWithAny(prefixes, arena, at + idBytes, bytes - idBytes);
    }
    case Keyspace.reservations:
      return beginsWithAny(
        prefixes,
        arena,
        at + RESERVATION_ID_BYTES,
        bytes - RESERVATION_ID_BYTES,
      );
    default:
      return beginsWithAny(prefixes, arena, at, bytes);
  }
}
