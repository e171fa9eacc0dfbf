/** The last hour of the namespace, as the server has kept it: what charts begin with. */
import { useRef } from "hono/jsx/dom";
import { ThrottrError } from "../client/index.ts";
import type { History, HistoryMinute } from "../wire/history.ts";
import { useLoaded } from "./hooks.ts";
import { isUnknownRoute, jsonOf } from "./server.ts";
import { lacksScope, type Session } from "./session.ts";

/** The server keeps minutes: more often there is nothing new. */
const EVERY_MS = 60_000;
const NONE: readonly HistoryMinute[] = [];

/** Minutes, oldest first; null until they are there, and where the server keeps none or had none at first. */
export function useHistory(session: Session): readonly HistoryMinute[] | null {
  const isAllowed = !lacksScope(session, "admin");
  const load = isAllowed ? (signal: AbortSignal) => readHistory(session, signal) : null;
  const { value } = useLoaded(load, [session], EVERY_MS);
  // A chart that has begun with what comes does not turn into another one while it is looked at.
  const hadNone = useRef(false);
  if (value?.minutes.length === 0) hadNone.current = true;
  return value === null || hadNone.current ? null : value.minutes;
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
