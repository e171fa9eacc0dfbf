/** The place of the record in a slot: see `record-place.ts`. */
import type { RecordPlace } from "./record-place.ts";
import { KEY_AT, keyLengthOf, keyspaceOf, META, type Segment } from "./segment.ts";
import type { SemaphoreRecords } from "./semaphores/semaphore-records.ts";
import { HOLDING_NUMBER, readU32 } from "./semaphores/stored.ts";
import { Keyspace } from "../wire/keyspace.ts";

/** Placement hash of the record in a slot; -1 for a holding without a semaphore. */
export function placeOfRecord(
  { slots, arena }: Segment,
  slot: number,
  place: RecordPlace,
  semaphores: SemaphoreRecords,
): number {
  const meta = slots[slot + META]!;
  const keyAt = slots[slot + KEY_AT]!;
  const keyspace = keyspaceOf(meta);
  if (keyspace !== Keyspace.holdings)
    return place.hashOf(keyspace, arena, keyAt, keyLengthOf(meta));
  return semaphores.placeOf(readU32(arena, keyAt + HOLDING_NUMBER), place);
}
