/**
 * Messages: payloads of one channel as objects tell each other of them, and as pushes.
 *
 *     messages = (length u32, payload)*
 *
 * Little-endian. How a push looks depends on what the subscriber speaks. Source: protocol reference,
 * "push to a subscriber".
 */
import { ByteWriter, copyBytes, writeUint } from "./bytes.ts";
import type { Protocol } from "./throttr/protocol.ts";
import { RequestType } from "./throttr/request-types.ts";

const LENGTH_BYTES = 4;
/** First byte of a push in 7.1. */
const PUSH_7_1 = 0x03;

/** Messages of one channel, and the number of the first; null in a channel whose messages are not numbered. */
export interface Batch {
  readonly sequence: number | null;
  /** Format: as above. */
  readonly messages: Uint8Array;
}

export function writeMessage(out: ByteWriter, bytes: Uint8Array, at: number, length: number): void {
  out.u32(length);
  out.copy(bytes, at, at + length);
}

/** Visits each payload. */
export function forEachMessage(
  messages: Uint8Array,
  visit: (at: number, length: number) => void,
): void {
  const view = new DataView(messages.buffer, messages.byteOffset, messages.byteLength);
  for (let at = 0; at < messages.length;) {
    const length = view.getUint32(at, true);
    at += LENGTH_BYTES;
    visit(at, length);
    at += length;
  }
}

/** Pushes of all messages that a protocol can carry. */
export interface Pushes {
  readonly bytes: Uint8Array;
  readonly payloadBytes: number;
  /** Per message: whether it is among them. One that is too long for the value size is not. */
  readonly isPushed: readonly boolean[];
}

/** The pushes of messages to a subscriber that speaks `protocol`. */
export function pushesOf(protocol: Protocol, channel: Uint8Array, messages: Uint8Array): Pushes {
  const { dialect, valueSize, maxHigh, maxLow } = protocol;
  const out = new ByteWriter(messages.length + 64);
  const isPushed: boolean[] = [];
  let payloadBytes = 0;
  forEachMessage(messages, (at, length) => {
    const fits = maxHigh > 0 || length <= maxLow;
    isPushed.push(fits);
    if (!fits) return;
    payloadBytes += length;
    const isShort = dialect === "7.1";
    out.u8(isShort ? PUSH_7_1 : RequestType.event);
    if (!isShort) out.u8(channel.length);
    const sizeAt = out.reserve(valueSize);
    writeUint(out.bytes, sizeAt, valueSize, 0, length);
    if (!isShort) out.copy(channel);
    const payloadAt = out.reserve(length);
    copyBytes(messages, at, out.bytes, payloadAt, length);
  });
  return { bytes: out.bytes.subarray(0, out.length), payloadBytes, isPushed };
}
