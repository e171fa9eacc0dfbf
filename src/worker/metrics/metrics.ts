/**
 * The metrics of a namespace, made from a survey.
 *
 * Each object has its own series, and its counters start at 0 when the object starts. Prometheus recognizes that as a
 * counter reset, so rates stay right; one sum over all objects would go down whenever an object sleeps. Counts of Hubs
 * that no longer exist are left out for the same reason: their own series carried them.
 */
import { COUNTED_REQUESTS } from "../../engine/counted-requests.ts";
import { LimitRow, type LimitCounts } from "../../engine/limit-figures.ts";
import { TALLY_READ_BYTES, TALLY_WRITE_BYTES, type TallyFigures } from "../../engine/tally.ts";
import type { HubFigures } from "../../base/calls/hub.ts";
import { hubName } from "../../base/names.ts";
import { ratesAt } from "../../dispatch/limit-figures.ts";
import { namedChannelsOf } from "../../dispatch/overview.ts";
import type { ShardSummary } from "../../base/calls/shard.ts";
import type { SaidOf } from "../../dispatch/shard-reports.ts";
import { answeringHubs, isSilence, type Silence, type Survey } from "../../dispatch/survey.ts";
import { VERSION } from "../../base/version.ts";
import type { Metric, Sample } from "./exposition.ts";

type Labels = Sample["labels"];

/** An object: its labels, and its figures; null if it did not answer. */
interface Source<Said> {
  readonly labels: Labels;
  readonly said: Said | null;
}

interface ShardSource extends Source<ShardSummary> {
  /** When it has reported that, in ms since the epoch; null when it was asked. */
  readonly reportedAtMs: number | null;
}

/** An object or door that counts requests. */
interface Counting {
  readonly labels: Labels;
  readonly figures: TallyFigures;
  /**
   * Each request is counted in one place, by shards or by Hubs and doors; only the names counted there get a series.
   */
  readonly isShard: boolean;
}

/**
 * All metrics of a namespace. An object that did not answer has no series but `..._up` 0: a sample of 0 would look like
 * a restart.
 */
export function metricsOf(namespace: string, survey: Survey): Metric[] {
  const shards = survey.shards.map((said) => shardSource(namespace, said));
  const hubs = survey.hubs.map(({ hub, answer }): Source<HubFigures> => {
    const { location, index } = hubName.parse(hub).address;
    return {
      labels: { namespace, location, hub: String(index) },
      said: isSilence(answer) ? null : answer,
    };
  });
  const channels = namedChannelsOf(answeringHubs(survey));
  return [
    metric("throttr_build_info", "The server's release; always 1.", [
      { labels: { namespace, version: VERSION }, value: 1 },
    ]),
    ...countersOf([
      { labels: { namespace }, figures: survey.doors, isShard: false },
      ...countingOf(shards, true),
      ...countingOf(hubs, false),
    ]),
    ...metricsOfShards(shards),
    ...metricsOfLimits(shards),
    ...metricsOfHubs(hubs),
    metric("throttr_channels", "Named channels with subscribers.", [
      { labels: { namespace }, value: channels },
    ]),
  ];
}

function shardSource(
  namespace: string,
  { shard, answer, reportedAtMs }: SaidOf<ShardSummary | Silence>,
): ShardSource {
  const labels = { namespace, shard: shard.label };
  return { labels, said: isSilence(answer) ? null : answer, reportedAtMs };
}

/** The counts of objects that answered. */
function countingOf(
  sources: readonly Source<{ readonly tally: TallyFigures }>[],
  isShard: boolean,
): Counting[] {
  return sources.flatMap(({ labels, said }) =>
    said === null ? [] : [{ labels, figures: said.tally, isShard }],
  );
}

