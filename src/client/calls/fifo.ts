/** A queue: first in, first out, each in constant time. */

/** Items that may have been taken before the array is cut: cutting for each item would copy the rest each time. */
const TAKEN_MAX = 1024;

export class Fifo<Item> {
  #items: (Item | undefined)[] = [];
  #head = 0;

  get length(): number {
    return this.#items.length - this.#head;
  }

  push(item: Item): void {
    this.#items.push(item);
  }

  /** The first item; undefined when the queue is empty. */
  peek(): Item | undefined {
    return this.#items[this.#head];
  }

  /** Takes the first item; undefined when the queue is empty. */
  shift(): Item | undefined {
    if (this.#head === this.#items.length) return undefined;
    const item = this.#items[this.#head];
    this.#items[this.#head++] = undefined;
    if (this.#head >= TAKEN_MAX && this.#head * 2 >= this.#items.length) this.#cut();
    return item;
  }

  clear(): void {
    this.#items = [];
    this.#head = 0;
  }

  *[Symbol.iterator](): Generator<Item> {
    for (let i = this.#head; i < this.#items.length; i++) yield this.#items[i]!;
  }

  #cut(): void {
    this.#items = this.#items.slice(this.#head);
    this.#head = 0;
  }
}
