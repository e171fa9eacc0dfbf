/**
 * A lane: the way from one place to one object, with at most one call under way.
 *
 * What arrives while a call is under way goes into the next one, of whichever caller: an object takes about a thousand
 * calls a second, however much is in each, so a thousand quiet clients cost a few calls. The order of arrival is the
 * order of application: two calls under way could overtake each other, and with them the requests of one connection.
 *
 * It knows neither what it carries nor where to: `Carry` makes the call.
 */
import { LANE_CALL_BYTES_MAX } from "../engine/sizes.ts";

/** Something to be carried. */
export interface Piece {
  /** Bytes that the call carries for it. */
  readonly bytes: number;
  /** The call failed: whether it had an effect is unknown. */
  fail(error: unknown): void;
}

/** Makes one call for pieces that have gathered, and tells each what came of it. */
export type Carry<P extends Piece> = (pieces: readonly P[]) => Promise<void>;

/** A lane lives as long as its door: in a Hub for weeks, over HTTP for one request. */
export class Lane<P extends Piece> {
  /** Makes the call for a stretch of work, with a stub of its own. */
  readonly #connect: () => Carry<P>;
  /** Called when the lane has nothing to do any more. */
  readonly #idle: () => void;
  /** In the order of arrival, which is the order of application. */
  #queue: P[] = [];
  /** A call is under way: pieces that come now wait for it. */
  isBusy = false;
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

  /** Sends a piece at once where the lane is free, else with the next call. */
  submit(piece: P): void {
    this.#queue.push(piece);
    this.queuedBytes += piece.bytes;
    if (!this.isBusy) void this.#run();
  }

  /** Takes all pieces that have not been sent yet out of the lane, in their order. */
  takeQueue(): P[] {
    this.queuedBytes = 0;
    return this.#queue.splice(0);
  }

  /** Takes back what has not been sent yet; returns false for what has been, which may have been applied or not. */
  withdraw(piece: P): boolean {
    const index = this.#queue.indexOf(piece);
    if (index < 0) return false;
    this.#queue.splice(index, 1);
    this.queuedBytes -= piece.bytes;
    return true;
  }

  /**
   * One loop carries all that comes until the queue is empty. It never throws: a failure goes to the pieces of its
   * call.
   */
  async #run(): Promise<void> {
    this.isBusy = true;
    let carry: Carry<P> | null = null;
    while (this.#queue.length > 0) {
      const pieces = this.#nextPieces();
      try {
        // One stub for the calls in a row: the runtime keeps the order of calls of a stub, not that of two.
        carry ??= this.#connect();
        await carry(pieces);
      } catch (error) {
        // The stub of an object that was reset fails from then on: the next pieces get a new one.
        carry = null;
        for (const piece of pieces) piece.fail(error);
      }
    }
    this.isBusy = false;
    this.#idle();
  }

  /** Takes pieces for a call, at least one, up to `LANE_CALL_BYTES_MAX`. */
  #nextPieces(): P[] {
    let bytes = 0;
    let count = 0;
    while (count < this.#queue.length && bytes < LANE_CALL_BYTES_MAX) {
      bytes += this.#queue[count++]!.bytes;
    }
    this.queuedBytes -= bytes;
    return this.#queue.splice(0, count);
  }
}
