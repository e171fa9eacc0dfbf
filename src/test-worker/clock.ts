/**
 * Takes the place of `src/base/clock.ts` in the build for tests: the same clocks, but that a test can move the present ahead.
 *
 * The runtime runs all objects and doors of a Worker in one isolate, so one variable is the present of all of them, also of
 * an object that is asleep or starts again.
 */

/** By how much the present is ahead of the machine's clock. */
let aheadMs = 0;

export function presentMs(): number {
  return Date.now() + aheadMs;
}

export function stopwatchMs(): number {
  return Date.now();
}

/** Moves the present of all objects and doors ahead. */
export function moveAhead(ms: number): void {
  aheadMs += ms;
}

/** When the machine's clock shows what the present will be then. */
export function toMachineMs(atMs: number): number {
  return atMs - aheadMs;
}

/** The reverse of `toMachineMs`. */
export function fromMachineMs(atMs: number): number {
  return atMs + aheadMs;
}
