/** Places of records, in the order of their keys. */
import { compareBytes } from "../wire/bytes.ts";
import { KEY_AT, keyLengthOf, META, type Segment } from "./segment.ts";

/** Where a record lies. */
export interface Place {
  readonly segment: Segment;
  readonly slot: number;
}

/** True when the key of the record in a slot comes behind a key. */
export function isBehind({ slots, arena }: Segment, slot: number, key: Uint8Array): boolean {
  const length = keyLengthOf(slots[slot + META]!);
  return compareBytes(arena, slots[slot + KEY_AT]!, length, key, 0, key.length) > 0;
}

export function compareKeys(a: Place, b: Place): number {
  return compareSlots(a.segment, a.slot, b);
}

export function compareSlots({ slots, arena }: Segment, slot: number, b: Place): number {
  return compareBytes(
    arena,
    slots[slot + KEY_AT]!,
    keyLengthOf(slots[slot + META]!),
    b.segment.arena,
    b.segment.slots[b.slot + KEY_AT]!,
    keyLengthOf(b.segment.slots[b.slot + META]!),
  );
}
