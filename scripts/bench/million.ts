/** A million counters: their keys, and how a server comes to hold them. */
import { sendAll } from "./client.ts";
import { counterFrame } from "./frames.ts";

export const COUNTERS = 1_000_000;
export const KEY_BYTES = 16;
/** INSERTs under way. */
const FILL_DEPTH = 8192;

export function counterKey(index: number): Buffer {
  return Buffer.from(String(index).padStart(KEY_BYTES, "k"));
}

/**
 * Makes the counters over TCP.
 *
 * @param counters how many of them are made, from the first on
 * @throws Error when one is refused
 */
export async function fillCounters(port: number, counters: number = COUNTERS): Promise<void> {
  await sendAll({
    port,
    count: counters,
    depth: FILL_DEPTH,
    frames: (from, to) =>
      Buffer.concat(
        Array.from({ length: to - from }, (_, i) => counterFrame(counterKey(from + i))),
      ),
  });
}
