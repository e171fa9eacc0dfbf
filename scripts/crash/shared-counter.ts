/**
 * A counter that all connections only increase: between which bounds it must lie.
 *
 * Whatever the order of the increases, the counter is at least the sum of the acknowledged ones and at
 * most the sum of the sent ones. It never goes back: what was once read, a crash may not take away.
 */
export class SharedCounter {
  readonly name: string;
  readonly bytes: Uint8Array;
  #acknowledged = 0n;
  #sent = 0n;
  #read = 0n;

  constructor(name: string) {
    this.name = name;
    this.bytes = new TextEncoder().encode(name);
  }

  /** The least that the counter can be. */
  get min(): bigint {
    return this.#acknowledged > this.#read ? this.#acknowledged : this.#read;
  }

  /** The most that the counter can be. */
  get max(): bigint {
    return this.#sent;
  }

  sent(amount: bigint): void {
    this.#sent += amount;
  }

  acknowledged(amount: bigint): void {
    this.#acknowledged += amount;
  }

  /** Notes what a read has shown. `min` is the least that it was when the read was sent. */
  read(quota: bigint, min: bigint): boolean {
    if (quota < min || quota > this.max) return false;
    if (quota > this.#read) this.#read = quota;
    return true;
  }

  /** Goes on from what was found after a crash. False when it can't be: then nothing changes. */
  settle(quota: bigint): boolean {
    if (quota < this.min || quota > this.max) return false;
    this.#acknowledged = this.#sent = this.#read = quota;
    return true;
  }
}
