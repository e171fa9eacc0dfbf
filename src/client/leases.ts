/** What a client has under way for semaphores: it ends when the client is closed. */

/** A lease that is held, or a wait for one. */
export interface Closable {
  close(): void;
}

export class Leases {
  readonly #open = new Set<Closable>();

  add(one: Closable): void {
    this.#open.add(one);
  }

  delete(one: Closable): void {
    this.#open.delete(one);
  }

  close(): void {
    for (const one of this.#open) one.close();
  }
}
