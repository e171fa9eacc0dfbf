/**
 * The overview of the namespace, live: an event a second while the page is seen, and the rates between two events. What was
 * received stays for the next visit to the screen, so that the chart goes on.
 */
import { ThrottrError } from "../client/index.ts";
import type { Overview, Rate } from "../wire/overview.ts";
import type { Point } from "./last-hour.ts";
import { ratesBetween, Slots, type Totals } from "./rates.ts";
import { learnClock } from "./server-clock.ts";
import { eventsOf } from "./server-sent-events.ts";
import { answerOf, TIMEOUT_MS } from "./server.ts";
import { failureOf, type Session } from "./session.ts";
import { Store } from "./store.ts";

const INTERVAL_MS = 1000;
const MINUTE_S = 60;
/** The last three minutes of the chart, one sample a second. */
const SAMPLES_MAX = 180;
/** Lines of the chart, beside the one for all other types. */
export const LINES_MAX = 5;
const BACKOFF_MS_MAX = 15_000;

export interface Feed {
  readonly status: "connecting" | "live" | "lost" | "paused";
  readonly overview: Overview | null;
  /** Per second, in all; null before the second look. */
  readonly rates: {
    readonly requests: number;
    readonly readBytes: number;
    readonly writeBytes: number;
    /** Decisions of rate limits. */
    readonly allowed: number;
    readonly refused: number;
  } | null;
  /** Requests per second by slot, and those of all other types behind them. */
  readonly samples: readonly Point[];
  /** Names of the slots that are taken. */
  readonly names: readonly string[];
  readonly error: ThrottrError | null;
}

const NOTHING: Feed = {
  status: "connecting",
  overview: null,
  rates: null,
  samples: [],
  names: [],
  error: null,
};

export const feedStore = new Store<Feed>(NOTHING);

let slots = new Slots(LINES_MAX);
let lookedAtBy: Session | null = null;

/** Follows the overview until the signal. Samples of before stay, unless they are of another session. */
export async function followOverview(session: Session, signal: AbortSignal): Promise<void> {
  if (lookedAtBy !== session) forget(session);
  let backoffMs = INTERVAL_MS;
  while (!signal.aborted) {
    // Each event asks all objects of the namespace, which is billed: not for a page that is hidden.
    if (document.hidden) {
      update({ status: "paused" });
      await untilSeen(signal);
      continue;
    }
    update({ status: feedStore.value.status === "lost" ? "lost" : "connecting" });
    const ended = new AbortController();
    const hide = (): void => {
      if (document.hidden) ended.abort();
    };
    document.addEventListener("visibilitychange", hide);
    try {
      await readAll(session, AbortSignal.any([signal, ended.signal]), () => {
        backoffMs = INTERVAL_MS;
      });
      update({ status: "lost" });
    } catch (error) {
      if (signal.aborted) return;
      // A page that is seen again shows the present at once.
      if (ended.signal.aborted) continue;
      const failure = failureOf(error);
      update({ status: "lost", error: failure });
      // The same token will not be allowed the next time either.
      if (failure.code === "scope_missing") return;
    } finally {
      document.removeEventListener("visibilitychange", hide);
    }
    await delay(backoffMs, signal);
    backoffMs = Math.min(BACKOFF_MS_MAX, backoffMs * 2);
  }
}

/** Reads what comes, as long as something does: a connection that was lost while the machine slept does not end by itself. */
async function readAll(
  session: Session,
  signal: AbortSignal,
  onOverview: () => void,
): Promise<void> {
  const path = `/v1/overview/live?intervalMs=${INTERVAL_MS}`;
  const silent = new AbortController();
  let timer: ReturnType<typeof setTimeout> | undefined;
  const listen = (): void => {
    clearTimeout(timer);
    timer = setTimeout(() => silent.abort(), TIMEOUT_MS);
  };
  listen();
  try {
    const response = await answerOf(session, path, {
      signal: AbortSignal.any([signal, silent.signal]),
    });
    for await (const { data } of eventsOf(response)) {
      listen();
      const overview = readOverview(data);
      if (overview === null) continue;
      onOverview();
      show(overview);
    }
  } catch (cause) {
    if (signal.aborted || cause instanceof ThrottrError) throw cause;
    throw new ThrottrError("connection_failed", "the connection was lost", { cause });
  } finally {
    clearTimeout(timer);
  }
}

/** The overview that an event says; null for an event of another kind. */
function readOverview(data: string): Overview | null {
  const value = JSON.parse(data) as Partial<Overview> | null;
  return typeof value?.atMs === "number" && value.requests !== undefined
    ? (value as Overview)
    : null;
}

function show(overview: Overview): void {
  learnClock(overview.atMs);
  const before = feedStore.value.overview;
  const byName = ratesOf(before, overview, ({ requests }) => requests.byName);
  if (byName !== null) slots.assign(byName);
  const sample = { atMs: overview.atMs, values: byName && slots.valuesOf(byName) };
  update({
    status: "live",
    overview,
    rates: ratesOf(before, overview, figuresInAll) as Feed["rates"],
    samples: [...feedStore.value.samples, sample].slice(-SAMPLES_MAX),
    names: [...slots.names],
    error: null,
  });
}

type Figures = Readonly<Record<string, Rate>>;

const figuresInAll = ({ requests, readBytes, writeBytes, limits }: Overview): Figures => {
  const { allowed, refused } = limits;
  return { requests, readBytes, writeBytes, allowed, refused };
};

/** Per second since the last look; null where the two say nothing. */
function ratesOf(
  before: Overview | null,
  now: Overview,
  figuresOf: (overview: Overview) => Figures,
): Record<string, number> | null {
  // Of shards that report once a minute, totals stand still between two looks, or have grown by all of a minute.
  if (now.shards.some((shard) => !shard.isUnreachable && shard.reportedAtMs !== null)) {
    return Object.fromEntries(
      Object.entries(figuresOf(now)).map(([name, { perMinute }]) => [name, perMinute / MINUTE_S]),
    );
  }
  // The totals of an object that did not answer, and does again, would look like requests.
  if (before === null || silentIn(before) !== silentIn(now)) return null;
  return ratesBetween(totalsOf(before, figuresOf), totalsOf(now, figuresOf));
}

const totalsOf = (overview: Overview, figuresOf: (overview: Overview) => Figures): Totals => ({
  atMs: overview.atMs,
  totals: Object.fromEntries(
    Object.entries(figuresOf(overview)).map(([name, { total }]) => [name, total]),
  ),
});

/** The objects that did not answer, as text. */
const silentIn = ({ shards, hubs }: Overview): string =>
  JSON.stringify([
    shards.filter(({ isUnreachable }) => isUnreachable).map(({ shard }) => shard),
    hubs
      .filter(({ isUnreachable }) => isUnreachable)
      .map(({ location, index }) => [location, index]),
  ]);

function update(part: Partial<Feed>): void {
  feedStore.set({ ...feedStore.value, ...part });
}

function forget(session: Session): void {
  lookedAtBy = session;
  slots = new Slots(LINES_MAX);
  feedStore.set(NOTHING);
}

function delay(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener("abort", () => {
      clearTimeout(timer);
      resolve();
    });
  });
}

function untilSeen(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const ended = new AbortController();
    const settle = (): void => {
      if (document.hidden && !signal.aborted) return;
      ended.abort();
      resolve();
    };
    document.addEventListener("visibilitychange", settle, { signal: ended.signal });
    signal.addEventListener("abort", settle, { signal: ended.signal });
  });
}
