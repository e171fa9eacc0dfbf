/**
 * The buffer that a connection waits with for its next bytes.
 *
 * The runtime keeps it as long as nothing comes, so thousands of idle connections are thousands of buffers; and a
 * small one makes many messages of a stream.
 */
const BYTES_MIN = 1 << 10;
const BYTES_MAX = 64 << 10;
/** A buffer that was filled is followed by one so many times larger. */
const GROWTH = 8;

export function firstBuffer(): ArrayBuffer {
  return new ArrayBuffer(BYTES_MIN);
}

/**
 * The buffer for the next read: larger after one that was filled, small again after one that was left almost
 * empty, else the same one.
 */
export function nextBuffer({ buffer, byteLength }: Uint8Array<ArrayBuffer>): ArrayBuffer {
  const bytes = buffer.byteLength;
  if (byteLength === bytes && bytes < BYTES_MAX) return new ArrayBuffer(bytes * GROWTH);
  if (bytes > BYTES_MIN && byteLength * GROWTH < bytes) return firstBuffer();
  return buffer;
}
