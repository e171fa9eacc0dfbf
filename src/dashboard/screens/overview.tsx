/** Overview: figures of the namespace, live. The feed is in overview-feed.ts; this file only renders it. */
import { useState, type Child } from "hono/jsx/dom";
import { useEffect } from "../effect.ts";
import type { Overview, ShardOverview, ShardState } from "../../wire/overview.ts";
import { RangedChart, type Lines } from "../chart.tsx";
import {
  Allowed,
  Bar,
  Card,
  Empty,
  Failure,
  ScreenHead,
  Since,
  Skeleton,
  Table,
  Tile,
  type Column,
} from "../controls/index.ts";
import {
  counted,
  formatBytes,
  formatCount,
  formatDuration,
  formatRate,
  formatTile,
  shareOf,
} from "../format.ts";
import { countsByMinute, useHistory } from "../history.ts";
import { pointsOfHour } from "../last-hour.ts";
import { feedStore, followOverview, LINES_MAX, type Feed } from "../overview-feed.ts";
import { serverNowMs } from "../server-clock.ts";
import { lacksScope, type Session } from "../session.ts";
import { useStore } from "../store.ts";

const STATUS: Readonly<Record<Feed["status"], string>> = {
  connecting: "Connecting…",
  live: "Live",
  lost: "Connection lost. Retrying…",
  paused: "Paused",
};

/** How often screen readers are told the figures: each second would be noise. */
const SPOKEN_EVERY_MS = 20_000;
/** Above that a shard's memory is shown as a warning. */
const FULL_SHARE = 0.9;

export function OverviewScreen({ session }: { readonly session: Session }) {
  const feed = useStore(feedStore);
  const isAllowed = !lacksScope(session, "admin");
  useEffect(() => {
    if (!isAllowed) return;
    const abort = new AbortController();
    void followOverview(session, abort.signal);
    return () => abort.abort();
  }, [session]);
  if (!isAllowed) {
    return (
      <>
        <ScreenHead title="Overview" lead="The namespace, live" />
        <Allowed session={session} scope="admin" />
      </>
    );
  }
  const { overview, rates, status, error } = feed;
  return (
    <>
      <ScreenHead
        title="Overview"
        lead={
          overview === null
            ? "The namespace, live"
            : `Namespace ${overview.namespace}, version ${overview.version}`
        }
      >
        <span class={`status hint ${status}`}>
          <span class="dot" />
          {STATUS[status]}
        </span>
      </ScreenHead>
      <Spoken feed={feed} />
      {error === null ? null : <Failure error={error} isAskedAgain />}
      {overview === null && error !== null ? null : (
        <>
          <div class="tiles">
            <Tile
              name="Requests per second"
              figure={rates && formatRate(rates.requests)}
              note={overview && `${formatTile(overview.requests.total)} in all`}
              isMain
            />
            <Tile
              name="Granted per second"
              figure={rates && formatRate(rates.allowed)}
              note="by rate limits"
            />
            <Tile
              name="Refused per second"
              figure={rates && formatRate(rates.refused)}
              note="by rate limits"
            />
            <Tile
              name="Keys"
              figure={overview && formatTile(keysOf(overview))}
              note={overview && kindsOf(overview)}
            />
            <Tile
              name="Connections"
              figure={overview && formatTile(overview.connections.open)}
              note={overview && transportsOf(overview)}
            />
            <Tile
              name="Channels"
              figure={overview && formatTile(overview.channels)}
              note={
                overview &&
                `${counted(overview.subscriptions, "subscription")} incl. connections' own`
              }
            />
            <Tile
              name="Semaphores"
              figure={overview && formatTile(overview.semaphores.objects)}
              note={overview && counted(overview.semaphores.holdings, "holding")}
            />
            <Tile
              name="Bytes per second"
              figure={rates && formatBytes(rates.readBytes + rates.writeBytes)}
              note={
                rates && `${formatBytes(rates.readBytes)} in, ${formatBytes(rates.writeBytes)} out`
              }
            />
          </div>
          <RequestsChart session={session} feed={feed} />
          <Card
            title="Shards"
            aside={
              overview?.runningSinceMs == null ? null : (
                <>
                  counting for <Since sinceMs={overview.runningSinceMs} />
                </>
              )
            }
          >
            {overview === null ? <Skeleton rows={4} /> : <Shards overview={overview} />}
            <a class="button plain" href="#shards">
              Circle of hashes
            </a>
          </Card>
          <Card title="Hubs" aside="objects that hold connections">
            {overview === null ? <Skeleton rows={2} /> : <Hubs overview={overview} />}
          </Card>
        </>
      )}
    </>
  );
}

