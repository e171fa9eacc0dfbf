/**
 * The metrics of a namespace, made from a survey.
 *
 * Each object has its own series, and its counters start at 0 when the object starts. Prometheus recognizes that as a
 * counter reset, so rates stay right; one sum over all objects would go down whenever an object sleeps. Counts of Hubs
 * that no longer exist are left out for the same reason: their own series carried them.
 */
import { COUNTED_REQUESTS } from "../../engine/counted-requests.ts";
import { TALLY_READ_BYTES, TALLY_WRITE_BYTES, type TallyFigures } from "../../engine/tally.ts";
import type { HubFigures } from "../../base/calls/hub.ts";
import { hubName } from "../../base/names.ts";
import { namedChannelsOf } from "../../dispatch/overview.ts";
import type { ShardSummary } from "../../base/calls/shard.ts";
import { answeringHubs, isSilence, type Survey } from "../../dispatch/survey.ts";
import { VERSION } from "../../base/version.ts";
import type { Metric, Sample } from "./exposition.ts";

type Labels = Sample["labels"];

/** An object: its labels, and its figures; null if it did not answer. */
interface Source<Said> {
  readonly labels: Labels;
  readonly said: Said | null;
}

/** An object or door that counts requests. */
interface Counting {
  readonly labels: Labels;
  readonly figures: TallyFigures;
  readonly isShard: boolean;
}

export function metricsOf(namespace: string, survey: Survey): Metric[] {
  const shards = survey.shards.map((shard, index): Source<ShardSummary> => ({
    labels: { namespace, shard: String(index) },
    said: isSilence(shard) ? null : shard,
  }));
  const hubs = survey.hubs.map(({ hub, answer }): Source<HubFigures> => {
    const { location, index } = hubName.parse(hub).address;
    return {
      labels: { namespace, location, hub: String(index) },
      said: isSilence(answer) ? null : answer,
    };
  });
  const channels = namedChannelsOf(answeringHubs(survey));
  return [
    gauge("throttr_build_info", "The server's release; always 1.", [
      { labels: { namespace, version: VERSION }, value: 1 },
    ]),
    ...countersOf([
      { labels: { namespace }, figures: survey.doors, isShard: false },
      ...shards.flatMap(({ labels, said }) =>
        said === null ? [] : [{ labels, figures: said.tally, isShard: true }],
      ),
      ...hubs.flatMap(({ labels, said }) =>
        said === null ? [] : [{ labels, figures: said.tally, isShard: false }],
      ),
    ]),
    ...metricsOfShards(shards),
    ...metricsOfHubs(hubs),
    gauge("throttr_channels", "Named channels with subscribers.", [
      { labels: { namespace }, value: channels },
    ]),
  ];
}

function countersOf(counting: readonly Counting[]): Metric[] {
  const bytesAt = (index: number): Sample[] =>
    counting.map(({ labels, figures }) => ({ labels, value: figures[index]! }));
  return [
    counter(
      "throttr_requests_total",
      "Requests by type and by the shard or Hub that counted them; without either, counted at the HTTP routes.",
      counting.flatMap(({ labels, figures, isShard }) =>
        COUNTED_REQUESTS.filter(({ isOfShard }) => isOfShard === isShard).map(
          ({ name, index }): Sample => ({
            labels: { ...labels, type: name },
            value: figures[index]!,
          }),
        ),
      ),
    ),
    counter("throttr_read_bytes_total", "Bytes of requests.", bytesAt(TALLY_READ_BYTES)),
    counter("throttr_write_bytes_total", "Bytes of replies.", bytesAt(TALLY_WRITE_BYTES)),
  ];
}

