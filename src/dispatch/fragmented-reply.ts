/**
 * A reply in fragments, made of merged pages: LIST, STATS, CONNECTIONS, CHANNELS.
 *
 * The protocol wants the count of fragments first. Keeping all rows until they are counted could take more than the
 * 128 MB of an isolate, so the pages are gone through twice: to count, and to send. Rows that have gone meanwhile leave
 * short or empty fragments; rows that have come go into the last one.
 */
import { ByteWriter } from "../wire/bytes.ts";
import type { PageReader } from "../wire/page.ts";
import { FragmentCount, FragmentWriter } from "../wire/throttr/fragments.ts";
import { STATUS_SUCCESS } from "../wire/throttr/requests.ts";
import { ListingOutgrown, type Merge } from "./merge.ts";
import type { Sink } from "./sink.ts";
import { FRAGMENTS_CHUNK_BYTES, LAST_FRAGMENT_BYTES_MAX } from "../engine/sizes.ts";

/** Writes the row of the entries with one key over zeros. */
type WriteRow = (entries: readonly PageReader[], target: Uint8Array, at: number) => void;

/** Status, where the dialect has one, and the count of fragments. */
export function writeHead(hasStatus: boolean, fragments: number): Uint8Array {
  const head = new ByteWriter(16);
  if (hasStatus) head.u8(STATUS_SUCCESS);
  head.u64(fragments);
  return head.take();
}

/** What a dialect makes of a listing. */
export interface FragmentForm {
  /** The reply begins with a status byte. */
  readonly hasStatus: boolean;
  /** Bytes of each row. */
  readonly rowBytes: number;
  /** Keys follow the rows of a fragment. */
  readonly hasNames: boolean;
}

/** Sends all rows of a merge that has been opened: goes through it once to count, then opens it again to send. */
export async function sendFragments(
  sink: Sink,
  { hasStatus, rowBytes, hasNames }: FragmentForm,
  merge: Merge,
  writeRow: WriteRow,
): Promise<void> {
  const nameBytes = ({ keyLength }: PageReader): number => (hasNames ? keyLength : 0);
  const fragments = new FragmentCount(rowBytes);
  await merge.forEach(([entry]) => {
    fragments.add(nameBytes(entry!));
    return "next";
  });
  const { count } = fragments;
  const writer = new FragmentWriter(rowBytes);
  const { out } = writer;
  out.copy(writeHead(hasStatus, count));
  if (count > 0) {
    await merge.open();
    await merge.forEach((entries) => {
      const { bytes, keyAt } = entries[0]!;
      const length = nameBytes(entries[0]!);
      if (writer.nextIndex === count) {
        if (writer.bytes > LAST_FRAGMENT_BYTES_MAX) throw new ListingOutgrown();
      } else if (writer.isFullFor(length)) {
        writer.cut();
      }
      const row = writer.add(bytes, keyAt, length);
      writeRow(entries, writer.rowBytes, row);
      return out.length >= FRAGMENTS_CHUNK_BYTES ? flush(out, sink) : "next";
    });
    // Rows have gone since they were counted: the client waits for as many fragments as the head says.
    while (writer.nextIndex <= count) writer.cut();
  }
  sink.reply(out.take(), true);
}

/** Sends a chunk, and waits until there is room for the next one. */
async function flush(out: ByteWriter, sink: Sink): Promise<void> {
  sink.reply(out.take(), false);
  out.reset();
  const room = sink.room();
  if (room !== null) await room;
}
