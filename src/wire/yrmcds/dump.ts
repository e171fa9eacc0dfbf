/**
 * Dump: its entries, as shards send them and as both forms of the protocol have them.
 *
 *     entry = consumption u32, [reserved u32 = 0,] maximum u32, name length u16, name
 *
 * The protocol's document has the reserved word, today's servers and clients leave it out. A page, which
 * is what a shard answers with, has entries of today's form back to back; big-endian as the protocol.
 */
import { copyBytes, type ByteWriter } from "../bytes.ts";
import { readU16, writeU16, writeU32 } from "./big-endian.ts";
import { Opcode, Status } from "./protocol.ts";
import { beginReply } from "./replies.ts";

/** Which form of entry a door speaks. */
export type DumpForm = "document" | "today";

/** Bytes of an entry before the name. */
export const ENTRY_BYTES: Readonly<Record<DumpForm, number>> = { document: 14, today: 10 };

const PAGE_ENTRY_BYTES = ENTRY_BYTES.today;

/** Appends an entry to a page. The name lies in `bytes[at, at + length)`. */
export function writePageEntry(
  out: ByteWriter,
  consumption: number,
  maximum: number,
  bytes: Uint8Array,
  at: number,
  length: number,
): void {
  const entry = out.reserve(PAGE_ENTRY_BYTES + length);
  writeU32(out.bytes, entry, consumption);
  writeU32(out.bytes, entry + 4, maximum);
  writeU16(out.bytes, entry + 8, length);
  copyBytes(bytes, at, out.bytes, entry + PAGE_ENTRY_BYTES, length);
}

/** Appends the replies to a Dump for the entries of a page; `writeSuccess` ends the last page. */
export function writeDumpReplies(
  out: ByteWriter,
  opaque: number,
  form: DumpForm,
  page: Uint8Array,
): void {
  for (let at = 0; at < page.length;) {
    const nameBytes = readU16(page, at + 8);
    const bodyBytes = ENTRY_BYTES[form] + nameBytes;
    let body = beginReply(out, Opcode.dump, Status.success, opaque, bodyBytes);
    copyBytes(page, at, out.bytes, body, 4);
    body += 4;
    if (form === "document") {
      writeU32(out.bytes, body, 0);
      body += 4;
    }
    copyBytes(page, at + 4, out.bytes, body, PAGE_ENTRY_BYTES - 4 + nameBytes);
    at += PAGE_ENTRY_BYTES + nameBytes;
  }
}
