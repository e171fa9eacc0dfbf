/** The last hour of the namespace, as the server has kept it: what charts begin with. */
import { ThrottrError } from "../client/index.ts";
import type { History, HistoryMinute } from "../wire/history.ts";
import { useLoaded } from "./hooks.ts";
import { isUnknownRoute, jsonOf, lacksScope, type Session } from "./session.ts";

/** The server keeps minutes: more often there is nothing new. */
const EVERY_MS = 60_000;
const NONE: readonly HistoryMinute[] = [];

/** Minutes, oldest first; empty until they are there, and where the server keeps none. */
export function useHistory(session: Session): readonly HistoryMinute[] {
  const isAllowed = !lacksScope(session, "admin");
  const load = isAllowed ? (signal: AbortSignal) => readHistory(session, signal) : null;
  return useLoaded(load, [session], EVERY_MS).value?.minutes ?? NONE;
}

async function readHistory(
  session: Session,
  signal: AbortSignal,
): Promise<Pick<History, "minutes">> {
  try {
    return await jsonOf<History>(session, "/v1/history", { signal });
  } catch (error) {
    if (isUnknownRoute(ThrottrError.from(error))) return { minutes: NONE };
    throw error;
  }
}

/**
 * What was counted in each minute, by its beginning.
 *
 * @param countsOf a minute; null: it is not known
 */
export const countsByMinute = (
  minutes: readonly HistoryMinute[],
  countsOf: (minute: HistoryMinute) => readonly number[] | null,
): ReadonlyMap<number, readonly number[] | null> =>
  new Map(minutes.map((minute) => [minute.atMs, countsOf(minute)]));
