/** What is remembered for a while by the wall clock, which may go back. */
import { presentMs } from "./clock.ts";

/** Whether a moment, as `presentMs` told it, is less than `forMs` ago. A clock that went back says no. */
export function isWithin(atMs: number, forMs: number): boolean {
  const agoMs = presentMs() - atMs;
  return agoMs >= 0 && agoMs < forMs;
}
