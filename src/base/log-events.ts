/**
 * What is logged: every event by its stable name, with what it means and the fields of its line.
 *
 * A name is never given another meaning. docs/logs.md has the same table: a test keeps the two, and the calls,
 * alike.
 */

interface LogEvent {
  /** `error`: somebody must look. `warning`: worth a look when there are many. */
  readonly severity: "warning" | "error";
  /** A sentence. */
  readonly meaning: string;
  /** What each field says; a line may lack some. */
  readonly fields: Readonly<Record<string, string>>;
}

const ERROR = "what was thrown";

export const LOG_EVENTS = {
  request_failed: {
    severity: "error",
    meaning: "A request over HTTP met a fault of the server and was answered `internal`.",
    fields: { error: ERROR, stack: "where" },
  },
  journal_failed: {
    severity: "error",
    meaning:
      "A shard could not write its journal: it starts anew from what is on disk, and its callers get `outcome_unknown`.",
    fields: { shard: "name of its object", error: ERROR },
  },
  shard_data_missing: {
    severity: "error",
    meaning:
      "The database of a shard is empty, though it had data: every request to it is refused until it is back, or `ACCEPT_DATA_LOSS` is `on`.",
    fields: { shard: "name of its object" },
  },
  shard_note_failed: {
    severity: "error",
    meaning:
      "Shard 0 could not be told that a shard has data; it is told again when that shard starts.",
    fields: { shard: "name of its object", error: ERROR },
  },
  requests_failed: {
    severity: "warning",
    meaning: "Requests could not be executed, or it is not known whether they were.",
    fields: { code: "what the caller was told", error: ERROR, stack: "where" },
  },
  shard_full: {
    severity: "warning",
    meaning: "A shard has refused records for want of room; at most once a minute.",
    fields: {
      shard: "name of its object",
      refused: "requests that were refused since this was last said",
      bytes: "memory in use",
      bytesMax: "`SHARD_BYTES_MAX`",
    },
  },
  clock_still: {
    severity: "warning",
    meaning:
      "The machine's clock was set back, and a shard's clock stands still until it has caught up: the shard starts anew, which reads the machine's clock again.",
    fields: { shard: "name of its object" },
  },
  clock_lagging: {
    severity: "warning",
    meaning:
      "The platform's clock has gone back: a shard's time is ahead, and slows down until it is not; said once, for a second or more.",
    fields: { shard: "name of its object", lagMs: "by how much it is ahead" },
  },
  clock_right: {
    severity: "warning",
    meaning: "A shard's time is the platform's again.",
    fields: { shard: "name of its object" },
  },
  clock_set_back: {
    severity: "warning",
    meaning: "An operator has set a shard's clock, and the times of its records, back.",
    fields: { shard: "name of its object", byMs: "by how much" },
  },
  shard_failed: {
    severity: "warning",
    meaning: "A shard did not say how it is, or not within 2 s; figures go without it.",
    fields: { object: "its name", error: ERROR },
  },
  hub_failed: {
    severity: "warning",
    meaning:
      "A Hub did not answer, or not within 2 s: it was left out, or its connection refused, or messages may not have reached it.",
    fields: {
      object: "its name",
      channel: "name of the group of channels that has told it messages",
      hub: "its name, beside that",
      error: ERROR,
    },
  },
  hub_slow: {
    severity: "warning",
    meaning: "A Hub takes messages more slowly than they come, and loses some.",
    fields: {
      channel: "name of the group of channels",
      hub: "name of the Hub",
      lost: "messages lost to it",
    },
  },
  join_failed: {
    severity: "warning",
    meaning:
      "After an upgrade, the groups of channels could not be told which subscribers a Hub has; it tells them when it wakes next.",
    fields: { hub: "name of the Hub", error: ERROR },
  },
  leave_failed: {
    severity: "warning",
    meaning:
      "A channel could not be told that a Hub has no subscribers any more; it finds out by itself.",
    fields: { channel: "its name, where it is `*`", error: ERROR },
  },
  release_failed: {
    severity: "warning",
    meaning:
      "A shard could not be told that a connection has ended that may hold something; it finds out by itself.",
    fields: { shard: "its index", error: ERROR },
  },
  holders_lost: {
    severity: "warning",
    meaning: "Connections have ended without a word, and what they held was released.",
    fields: { shard: "name of its object", connections: "how many there were" },
  },
  connection_closed: {
    severity: "warning",
    meaning: "The server has ended a connection: see Errors.",
    fields: { code: "WebSocket close code", reason: "begins with a stable code" },
  },
  origin_refused: {
    severity: "warning",
    meaning:
      "A web page of another origin has called, which `CORS_ORIGINS` does not list; once for each origin, of the first hundred.",
    fields: { origin: "of the page", variable: "`CORS_ORIGINS`, where the origin can be listed" },
  },
  host_refused: {
    severity: "warning",
    meaning:
      "A request has named a host that `HOSTS` does not list; once for each host, of the first hundred.",
    fields: { host: "as it was named", variable: "`HOSTS`, where it can be listed" },
  },
  variable_renamed: {
    severity: "warning",
    meaning:
      "A variable is set by the name that it had in the release before; the next release will not read that.",
    fields: { variable: "its old name", name: "its name now" },
  },
  tcp_refused: {
    severity: "warning",
    meaning:
      "A TCP connection was closed before its first byte; of a port that is unknown, the first one.",
    fields: {
      code: "`access_not_open`, `counter_disabled`, `port_unknown`, or a code of Errors",
      port: "the port that it came to",
    },
  },
  tcp_stalled: {
    severity: "warning",
    meaning: "A TCP client has read nothing for `STALL_TIMEOUT_MS` and was given up.",
    fields: { unwrittenBytes: "what waited for it" },
  },
  http_stalled: {
    severity: "warning",
    meaning:
      "A client has read nothing of a response for `STALL_TIMEOUT_MS`, or too little under load, and was given up.",
    fields: { unwrittenBytes: "what waited for it" },
  },
} as const satisfies Readonly<Record<string, LogEvent>>;

type LogEvents = typeof LOG_EVENTS;

type EventOf<Severity> = {
  [Event in keyof LogEvents]: LogEvents[Event]["severity"] extends Severity ? Event : never;
}[keyof LogEvents];

export type WarningEvent = EventOf<"warning">;
export type ErrorEvent = EventOf<"error">;

/** The fields of an event; of several events, those that all of them have. */
export type FieldsOf<Event extends keyof LogEvents> = Readonly<
  Partial<Record<keyof LogEvents[Event]["fields"], unknown>>
>;