/** Counters of requests and bytes, a series for each object. A type that an object never counts has no series there. */
function countersOf(counting: readonly Counting[]): Metric[] {
  const bytesAt = (index: number): Sample[] =>
    counting.map(({ labels, figures }) => ({ labels, value: figures[index]! }));
  return [
    metric(
      "throttr_requests_total",
      "Requests by call (request) and protocol (type), and by the shard or Hub that counted them; without either, counted at the HTTP routes.",
      counting.flatMap(({ labels, figures, isShard }) =>
        COUNTED_REQUESTS.filter(({ isOfShard }) => isOfShard === isShard).map(
          ({ name, type, index }): Sample => ({
            labels: { ...labels, type, request: name },
            value: figures[index]!,
          }),
        ),
      ),
    ),
    metric("throttr_read_bytes_total", "Bytes of requests.", bytesAt(TALLY_READ_BYTES)),
    metric("throttr_write_bytes_total", "Bytes of replies.", bytesAt(TALLY_WRITE_BYTES)),
  ];
}

/** The metrics with one sample for each shard that answers: name, what Prometheus shows about it, and its value. */
const SHARD_METRICS: Readonly<Record<string, readonly [string, (shard: ShardSummary) => number]>> =
  {
    throttr_shard_start_time_seconds: [
      "When the shard's object started, since the epoch.",
      (shard) => shard.startedAtMs / 1000,
    ],
    throttr_buffer_bytes: [
      "Bytes of the values of live buffers.",
      ({ totals }) => totals.bufferBytes,
    ],
    throttr_shard_records: [
      "Records of all kinds in memory; expired records count until they are collected.",
      ({ figures }) => figures.records,
    ],
    throttr_shard_memory_bytes: ["Memory that records take.", ({ figures }) => figures.bytes],
    throttr_shard_memory_limit_bytes: [
      "SHARD_BYTES_MAX: above it the shard refuses new records.",
      ({ figures }) => figures.bytesMax,
    ],
    throttr_shard_refused_for_space_total: [
      "Requests refused because the memory was full.",
      ({ figures }) => figures.refusedForSpace,
    ],
    throttr_shard_journal_rows: [
      "Rows of the journal since it was last cut.",
      ({ figures }) => figures.journalRows,
    ],
    throttr_shard_journal_bytes: [
      "Bytes of the journal since it was last cut.",
      ({ figures }) => figures.journalBytes,
    ],
    throttr_shard_rows_written_total: [
      "Rows written to storage; setting an alarm counts as one.",
      ({ figures }) => figures.rowsWritten,
    ],
    throttr_shard_clock_lag_seconds: [
      "How far the shard's time is ahead of the clock.",
      ({ figures }) => (figures.clockLagMs ?? 0) / 1000,
    ],
    throttr_shard_splitting: [
      "Whether a split of the shard is under way.",
      ({ state }) => Number((state?.split ?? null) !== null),
    ],
    throttr_shard_split_problem: [
      "Whether its last split did not come to its end, or it is too large and can't split; log and overview say why.",
      ({ state }) => Number((state?.splitProblem ?? null) !== null),
    ],
    throttr_shard_hot: [
      "Whether it has had more calls than SPLIT_CALLS_PER_SECOND for half a minute.",
      ({ state }) => Number(state?.isHot ?? false),
    ],
    throttr_semaphores: ["Semaphores that exist.", ({ semaphores }) => semaphores.objects],
    throttr_semaphore_holdings: [
      "Holdings: one for each semaphore that a connection or lease holds.",
      ({ semaphores }) => semaphores.holdings,
    ],
    throttr_semaphore_holders: [
      "Connections and leases that hold anything.",
      ({ semaphores }) => semaphores.holders,
    ],
    throttr_semaphore_bytes: [
      "Memory that semaphores, holdings and their index take.",
      ({ semaphores }) => semaphores.usedBytes,
    ],
  };

