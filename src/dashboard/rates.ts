/**
 * Rates from totals: the difference between two samples, per second. Totals outlive the objects that count them, but for
 * the last counts before an object ends.
 */

/** Totals at a moment. */
export interface Totals {
  readonly atMs: number;
  readonly totals: Readonly<Record<string, number>>;
}

/** Samples further apart than this are not joined by a line: the page or the server was away. */
const GAP_MS = 10_000;

/**
 * Rates since the sample before; null without one, or when it is too long ago.
 *
 * A total that has gone down lacks the last counts of an object that was restarted: it has no rate until the next sample.
 */
export function ratesBetween(before: Totals | null, now: Totals): Record<string, number> | null {
  if (before === null) return null;
  const elapsedMs = now.atMs - before.atMs;
  if (elapsedMs <= 0 || elapsedMs > GAP_MS) return null;
  const rates: Record<string, number> = {};
  for (const [name, total] of Object.entries(now.totals)) {
    const known = before.totals[name] ?? 0;
    rates[name] = (Math.max(0, total - known) * 1000) / elapsedMs;
  }
  return rates;
}

/**
 * Gives each name a slot of a chart when it first has a rate, and keeps it: the colour
 * of a line does not change on an open page.
 */
export class Slots {
  readonly #names: string[] = [];
  readonly #slotsMax: number;

  constructor(slotsMax: number) {
    this.#slotsMax = slotsMax;
  }

  /** Names in the order of their slots. */
  get names(): readonly string[] {
    return this.#names;
  }

  /** Takes slots for the names with the highest rates, as long as there are any. */
  assign(rates: Readonly<Record<string, number>>): void {
    const active = Object.entries(rates).filter(
      ([name, rate]) => rate > 0 && !this.#names.includes(name),
    );
    active.sort(([, one], [, other]) => other - one);
    for (const [name] of active.slice(0, this.#slotsMax - this.#names.length)) {
      this.#names.push(name);
    }
  }

  /** Rates by slot, and the sum of all others behind them. */
  valuesOf(rates: Readonly<Record<string, number>>): number[] {
    const values = Array.from({ length: this.#slotsMax + 1 }, () => 0);
    for (const [name, rate] of Object.entries(rates)) {
      const slot = this.#names.indexOf(name);
      values[slot === -1 ? this.#slotsMax : slot]! += rate;
    }
    return values;
  }
}
