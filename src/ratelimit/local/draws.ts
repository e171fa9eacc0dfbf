/** The units of one key that are here: those of each draw until its own end. */
import { DRAW_RETURNS_MAX } from "../../wire/edge/drawn.ts";
import type { DrawReturn } from "../../wire/edge/draw.ts";

/** Units that were drawn. A draw ends by the wall clock, or by one that never goes back, whichever comes first. */
export interface Draw {
  readonly number: number;
  left: number;
  readonly endMs: number;
  readonly monotonicEndMs: number;
  /** From then on the shard does not know it any more, by the clock that never goes back. */
  readonly forgottenMs: number;
}

export class Draws {
  /** The one that ends first is spent first. */
  #draws: Draw[] = [];
  /** Ended with units that were not spent. */
  #ended: Draw[] = [];
  #left = 0;
  /** `#left` when the draws were settled last: what was spent since is not taken off them yet. */
  #settledLeft = 0;
  /** The first ends of all draws: until then `#left` may be spent without a look at each. */
  #endMs = Infinity;
  #monotonicEndMs = Infinity;

  /** Units that may be spent, as of the last `spend`. */
  get left(): number {
    return this.#left;
  }

  /** Spends a cost if so much is here. The hot path: it takes times in positions. */
  spend(cost: number, nowMs: number, monotonicMs: number): boolean {
    if (nowMs >= this.#endMs || monotonicMs >= this.#monotonicEndMs) {
      this.#settle((draw) => nowMs >= draw.endMs || monotonicMs >= draw.monotonicEndMs);
    }
    if (cost > this.#left) return false;
    this.#left -= cost;
    return true;
  }

  add(draw: Draw): void {
    this.#settle(() => false);
    this.#draws.push(draw);
    this.#draws.sort((a, b) => a.endMs - b.endMs);
    this.#sum();
  }

  /** Adds units that may only be given back. */
  addEnded(draw: Draw): void {
    this.#ended.push(draw);
  }

  /** Ends a draw, or all of them: what is left of it can be given back, and not be spent. */
  end(ended?: Draw): void {
    this.#settle((draw) => ended === undefined || draw === ended);
  }

  /** Takes the units of ended draws: they are forgotten here, whatever becomes of the message that gives them back. */
  takeEnded(monotonicMs: number): DrawReturn[] {
    const known = this.#ended.filter(({ forgottenMs }) => monotonicMs < forgottenMs);
    this.#ended = [];
    return known
      .slice(-DRAW_RETURNS_MAX)
      .map(({ number, left }) => ({ draw: number, units: left }));
  }

  /** Forgets everything. */
  clear(): void {
    this.#draws = [];
    this.#ended = [];
    this.#sum();
  }

  /** Takes what was spent off the draws, and ends some of them. */
  #settle(isEnded: (draw: Draw) => boolean): void {
    let spent = this.#settledLeft - this.#left;
    const live: Draw[] = [];
    for (const draw of this.#draws) {
      const units = Math.min(spent, draw.left);
      draw.left -= units;
      spent -= units;
      if (draw.left > 0) (isEnded(draw) ? this.#ended : live).push(draw);
    }
    this.#draws = live;
    this.#sum();
  }

  #sum(): void {
    this.#left = 0;
    this.#endMs = Infinity;
    this.#monotonicEndMs = Infinity;
    for (const { left, endMs, monotonicEndMs } of this.#draws) {
      this.#left += left;
      this.#endMs = Math.min(this.#endMs, endMs);
      this.#monotonicEndMs = Math.min(this.#monotonicEndMs, monotonicEndMs);
    }
    this.#settledLeft = this.#left;
  }
}
