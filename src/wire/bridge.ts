/**
 * What the TCP bridge in the Worker and the Hub say to each other over their internal WebSocket.
 *
 *     bridge → Hub: binary  bytes of the TCP client, any cut
 *                   text    "end": the client sends no more, and still reads; "drained N": N reply bytes
 *                           were written to it; "gone": it reads no more, and what it sent may go on
 *                   close   the client has gone, and all that it sent has been passed on
 *     Hub → bridge: binary  consumed u32, replies: so many of the client's bytes are answered for good
 *
 * A WebSocket can't be told to wait, so each side counts: the bridge stops reading from its client
 * while `bridgeWindow` bytes are not consumed, the Hub starts no further call while more than
 * `BRIDGE_WINDOW_BYTES` of replies are not drained. Hubs before 0.5.0 take "gone" for "drained 0", so
 * replies that are dropped after it are still told as drained.
 */
export const BRIDGE_END = "end";
export const BRIDGE_GONE = "gone";
const DRAINED = "drained ";
const HEADER_BYTES = 4;

/** Reply bytes that may be on their way to the client before the Hub waits. */
export const BRIDGE_WINDOW_BYTES = 256 << 10;

/** Request bytes that the bridge may have sent beyond what is consumed: a largest frame always fits. */
export function bridgeWindow(frameBytesMax: number): number {
  return frameBytesMax + (256 << 10);
}

export function bridgeMessage(consumedBytes: number, replies: Uint8Array): Uint8Array {
  const message = new Uint8Array(HEADER_BYTES + replies.length);
  new DataView(message.buffer).setUint32(0, consumedBytes, true);
  message.set(replies, HEADER_BYTES);
  return message;
}

export function parseBridgeMessage(message: ArrayBuffer): {
  consumedBytes: number;
  replies: Uint8Array;
} {
  return {
    consumedBytes: new DataView(message).getUint32(0, true),
    replies: new Uint8Array(message, HEADER_BYTES),
  };
}

export const drainedMessage = (bytes: number): string => DRAINED + String(bytes);

export const parseDrained = (text: string): number => Number(text.slice(DRAINED.length));
