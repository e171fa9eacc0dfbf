/**
 * Replies of shards: how long is the reply that begins here?
 *
 * Source: protocol reference, "7.3 layouts", last column. Requests on keys answer alike in every
 * dialect that has them; dialect 2 puts the request id before the status.
 */
import { COMMANDS_START, REPLY_HEADER_BYTES } from "../edge/command.ts";
import type { Protocol } from "./protocol.ts";
import { RequestType, STATUS_SUCCESS } from "./request-types.ts";

/** The reply is not complete in the bytes that have arrived. */
export const REPLY_INCOMPLETE = 0;

/** Status, and four u64: reads and writes per minute, reads, writes. */
const STAT_REPLY_BYTES = 33;

/**
 * Length in bytes of the reply at `at`, request id and status included.
 *
 * @param protocol what the connection speaks
 * @param type type of the request on a key that it answers
 * @param bytes replies, back to back
 * @param at where the reply begins
 * @param end where the bytes end that have arrived
 * @returns the length, or `REPLY_INCOMPLETE` when the bytes end before it does
 */
export function replyLength(
  protocol: Protocol,
  type: number,
  bytes: Uint8Array,
  at: number,
  end: number,
): number {
  if (type >= COMMANDS_START) return commandReplyLength(bytes, at, end);
  const statusAt = at + protocol.requestIdBytes;
  if (statusAt >= end) return REPLY_INCOMPLETE;
  if (bytes[statusAt] !== STATUS_SUCCESS) return protocol.requestIdBytes + 1;
  const n = protocol.valueSize;
  let length = protocol.requestIdBytes + 1;
  if (type === RequestType.query) {
    length += 1 + 2 * n;
  } else if (type === RequestType.stat) {
    length = STAT_REPLY_BYTES;
  } else if (type === RequestType.get) {
    length = 2 + 2 * n;
    if (at + length > end) return REPLY_INCOMPLETE;
    for (let i = 0, weight = 1; i < n; i++, weight *= 256)
      length += bytes[at + 2 + n + i]! * weight;
  }
  return at + length > end ? REPLY_INCOMPLETE : length;
}

/** Length of the reply at `at` to a command of the edge dialect, or `REPLY_INCOMPLETE`. */
export function commandReplyLength(bytes: Uint8Array, at: number, end: number): number {
  if (at + REPLY_HEADER_BYTES > end) return REPLY_INCOMPLETE;
  let length = REPLY_HEADER_BYTES;
  for (let i = 1, weight = 1; i < REPLY_HEADER_BYTES; i++, weight *= 256) {
    length += bytes[at + i]! * weight;
  }
  return at + length > end ? REPLY_INCOMPLETE : length;
}
