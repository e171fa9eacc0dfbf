/**
 * Sets back all times that records have: their expiry, the times in states of limits, of reservations, of semaphores and
 * of leases.
 *
 * They move by as much as the clock, so the remaining time of a record, a window or a lease stays the same: no limit
 * grants more than it would have, and none waits for a time that never comes.
 */
import { Keyspace } from "../wire/keyspace.ts";
import { moveStateBack } from "./ratelimit/moved-state.ts";
import type { Records } from "./records.ts";
import { RESERVATION_FIELDS_BYTES } from "./reservations.ts";
import {
  EXPIRES_HIGH,
  EXPIRES_LOW,
  KEY_AT,
  keyspaceOf,
  Kind,
  kindOf,
  LOW,
  META,
  SLOT_WORDS,
  type Segment,
} from "./segment.ts";
import { HolderKind } from "./semaphores/holder.ts";
import { ENDS_AT, readMs, UPDATED_AT, writeMs } from "./semaphores/stored.ts";
import { NS_PER_MS, U64 } from "./time.ts";

/** Longer buffers are not states of limits. */
const STATE_BYTES_MAX = 4096;
const U32_MAX = 0xffffffff;

export function setBackRecords(records: Records, byMs: number): void {
  const byNs = BigInt(byMs) * NS_PER_MS;
  const time = new U64();
  for (const segment of records.table.segments()) {
    const { slots } = segment;
    for (let slot = 0; slot < slots.length; slot += SLOT_WORDS) {
      if (slots[slot + META] === 0) continue;
      setBackEnd(time.set(slots[slot + EXPIRES_HIGH]!, slots[slot + EXPIRES_LOW]!), byMs);
      slots[slot + EXPIRES_HIGH] = time.high;
      slots[slot + EXPIRES_LOW] = time.low;
      setBackValue(segment, slot, byMs, byNs);
    }
    setBackEnd(segment.deadline, byMs);
  }
  setBackEnd(records.deadline, byMs);
  records.hasEarlierDeadline = true;
  records.noteSetBack();
}

/** The largest time point means "never", and stays. */
function setBackEnd(time: U64, byMs: number): void {
  if (time.high !== U32_MAX || time.low !== U32_MAX) time.subtractMs(byMs);
}

function setBackValue(segment: Segment, slot: number, byMs: number, byNs: bigint): void {
  const { slots, arena } = segment;
  const meta = slots[slot + META]!;
  if (kindOf(meta) !== Kind.buffer) return;
  const at = segment.valueAt(slot);
  switch (keyspaceOf(meta)) {
    case Keyspace.throttr: {
      const length = slots[slot + LOW]!;
      if (length <= STATE_BYTES_MAX) moveStateBack(arena, at, at + length, byNs);
      return;
    }
    case Keyspace.reservations:
      moveStateBack(arena, at + RESERVATION_FIELDS_BYTES, at + slots[slot + LOW]!, byNs);
      return;
    case Keyspace.semaphores:
      return setBackMs(arena, at + UPDATED_AT, byMs);
    case Keyspace.holdings:
      if (arena[slots[slot + KEY_AT]!] === HolderKind.lease) {
        setBackMs(arena, at + ENDS_AT, byMs);
      }
  }
}

function setBackMs(arena: Uint8Array, at: number, byMs: number): void {
  writeMs(arena, at, Math.max(0, readMs(arena, at) - byMs));
}
