/** Ids of charges that were cancelled before they came, for as long as their message may be on its way. */
import { CANCELLED_IDS_MAX } from "./sizes.ts";

/** A message to an object is not on its way for longer. A charge that comes later yet stays charged. */
const KEPT_MS = 30_000;

export class CancelledIds {
  /** When each is forgotten; the first is the oldest. */
  readonly #ends = new Map<string, number>();

  /** @param nowMs never goes back */
  add(id: string, nowMs: number): void {
    for (const [known, endMs] of this.#ends) {
      if (endMs > nowMs && this.#ends.size < CANCELLED_IDS_MAX) break;
      this.#ends.delete(known);
    }
    this.#ends.set(id, nowMs + KEPT_MS);
  }

  has(id: string, nowMs: number): boolean {
    return (this.#ends.get(id) ?? 0) > nowMs;
  }
}
