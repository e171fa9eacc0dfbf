/** Calls of which their client will never learn what became of them. */
import type { Call, History } from "../checks/history.ts";
import type { World } from "../world.ts";

/** By then nothing is left of a request whose connection has ended, or that was given up, in ms. */
export const SETTLED_MS = 240_000;

/** The client gives a call up. It may still take effect, and no more when so many ms have passed. */
export function giveUp<Operation, Outcome>(
  { time }: Pick<World, "time">,
  history: History<Operation, Outcome>,
  call: Call<Operation, Outcome>,
  settledMs = SETTLED_MS,
): void {
  history.giveUp(call);
  time.after(settledMs, () => history.settle(call));
}