function metricsOfShards(shards: readonly Source<ShardSummary>[]): Metric[] {
  const each = (read: (shard: ShardSummary) => number): Sample[] => samplesOf(shards, read);
  const ofKind = (kind: string, read: (shard: ShardSummary) => number): Sample[] =>
    samplesOf(shards, read, { kind });
  return [
    gauge(
      "throttr_shard_up",
      "Whether the shard answers; if it does not, its other series are missing.",
      upOf(shards),
    ),
    gauge(
      "throttr_shard_start_time_seconds",
      "When the shard's object started, since the epoch.",
      each(({ startedAtMs }) => startedAtMs / 1000),
    ),
    gauge("throttr_records", "Live records, without pairs of dialect 2 and semaphores.", [
      ...ofKind("counter", ({ totals }) => totals.counters),
      ...ofKind("buffer", ({ totals }) => totals.buffers),
    ]),
    gauge(
      "throttr_buffer_bytes",
      "Bytes of the values of live buffers.",
      each(({ totals }) => totals.bufferBytes),
    ),
    gauge(
      "throttr_shard_records",
      "Records of all kinds in memory; expired records count until they are collected.",
      each(({ figures }) => figures.records),
    ),
    gauge(
      "throttr_shard_memory_bytes",
      "Memory that records take.",
      each(({ figures }) => figures.bytes),
    ),
    gauge(
      "throttr_shard_memory_limit_bytes",
      "SHARD_BYTES_MAX: above it the shard refuses new records.",
      each(({ figures }) => figures.bytesMax),
    ),
    counter(
      "throttr_shard_refused_for_space_total",
      "Requests refused because the memory was full.",
      each(({ figures }) => figures.refusedForSpace),
    ),
    gauge(
      "throttr_shard_journal_rows",
      "Rows of the journal since it was last cut.",
      each(({ figures }) => figures.journalRows),
    ),
    gauge(
      "throttr_shard_journal_bytes",
      "Bytes of the journal since it was last cut.",
      each(({ figures }) => figures.journalBytes),
    ),
    counter(
      "throttr_shard_rows_written_total",
      "Rows written to storage; setting an alarm counts as one.",
      each(({ figures }) => figures.rowsWritten),
    ),
    gauge(
      "throttr_shard_clock_lag_seconds",
      "How far the shard's time is ahead of the clock.",
      each(({ figures }) => (figures.clockLagMs ?? 0) / 1000),
    ),
    gauge(
      "throttr_semaphores",
      "Semaphores that exist.",
      each(({ semaphores }) => semaphores.objects),
    ),
    gauge(
      "throttr_semaphore_holdings",
      "Holdings: one for each semaphore that a connection or lease holds.",
      each(({ semaphores }) => semaphores.holdings),
    ),
    gauge(
      "throttr_semaphore_holders",
      "Connections and leases that hold anything.",
      each(({ semaphores }) => semaphores.holders),
    ),
    gauge(
      "throttr_semaphore_bytes",
      "Memory that semaphores, holdings and their index take.",
      each(({ semaphores }) => semaphores.usedBytes),
    ),
  ];
}

function metricsOfHubs(hubs: readonly Source<HubFigures>[]): Metric[] {
  return [
    gauge(
      "throttr_hub_up",
      "Whether a Hub with connections answers; if it does not, its other series are missing.",
      upOf(hubs),
    ),
    gauge("throttr_connections", "Open connections.", [
      ...samplesOf(hubs, ({ byTransport }) => byTransport.tcp, { transport: "tcp" }),
      ...samplesOf(hubs, ({ byTransport }) => byTransport.websocket, { transport: "websocket" }),
      ...samplesOf(hubs, ({ byTransport }) => byTransport.events, { transport: "events" }),
    ]),
    gauge(
      "throttr_subscriptions",
      "Subscriptions to channels, including those that connections begin with.",
      samplesOf(hubs, ({ subscriptions }) => subscriptions),
    ),
  ];
}

function samplesOf<Said>(
  sources: readonly Source<Said>[],
  read: (said: Said) => number,
  more: Labels = {},
): Sample[] {
  return sources.flatMap(({ labels, said }) =>
    said === null ? [] : [{ labels: { ...labels, ...more }, value: read(said) }],
  );
}

function upOf(sources: readonly Source<object>[]): Sample[] {
  return sources.map(({ labels, said }) => ({ labels, value: said === null ? 0 : 1 }));
}

function counter(name: string, help: string, samples: readonly Sample[]): Metric {
  return { name, type: "counter", help, samples };
}

function gauge(name: string, help: string, samples: readonly Sample[]): Metric {
  return { name, type: "gauge", help, samples };
}
