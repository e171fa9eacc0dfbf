/** The order of keys, byte by byte, compared in the arena: no key is copied. */
import { compareBytes } from "../wire/bytes.ts";
import { KEY_AT, keyLengthOf, META, type Segment } from "./segment.ts";

/** True when the key of the record in a slot comes behind a key. */
export function isBehind({ slots, arena }: Segment, slot: number, key: Uint8Array): boolean {
  const length = keyLengthOf(slots[slot + META]!);
  return compareBytes(arena, slots[slot + KEY_AT]!, length, key, 0, key.length) > 0;
}

/** Compares the keys of two records of a segment. */
export function compareSlots({ slots, arena }: Segment, a: number, b: number): number {
  return compareBytes(
    arena,
    slots[a + KEY_AT]!,
    keyLengthOf(slots[a + META]!),
    arena,
    slots[b + KEY_AT]!,
    keyLengthOf(slots[b + META]!),
  );
}
