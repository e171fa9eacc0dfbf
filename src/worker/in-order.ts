/** Work of a request that has to end in order, even if its client goes meanwhile. */

/**
 * Keeps work going. The runtime drops a request when its client closes, and runs none of its code again, not even
 * `finally`: what the work has counted would stay counted for ever. Only what `waitUntil` knows goes on.
 *
 * @returns the work itself
 */
export function inOrder<T>(ctx: Pick<ExecutionContext, "waitUntil">, work: Promise<T>): Promise<T> {
  ctx.waitUntil(work.catch(() => {}));
  return work;
}
