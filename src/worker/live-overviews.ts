/**
 * Overviews for all who watch in this isolate: one that another listener of the namespace has just been
 * given will do, so that it is asked once a second, however many there are.
 *
 * What is kept is plain data. A promise of another request must not be waited for: it never ends when
 * that request is ended. So who comes while another asks looks again every now and then.
 */
import type { Overview } from "../wire/overview.ts";
import type { Caller } from "./caller.ts";
import { askOverview } from "./survey.ts";

/** An overview that is older is asked for anew: nobody is given the same one after a second. */
const FRESH_MS = 950;
/** Whoever has asked for longer has been ended. */
const ASKING_MS_MAX = 5000;
const LOOK_INTERVAL_MS = 25;
/** What nobody has looked at for so long is dropped. */
const KEPT_MS = 60_000;

interface Latest {
  overview: Overview | null;
  /** When somebody began to ask, who has not ended; null when nobody does. */
  askedAtMs: number | null;
  usedAtMs: number;
}

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
  if (overview !== null && Date.now() - overview.atMs < FRESH_MS) return overview;
  return await ask(caller, latest);
}

async function ask(caller: Caller, latest: Latest): Promise<Overview> {
  const askedAtMs = Date.now();
  latest.askedAtMs = askedAtMs;
  try {
    return (latest.overview = await askOverview(caller));
  } finally {
    if (latest.askedAtMs === askedAtMs) latest.askedAtMs = null;
  }
}

function isBusy({ askedAtMs }: Latest): boolean {
  return askedAtMs !== null && Date.now() - askedAtMs < ASKING_MS_MAX;
}

function latestIn(namespace: string): Latest {
  const nowMs = Date.now();
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
