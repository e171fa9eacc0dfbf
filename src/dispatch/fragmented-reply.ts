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

/** Fragments are sent in chunks of about this size: the caller's room is asked for between two. */
const CHUNK_BYTES = 32 << 10;
/** What the last fragment may grow to when rows have come meanwhile. */
const LAST_FRAGMENT_BYTES_MAX = 1 << 20;

/** Writes the row of the entries with one key over zeros. */
type WriteRow = (entries: readonly PageReader[], target: Uint8Array, at: number) => void;

/** Status, where the dialect has one, and the count of fragments. */
export function writeHead(hasStatus: boolean, fragments: number): Uint8Array {
  const head = new ByteWriter(16);
  if (hasStatus) head.u8(STATUS_SUCCESS);
  head.u64(fragments);
  return head.take();
}

export class FragmentedReply {
  readonly #sink: Sink;
  readonly #hasStatus: boolean;
  readonly #rowBytes: number;
  readonly #hasNames: boolean;

  /** @param hasNames keys follow the rows of a fragment */
  constructor(sink: Sink, hasStatus: boolean, rowBytes: number, hasNames: boolean) {
    this.#sink = sink;
    this.#hasStatus = hasStatus;
    this.#rowBytes = rowBytes;
    this.#hasNames = hasNames;
  }

  /** Sends all rows of a merge that has been opened. */
  async send(merge: Merge, writeRow: WriteRow): Promise<void> {
    const fragments = new FragmentCount(this.#rowBytes);
    await merge.forEach(([entry]) => {
      fragments.add(this.#nameBytes(entry!));
      return "next";
    });
    const head = writeHead(this.#hasStatus, fragments.count);
    if (fragments.count === 0) this.#sink.reply(head, true);
    else await this.#sendFragments(merge, writeRow, head, fragments.count);
  }

  async #sendFragments(
    merge: Merge,
    writeRow: WriteRow,
    head: Uint8Array,
    count: number,
  ): Promise<void> {
    const writer = new FragmentWriter(this.#rowBytes);
    const { out } = writer;
    out.copy(head);
    await merge.open();
    await merge.forEach((entries) => {
      const { bytes, keyAt } = entries[0]!;
      const nameBytes = this.#nameBytes(entries[0]!);
      if (writer.nextIndex === count) {
        if (writer.bytes > LAST_FRAGMENT_BYTES_MAX) throw new ListingOutgrown();
      } else if (writer.isFullFor(nameBytes)) {
        writer.cut();
      }
      const row = writer.add(bytes, keyAt, nameBytes);
      writeRow(entries, writer.rowBytes, row);
      return out.length >= CHUNK_BYTES ? this.#flush(out) : "next";
    });
    while (writer.nextIndex <= count) writer.cut();
    this.#sink.reply(out.take(), true);
  }

  async #flush(out: ByteWriter): Promise<void> {
    this.#sink.reply(out.take(), false);
    out.reset();
    const room = this.#sink.room();
    if (room !== null) await room;
  }

  #nameBytes({ keyLength }: PageReader): number {
    return this.#hasNames ? keyLength : 0;
  }
}
