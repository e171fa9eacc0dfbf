/**
 * The buffer into which a TCP connection reads its next bytes.
 *
 * The runtime keeps the buffer while it waits, so thousands of idle connections keep thousands of buffers: it should be
 * small. But each read is a message to the Hub: for a busy connection it should be large. So it follows the traffic.
 */
import { READ_BUFFER_BYTES_MAX, READ_BUFFER_BYTES_MIN } from "../engine/sizes.ts";

/** Factor by which a filled buffer grows. */
const GROWTH = 8;

/** The buffer of a new or idle connection. */
export function firstBuffer(): ArrayBuffer {
  return new ArrayBuffer(READ_BUFFER_BYTES_MIN);
}

/**
 * Chooses the buffer for the next read: a larger one after a full read, the smallest after a nearly empty one, and
 * otherwise the same.
 */
export function nextBuffer({ buffer, byteLength }: Uint8Array<ArrayBuffer>): ArrayBuffer {
  const bytes = buffer.byteLength;
  if (byteLength === bytes && bytes < READ_BUFFER_BYTES_MAX) return new ArrayBuffer(bytes * GROWTH);
  if (bytes > READ_BUFFER_BYTES_MIN && byteLength * GROWTH < bytes) return firstBuffer();
  return buffer;
}
