/** Frames about channels as simulated clients send them, and what replies and pushes say. */
import { messageFrame, readMessageFrame } from "../../../../src/wire/edge/message-frame.ts";
import { RequestType } from "../../../../src/wire/throttr/request-types.ts";
import type { Random } from "../../kernel/random.ts";
import type { Sent } from "../pipe.ts";
import type { WireKind } from "../wire.ts";

/** Over which clients subscribe and publish. */
export const WIRES: readonly WireKind[] = ["websocket", "tcp", "gateway"];

const MESSAGE = "message ";
const CONNECTION_ID_BYTES = 16;
const WHOAMI_BYTES = 1 + CONNECTION_ID_BYTES;

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

/** The ID that WHOAMI answers with, as hex: the name of the connection's own channel. */
export const idOfReply = (reply: Uint8Array): string =>
  Buffer.from(reply.subarray(1, 1 + CONNECTION_ID_BYTES)).toString("hex");

/** A payload that names a message, of any length. */
export function payloadOf(message: number, random: Random): Uint8Array {
  const text = `${MESSAGE}${message};`;
  return encoder.encode(text.padEnd(Math.round(random.skewed(text.length, 3000)), "."));
}

/** @returns the message that a payload names; null for one that no client of the first namespace has sent */
export function messageOfPayload(payload: Uint8Array): number | null {
  const number = /^message (\d+);\.*$/.exec(decoder.decode(payload))?.[1];
  return number === undefined ? null : Number(number);
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
