/** Histories that tests of checkers make up. */
import type { Call, Door, Moment } from "../../simulator/checks/history.ts";

/** A call in a few words. Times are ms since the begin of the run, and no two of a history should be the same. */
export interface ForgedCall<Operation, Outcome> {
  readonly operation: Operation;
  readonly begunMs: number;
  /** Null for a call that is never answered. */
  readonly endedMs: number | null;
  readonly outcome: Outcome | "unknown" | "refused";
  readonly settledMs?: number;
  readonly client?: number;
  readonly connection?: number;
  readonly door?: Door;
}

/** The calls in the order in which they began, with ticks in the order of all their moments. */
export function forge<Operation, Outcome>(
  forged: readonly ForgedCall<Operation, Outcome>[],
): Call<Operation, Outcome>[] {
  const times = forged.flatMap(({ begunMs, endedMs, settledMs }) =>
    [begunMs, endedMs, settledMs].filter((ms) => typeof ms === "number"),
  );
  const ticks = new Map([...new Set(times)].toSorted((a, b) => a - b).map((ms, i) => [ms, i + 1]));
  const moment = (ms: number): Moment => ({ tick: ticks.get(ms)!, ms });
  return forged
    .toSorted((a, b) => a.begunMs - b.begunMs)
    .map(({ operation, begunMs, endedMs, outcome, settledMs, client, connection, door }) => ({
      operation,
      outcome,
      client: client ?? 1,
      connection: connection ?? null,
      door: door ?? (connection === undefined ? "http" : "websocket"),
      begun: moment(begunMs),
      ended: endedMs === null ? null : moment(endedMs),
      settled: settledMs === undefined ? null : moment(settledMs),
    }));
}
