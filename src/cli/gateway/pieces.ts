/**
 * Pieces: a stream of bytes that may be cut anywhere, as headers to look at and bodies to skip.
 *
 * Nothing of a body is kept, and of a header what has come of it.
 */
const HEADER_BYTES_MAX = 32;

export class Pieces {
  readonly #take: (bytes: Uint8Array, at: number) => void;
  #skipBytes = 0;
  #headerBytes: number;
  readonly #header = new Uint8Array(HEADER_BYTES_MAX);
  #gatheredBytes = 0;

  /**
   * @param take gets each header when all of it is there, and must say by `expect` what follows it
   * @param headerBytes of the first header
   */
  constructor(take: (bytes: Uint8Array, at: number) => void, headerBytes: number) {
    this.#take = take;
    this.#headerBytes = headerBytes;
  }

  /** So many bytes are to be skipped, then a header of so many comes: at most 32; 0 is taken at once. */
  expect(skipBytes: number, headerBytes: number): void {
    this.#skipBytes = skipBytes;
    this.#headerBytes = headerBytes;
  }

  /** Reads the next bytes of the stream. */
  read(bytes: Uint8Array): void {
    let at = 0;
    for (;;) {
      const skipped = Math.min(this.#skipBytes, bytes.length - at);
      this.#skipBytes -= skipped;
      at += skipped;
      if (this.#skipBytes > 0) return;
      const needed = this.#headerBytes - this.#gatheredBytes;
      if (needed > bytes.length - at) {
        this.#gather(bytes, at, bytes.length);
        return;
      }
      const from = at;
      at += needed;
      if (this.#gatheredBytes === 0) {
        this.#take(bytes, from);
        continue;
      }
      this.#gather(bytes, from, at);
      this.#gatheredBytes = 0;
      this.#take(this.#header, 0);
    }
  }

  #gather(bytes: Uint8Array, from: number, end: number): void {
    for (let at = from; at < end; at++) this.#header[this.#gatheredBytes++] = bytes[at]!;
  }
}
