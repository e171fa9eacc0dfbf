/** Streams of the edge dialect: replies taken apart, without what depends on time. */
import { Command } from "../../../src/wire/edge/command.ts";
import { hex, replyAt } from "../frames/index.ts";

const LIST = 0x07;
const INFO = 0x08;
const STATS = 0x10;
const PUSH = 0x19;
const INFO_REPLY_BYTES = 1 + 52 * 8 + 16;
/** Of LIST in dialects with values of 8 bytes: key size, type, unit, expires at, bytes used. */
const LIST_ROW_BYTES = 19;
const STATS_ROW_BYTES = 33;
/** Request types of 7.3 by the length of their replies on success; those that are not here answer with a status. */
const REPLY_BYTES: Readonly<Record<number, number>> = {
  0x02: 18,
  0x09: 33,
  [INFO]: INFO_REPLY_BYTES,
  0x18: 17,
};

const u64At = (bytes: Uint8Array, at: number): number =>
  Number(new DataView(bytes.buffer, bytes.byteOffset).getBigUint64(at, true));

/** Length of the reply to a request that begins at `at`; null when the bytes end before it does. */
function replyBytes(type: number, bytes: Uint8Array, at: number): number | null {
  if (at >= bytes.length) return null;
  if (type >= Command.read) return replyAt(bytes, at)?.bytes.length ?? null;
  let length = 1;
  if (bytes[at] === 1) {
    if (type === LIST) return fragmentsBytes(bytes, at, LIST_ROW_BYTES);
    if (type === STATS) return fragmentsBytes(bytes, at, STATS_ROW_BYTES);
    length = REPLY_BYTES[type] ?? 1;
    if (type === 0x06) {
      if (at + 18 > bytes.length) return null;
      length = 18 + u64At(bytes, at + 10);
    }
  }
  return at + length <= bytes.length ? length : null;
}

function fragmentsBytes(bytes: Uint8Array, from: number, rowBytes: number): number | null {
  let at = from + 9;
  if (at > bytes.length) return null;
  for (let left = u64At(bytes, from + 1); left > 0; left--) {
    if (at + 16 > bytes.length) return null;
    const rows = u64At(bytes, at + 8);
    const rowsAt = at + 16;
    at = rowsAt + rows * rowBytes;
    if (at > bytes.length) return null;
    for (let row = rowsAt, end = at; row < end; row += rowBytes) at += bytes[row]!;
  }
  return at <= bytes.length ? at - from : null;
}

export interface Taken {
  /** One for each type, in order; fewer when the bytes end before. */
  readonly replies: Uint8Array[];
  readonly pushes: Uint8Array[];
  /** Where pushes stood among the replies: so many replies were before each. */
  readonly places: number[];
  /** What could not be taken. */
  readonly rest: Uint8Array;
}

/**
 * Takes the replies to requests apart, and the pushes between them.
 *
 * @param types of the requests
 */
export function takeReplies(types: readonly number[], bytes: Uint8Array): Taken {
  const taken: Taken & { rest: Uint8Array } = { replies: [], pushes: [], places: [], rest: bytes };
  let at = 0;
  for (;;) {
    const length =
      bytes[at] === PUSH
        ? pushBytes(bytes, at)
        : taken.replies.length < types.length
          ? replyBytes(types[taken.replies.length]!, bytes, at)
          : null;
    if (length === null) break;
    const part = bytes.slice(at, at + length);
    if (bytes[at] === PUSH) {
      taken.pushes.push(part);
      taken.places.push(taken.replies.length);
    } else {
      taken.replies.push(part);
    }
    at += length;
  }
  taken.rest = bytes.slice(at);
  return taken;
}

function pushBytes(bytes: Uint8Array, at: number): number | null {
  if (at + 10 > bytes.length) return null;
  const length = 10 + bytes[at + 1]! + u64At(bytes, at + 2);
  return at + length <= bytes.length ? length : null;
}

/** Commands whose replies are outcomes. */
const OUTCOMES: readonly number[] = [
  Command.read,
  Command.insert,
  Command.increment,
  Command.change,
  Command.expire,
  Command.compareAndSet,
];
const DECISIONS: readonly number[] = [Command.limit, Command.peek, Command.refund];

/** A reply as hex, with points in time and spans set to 0. */
export function timeless(type: number, reply: Uint8Array): string {
  const copy = reply.slice();
  if (type === INFO) return `${reply[0]}, ${reply.length} bytes`;
  if (reply[0] !== 1) return hex(reply);
  const body = 5;
  if (OUTCOMES.includes(type) && reply.length > body + 1) copy.fill(0, body + 3, body + 19);
  if (DECISIONS.includes(type)) {
    copy.fill(0, body + 17, body + 33);
    for (let at = body + 34; at < copy.length; at += 25) copy.fill(0, at + 17, at + 25);
  }
  if (type === Command.scan) {
    for (let at = body + 1; at < copy.length; at += 19 + copy[at]!) copy.fill(0, at + 3, at + 11);
  }
  if (type === 0x02) copy.fill(0, 10);
  if (type === 0x06) copy.fill(0, 2, 10);
  if (type === 0x09) copy.fill(0, 1, 17);
  if (type === LIST) clearRows(copy, LIST_ROW_BYTES, 3, 11);
  if (type === STATS) clearRows(copy, STATS_ROW_BYTES, 1, 17);
  // A buffer may be the state of a limit, which has times in digits.
  return hex(withoutTimes(copy));
}

const withoutTimes = (value: Uint8Array): Uint8Array =>
  Uint8Array.from(value, (_, i) => (isTime(value, i) ? 0 : value[i]!));

/** A digit of a number of 19 digits or more: ns since the epoch, and nothing else here. */
function isTime(value: Uint8Array, at: number): boolean {
  const isDigit = (i: number): boolean => value[i]! >= 0x30 && value[i]! <= 0x39;
  if (!isDigit(at)) return false;
  let from = at;
  let to = at;
  while (isDigit(from - 1)) from--;
  while (isDigit(to)) to++;
  return to - from >= 19;
}

function clearRows(reply: Uint8Array, rowBytes: number, from: number, to: number): void {
  let at = 9;
  for (let left = u64At(reply, 1); left > 0; left--) {
    const end = at + 16 + u64At(reply, at + 8) * rowBytes;
    let names = 0;
    for (let row = at + 16; row < end; row += rowBytes) {
      names += reply[row]!;
      reply.fill(0, row + from, row + to);
    }
    at = end + names;
  }
}
