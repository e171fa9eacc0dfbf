/**
 * What ends with a life: sockets that it had accepted, streams that it was reading or writing. A life does not know them;
 * the cluster calls `endAllOf` when one is over, for whatever reason.
 */
import type { Life } from "../life.ts";

const endings = new WeakMap<Life, Set<() => void>>();

/**
 * @param end runs when the life is over
 * @returns forgets it
 */
export function whenOver(life: Life, end: () => void): () => void {
  let known = endings.get(life);
  if (known === undefined) endings.set(life, (known = new Set()));
  known.add(end);
  const all = known;
  return () => all.delete(end);
}

/** A life is over: what it held open ends, as its peers will notice. Hibernating sockets belong to their object, and stay. */
export function endAllOf(life: Life): void {
  const known = endings.get(life);
  endings.delete(life);
  for (const end of known ?? []) end();
}
