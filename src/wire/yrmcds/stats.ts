/**
 * Stats: its items, in the order that the reply has them.
 *
 *     item = name length u16, value length u16, name, value; both are ASCII, the value is decimal
 */
import type { ByteWriter } from "../bytes.ts";
import { writeU16 } from "./big-endian.ts";
import { Opcode, Status } from "./protocol.ts";
import { beginReply } from "./replies.ts";

export const STATS_ITEMS = [
  "objects",
  "total_objects",
  "used_memory",
  "conflicts",
  "gc_count",
  "last_gc_elapsed",
  "total_gc_elapsed",
  "curr_connections",
  "total_connections",
  "command:noop",
  "command:get",
  "command:acquire",
  "command:release",
  "command:stats",
  "command:dump",
] as const;

/** Figures of Stats: whole numbers from 0 to 2^53. Elapsed times are in microseconds. */
export type StatsFigures = Readonly<Record<(typeof STATS_ITEMS)[number], number>>;

/** Appends the reply to Stats. */
export function writeStats(out: ByteWriter, opaque: number, figures: StatsFigures): void {
  const items = STATS_ITEMS.map((name) => [name, String(figures[name])] as const);
  const bodyBytes = items.reduce((sum, [name, value]) => sum + 4 + name.length + value.length, 0);
  let at = beginReply(out, Opcode.stats, Status.success, opaque, bodyBytes);
  for (const [name, value] of items) {
    writeU16(out.bytes, at, name.length);
    writeU16(out.bytes, at + 2, value.length);
    at += 4;
    for (const character of name + value) out.bytes[at++] = character.charCodeAt(0);
  }
}
