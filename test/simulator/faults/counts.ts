/** How often each kind of fault happened, and where: a kind that never happened has shown nothing. */

export class FaultCounts {
  readonly #counts = new Map<string, number>();

  /** @param at the step of the protocol, such as a method of an object */
  add(kind: string, at: string): void {
    const name = `${kind}: ${at}`;
    this.#counts.set(name, (this.#counts.get(name) ?? 0) + 1);
  }

  get total(): number {
    let total = 0;
    for (const count of this.#counts.values()) total += count;
    return total;
  }

  entries(): [string, number][] {
    return [...this.#counts].toSorted(([a], [b]) => (a < b ? -1 : 1));
  }
}
