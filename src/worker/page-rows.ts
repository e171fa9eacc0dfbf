/** The rows of pages: over a binding each becomes an object, which takes more bytes than it has in the reply. */
import {
  Command,
  EXPORT_ROW_BYTES,
  HOLDER_ROW_BYTES,
  REPLY_HEADER_BYTES,
  SCAN_ROW_BYTES,
  SEMAPHORE_ROW_BYTES,
} from "../wire/edge/command.ts";
import { STATUS_SUCCESS } from "../wire/throttr/requests.ts";

/** Length of the row at `at`. */
type RowBytes = (view: DataView, at: number) => number;

const exported: RowBytes = (view, at) =>
  EXPORT_ROW_BYTES + view.getUint16(at, true) + view.getUint32(at + EXPORT_ROW_BYTES - 4, true);

/** By the command that a page answers. */
const ROW_BYTES: Readonly<Record<number, RowBytes>> = {
  [Command.scan]: (view, at) => SCAN_ROW_BYTES + view.getUint8(at),
  [Command.semaphores]: (view, at) => SEMAPHORE_ROW_BYTES + view.getUint16(at, true),
  [Command.holders]: () => HOLDER_ROW_BYTES,
  [Command.export]: exported,
  [Command.exportLeases]: exported,
};

/** How many rows the whole reply to an operation has; 0 where it is not a page. A frame may ask for SCAN without a cursor. */
export function rowsOf(type: number, reply: Uint8Array): number {
  const rowBytes = ROW_BYTES[type];
  if (rowBytes === undefined || reply[0] !== STATUS_SUCCESS) return 0;
  const view = new DataView(reply.buffer, reply.byteOffset, reply.byteLength);
  let at = REPLY_HEADER_BYTES + 1;
  if (type === Command.scan) at += 2 + view.getUint16(at, true);
  let rows = 0;
  for (; at < reply.length; rows++) at += rowBytes(view, at);
  return rows;
}
