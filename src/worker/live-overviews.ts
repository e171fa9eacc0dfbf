/**
 * Overviews for all listeners of this isolate. Listeners of a namespace share an overview, so its objects are asked once
 * a second, however many listeners there are.
 *
 * Only plain data is shared. A request must not await a promise of another request: it never settles once the runtime
 * has ended that request. So a listener that comes while another one asks checks again every 25 ms.
 */
import type { Overview } from "../wire/overview.ts";
import type { Caller } from "./caller.ts";
import { askOverview } from "./survey.ts";
import { stopwatchMs } from "../base/clock.ts";
import { isWithin } from "../base/recent.ts";

/** An older overview is not used again. A little below a second, so that a listener never gets the same one twice. */
const FRESH_MS = 950;
/** A request that has been asking for longer was ended by the runtime. */
const ASKING_MS_MAX = 5000;
/** How often a listener checks whether another one's overview has come. */
const LOOK_INTERVAL_MS = 25;
/** An overview that was not used for this long is dropped. */
const KEPT_MS = 60_000;

/** What the listeners of a namespace share: plain data, and no promise. */
interface Latest {
  overview: Overview | null;
  /** When the request that asks now began; null if none does. */
  askedAtMs: number | null;
  usedAtMs: number;
}

/** By namespace, in this isolate. */
const latestOf = new Map<string, Latest>();

/**
 * An overview of the caller's namespace that is at most about a second old.
 *
 * @throws ThrottrError as `askOverview`
 */
export async function recentOverview(caller: Caller): Promise<Overview> {
  const latest = latestIn(caller.access.namespace);
  while (isBusy(latest)) await scheduler.wait(LOOK_INTERVAL_MS);
  const { overview } = latest;
  if (overview !== null && isWithin(overview.atMs, FRESH_MS)) return overview;
  return await ask(caller, latest);
}

/** Asks the objects, in the caller's own request. A later request that took over keeps its mark. */
async function ask(caller: Caller, latest: Latest): Promise<Overview> {
  const askedAtMs = stopwatchMs();
  latest.askedAtMs = askedAtMs;
  try {
    return (latest.overview = await askOverview(caller));
  } finally {
    if (latest.askedAtMs === askedAtMs) latest.askedAtMs = null;
  }
}

/** Whether a request is asking that can still end. */
function isBusy({ askedAtMs }: Latest): boolean {
  return askedAtMs !== null && stopwatchMs() - askedAtMs < ASKING_MS_MAX;
}

/**
 * What is known of a namespace. Namespaces that are not watched any more are dropped on the way: there is no timer for
 * it.
 */
function latestIn(namespace: string): Latest {
  const nowMs = stopwatchMs();
  for (const [name, { usedAtMs }] of latestOf) {
    if (nowMs - usedAtMs > KEPT_MS) latestOf.delete(name);
  }
  let latest = latestOf.get(namespace);
  if (latest === undefined) {
    latest = { overview: null, askedAtMs: null, usedAtMs: nowMs };
    latestOf.set(namespace, latest);
  }
  latest.usedAtMs = nowMs;
  return latest;
}
