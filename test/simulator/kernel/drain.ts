/**
 * Lets every promise settle that can, at once: what an event of the simulator has set off has ended before the next one begins.
 *
 * Node's own way to do that between two callbacks is the function that it calls after each of them. It has no documented name;
 * `setImmediate` would do the same, ten times slower and only for code that awaits it.
 */

const { _tickCallback: tickCallback } = process as unknown as { _tickCallback?: () => void };
if (tickCallback === undefined) {
  throw new Error("this Node has no process._tickCallback, by which the simulator drains promises");
}

/** Runs `nextTick` callbacks and reactions of promises until none is left. It does nothing within a reaction: see `inMacrotask`. */
export const drain: () => void = tickCallback.bind(process);

/** Runs work that drains promises, outside of all reactions, and returns what it returns. */
export function inMacrotask<T>(work: () => T): Promise<T> {
  return new Promise((resolve, reject) => {
    setImmediate(() => {
      try {
        resolve(work());
      } catch (error) {
        reject(error as Error);
      }
    });
  });
}
