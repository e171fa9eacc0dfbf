/**
 * PUBLISH and EVENT in the edge dialect, as a client writes and reads them:
 *
 *     type u8, channel size u8, payload size u64, channel, payload
 *
 * Little-endian. Source: protocol reference, "7.3 layouts"; the server has the layout from `throttr/requests.ts`.
 */
const CHANNEL_SIZE_AT = 1;
/** Of the u64, the lower half: no frame is longer. */
const PAYLOAD_SIZE_AT = 2;
const CHANNEL_AT = 10;

export function messageFrame(
  type: number,
  channel: Uint8Array,
  payload: Uint8Array,
): Uint8Array<ArrayBuffer> {
  const frame = new Uint8Array(CHANNEL_AT + channel.length + payload.length);
  frame[0] = type;
  frame[CHANNEL_SIZE_AT] = channel.length;
  new DataView(frame.buffer).setUint32(PAYLOAD_SIZE_AT, payload.length, true);
  frame.set(channel, CHANNEL_AT);
  frame.set(payload, CHANNEL_AT + channel.length);
  return frame;
}

/** Channel and payload of the frame at `at`, and where it ends; null while it is not complete. */
export function readMessageFrame(
  bytes: Uint8Array,
  at: number,
): { readonly channel: Uint8Array; readonly payload: Uint8Array; readonly end: number } | null {
  if (at + CHANNEL_AT > bytes.length) return null;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const payloadAt = at + CHANNEL_AT + bytes[at + CHANNEL_SIZE_AT]!;
  const end = payloadAt + view.getUint32(at + PAYLOAD_SIZE_AT, true);
  if (end > bytes.length) return null;
  return {
    channel: bytes.subarray(at + CHANNEL_AT, payloadAt),
    payload: bytes.subarray(payloadAt, end),
    end,
  };
}