function metricsOfShards(shards: readonly ShardSource[]): Metric[] {
  return [
    metric(
      "throttr_shard_up",
      "Whether the shard answers; if it does not, its other series are missing. Shards that report are not asked.",
      upOf(shards.filter(({ reportedAtMs }) => reportedAtMs === null)),
    ),
    metric(
      "throttr_shard_report_time_seconds",
      "When the shard made the report that its other series are of, since the epoch; in a namespace with more than 16 shards.",
      shards.flatMap(({ labels, reportedAtMs }) =>
        reportedAtMs === null ? [] : [{ labels, value: reportedAtMs / 1000 }],
      ),
    ),
    metric("throttr_records", "Live records, without pairs of dialect 2 and semaphores.", [
      ...samplesOf(shards, ({ totals }) => totals.counters, { kind: "counter" }),
      ...samplesOf(shards, ({ totals }) => totals.buffers, { kind: "buffer" }),
    ]),
    ...Object.entries(SHARD_METRICS).map(([name, [help, read]]) =>
      metric(name, help, samplesOf(shards, read)),
    ),
  ];
}

/**
 * Decisions of limits. A shard has series of the limiters that it has seen, at most 256, and one of all others; keys are
 * in no label, as each would be a series for good.
 */
function metricsOfLimits(shards: readonly ShardSource[]): Metric[] {
  const rows = shards.flatMap(({ labels, said, reportedAtMs }) =>
    said?.limits === undefined
      ? []
      : ratesOfLimits(labels, said.limits, reportedAtMs === null ? "" : ALL_LIMITERS),
  );
  return [
    metric(
      "throttr_limit_decisions_total",
      "Decisions of limits by limiter and outcome; without the label limit, those of all limiters beyond 256; with the label *, of all limiters of a shard that reports.",
      rows.flatMap(({ labels, rates: { allowed, refused, errors } }) => [
        { labels: { ...labels, outcome: "allowed" }, value: allowed.total },
        { labels: { ...labels, outcome: "refused" }, value: refused.total },
        { labels: { ...labels, outcome: "error" }, value: errors.total },
      ]),
    ),
    metric(
      "throttr_limit_local_total",
      "Decisions among throttr_limit_decisions_total that callers made from allowances.",
      rows.map(({ labels, rates }) => ({ labels, value: rates.local.total })),
    ),
  ];
}

/**
 * In place of a limiter: a report has the decisions of all together. As a series of its own it does not go on from that of those
 * beyond 256, which a rate would take for all decisions there have been.
 */
const ALL_LIMITERS = "*";

/** Rates of all limiters that a shard tells apart, and of all others together, under the name `others`. */
const ratesOfLimits = (labels: Labels, limits: LimitCounts, others: string) =>
  [others, ...limits.names].map((limit, i) => ({
    labels: { ...labels, limit },
    rates: ratesAt(limits, LimitRow.others + i),
  }));

/**
 * Metrics of Hubs. Only those with connections are known; a Hub whose last connection closed has no series any more.
 */
function metricsOfHubs(hubs: readonly Source<HubFigures>[]): Metric[] {
  return [
    metric(
      "throttr_hub_up",
      "Whether a Hub with connections answers; if it does not, its other series are missing.",
      upOf(hubs),
    ),
    metric(
      "throttr_connections",
      "Open connections.",
      (["tcp", "websocket", "events"] as const).flatMap((transport) =>
        samplesOf(hubs, ({ byTransport }) => byTransport[transport], { transport }),
      ),
    ),
    metric(
      "throttr_subscriptions",
      "Subscriptions to channels, including those that connections begin with.",
      samplesOf(hubs, ({ subscriptions }) => subscriptions),
    ),
  ];
}

/**
 * A sample for each object that answered.
 *
 * @param more labels beside those of the object
 */
function samplesOf<Said>(
  sources: readonly Source<Said>[],
  read: (said: Said) => number,
  more: Labels = {},
): Sample[] {
  return sources.flatMap(({ labels, said }) =>
    said === null ? [] : [{ labels: { ...labels, ...more }, value: read(said) }],
  );
}

/** 1 for each object that answered, 0 for each other. */
function upOf(sources: readonly Source<object>[]): Sample[] {
  return sources.map(({ labels, said }) => ({ labels, value: said === null ? 0 : 1 }));
}

/** A metric; by the convention of Prometheus, the name of a counter, and of nothing else, ends in `_total`. */
function metric(name: string, help: string, samples: readonly Sample[]): Metric {
  return { name, type: name.endsWith("_total") ? "counter" : "gauge", help, samples };
}
