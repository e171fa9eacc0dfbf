/**
 * The gate of a shard: while it is closed, calls that change records wait, so that the last changes of a range can be handed
 * over and none comes after them. It is closed for a moment of each split.
 */

/** Who has waited must look at everything again: the range of the shard may be another. */
export class Gate {
  /** Settled when the gate opens; null while it is open. */
  #opened: PromiseWithResolvers<void> | null = null;

  /** Null when nothing has to wait, as on almost every call. */
  get opened(): Promise<void> | null {
    return this.#opened?.promise ?? null;
  }

  close(): void {
    this.#opened ??= Promise.withResolvers<void>();
  }

  open(): void {
    this.#opened?.resolve();
    this.#opened = null;
  }
}
