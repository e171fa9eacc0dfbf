/**
 * Allowances: which units of a limit were drawn, and may still be given back.
 *
 * This is memory of the shard and never stored. Whatever is not here any more counts as spent: a restart, a state that a
 * SET or a purge has replaced, or a draw that was dropped for want of room loses units, and never admits more.
 */
import type { Charged } from "./ratelimit/limiter.ts";

/** A draw that may still be given back. */
interface Draw {
  readonly number: number;
  readonly units: number;
  readonly charged: Charged;
  /** From then on it counts as spent. */
  readonly endNs: bigint;
}

/** Of one key. */
interface Outstanding {
  /** The state that the key had when it was last written here: any other one has another history. */
  state: string | null;
  readonly draws: Draw[];
  /** When the next caller that is refused may ask again. */
  askNs: bigint;
}

/** A unit may be given back until its draw is this many lives old: the message takes a while. */
const LIVES = 2n;
/** Draws of all keys. A stranger can draw from any number of keys. */
const DRAWS_MAX = 16_384;
/** A key that is refused is asked about once in so many ns, however many callers wait for it. */
const ASK_INTERVAL_NS = 2_000_000n;

export class Allowances {
  /** The first key is the one that was longest not drawn from. */
  readonly #keys = new Map<string, Outstanding>();
  #draws = 0;
  #lastNumber: number;

  /**
   * @param firstNumber other for each start of the shard, below 2^52: a draw from before must not be taken for one of
   * now
   */
  constructor(firstNumber: number) {
    this.#lastNumber = firstNumber;
  }

  /** Nothing is known of any key. */
  get isEmpty(): boolean {
    return this.#keys.size === 0;
  }

  /**
   * Units that were drawn from a key and may still be given back.
   *
   * @param state what is stored, null for nothing: another one than was left here ends all draws of the key
   */
  unitsOut(key: string, state: string | null, nowNs: bigint): number {
    const known = this.#known(key, state, nowNs);
    return known === undefined ? 0 : known.draws.reduce((sum, { units }) => sum + units, 0);
  }

  /** The key has a new state, which follows from the one before. */
  noteState(key: string, state: string): void {
    const known = this.#keys.get(key);
    if (known !== undefined) known.state = state;
  }

  /**
   * Notes a draw.
   *
   * @param state what is stored now
   * @returns the number to give it back by
   */
  open(
    key: string,
    state: string,
    draw: { readonly units: number; readonly charged: Charged; readonly lifeNs: bigint },
    nowNs: bigint,
  ): number {
    const { units, charged, lifeNs } = draw;
    const known = this.#keys.get(key) ?? { state, draws: [], askNs: nowNs };
    known.state = state;
    const number = ++this.#lastNumber;
    known.draws.push({ number, units, charged, endNs: nowNs + LIVES * lifeNs });
    this.#draws++;
    this.#touch(key, known);
    this.#makeRoom();
    return number;
  }

  /**
   * Ends a draw, which counts once.
   *
   * @param state as of `unitsOut`
   * @param units at most those drawn count
   * @returns null for a draw that is not known, or is over
   */
  close(
    key: string,
    state: string | null,
    { number, units }: { readonly number: number; readonly units: number },
    nowNs: bigint,
  ): { readonly units: number; readonly charged: Charged } | null {
    const known = this.#known(key, state, nowNs);
    const index = known?.draws.findIndex((draw) => draw.number === number) ?? -1;
    if (index < 0) return null;
    const [draw] = known!.draws.splice(index, 1);
    this.#draws--;
    return { units: Math.min(units, draw!.units), charged: draw!.charged };
  }

  /**
   * The pause, ns, after which a caller that was refused asks again: the more callers, the longer, so that a key near
   * its limit does not send every check to the shard.
   *
   * @param pauseNsMax the longest pause
   */
  pauseNs(key: string, state: string | null, pauseNsMax: bigint, nowNs: bigint): bigint {
    const known = this.#keys.get(key) ?? { state, draws: [], askNs: nowNs };
    const earliestNs = known.askNs > nowNs ? known.askNs : nowNs;
    const pauseNs = earliestNs + ASK_INTERVAL_NS - nowNs;
    known.askNs = nowNs + (pauseNs < pauseNsMax ? pauseNs : pauseNsMax);
    this.#touch(key, known);
    this.#makeRoom();
    return known.askNs - nowNs;
  }

  /** What is known of a key, without the draws that are over. */
  #known(key: string, state: string | null, nowNs: bigint): Outstanding | undefined {
    const known = this.#keys.get(key);
    if (known === undefined) return undefined;
    const { draws } = known;
    const isReplaced = known.state !== state;
    for (let i = draws.length - 1; i >= 0; i--) {
      if (!isReplaced && draws[i]!.endNs > nowNs) continue;
      draws.splice(i, 1);
      this.#draws--;
    }
    if (draws.length > 0 || known.askNs > nowNs) return known;
    this.#keys.delete(key);
    return undefined;
  }

  #touch(key: string, known: Outstanding): void {
    this.#keys.delete(key);
    this.#keys.set(key, known);
  }

  /** Drops what is known of keys, those not drawn from for longest first. */
  #makeRoom(): void {
    for (const [key, { draws }] of this.#keys) {
      if (this.#draws <= DRAWS_MAX && this.#keys.size <= DRAWS_MAX) return;
      this.#keys.delete(key);
      this.#draws -= draws.length;
    }
  }
}
