/** Many runs, on all processors: which of them broke a promise, and how often each fault happened. */
import { availableParallelism } from "node:os";
import { Worker } from "node:worker_threads";
import type { Played } from "./play.ts";

export interface CampaignTotals {
  runs: number;
  operations: number;
  events: number;
  simulatedMs: number;
  readonly faults: Map<string, number>;
  readonly failed: Played[];
}

/**
 * Plays a run for each seed.
 *
 * @param options.failuresMax it ends before, when so many runs have broken a promise
 */
export async function campaign(options: {
  readonly seeds: Iterable<number>;
  readonly threads?: number;
  readonly failuresMax?: number;
  /** Another one does not begin then. */
  readonly untilMs?: number;
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
  };
  const seeds = options.seeds[Symbol.iterator]();
  await Promise.all(
    Array.from({ length: threads }, async () => {
      const worker = new Worker(new URL("./thread.ts", import.meta.url));
      const done = Promise.withResolvers<void>();
      worker.on("error", done.reject);
      worker.on("exit", () => done.resolve());
      worker.on("message", (played: Played | null) => {
        if (played !== null) {
          add(totals, played);
          options.onRun?.(played, totals);
        }
        const isOver = totals.failed.length >= failuresMax || Date.now() >= untilMs;
        const next = isOver ? { done: true as const } : seeds.next();
        if (next.done === true) void worker.terminate();
        // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread has no origin
        else worker.postMessage(next.value);
      });
      await done.promise;
    }),
  );
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
}

/** Seeds from a first one on. */
export function* seedsFrom(first: number, count: number): Generator<number> {
  for (let i = 0; i < count; i++) yield (first + i) % 2 ** 32;
}
