/** Many runs, on all processors: which of them broke a promise, and how often each fault happened. */
import { availableParallelism } from "node:os";
import type { Plan } from "./plan.ts";
import type { Played } from "./play.ts";
import { Player } from "./player.ts";

export interface CampaignTotals {
  runs: number;
  operations: number;
  events: number;
  simulatedMs: number;
  /** How often each fault happened, by kind and step. */
  readonly faults: Map<string, number>;
  readonly failed: Played[];
  /** Runs of which a part could not be judged. */
  readonly undecided: Played[];
}

/**
 * Plays plans.
 *
 * @param options.failuresMax no other run begins once this many have broken a promise
 * @param options.untilMs no other run begins then, ms since the epoch
 * @param options.signal no other run begins once it is aborted
 * @param options.planted a fault that is planted in the code, by name
 */
export async function campaign(options: {
  readonly plans: Iterable<Plan>;
  readonly threads?: number;
  readonly failuresMax?: number;
  readonly untilMs?: number;
  readonly signal?: AbortSignal;
  readonly planted?: string | null;
  readonly onRun?: (played: Played, totals: CampaignTotals) => void;
}): Promise<CampaignTotals> {
  const { failuresMax = 1, untilMs = Infinity, threads = availableParallelism() } = options;
  const totals: CampaignTotals = {
    runs: 0,
    operations: 0,
    events: 0,
    simulatedMs: 0,
    faults: new Map(),
    failed: [],
    undecided: [],
  };
  const plans = options.plans[Symbol.iterator]();
  const isOver = (): boolean =>
    totals.failed.length >= failuresMax ||
    Date.now() >= untilMs ||
    options.signal?.aborted === true;
  const playSome = async (): Promise<void> => {
    const player = new Player({ planted: options.planted ?? null });
    try {
      while (!isOver()) {
        const next = plans.next();
        if (next.done === true) return;
        const played = await player.play(next.value);
        add(totals, played);
        options.onRun?.(played, totals);
      }
    } finally {
      await player.close();
    }
  };
  await Promise.all(Array.from({ length: threads }, playSome));
  return totals;
}

function add(totals: CampaignTotals, played: Played): void {
  totals.runs++;
  totals.operations += played.operations;
  totals.events += played.events;
  totals.simulatedMs += played.simulatedMs;
  for (const [fault, count] of played.faults) {
    totals.faults.set(fault, (totals.faults.get(fault) ?? 0) + count);
  }
  if (played.violations.length > 0) totals.failed.push(played);
  if (played.undecided.length > 0) totals.undecided.push(played);
}
