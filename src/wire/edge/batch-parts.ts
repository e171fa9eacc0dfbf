/** Lists that are too long for one batch, in parts. */

/** Operations of one batch: a call between Workers carries 32 MiB, and their replies are held until all have come. */
export const BATCH_MAX = 10_000;

/**
 * Asks for a list in batches, one after the other, and gives all answers in its order. The first batch that fails ends it:
 * those before it may have been applied.
 */
export async function inBatches<Item, Answer>(
  items: readonly Item[],
  ask: (part: readonly Item[]) => Promise<Answer[]>,
): Promise<Answer[]> {
  if (items.length === 0) return [];
  if (items.length <= BATCH_MAX) return await ask(items);
  const answers: Answer[][] = [];
  for (let at = 0; at < items.length; at += BATCH_MAX) {
    answers.push(await ask(items.slice(at, at + BATCH_MAX)));
  }
  return answers.flat();
}
