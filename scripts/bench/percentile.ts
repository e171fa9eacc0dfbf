/** Middles and shares of measured numbers. */

/** The middle one; of an even number, the upper of the two in the middle. */
export function median(numbers: readonly number[]): number {
  return numbers.toSorted((a, b) => a - b)[numbers.length >> 1]!;
}

/** The number below which a share of all, 0 to 1, lies; NaN of none. */
export function percentile(ascending: ArrayLike<number>, share: number): number {
  return ascending[Math.floor(ascending.length * share)] ?? NaN;
}
