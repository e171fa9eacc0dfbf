/**
 * A lane: the way from one place to one object, with at most one call under way.
 *
 * What arrives while a call is under way goes into the next one, whoever it comes from: a thousand
 * quiet clients cost a few calls, and the order of arrival is the order of application.
 */

/** What one call carries at most, unless a single piece is larger. */
const CALL_BYTES_MAX = 4 << 20;

/** Something to be carried. */
export interface Piece {
  /** Bytes that the call carries for it. */
  readonly bytes: number;
  /** The call failed: whether it had an effect is unknown. */
  fail(error: unknown): void;
}

/** Makes one call for pieces that have gathered, and tells each what came of it. */
export type Carry<P extends Piece> = (pieces: readonly P[]) => Promise<void>;

export class Lane<P extends Piece> {
  readonly #connect: () => Carry<P>;
  readonly #idle: () => void;
  #queue: P[] = [];
  #isBusy = false;
  /** Bytes that wait for a call. */
  queuedBytes = 0;

  /**
   * @param connect makes a stub, whenever there is something to carry again: an object that was reset
   * meanwhile has failed its stubs; again after a call has failed
   * @param idle is called whenever nothing is under way or waits any more
   */
  constructor(connect: () => Carry<P>, idle: () => void = () => {}) {
    this.#connect = connect;
    this.#idle = idle;
  }

  submit(piece: P): void {
    this.#queue.push(piece);
    this.queuedBytes += piece.bytes;
    if (!this.#isBusy) void this.#run();
  }

  /** Takes back what has not been sent yet. */
  withdraw(piece: P): void {
    const index = this.#queue.indexOf(piece);
    if (index < 0) return;
    this.#queue.splice(index, 1);
    this.queuedBytes -= piece.bytes;
  }

  async #run(): Promise<void> {
    this.#isBusy = true;
    let carry: Carry<P> | null = null;
    while (this.#queue.length > 0) {
      const pieces = this.#nextPieces();
      try {
        carry ??= this.#connect();
        await carry(pieces);
      } catch (error) {
        carry = null;
        for (const piece of pieces) piece.fail(error);
      }
    }
    this.#isBusy = false;
    this.#idle();
  }

  #nextPieces(): P[] {
    let bytes = 0;
    let count = 0;
    while (count < this.#queue.length && bytes < CALL_BYTES_MAX) {
      bytes += this.#queue[count++]!.bytes;
    }
    this.queuedBytes -= bytes;
    return this.#queue.splice(0, count);
  }
}
