/** Work of a request that must run to its end, even if its client leaves. */

/**
 * Lets work run to its end. When a client leaves, the code of its request stops where it waits, without `finally`: what the
 * work has counted would stay counted for ever. Only promises that were given to `waitUntil` are still awaited.
 *
 * @returns the work itself
 */
export function inOrder<T>(ctx: Pick<ExecutionContext, "waitUntil">, work: Promise<T>): Promise<T> {
  ctx.waitUntil(work.catch(() => {}));
  return work;
}
