/**
 * The overview of a namespace, as `wire/overview.ts` describes it, made of a survey.
 *
 * Sums leave out objects that did not answer, and the overview names those: a dashboard shows figures that are too small
 * beside the reason, where one missing answer would else hide all others.
 */
import { COUNTED_REQUESTS } from "../engine/counted-requests.ts";
import {
  countsAt,
  sumFigures,
  TALLY_READ_BYTES,
  TALLY_WRITE_BYTES,
  type TallyFigures,
} from "../engine/tally.ts";
import type { HubOverview, Overview, Rate, ShardOverview, Transport } from "../wire/overview.ts";
import type { HubFigures } from "../base/calls/hub.ts";
import { hubName } from "../base/names.ts";
import type { ShardSummary } from "../base/calls/shard.ts";
import { mergeLimits } from "./limit-figures.ts";
import { endOf } from "../wire/range.ts";
import type { SaidOf } from "./shard-reports.ts";
import {
  answeringHubs,
  answeringShards,
  isSilence,
  type HubAnswer,
  type Silence,
  type Survey,
  type WholeSurvey,
} from "./survey.ts";
import { VERSION } from "../base/version.ts";

/** @param atMs when the survey ended */
export function overviewOf(namespace: string, survey: Survey, atMs: number): Overview {
  const shards = answeringShards(survey);
  const hubs = answeringHubs(survey);
  const figures = figuresOf(survey);
  const ofShards = (count: (shard: ShardSummary) => number): number =>
    shards.reduce((sum, shard) => sum + count(shard), 0);
  const ofHubs = (count: (hub: HubFigures) => number): number =>
    hubs.reduce((sum, hub) => sum + count(hub), 0);
  const inTransport = (transport: Transport): number =>
    ofHubs(({ byTransport }) => byTransport[transport]);
  return {
    atMs,
    version: VERSION,
    namespace,
    runningSinceMs: shards.length === 0 ? null : countedSinceMs(shards),
    requests: { ...requestsOf(figures), byName: byNameOf(figures), byType: byTypeOf(figures) },
    readBytes: rateOf(figures, TALLY_READ_BYTES),
    writeBytes: rateOf(figures, TALLY_WRITE_BYTES),
    records: {
      counters: ofShards(({ totals }) => totals.counters),
      buffers: ofShards(({ totals }) => totals.buffers),
      bufferBytes: ofShards(({ totals }) => totals.bufferBytes),
    },
    connections: {
      open: ofHubs(({ connections }) => connections),
      byTransport: {
        tcp: inTransport("tcp"),
        websocket: inTransport("websocket"),
        events: inTransport("events"),
      },
    },
    subscriptions: ofHubs(({ subscriptions }) => subscriptions),
    channels: namedChannelsOf(hubs),
    semaphores: {
      objects: ofShards(({ semaphores }) => semaphores.objects),
      holdings: ofShards(({ semaphores }) => semaphores.holdings),
      holders: ofShards(({ semaphores }) => semaphores.holders),
      usedBytes: ofShards(({ semaphores }) => semaphores.usedBytes),
    },
    limits: mergeLimits(shards.flatMap(({ limits }) => limits ?? [])).all,
    shards: survey.shards.map(shardOverview),
    hubs: survey.hubs.map(hubOverview),
  };
}

/**
 * Since when the totals of shards count. A shard of release 0.4.0 counts since it started. One that has counted nothing has not
 * stored since when, and begins anew with each start.
 */
export function countedSinceMs(shards: readonly ShardSummary[]): number {
  const counting = shards.filter(({ tally }) => tally.some((count) => count > 0));
  return Math.min(
    ...(counting.length > 0 ? counting : shards).map(
      ({ startedAtMs, countedSinceMs: sinceMs = startedAtMs }) => sinceMs,
    ),
  );
}

/** What all objects have counted that have answered. */
export function figuresOf(survey: Survey | WholeSurvey): TallyFigures {
  return sumFigures([
    survey.beside,
    ...answeringShards(survey).map(({ tally }) => tally),
    ...answeringHubs(survey).map(({ tally }) => tally),
  ]);
}

/** How many channels have subscribers in Hubs. */
export function channelsOf(hubs: readonly HubFigures[]): number {
  return countDistinct(hubs.map(({ channelHashes }) => channelHashes));
}

/** How many of them have a name that is not a connection's id. */
export function namedChannelsOf(hubs: readonly HubFigures[]): number {
  return countDistinct(
    hubs.map(({ channelHashes, namedChannels }) => channelHashes.subarray(0, namedChannels)),
  );
}

/** Sorted: a `Set` of all channels of a large namespace takes seconds, and a hundred megabytes. */
function countDistinct(parts: readonly Float64Array[]): number {
  const all = new Float64Array(parts.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  all.sort();
  return all.reduce((count, hash, i) => (hash === all[i - 1] ? count : count + 1), 0);
}

/** A shard that did not answer is listed with the reason, not left out: its records are missing in the sums. */
function shardOverview(said: SaidOf<ShardSummary | Silence>, index: number): ShardOverview {
  const { answer, reportedAtMs } = said;
  const { label, range } = said.shard;
  const place = { index, shard: label, from: range.from, to: endOf(range) };
  if (isSilence(answer)) return { ...place, isUnreachable: true, code: answer.code };
  const { startedAtMs, countedSinceMs: sinceMs = startedAtMs, tally, figures, state } = answer;
  return {
    ...place,
    isUnreachable: false,
    reportedAtMs,
    isHot: state?.isHot ?? false,
    isSplitting: (state?.split ?? null) !== null,
    splitProblem: state?.splitProblem ?? null,
    startedAtMs,
    countedSinceMs: sinceMs,
    requests: requestsOf(tally),
    ...figures,
    // A shard of release 0.4.0 does not say it.
    clockLagMs: figures.clockLagMs ?? 0,
  };
}

/** Its connections are missing in the sums when it did not answer. */
function hubOverview({ hub, answer }: HubAnswer): HubOverview {
  const { location, index } = hubName.parse(hub).address;
  if (isSilence(answer)) return { location, index, isUnreachable: true, code: answer.code };
  const { connections, subscriptions } = answer;
  return { location, index, isUnreachable: false, connections, subscriptions };
}

/** Requests of all types together. */
function requestsOf(figures: TallyFigures): Rate {
  const rates = COUNTED_REQUESTS.map(({ index }) => countsAt(figures, index));
  return {
    total: rates.reduce((sum, [total]) => sum + total, 0),
    perMinute: rates.reduce((sum, [, perMinute]) => sum + perMinute, 0),
  };
}

/** By the names of calls; requests of two protocols that share a name are one. */
export function byNameOf(figures: TallyFigures): Record<string, Rate> {
  const rates: Record<string, Rate> = {};
  for (const { name, index } of COUNTED_REQUESTS) {
    const { total, perMinute } = rateOf(figures, index);
    const before = rates[name] ?? { total: 0, perMinute: 0 };
    rates[name] = { total: before.total + total, perMinute: before.perMinute + perMinute };
  }
  return rates;
}

/** By the names that this release has beside those for programs of 0.4. */
function byTypeOf(figures: TallyFigures): Record<string, Rate> {
  return Object.fromEntries(
    COUNTED_REQUESTS.map(({ type, index }) => [type, rateOf(figures, index)]),
  );
}

/** In all, and in the last minute. */
function rateOf(figures: TallyFigures, index: number): Rate {
  const [total, perMinute] = countsAt(figures, index);
  return { total, perMinute };
}
