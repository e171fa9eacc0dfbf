/** The order of keys, byte by byte, compared in the arena: no key is copied. */
import { compareBytes } from "../wire/bytes.ts";
import { KEY_AT, type Segment } from "./segment.ts";

/** True when the key of the record in a slot comes behind a key. */
export function isBehind(segment: Segment, slot: number, key: Uint8Array): boolean {
  const { slots, arena } = segment;
  const length = segment.keyBytesOf(slot);
  return compareBytes(arena, slots[slot + KEY_AT]!, length, key, 0, key.length) > 0;
}

/** Compares the keys of two records of a segment. */
export function compareSlots(segment: Segment, a: number, b: number): number {
  const { slots, arena } = segment;
  const [aBytes, bBytes] = [segment.keyBytesOf(a), segment.keyBytesOf(b)];
  return compareBytes(arena, slots[a + KEY_AT]!, aBytes, arena, slots[b + KEY_AT]!, bBytes);
}
