/** Operations on all of a namespace: its records and figures, and messages to its channels. */
import { decodeInfo, type InfoFigures } from "../throttr/info.ts";
import { RequestType, STATUS_SUCCESS } from "../throttr/request-types.ts";
import { cursorOf, integerOf, nameOf, valueOf, type Text } from "./argument.ts";
import {
  Command,
  RecordKind,
  RemoveOption,
  SCAN_CURSOR_BYTES_MAX,
  SCAN_RECORDS_MAX,
  SCAN_ROW_BYTES,
  ScanOption,
} from "./command.ts";
import { ThrottrError } from "./error.ts";
import { messageFrame } from "./message-frame.ts";
import { msOf } from "./milliseconds.ts";
import { onKey, reading } from "./on-key.ts";
import type { CommandReply, Operation } from "./operation.ts";

export interface ListOptions {
  /** Keys begin with it; all keys unless given. */
  readonly prefix?: Text | undefined;
  /** Records of a page, 1 to 1,000; 1,000 unless given. */
  readonly limit?: number | undefined;
  /** `cursor` of the page before. */
  readonly cursor?: Text | undefined;
}

export interface ListedRecord {
  readonly key: Uint8Array;
  readonly kind: "counter" | "buffer";
  /** Since the epoch, rounded up. */
  readonly expiresAtMs: number;
  /** Of a counter. */
  readonly quota: bigint | null;
  /** Of a buffer: length of its value. */
  readonly bytes: number | null;
}

export interface RecordPage {
  /** May be empty, also where there are more. */
  readonly records: readonly ListedRecord[];
  /** For the next page; null behind the last one. */
  readonly cursor: Uint8Array | null;
}

export function publish(channel: Text, payload: Text): Operation<boolean> {
  const frame = messageFrame(
    RequestType.publish,
    nameOf(channel, "channel"),
    valueOf(payload, "payload"),
  );
  return {
    type: RequestType.publish,
    isRepeatable: false,
    frame,
    read: (reply) => reply[0] === STATUS_SUCCESS,
  };
}

export function list(options: ListOptions = {}): Operation<RecordPage> {
  const { limit: recordsMax = SCAN_RECORDS_MAX, cursor } = options;
  integerOf(recordsMax, "limit", 1, SCAN_RECORDS_MAX);
  const after = cursorOf(cursor, SCAN_CURSOR_BYTES_MAX);
  return reading(Command.scan, nameOf(options.prefix ?? "", "prefix"), pageOf, (out) => {
    out.u16(recordsMax);
    out.u8(ScanOption.hasCursor | (after === null ? 0 : ScanOption.isBehind));
    if (after !== null) out.copy(after);
  });
}

export function removeAll(prefix: Text): Operation<number> {
  const name = nameOf(prefix, "prefix");
  const read = ({ view }: CommandReply): number => view.getFloat64(0, true);
  return onKey(Command.remove, name, {}, read, (out) => {
    out.u8(name.length === 0 ? RemoveOption.everything : 0);
  });
}

export function info(): Operation<InfoFigures> {
  return {
    type: RequestType.info,
    isRepeatable: true,
    isRead: true,
    frame: Uint8Array.of(RequestType.info),
    read: (reply) => {
      if (reply[0] === STATUS_SUCCESS) return decodeInfo(reply.subarray(1));
      throw new ThrottrError("scope_missing", "INFO needs the scope read");
    },
  };
}

function pageOf({ bytes, view }: CommandReply): RecordPage {
  const records: ListedRecord[] = [];
  const isLast = bytes[0] === 1;
  const rowsAt = 3 + view.getUint16(1, true);
  for (let at = rowsAt; at < bytes.length;) {
    const keyBytes = bytes[at]!;
    const keyAt = at + SCAN_ROW_BYTES;
    const value = view.getBigUint64(at + 11, true);
    const isCounter = bytes[at + 1] === RecordKind.counter;
    records.push({
      key: bytes.slice(keyAt, keyAt + keyBytes),
      kind: isCounter ? "counter" : "buffer",
      expiresAtMs: msOf(view.getBigUint64(at + 3, true)),
      quota: isCounter ? value : null,
      bytes: isCounter ? null : Number(value),
    });
    at = keyAt + keyBytes;
  }
  return { records, cursor: isLast ? null : bytes.slice(3, rowsAt) };
}
