/**
 * A turn: lets the runtime look at its sockets and timers.
 *
 * Where one answer of an object follows the other, with what is always ready, nothing else is served in
 * between: whoever does much in a row, at somebody's request, takes turns.
 */
export async function turn(): Promise<void> {
  await scheduler.wait(0);
}
