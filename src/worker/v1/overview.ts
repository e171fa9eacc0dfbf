/** The overview route: figures of the namespace, of each shard and of each Hub. */
import * as v from "valibot";
import { INTERVAL_MS_MAX, INTERVAL_MS_MIN } from "../live.ts";
import { askOverview } from "../survey.ts";
import { ok, route } from "./route.ts";
import { limitRates } from "./schemas/limit-figures.ts";
import { count, counted, queryInteger } from "./schemas/parts.ts";
import { shardPlace, splitNeed } from "./shards.ts";

const moment = (description: string) => v.pipe(v.number(), v.description(description));
/** A count in all, and an estimate of the last minute. */
const rate = v.strictObject({ total: count, perMinute: count });

/** Fields of an object that did not answer. */
const silent = {
  isUnreachable: v.literal(true),
  code: v.pipe(
    v.string(),
    v.description(
      "The reason: `timeout` (2 s), `failed`, `outdated` (it runs the previous release), or the code with which it refuses every request, such as `shards_mismatch`.",
    ),
  ),
};

/** Which shard; both variants have it. */
const place = {
  index: counted("Its place on the circle of hashes."),
  ...shardPlace,
};
/** A shard, answering or not. One that does not answer is listed too, as a missing row would look like fewer shards. */
const ShardOverview = v.variant("isUnreachable", [
  v.strictObject({
    ...place,
    isUnreachable: v.literal(false),
    reportedAtMs: v.pipe(
      v.nullable(v.number()),
      v.description(
        "When the shard reported this, in ms since the epoch: a namespace with more than 16 shards shows their reports. Null if the shard was asked.",
      ),
    ),
    ...splitNeed,
    isSplitting: v.boolean(),
    startedAtMs: moment("When the object started, in ms since the epoch."),
    countedSinceMs: moment("Since when `requests` counts, in ms since the epoch."),
    requests: rate,
    records: counted(
      "Records of all kinds in memory; expired records count until they are collected.",
    ),
    bytes: counted("Memory that the records use."),
    bytesMax: counted("The limit, `SHARD_BYTES_MAX`: above it new records are refused."),
    refusedForSpace: counted("Requests refused because of the limit since the shard started."),
    journalRows: counted("Rows of the journal since it was last cut."),
    journalBytes: count,
    rowsWritten: counted(
      "Rows written to storage since the shard started; setting an alarm is one.",
    ),
    clockLagMs: counted("How far the shard's time is ahead of the clock."),
  }),
  v.strictObject({ ...place, ...silent }),
]);

/** Which Hub; both variants have it. */
const hubPlace = {
  location: v.pipe(
    v.string(),
    v.description("Location of its clients, in three letters; `XXX` if unknown."),
  ),
  index: count,
};
/** A Hub, answering or not. Only Hubs with connections are listed: the Directory knows no others. */
const HubOverview = v.variant("isUnreachable", [
  v.strictObject({
    ...hubPlace,
    isUnreachable: v.literal(false),
    connections: count,
    subscriptions: count,
  }),
  v.strictObject({ ...hubPlace, ...silent }),
]);

/** The schema of `Overview` in `wire/overview.ts`. */
export const overviewAnswer = v.strictObject({
  atMs: moment("When all objects had answered, in ms since the epoch by the server's clock."),
  version: v.pipe(v.string(), v.description("The server's release.")),
  namespace: v.string(),
  runningSinceMs: v.pipe(
    v.nullable(v.number()),
    v.description(
      "Since when totals count, in ms since the epoch: the earliest time of a shard; null if no shard answers.",
    ),
  ),
  requests: v.strictObject({
    total: count,
    perMinute: count,
    byName: v.pipe(
      v.record(v.string(), rate),
      v.description(
        "By the names of calls (`increment`, `limit`, …). Those of the yrmcds protocol begin with `yrmcds_`. All names are present.",
      ),
    ),
    byType: v.pipe(
      v.record(v.string(), rate),
      v.description(
        "Deprecated: the next release has only `byName`. Here commands of the edge dialect begin with `EDGE_`, requests of the yrmcds protocol with `COUNTER_`.",
      ),
    ),
  }),
  readBytes: rate,
  writeBytes: rate,
  records: v.strictObject({
    counters: counted("Live counters, without pairs of dialect 2 and semaphores."),
    buffers: count,
    bufferBytes: counted("Bytes of their values."),
  }),
  connections: v.strictObject({
    open: count,
    byTransport: v.strictObject({
      tcp: count,
      websocket: count,
      events: counted("Listeners of Server-Sent Events."),
    }),
  }),
  subscriptions: counted(
    "Includes the subscription to its own channel that each connection begins with.",
  ),
  channels: counted("Channels with subscribers, without the own channels of connections."),
  semaphores: v.strictObject({
    objects: counted("Semaphores that exist."),
    holdings: count,
    holders: counted("Connections and leases that hold anything."),
    usedBytes: count,
  }),
  limits: v.pipe(
    v.strictObject(limitRates),
    v.description("Decisions of all limits: see `GET /v1/limits`."),
  ),
  shards: v.pipe(
    v.array(ShardOverview),
    v.description("All shards, in the order of the circle of hashes."),
  ),
  hubs: v.pipe(
    v.array(HubOverview),
    v.description("The objects that hold connections, if they have any."),
  ),
});

/** The query of `/v1/overview/live`. */
export const liveQuery = v.strictObject({
  intervalMs: v.optional(
    queryInteger(INTERVAL_MS_MIN, INTERVAL_MS_MAX, "Time between two events, in ms."),
    String(INTERVAL_MS_MIN),
  ),
});

export const overviewRoutes = [
  route({
    method: "GET",
    path: "/v1/overview",
    id: "overview",
    tag: "admin",
    summary: "Show what the namespace is doing",
    description:
      "Asks every object of the namespace once; of more than 16 shards it shows what they have reported within the last minute in which they were awake. A shard or Hub that does not answer is listed as unreachable, and no sum includes it. Totals of requests and bytes outlive restarts and sleep, but for the last counts before one; figures per minute are estimates. With `METRICS=off` requests and bytes are not counted. The token's prefixes do not matter.",
    scopes: ["admin"],
    answers: { 200: { description: "The figures. Not a snapshot.", schema: overviewAnswer } },
    example: { url: "/v1/overview" },
    answer: async ({ caller }) => ok(await askOverview(caller)),
  }),
];
