/** The route that tells what a namespace is doing: figures in all, of each shard, and of each Hub. */
import * as v from "valibot";
import { INTERVAL_MS_MAX, INTERVAL_MS_MIN } from "../live.ts";
import { askOverview } from "../survey.ts";
import { ok, route } from "./route.ts";
import { count, counted, noQuery, queryInteger } from "./schemas/parts.ts";

const moment = (description: string) => v.pipe(v.number(), v.description(description));
const rate = v.strictObject({ total: count, perMinute: count });

const silent = {
  isUnreachable: v.literal(true),
  code: v.pipe(
    v.string(),
    v.description(
      "Why: `timeout` (2 s), `failed`, `outdated` (it runs the release before), or what it refuses every request with, like `shards_mismatch`.",
    ),
  ),
};

const shardIndex = { index: count };
const ShardOverview = v.variant("isUnreachable", [
  v.strictObject({
    ...shardIndex,
    isUnreachable: v.literal(false),
    startedAtMs: moment("In ms since the epoch."),
    requests: rate,
    records: counted("Of all kinds, in memory; those past their time until they are collected."),
    bytes: counted("Memory that they take."),
    bytesMax: counted("The budget, `SHARD_BYTES_MAX`: beyond it new records are refused."),
    refusedForSpace: counted("Requests that the budget has refused since the start."),
    journalRows: counted("Rows of the journal since it was last cut."),
    journalBytes: count,
    rowsWritten: counted("Rows of storage written since the start; an alarm that is set is one."),
    clockLagMs: counted("By how much its time is ahead of the clock, after that was ahead."),
  }),
  v.strictObject({ ...shardIndex, ...silent }),
]);

const hubPlace = {
  location: v.pipe(
    v.string(),
    v.description("Where its clients are, in three letters; `XXX` where that is not known."),
  ),
  index: count,
};
const HubOverview = v.variant("isUnreachable", [
  v.strictObject({
    ...hubPlace,
    isUnreachable: v.literal(false),
    connections: count,
    subscriptions: count,
  }),
  v.strictObject({ ...hubPlace, ...silent }),
]);

/** As `wire/overview.ts` has it. */
export const overviewAnswer = v.strictObject({
  atMs: moment("When all had answered, in ms since the epoch by the server's clock."),
  version: v.pipe(v.string(), v.description("The server's release.")),
  namespace: v.string(),
  runningSinceMs: v.pipe(
    v.nullable(v.number()),
    v.description("The earliest start of a shard that is awake; null where no shard answers."),
  ),
  requests: v.strictObject({
    total: count,
    perMinute: count,
    byType: v.pipe(
      v.record(v.string(), rate),
      v.description(
        "By name; commands of the edge dialect begin with `EDGE_`, requests of the yrmcds protocol with `COUNTER_`. All names are there.",
      ),
    ),
  }),
  readBytes: rate,
  writeBytes: rate,
  records: v.strictObject({
    counters: counted("Live counters; pairs of dialect 2 and semaphores are not among them."),
    buffers: count,
    bufferBytes: counted("Of their values."),
  }),
  connections: v.strictObject({
    open: count,
    byTransport: v.strictObject({
      tcp: count,
      websocket: count,
      events: counted("Listeners of Server-Sent Events."),
    }),
  }),
  subscriptions: counted("Those that connections begin with are among them."),
  channels: counted("Channels with subscribers, without those that are a connection's own."),
  semaphores: v.strictObject({
    objects: counted("Semaphores that exist."),
    holdings: count,
    holders: counted("Connections and leases that hold anything."),
    usedBytes: count,
  }),
  shards: v.pipe(v.array(ShardOverview), v.description("All of them, by index.")),
  hubs: v.pipe(
    v.array(HubOverview),
    v.description("The objects that connections live in; those that have connections."),
  ),
});

/** Of `/v1/overview/live`. */
export const liveQuery = v.strictObject({
  intervalMs: v.optional(
    queryInteger(INTERVAL_MS_MIN, INTERVAL_MS_MAX, "From event to event, in ms."),
    String(INTERVAL_MS_MIN),
  ),
});

export const overviewRoutes = [
  route({
    method: "GET",
    path: "/v1/overview",
    id: "overview",
    tag: "admin",
    summary: "What the namespace is doing",
    description:
      "Every object of the namespace is asked, once. A shard or Hub that does not answer is told of as unreachable, and its figures are in no sum. What is counted starts anew when the object that counts it is restarted or put to sleep; figures per minute are estimates. `METRICS=off` counts no requests and no bytes. A token's prefixes don't matter.",
    scopes: ["admin"],
    query: noQuery,
    body: undefined,
    answers: { 200: { description: "The figures; no snapshot.", schema: overviewAnswer } },
    errors: [],
    example: { url: "/v1/overview" },
    answer: async ({ caller }) => ok(await askOverview(caller)),
  }),
];
