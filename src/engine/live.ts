/** The live records of a segment: those of one keyspace whose time has not come. */
import { beginsWithAny } from "../wire/bytes.ts";
import { Keyspace } from "../wire/keyspace.ts";
import type { U64 } from "./time.ts";
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

/** True for a slot with a live record of the keyspace whose key has one of the prefixes. */
export function isLive(
  segment: Segment,
  slot: number,
  now: U64,
  keyspace: Keyspace,
  prefixes: readonly Uint8Array[],
): boolean {
  const { slots } = segment;
  const meta = slots[slot + META]!;
  if (meta === 0 || keyspaceOf(meta) !== keyspace) return false;
  if (hasExpired(slots, slot, now)) return false;
  return hasPrefix(segment, slot, prefixes);
}

/**
 * True for a record whose key has one of the prefixes, or where there are none. Of a pair it is the
 * consumer that must have it, as with tokens; of an answer the key of the command.
 */
export function hasPrefix(
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
    default:
      return beginsWithAny(prefixes, arena, at, bytes);
  }
}

/** Visits the live records of a keyspace whose keys have one of the prefixes. */
export function forEachLive(
  segment: Segment,
  now: U64,
  keyspace: Keyspace,
  prefixes: readonly Uint8Array[],
  visit: (slot: number) => void,
): void {
  for (let slot = 0; slot < segment.slots.length; slot += SLOT_WORDS) {
    if (isLive(segment, slot, now, keyspace, prefixes)) visit(slot);
  }
}
