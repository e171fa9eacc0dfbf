/** A queue of bytes: of requests that wait for their replies. */
const CAPACITY_MIN = 64;

export class ByteFifo {
  /** A ring; its length is a power of two. */
  #bytes = new Uint8Array(CAPACITY_MIN);
  #first = 0;
  #length = 0;

  get length(): number {
    return this.#length;
  }

  push(byte: number): void {
    if (this.#length === this.#bytes.length) this.#resize(this.#length * 2);
    this.#bytes[(this.#first + this.#length++) & (this.#bytes.length - 1)] = byte;
  }

  /** The one that waits longest; undefined when none does. */
  peek(): number | undefined {
    return this.#length === 0 ? undefined : this.#bytes[this.#first];
  }

  /** Removes it; there must be one. */
  shift(): number {
    const byte = this.#bytes[this.#first]!;
    this.#first = (this.#first + 1) & (this.#bytes.length - 1);
    this.#length--;
    if (this.#length === 0 && this.#bytes.length > CAPACITY_MIN) this.#resize(CAPACITY_MIN);
    return byte;
  }

  #resize(capacity: number): void {
    const bytes = new Uint8Array(capacity);
    for (let i = 0; i < this.#length; i++) {
      bytes[i] = this.#bytes[(this.#first + i) & (this.#bytes.length - 1)]!;
    }
    this.#bytes = bytes;
    this.#first = 0;
  }
}
