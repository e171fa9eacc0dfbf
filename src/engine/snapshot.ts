/**
 * Snapshots: the images of all live records, as rows, a bounded step at a time.
 *
 * A snapshot is not taken at one moment: other requests change records between its steps. Together with the rows of all
 * commits since its first step it gives the right records, because images may be applied twice.
 */
import { ByteWriter } from "../wire/bytes.ts";
import { endRow, ROW_HEADER_BYTES, writeImage } from "./image.ts";
import type { Records } from "./records.ts";
import { hasExpired, META, SLOT_WORDS } from "./segment.ts";
import { HASH_END } from "./table.ts";

/**
 * One step of a snapshot: rows with the images of all live records from `cursor` on, until
 * `bytesMax` is reached. All steps together are a snapshot. A change between two steps may
 * be in it or not, so the rows of every commit since its first step must be replayed after it.
 *
 * @param cursor 0 at first, then what the last step returned
 * @returns the next cursor, or null when every record has been visited
 */
export function snapshotStep(
  { table, clock, now }: Records,
  cursor: number,
  bytesMax: number,
  rowBytesMax: number,
): { rows: Uint8Array[]; cursor: number | null } {
  const rows: Uint8Array[] = [];
  const out = new ByteWriter(Math.min(bytesMax, 64 * 1024));
  const cut = (): void => {
    if (out.length <= ROW_HEADER_BYTES) return;
    endRow(out, clock);
    rows.push(out.take());
    out.length = ROW_HEADER_BYTES;
  };
  out.reserve(ROW_HEADER_BYTES);
  let written = 0;
  while (cursor < HASH_END && written + out.length < bytesMax) {
    const segment = table.segmentAt(cursor);
    const { slots } = segment;
    for (let slot = 0; slot < slots.length; slot += SLOT_WORDS) {
      const meta = slots[slot + META]!;
      if (meta === 0 || hasExpired(slots, slot, now) || table.isGiven(meta)) continue;
      const before = out.length;
      writeImage(out, segment, slot);
      if (out.length <= rowBytesMax) continue;
      // The image that did not fit begins the next row.
      const image = out.bytes.slice(before, out.length);
      out.length = before;
      written += before;
      cut();
      out.copy(image);
    }
    cursor = table.hashAfter(cursor);
  }
  cut();
  return { rows, cursor: cursor < HASH_END ? cursor : null };
}
