/** Frames about channels and connections as simulated clients send them, and what replies and pushes say. */
import { messageFrame, readMessageFrame } from "../../../../src/wire/edge/message-frame.ts";
import { RequestType } from "../../../../src/wire/throttr/request-types.ts";
import type { Random } from "../../kernel/random.ts";
import type { Sent } from "../pipe.ts";

const MESSAGE = "message ";
const CHANNEL_ROW_BYTES = 25;
const CONNECTION_ROW_BYTES = 237;
const CONNECTION_ID_BYTES = 16;
const WHOAMI_BYTES = 1 + CONNECTION_ID_BYTES;
const HEADER_BYTES = 9;
const FRAGMENT_BYTES = 16;

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** Of SUBSCRIBE, UNSUBSCRIBE and PUBLISH. */
const statusLength: Sent["replyLength"] = (_bytes, at, end) => (at < end ? 1 : 0);

export function subscriptionFrame(type: "subscribe" | "unsubscribe", channel: string): Sent {
  const name = encoder.encode(channel);
  const frame = new Uint8Array(2 + name.length);
  frame[0] = RequestType[type];
  frame[1] = name.length;
  frame.set(name, 2);
  return { frame, replyLength: statusLength };
}

export const publishFrame = (channel: string, payload: Uint8Array): Sent => ({
  frame: messageFrame(RequestType.publish, encoder.encode(channel), payload),
  replyLength: statusLength,
});

export const whoamiFrame = (): Sent => ({
  frame: Uint8Array.of(RequestType.whoami),
  replyLength: (_bytes, at, end) => (at + WHOAMI_BYTES <= end ? WHOAMI_BYTES : 0),
});

export const channelsFrame = (): Sent => ({
  frame: Uint8Array.of(RequestType.channels),
  replyLength: (bytes, at, end) => lengthOfList(bytes, at, end, CHANNEL_ROW_BYTES, true),
});

export const connectionsFrame = (): Sent => ({
  frame: Uint8Array.of(RequestType.connections),
  replyLength: (bytes, at, end) => lengthOfList(bytes, at, end, CONNECTION_ROW_BYTES, false),
});

/** Length of an answer of fragments; 0 while it is not complete. */
function lengthOfList(
  bytes: Uint8Array,
  at: number,
  end: number,
  rowBytes: number,
  hasNames: boolean,
): number {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (at + HEADER_BYTES > end) return 0;
  const fragments = Number(view.getBigUint64(at + 1, true));
  let next = at + HEADER_BYTES;
  for (let i = 0; i < fragments; i++) {
    if (next + FRAGMENT_BYTES > end) return 0;
    const rows = Number(view.getBigUint64(next + 8, true)) * rowBytes;
    next += FRAGMENT_BYTES;
    if (next + rows > end) return 0;
    let names = 0;
    // The first byte of a row is the length of its name.
    if (hasNames) for (let row = 0; row < rows; row += rowBytes) names += bytes[next + row]!;
    next += rows + names;
  }
  return next > end ? 0 : next - at;
}

/** The ID that WHOAMI answers with, as hex: the name of the connection's own channel. */
export const idOfReply = (reply: Uint8Array): string =>
  Buffer.from(reply.subarray(1, 1 + CONNECTION_ID_BYTES)).toString("hex");

/** A payload that names a message, of any length. */
export function payloadOf(message: number, random: Random): Uint8Array {
  const text = `${MESSAGE}${message};`;
  return encoder.encode(text.padEnd(Math.round(random.skewed(text.length, 3000)), "."));
}

/** @throws Error when a payload names no message */
export function messageOfPayload(payload: Uint8Array): number {
  const text = decoder.decode(payload);
  const number = /^message (\d+);\.*$/.exec(text)?.[1];
  if (number === undefined)
    throw new Error(`a push has a payload that was never sent: ${text.slice(0, 80)}`);
  return Number(number);
}

/** A push that begins at `at`: null for a reply, and without a channel while it is not complete. */
export function readPush(
  bytes: Uint8Array,
  at: number,
):
  | { readonly length: number; readonly channel: string; readonly payload: Uint8Array }
  | "partial"
  | null {
  if (bytes[at] !== RequestType.event) return null;
  const push = readMessageFrame(bytes, at);
  if (push === null) return "partial";
  const { channel, payload, end } = push;
  return { length: end - at, channel: decoder.decode(channel), payload };
}

/** The names that CHANNELS lists. */
export function channelsOfReply(reply: Uint8Array): string[] {
  const view = new DataView(reply.buffer, reply.byteOffset, reply.byteLength);
  const names: string[] = [];
  forEachFragment(view, (at, count) => {
    let nameAt = at + count * CHANNEL_ROW_BYTES;
    for (let i = 0; i < count; i++) {
      const length = reply[at + i * CHANNEL_ROW_BYTES]!;
      names.push(decoder.decode(reply.subarray(nameAt, nameAt + length)));
      nameAt += length;
    }
    return nameAt;
  });
  return names;
}

/** The IDs that CONNECTIONS lists, as hex. */
export function connectionsOfReply(reply: Uint8Array): string[] {
  const view = new DataView(reply.buffer, reply.byteOffset, reply.byteLength);
  const ids: string[] = [];
  forEachFragment(view, (at, count) => {
    for (let i = 0; i < count; i++) {
      const row = at + i * CONNECTION_ROW_BYTES;
      ids.push(Buffer.from(reply.subarray(row, row + CONNECTION_ID_BYTES)).toString("hex"));
    }
    return at + count * CONNECTION_ROW_BYTES;
  });
  return ids;
}

/** @param read returns where the fragment ends */
function forEachFragment(view: DataView, read: (at: number, count: number) => number): void {
  const fragments = Number(view.getBigUint64(1, true));
  let at = HEADER_BYTES;
  for (let i = 0; i < fragments; i++) {
    const count = Number(view.getBigUint64(at + 8, true));
    at = read(at + FRAGMENT_BYTES, count);
  }
}
