/** Calls that a shard may have no room for. */
import { expect } from "vitest";

/** Whether a full shard takes what a call stores. */
export function isTaken(call: () => unknown): boolean {
  try {
    call();
    return true;
  } catch (error) {
    expect(String(error)).toContain("shard_full");
    return false;
  }
}
