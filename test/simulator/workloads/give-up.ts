/** Calls of which their client will never learn what became of them. */
import type { Call, History } from "../checks/history.ts";
import type { World } from "../world.ts";

/** By then nothing is left of a request whose connection has ended, or that was given up, in ms. */
export const SETTLED_MS = 240_000;

/** The client gives a call up. The call may still take effect, but not later than `settledMs` after that. */
export function giveUp<Operation, Outcome>(
  { time }: Pick<World, "time">,
  history: History<Operation, Outcome>,
  call: Call<Operation, Outcome>,
  settledMs = SETTLED_MS,
): void {
  history.giveUp(call);
  time.after(settledMs, () => history.settle(call));
}
