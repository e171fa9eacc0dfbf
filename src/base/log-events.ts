/**
 * All log events: name, severity, meaning and fields.
 *
 * Operators build alerts on the names, so a name never changes its meaning. docs/logs.md has the same table; a test
 * keeps this table, the document and the calls alike.
 */

/** What the table says of an event. */
interface LogEvent {
  /** `error`: needs attention now. `warning`: needs attention if it repeats. */
  readonly severity: "warning" | "error";
  /** One sentence. */
  readonly meaning: string;
  /** The meaning of each field; a line may leave out some. */
  readonly fields: Readonly<Record<string, string>>;
}

// Meanings of fields that several events have.
const ERROR = "the error that was thrown";
const SHARD = "name of the shard";

export const LOG_EVENTS = {
  request_failed: {
    severity: "error",
    meaning: "An HTTP request failed because of a fault in the server; its answer was `internal`.",
    fields: { error: ERROR, stack: "where it was thrown" },
  },
  journal_failed: {
    severity: "error",
    meaning:
      "A shard could not write its journal; it restarts from what is on disk, and its callers get `outcome_unknown`.",
    fields: { shard: SHARD, error: ERROR },
  },
  shard_data_missing: {
    severity: "error",
    meaning:
      "A shard's database is empty although it had data; the shard refuses every request on its keys until the data is back or `ACCEPT_DATA_LOSS` is `on`.",
    fields: { shard: SHARD },
  },
  shard_note_failed: {
    severity: "error",
    meaning:
      "Shard 0 could not store the note that another shard has data; that shard sends it again when it starts.",
    fields: { shard: SHARD, error: ERROR },
  },
  shards_unsettled: {
    severity: "error",
    meaning:
      "Shards of a namespace do not agree who owns some keys, as after one of them was restored from a backup without the others; the requests got `shards_unsettled`, and nothing of them was applied.",
    fields: { namespace: "name of the namespace" },
  },
  split_given_up: {
    severity: "warning",
    meaning:
      "A shard could not give a part of its range to a new shard; it serves all of it as before, nothing is lost, and it tries again later.",
    fields: { shard: SHARD, error: "why" },
  },
  split_untold: {
    severity: "warning",
    meaning:
      "A shard has given a part of its range to a new shard, and could not tell it; it tries again, and the new shard asks by itself.",
    fields: { shard: SHARD, error: ERROR },
  },
  adoption_unasked: {
    severity: "warning",
    meaning:
      "A new shard could not ask another one whether the range that it was offered is its own; it asks again with the next call for it, or a minute later.",
    fields: { shard: SHARD, error: ERROR },
  },
  map_unstored: {
    severity: "warning",
    meaning:
      "A Hub could not store which shards its namespace has; it asks them again each time that it wakes up.",
    fields: { hub: "name of the Hub", error: ERROR },
  },
  witness_untold: {
    severity: "warning",
    meaning:
      "A shard could not tell the witness of its namespace what lies outside of it, or that its split was given up. Shard 0 tries again when it starts, or another shard gets its first data.",
    fields: { namespace: "name of the namespace", error: ERROR },
  },
  revocations_unread: {
    severity: "error",
    meaning:
      "A door could not read the list of revoked tokens: it uses the last list that it read, or accepts all valid tokens if it has read none; logged once a minute at most.",
    fields: { namespace: "namespace of the token; `*` for all", error: ERROR },
  },
  revocation_untold: {
    severity: "warning",
    meaning:
      "A Directory could not tell all Hubs to close the connections of revoked tokens; it tries again every 10 s for 15 minutes.",
    fields: { directory: "name of the Directory", error: ERROR },
  },
  namespace_unregistered: {
    severity: "warning",
    meaning:
      "A namespace could not be put on the deployment's list. Its shard 0 tries three more times, and again when it starts; a door tries again with the next connection by a token for all namespaces.",
    fields: { namespace: "name of the namespace", error: ERROR },
  },
  namespaces_full: {
    severity: "warning",
    meaning: "The deployment's list of namespaces is full, so it leaves one out.",
    fields: { namespace: "the one that is left out", max: "namespaces that are listed" },
  },
  requests_failed: {
    severity: "warning",
    meaning: "Requests failed, or their outcome is unknown.",
    fields: { code: "code that the caller received", error: ERROR, stack: "where it was thrown" },
  },
  shard_full: {
    severity: "warning",
    meaning: "A shard refused records because its memory is full; logged at most once a minute.",
    fields: {
      shard: SHARD,
      refused: "requests refused since the last such line",
      bytes: "memory in use",
      bytesMax: "`SHARD_BYTES_MAX`",
    },
  },
  report_failed: {
    severity: "warning",
    meaning:
      "A shard or Hub could not tell the Directory what it has counted; its next report makes that good.",
    fields: { object: "name of the object", error: ERROR },
  },
  history_failed: {
    severity: "warning",
    meaning:
      "A Directory could not store the last hour of its namespace; it tries again a minute later.",
    fields: { namespace: "name of the namespace", error: ERROR },
  },
  counts_unstored: {
    severity: "warning",
    meaning:
      "A shard could not write the counts that it was asked for by `/metrics`; what it counts next is lost if it restarts.",
    fields: { shard: SHARD, error: ERROR },
  },
  clock_unstored: {
    severity: "warning",
    meaning:
      "A shard could not write its time, which is ahead of the platform's clock; if it restarts before it writes again, records that have expired may come back for as long as that.",
    fields: { shard: SHARD, error: ERROR },
  },
  clock_still: {
    severity: "warning",
    meaning:
      "The machine's clock was set back, which stops the clock of a running shard; the shard restarts to read the machine's clock again.",
    fields: { shard: SHARD },
  },
  clock_lagging: {
    severity: "warning",
    meaning:
      "The platform's clock went back, so a shard's time is a second or more ahead; it runs slower until the clock has caught up.",
    fields: { shard: SHARD, lagMs: "how far the shard's time is ahead" },
  },
  clock_right: {
    severity: "warning",
    meaning: "A shard's time equals the platform's clock again.",
    fields: { shard: SHARD },
  },
  clock_set_back: {
    severity: "warning",
    meaning: "An operator set the time of a shard and of its records back.",
    fields: { shard: SHARD, byMs: "by how much" },
  },
  shard_failed: {
    severity: "warning",
    meaning: "A shard did not report its figures within 2 s; the answer leaves them out.",
    fields: { object: "name of the object", error: ERROR },
  },
  cancel_failed: {
    severity: "warning",
    meaning:
      "A shard did not confirm within 2 s that it gave back its part of a `limitAll` that another shard refused; what it charged may stay charged.",
    fields: { object: "name of the shard", error: ERROR },
  },
  replay_uncut: {
    severity: "warning",
    meaning:
      "A group of channels has more kept messages than it should, and the disk refused to delete some; the next kept message tries again.",
    fields: { error: ERROR },
  },
  look_failed: {
    severity: "warning",
    meaning:
      "The disk refused a group of channels to delete what is out of date; the look of the next day tries again.",
    fields: { channel: "name of the group", error: ERROR },
  },
  hub_failed: {
    severity: "warning",
    meaning:
      "A Hub did not answer within 2 s: it is missing in an answer, a connection to it was refused, or messages may not have reached it.",
    fields: {
      object: "name of the object that failed",
      channel: "name of the group of channels that sent the messages",
      hub: "name of the Hub that they were for",
      error: ERROR,
    },
  },
  hub_slow: {
    severity: "warning",
    meaning: "A Hub accepts messages more slowly than they are published, so it loses some.",
    fields: {
      channel: "name of the group of channels, or `own channels`",
      hub: "name of the Hub",
      lost: "messages that it lost",
    },
  },
  join_failed: {
    severity: "warning",
    meaning:
      "After an upgrade a Hub could not register its subscribers with the groups of channels; it tries again when it wakes next.",
    fields: { hub: "name of the Hub", error: ERROR },
  },
  leave_failed: {
    severity: "warning",
    meaning:
      "A Hub could not report, or a group of channels could not store, that the last subscriber of a channel in a Hub has left; the group notices at the channel's next message.",
    fields: {
      channel:
        "`*`, if it is that channel; name of the group of channels, if it could not store it",
      error: ERROR,
    },
  },
  release_failed: {
    severity: "warning",
    meaning:
      "A Hub could not tell a shard that a connection which may hold semaphores has closed; the shard notices by itself.",
    fields: { shard: "index of the shard, or the hash at which its range begins", error: ERROR },
  },
  holders_lost: {
    severity: "warning",
    meaning:
      "Connections that held semaphores were lost without a close; a shard released what they held.",
    fields: { shard: SHARD, connections: "number of connections" },
  },
  connection_closed: {
    severity: "warning",
    meaning: "The server closed a connection because of an error.",
    fields: { code: "WebSocket close code", reason: "stable code, and why" },
  },
  origin_refused: {
    severity: "warning",
    meaning:
      "A web page of an origin that `CORS_ORIGINS` does not list sent a request; logged once for each of the first hundred origins.",
    fields: { origin: "origin of the page", variable: "`CORS_ORIGINS`, which can allow it" },
  },
  host_refused: {
    severity: "warning",
    meaning:
      "A request named a host that `HOSTS` does not list; logged once for each of the first hundred hosts.",
    fields: { host: "the host that it named", variable: "`HOSTS`, which can allow it" },
  },
  variable_renamed: {
    severity: "warning",
    meaning: "A variable is set by its old name, which the next release will not read.",
    fields: { variable: "old name", name: "new name" },
  },
  tcp_refused: {
    severity: "warning",
    meaning:
      "A TCP connection was closed before its first byte; for unknown ports only the first one is logged.",
    fields: {
      code: "`access_not_open`, `counter_disabled`, `port_unknown`, or an error code",
      port: "port of the connection",
    },
  },
  tcp_stalled: {
    severity: "warning",
    meaning: "A TCP client read nothing for `STALL_TIMEOUT_MS`, so its connection was closed.",
    fields: { unwrittenBytes: "bytes that waited for it" },
  },
  http_stalled: {
    severity: "warning",
    meaning:
      "A client read nothing of a response for `STALL_TIMEOUT_MS`, or too little while memory was short, so the response was cut off.",
    fields: { unwrittenBytes: "bytes that waited for it" },
  },
} as const satisfies Readonly<Record<string, LogEvent>>;

type LogEvents = typeof LOG_EVENTS;

/** Names of the events of a severity: so that a warning can't be logged as an error. */
type EventOf<Severity> = {
  [Event in keyof LogEvents]: LogEvents[Event]["severity"] extends Severity ? Event : never;
}[keyof LogEvents];

/** Names that `logWarning` takes. */
export type WarningEvent = EventOf<"warning">;
/** Names that `logError` takes. */
export type ErrorEvent = EventOf<"error">;

/** The fields of an event; for a union of events, the fields that they share. */
export type FieldsOf<Event extends keyof LogEvents> = Readonly<
  Partial<Record<keyof LogEvents[Event]["fields"], unknown>>
>;
