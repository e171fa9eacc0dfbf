/**
 * Numbers of semaphores: a holding stores a number instead of a name, which may be long.
 *
 * A number leads to the hash of the semaphore's name, and so to its record. Numbers stay small, because those
 * of removed semaphores are used again.
 */
const NUMBERS_MIN = 16;

export class Numbers {
  /** By number: the hash; of one that is free, -1 less the next free one. Number 0 is never given out. */
  #hashes = new Float64Array(0);
  #end = 1;
  #free = 0;
  /** Numbers in use. */
  count = 0;
  /** Numbers that are neither in use nor free: see `retire`. */
  readonly #retired = new Set<number>();

  get bytes(): number {
    return this.#hashes.byteLength;
  }

  /** Bytes that `grow` would add: 0 as long as there is a number left. */
  get growthBytes(): number {
    if (this.#free !== 0 || this.#end < this.#hashes.length) return 0;
    return this.#nextLength * 8 - this.bytes;
  }

  grow(): void {
    this.#resize(this.#nextLength);
  }

  get #nextLength(): number {
    return Math.max(NUMBERS_MIN, Math.ceil(this.#hashes.length * 1.5));
  }

  #resize(length: number): void {
    const grown = new Float64Array(length);
    grown.set(this.#hashes);
    this.#hashes = grown;
  }

  /** Gives out a number for a hash; there must be one left. */
  take(hash: number): number {
    let number = this.#free;
    if (number === 0) number = this.#end++;
    else this.#free = -1 - this.#hashes[number]!;
    this.#hashes[number] = hash;
    this.count++;
    return number;
  }

  free(number: number): void {
    this.#hashes[number] = -1 - this.#free;
    this.#free = number;
    this.count--;
  }

  hashOf(number: number): number {
    return this.#hashes[number]!;
  }

  /** True for a number that is in use. */
  isInUse(number: number): boolean {
    return (
      number > 0 && number < this.#end && this.#hashes[number]! >= 0 && !this.#retired.has(number)
    );
  }

  /**
   * Keeps a number from being given out once all are claimed anew. Rows on disk may have holdings of the semaphore that had
   * it, which was given to another shard without a tombstone: a start would take them for another semaphore's.
   */
  retire(number: number): void {
    // Another semaphore may have the number by now: the one that was given away had it earlier.
    if (!this.isInUse(number)) this.#retired.add(number);
  }

  /** Retired numbers may be given out again. */
  freeRetired(): void {
    for (const number of this.#retired) {
      if (number >= this.#end) continue;
      this.count++;
      this.free(number);
    }
    this.#retired.clear();
  }

  clear(): void {
    this.#hashes = new Float64Array(0);
    this.#end = 1;
    this.#free = 0;
    this.count = 0;
  }

  /**
   * Sets the hash of a number that was given out before; `endClaims` follows the last claim. A number that is retired is
   * never given out, so the semaphore that was given away had it earlier, and was removed before this one got it.
   */
  claim(number: number, hash: number): void {
    this.#retired.delete(number);
    this.#set(number, hash);
    this.count++;
  }

  #set(number: number, hash: number): void {
    if (number >= this.#hashes.length) this.#resize(Math.max(number + 1, this.#nextLength));
    // Numbers that were skipped are free until they are claimed.
    if (number >= this.#end) {
      this.#hashes.fill(-1, this.#end, number);
      this.#end = number + 1;
    }
    this.#hashes[number] = hash;
  }

  /** Finds the numbers that are free between those that were claimed. */
  endClaims(): void {
    for (const number of this.#retired) this.#set(number, 0);
    this.#free = 0;
    for (let number = this.#end - 1; number > 0; number--) {
      if (this.#hashes[number]! >= 0) continue;
      this.#hashes[number] = -1 - this.#free;
      this.#free = number;
    }
  }
}
