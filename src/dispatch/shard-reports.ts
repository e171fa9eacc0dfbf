/**
 * Reports of shards, in place of their answers. Where a namespace has many shards, what they are and have is read from the
 * Directory, which each shard tells once a minute while it is awake: to ask them would wake all. Only those without a report, or
 * with an outdated one, are asked, which makes them report.
 */
import type { ShardReport } from "../base/calls/shard.ts";
import { presentMs } from "../base/clock.ts";
import type { Environment } from "../base/environment.ts";
import { directoryStub } from "../base/stubs.ts";
import { orIfUnknown } from "../base/unknown-method.ts";
import { LIMIT_COUNTS } from "../engine/limit-figures.ts";
import { MINUTE_MS } from "../engine/minute-counts.ts";
import { SHARDS_ASKED_MAX } from "../engine/sizes.ts";
import { WHOLE } from "../wire/range.ts";
import type { Answered, AskedShard, ShardGroup } from "./shard-group.ts";

/** What a shard said, now or in its report. */
export interface SaidOf<T> {
  readonly shard: AskedShard;
  readonly answer: T;
  /** When it has reported it, in ms since the epoch; null when it was asked just now. */
  readonly reportedAtMs: number | null;
}

/** How a report is read, and a shard without one is asked. */
interface Reading<T> {
  readonly read: (report: ShardReport) => T;
  /** @param isToReport its report is missed: see `ShardCalls.summary` */
  readonly ask: (shard: AskedShard, isToReport: boolean) => Promise<T>;
}

/**
 * What all shards say, in the order of the circle: each is asked while there are few.
 *
 * @param isKept see `DirectoryCalls.shardReports`
 */
export async function readOrAsk<T>(
  env: Environment,
  shards: ShardGroup,
  isKept: boolean,
  reading: Reading<T>,
): Promise<SaidOf<T>[]> {
  if (shards.map.ranges.count <= SHARDS_ASKED_MAX)
    return await askedNow(shards.askKnown(async (shard) => await reading.ask(shard, false)));
  return await shards.untilWhole(async () => {
    const reports = await reportsOf(env, shards, isKept);
    return await readReports(shards, reports, reading);
  });
}

async function askedNow<T>(answers: Promise<Answered<T>[]>): Promise<SaidOf<T>[]> {
  return (await answers).map((answered) => ({ ...answered, reportedAtMs: null }));
}

/** Asks those without a report, or with an outdated one. */
async function readReports<T>(
  shards: ShardGroup,
  reports: ReadonlyMap<number, ShardReport>,
  { read, ask }: Reading<T>,
): Promise<SaidOf<T>[]> {
  const nowMs = presentMs();
  const said = await Promise.all(
    shards.map.ranges.within(WHOLE).map(async (range): Promise<SaidOf<T>[]> => {
      const report = reports.get(range.from);
      if (report === undefined || isOutdated(report, nowMs))
        return await askedNow(shards.askWithin(range, async (shard) => await ask(shard, true)));
      const shard = shards.shardAt(range.from);
      return [{ shard, answer: read(asOf(report, nowMs)), reportedAtMs: report.atMs }];
    }),
  );
  return said.flat();
}

/** By where the ranges of the shards begin. What they say of ranges makes the map finer. */
async function reportsOf(
  env: Environment,
  shards: ShardGroup,
  isKept: boolean,
): Promise<Map<number, ShardReport>> {
  const call = directoryStub(env, shards.map.namespace).shardReports(isKept);
  // A Directory of the release before keeps none: all shards are asked.
  const reports: ShardReport[] = await orIfUnknown<ShardReport[]>(call, () => []);
  const ranges = reports.map(({ summary }) => summary.state.range);
  shards.map.learnBegins(ranges.flatMap(({ from, to }) => [from, to]));
  return new Map(reports.map((report, i) => [ranges[i]!.from, report]));
}

/** How long a report holds that tells of what passes: the calls of a minute, or a split. */
const PASSING_MS = 2 * MINUTE_MS;

/**
 * Whether a report tells of a split that is likely to be over. A shard reports the end of a split, but a restart or a failed
 * call can lose that report, and a shard without requests makes no other.
 */
const isOutdated = ({ atMs, summary }: ShardReport, nowMs: number): boolean =>
  summary.state.split !== null && nowMs - atMs > PASSING_MS;

/** A report as it is to be read later: what it says of the minute before it is over. */
function asOf(report: ShardReport, nowMs: number): ShardReport {
  if (nowMs - report.atMs <= PASSING_MS) return report;
  const { summary } = report;
  const { tally, limits, state } = summary;
  return {
    ...report,
    summary: {
      ...summary,
      tally: totalsOf(tally, tally.length / 2),
      ...(limits && { limits: { ...limits, counts: totalsOf(limits.counts, LIMIT_COUNTS) } }),
      state: { ...state, callsPerSecond: 0, isHot: false },
    },
  };
}

/** @param length counts in a row: rows of totals and of the last minute alternate */
function totalsOf(counts: Float64Array, length: number): Float64Array<ArrayBuffer> {
  return Float64Array.from(counts, (count, i) => (Math.floor(i / length) % 2 === 0 ? count : 0));
}