/** All requests over the last hour, as the history does not tell types apart; by type as they come. */
function RequestsChart({ session, feed }: { readonly session: Session; readonly feed: Feed }) {
  const minutes = useHistory(session);
  const { samples, names } = feed;
  const inAll = samples.map(({ atMs, values }) => ({ atMs, values: values && [sumOf(values)] }));
  const hour: Lines | null = minutes && {
    names: ["requests"],
    colours: ["--line-0"],
    points: pointsOfHour(
      countsByMinute(minutes, ({ requests }) => [requests]),
      inAll,
      { lines: 1, nowMs: serverNowMs() },
    ),
  };
  const free = Array.from({ length: LINES_MAX - names.length }, () => null);
  const live: Lines = {
    names: [...names, ...free, "other"],
    colours: Array.from({ length: LINES_MAX + 1 }, (_, i) => `--line-${i}`),
    points: samples,
  };
  return (
    <RangedChart title="Requests per second" label="Requests per second" hour={hour} live={live} />
  );
}

const sumOf = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0);

const keysOf = ({ records: { counters, buffers } }: Overview): number => counters + buffers;

const kindsOf = ({ records: { counters, buffers } }: Overview): string =>
  `${counted(counters, "counter")}, ${counted(buffers, "buffer")}`;

function transportsOf({ connections: { byTransport } }: Overview): string {
  const { websocket, tcp, events } = byTransport;
  const parts = [
    [websocket, "WebSocket"],
    [tcp, "TCP"],
    [events, "Events"],
  ] as const;
  const open = parts.filter(([count]) => count > 0);
  return open.length === 0
    ? "none"
    : open.map(([count, name]) => `${formatCount(count)} ${name}`).join(", ");
}

const SILENCES: Readonly<Record<string, string>> = {
  timeout: "did not answer in time",
  outdated: "runs an older release",
};

/** Why a shard or Hub does not answer. */
const silence = (code: string): Child => <span class="badge bad">{SILENCES[code] ?? code}</span>;

/** A column of what a shard says of itself: a dash where it does not answer. */
const reached = (head: string, cell: (shard: ShardState) => Child): Column<ShardOverview> => ({
  head,
  isNumber: true,
  cell: (shard) => (shard.isUnreachable ? "–" : cell(shard)),
});

/** A figure that should be 0. */
const warned = (figure: number, text: string): Child => (
  <span class={figure > 0 ? "figure warn" : "figure"}>{text}</span>
);

function Shards({ overview }: { readonly overview: Overview }) {
  return (
    <Table
      label="Shards"
      rows={overview.shards}
      keyOf={({ shard }) => shard}
      columns={[
        { head: "Shard", cell: ({ shard }) => shard, isTitle: true },
        {
          head: "Memory",
          cell: (shard) =>
            shard.isUnreachable ? (
              silence(shard.code)
            ) : (
              <Bar
                label={`Memory of shard ${shard.shard}`}
                share={shareOf(shard.bytes, shard.bytesMax)}
                text={`${formatBytes(shard.bytes)} of ${formatBytes(shard.bytesMax)}`}
                tone={shard.bytes > shard.bytesMax * FULL_SHARE ? "bad" : "accent"}
              />
            ),
        },
        reached("Records", ({ records }) => formatCount(records)),
        reached(
          "Journal",
          ({ journalRows, journalBytes }) =>
            `${formatCount(journalRows)} rows, ${formatBytes(journalBytes)}`,
        ),
        reached("Rows written", ({ rowsWritten }) => formatCount(rowsWritten)),
        reached("Refused for space", ({ refusedForSpace }) =>
          warned(refusedForSpace, formatCount(refusedForSpace)),
        ),
        reached("Clock ahead by", ({ clockLagMs }) =>
          warned(clockLagMs, clockLagMs > 0 ? formatDuration(clockLagMs) : "0"),
        ),
        reached("Running for", ({ startedAtMs }) => <Since sinceMs={startedAtMs} />),
      ]}
    />
  );
}

function Hubs({ overview }: { readonly overview: Overview }) {
  if (overview.hubs.length === 0) {
    return <Empty title="No connections">Hubs are created with the first connections.</Empty>;
  }
  return (
    <Table
      label="Hubs"
      rows={overview.hubs}
      keyOf={({ location, index }) => `${location} ${index}`}
      columns={[
        {
          head: "Hub",
          cell: ({ location, index }) => `${location === "XXX" ? "unknown" : location} ${index}`,
          isTitle: true,
        },
        {
          head: "Connections",
          isNumber: true,
          cell: (hub) => (hub.isUnreachable ? silence(hub.code) : formatCount(hub.connections)),
        },
        {
          head: "Subscriptions",
          isNumber: true,
          cell: (hub) => (hub.isUnreachable ? "–" : formatCount(hub.subscriptions)),
        },
      ]}
    />
  );
}

/** The main figures, for screen readers. */
function Spoken({ feed }: { readonly feed: Feed }) {
  const [text, setText] = useState("");
  const isKnown = feed.overview !== null && feed.rates !== null;
  useEffect(() => {
    const say = (): void => {
      const { overview, rates } = feedStore.value;
      if (overview === null || rates === null) return;
      setText(
        `${formatRate(rates.requests)} requests per second, ${counted(keysOf(overview), "key")}, ${counted(overview.connections.open, "connection")}`,
      );
    };
    say();
    const timer = setInterval(say, SPOKEN_EVERY_MS);
    return () => clearInterval(timer);
  }, [isKnown]);
  return (
    <p class="unseen" aria-live="polite">
      {text}
    </p>
  );
}
