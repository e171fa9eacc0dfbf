/**
 * What a bridge, which carries a TCP client, and the Hub say to each other over a WebSocket.
 *
 * The bridge is the Worker's own (`worker/tcp.ts`), or a gateway process outside (`cli/gateway/link.ts`), which asks for
 * the subprotocol `throttr.bridge.1`. The Hub believes the Worker. A gateway may lie: what it says is checked, and it has
 * all limits of a plain WebSocket besides.
 *
 *     bridge → Hub: binary  bytes of the TCP client, any cut
 *                   text    "end": the client sends no more, and still reads; "drained N": N reply bytes
 *                           were written to it, and not reported before; "gone", of the Worker only: the
 *                           client reads no more, and what it sent may go on
 *                   close   the client has gone, and all that it sent has been passed on
 *     Hub → bridge: binary  consumed u32, replies: the number of the client's bytes that are answered for good
 *
 * A WebSocket can't be told to wait, so each side counts: the bridge stops reading from its client
 * while `bridgeWindow` bytes are not consumed, the Hub starts no further call while more than
 * `BRIDGE_WINDOW_BYTES` of replies are not drained. Hubs before 0.5.0 take "gone" for "drained 0", so
 * replies that are dropped after it are still reported as drained.
 */
export const BRIDGE_SUBPROTOCOL_PREFIX = "throttr.bridge.";
/** The number goes up with each change of this protocol that the other end has to know of. */
export const BRIDGE_SUBPROTOCOL = `${BRIDGE_SUBPROTOCOL_PREFIX}1`;

export const BRIDGE_END = "end";
export const BRIDGE_GONE = "gone";
const DRAINED = "drained ";
/** Bytes before the replies in a message to a bridge. */
export const BRIDGE_HEADER_BYTES = 4;

/** A bridge reports what was written to its client in portions of so many bytes: a report wakes the Hub. */
export const DRAINED_PORTION_BYTES = 64 << 10;

/** Reply bytes that may be on their way to the client before the Hub waits. */
export const BRIDGE_WINDOW_BYTES = 256 << 10;

/** `FRAME_BYTES_MAX` can't be larger. A gateway does not know what its server has set. */
export const FRAME_BYTES_LIMIT = 1_800_000;

/** Request bytes that the bridge may have sent beyond what is consumed: a largest frame always fits. */
export function bridgeWindow(frameBytesMax: number): number {
  return frameBytesMax + (256 << 10);
}

export function bridgeMessage(consumedBytes: number, replies: Uint8Array): Uint8Array {
  const message = new Uint8Array(BRIDGE_HEADER_BYTES + replies.length);
  new DataView(message.buffer).setUint32(0, consumedBytes, true);
  message.set(replies, BRIDGE_HEADER_BYTES);
  return message;
}

/** @throws RangeError when the message is shorter than its header */
export function parseBridgeMessage(message: Uint8Array): {
  readonly consumedBytes: number;
  readonly replies: Uint8Array;
} {
  const view = new DataView(message.buffer, message.byteOffset, message.length);
  return { consumedBytes: view.getUint32(0, true), replies: message.subarray(BRIDGE_HEADER_BYTES) };
}

export const drainedMessage = (bytes: number): string => DRAINED + String(bytes);

/** How many bytes a text reports as drained: a whole number from 1 on, or null for any other text. */
export function parseDrained(text: string): number | null {
  return /^drained [1-9]\d{0,14}$/.test(text) ? Number(text.slice(DRAINED.length)) : null;
}
