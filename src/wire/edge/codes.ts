/**
 * Every code that an error of the package can have, and what it means: the one table that HTTP, RPC, the
 * client, the command line and the documents read.
 *
 * Codes are stable and titles are not: programs compare codes, people read titles. `docs/reference.md` says
 * more of each, and a test compares the two. The command line has codes of its own beside these, for its
 * options and files (`UsageError`).
 */

/** What a caller may conclude from a code. */
export const Phase = {
  /** An argument is wrong. The package finds that before it sends anything; the server checks it, too. */
  argument: "argument",
  /** The server has refused: nothing was applied. */
  refusal: "refusal",
  /** The call, or its connection, came to nothing on the way. */
  transport: "transport",
  /** It is not known whether the call was applied. */
  unknown: "unknown",
  /** The server, or whatever answers in its place, does not work as it should. */
  fault: "fault",
} as const;
export type Phase = (typeof Phase)[keyof typeof Phase];

/** Any route of `/v1` may answer with the code, so the OpenAPI document describes it once for all. */
type Mark = "anyRoute";

/** The HTTP status is null for codes that HTTP never answers with. */
type Row = readonly [phase: Phase, status: number | null, title: string, mark?: Mark];

const { argument, refusal, transport, unknown, fault } = Phase;

/** In the order of their status. */
const CODES = {
  json_invalid: [refusal, 400, "The body is not JSON in UTF-8"],
  body_invalid: [refusal, 400, "A field of the body is missing, unknown or out of range"],
  query_invalid: [refusal, 400, "A query parameter is missing, unknown or out of range"],
  key_invalid: [argument, 400, "The key is too long or badly escaped"],
  channel_invalid: [argument, 400, "The channel name is too long or badly escaped"],
  name_invalid: [argument, 400, "The name is too long or badly escaped"],
  maximum_invalid: [argument, 400, "The maximum is out of range"],
  resources_invalid: [argument, 400, "The number of resources is out of range"],
  lease_invalid: [argument, 400, "Invalid lease ID"],
  idempotency_key_invalid: [
    argument,
    400,
    "Invalid Idempotency-Key, or this route does not accept one",
  ],
  namespace_mismatch: [refusal, 400, "The namespace in the body is not that of the caller"],
  value_invalid: [argument, 400, "The value is too long"],
  expected_invalid: [argument, 400, "The expected value is too long"],
  payload_invalid: [argument, 400, "The payload is too long"],
  prefix_invalid: [argument, 400, "The prefix is too long"],
  after_invalid: [argument, 400, "Invalid cursor"],
  limit_invalid: [argument, 400, "The limit is out of range"],
  quota_invalid: [argument, 400, "The quota is out of range"],
  argument_invalid: [argument, 400, "An argument is missing or has the wrong type"],
  amount_invalid: [argument, 400, "The amount is out of range"],
  by_invalid: [argument, 400, "The amount is out of range"],
  ttl_invalid: [argument, 400, "The TTL is out of range"],
  unit_invalid: [argument, 400, "Unknown unit of time"],
  kind_invalid: [argument, 400, "Unknown kind of record"],
  policy_invalid: [argument, 400, "Unknown policy for records that already exist"],
  expires_at_ns_invalid: [argument, 400, "The expiry time is out of range"],
  expires_at_ms_invalid: [argument, 400, "The end of the lease is out of range"],
  bytes_max_invalid: [argument, 400, "The page size is out of range"],
  change_invalid: [argument, 400, "Unknown kind of change"],
  draw_invalid: [argument, 400, "A field of the draw is out of range"],
  limit_all_invalid: [argument, 400, "These limits cannot be charged together"],
  reservation_invalid: [argument, 400, "Invalid reservation ID"],
  cost_invalid: [argument, 400, "The cost is out of range"],
  configuration_invalid: [argument, 400, "Invalid configuration of a limit"],
  strategy_unknown: [argument, 400, "Unknown strategy"],
  combination_invalid: [argument, 400, "These strategies cannot be combined"],
  base_key_invalid: [argument, 400, "Invalid limit name"],
  burst_invalid: [argument, 400, "The burst is out of range"],
  rate_invalid: [argument, 400, "The rate is out of range"],
  quotas_invalid: [argument, 400, "The strategy has too few or too many quotas"],
  quota_name_invalid: [argument, 400, "Invalid quota name"],
  quota_name_taken: [argument, 400, "Two quotas have the same name"],
  quota_ratio_taken: [argument, 400, "Two quotas have the same ratio of limit to window"],
  window_invalid: [argument, 400, "The window is out of range"],
  time_overflow: [argument, 400, "The limit spans more time than a timestamp can hold"],
  request_type_unknown: [refusal, 400, "The dialect has no such request type"],
  body_truncated: [refusal, 400, "The body ends in the middle of a frame"],
  body_aborted: [refusal, 400, "The body was cut off before its end"],
  bridge_unsupported: [refusal, 400, "The gateway and the server are of different releases"],
  needs_connection: [refusal, 400, "This request needs a WebSocket or TCP connection"],
  token_missing: [refusal, 401, "The request has no token", "anyRoute"],
  token_invalid: [refusal, 401, "The token was not issued for this deployment", "anyRoute"],
  token_expired: [refusal, 401, "The token has expired", "anyRoute"],
  token_revoked: [refusal, 401, "The token was revoked", "anyRoute"],
  token_not_yet_valid: [refusal, 401, "The token is not valid yet", "anyRoute"],
  ticket_too_long: [refusal, 401, "The ticket is valid for too long", "anyRoute"],
  namespace_missing: [
    refusal,
    403,
    "The token is for all namespaces, and none is named",
    "anyRoute",
  ],
  deployment_only: [refusal, 403, "The route needs a token for all namespaces", "anyRoute"],
  scope_missing: [refusal, 403, "A scope is missing", "anyRoute"],
  prefix_missing: [refusal, 403, "This key or channel is not allowed", "anyRoute"],
  origin_not_allowed: [refusal, 403, "Pages of this origin may not call the server", "anyRoute"],
  key_absent: [refusal, 404, "There is no record under this key"],
  semaphore_absent: [refusal, 404, "There is no such semaphore"],
  limit_absent: [refusal, 404, "No decision of this limiter has been counted"],
  lease_absent: [refusal, 404, "The lease does not exist or has ended"],
  not_found: [refusal, 404, "There is no such route"],
  protocol_unknown: [refusal, 404, "There is no such dialect or value size"],
  method_not_allowed: [refusal, 405, "The route does not support this method"],
  body_timeout: [refusal, 408, "The body arrived too slowly; nothing was applied"],
  exists: [refusal, 409, "There is already a record under this key"],
  kind_mismatch: [refusal, 409, "The record under this key is of another kind"],
  quota_overflow: [refusal, 409, "The quota would exceed 2^64 - 1"],
  semaphore_unavailable: [refusal, 409, "The semaphore does not have enough free resources"],
  lease_conflict: [refusal, 409, "The lease holds another number of resources"],
  reservation_conflict: [
    refusal,
    409,
    "The reservation ID is in use for a reservation of another cost",
  ],
  split_refused: [
    refusal,
    409,
    "The shard can not be split there, or not now; nothing was changed",
  ],
  state_invalid: [refusal, 409, "The buffer under this key does not hold a state of this limit"],
  answer_lost: [refusal, 409, "The call was applied before, but its answer could not be stored"],
  reservation_ended: [refusal, 410, "The reservation does not exist or has ended"],
  cursor_lost: [refusal, 410, "The cursor is no longer valid: list again from the start"],
  body_too_large: [refusal, 413, "The body is too large"],
  frame_too_large: [refusal, 413, "The key and the value together are too large"],
  runs_max: [refusal, 413, "The body has too many runs of requests"],
  host_not_allowed: [refusal, 421, "The server does not answer to this host name", "anyRoute"],
  idempotency_conflict: [
    refusal,
    422,
    "The idempotency key was used for a different call on this key",
  ],
  upgrade_required: [refusal, 426, "GET opens a WebSocket on this route"],
  internal: [fault, 500, "Internal server error", "anyRoute"],
  config_invalid: [fault, 500, "A variable of the deployment is out of range", "anyRoute"],
  class_missing: [refusal, 503, "The Worker lacks a class of the server", "anyRoute"],
  access_not_configured: [refusal, 503, "Access is not configured", "anyRoute"],
  outcome_unknown: [unknown, 503, "A shard failed; the request may have been applied", "anyRoute"],
  format_unknown: [
    refusal,
    503,
    "The data has the format of an unknown release; nothing was applied",
    "anyRoute",
  ],
  row_version: [
    refusal,
    503,
    "The data has the format of an unknown release; nothing was applied",
    "anyRoute",
  ],
  // Over HTTP only during a deployment, of a shard whose release does not know a flag.
  flags_invalid: [
    refusal,
    503,
    "A request has flags that its type, or the release of its shard, does not support; nothing was applied",
  ],
  batch_version: [refusal, 503, "The deployment is being updated; nothing was applied", "anyRoute"],
  shard_data_missing: [
    refusal,
    503,
    "The database of a shard is empty, although it had data; nothing was applied",
    "anyRoute",
  ],
  shards_mismatch: [
    refusal,
    503,
    "The data was written with other shard settings; nothing was applied",
    "anyRoute",
  ],
  shards_unsettled: [
    refusal,
    503,
    "The shards do not agree who has the keys; nothing was applied: try again",
    "anyRoute",
  ],
  bodies_max: [
    refusal,
    503,
    "Unfinished bodies take up all available memory; nothing was applied",
    "anyRoute",
  ],
  listing_lost: [refusal, 503, "A shard reordered its records during the listing: try again"],
  listing_outgrown: [
    refusal,
    503,
    "Records were added faster than they could be listed: try again",
    "anyRoute",
  ],
  hub_failed: [refusal, 503, "The object that accepts connections failed"],
  connections_max: [refusal, 503, "There are too many connections"],
  listeners_max: [refusal, 503, "There are too many listeners to the live overview"],
  revocations_max: [refusal, 507, "The list of revoked tokens is full"],
  shard_full: [refusal, 507, "The shard has no memory left; nothing was applied"],
  reply_too_large: [refusal, 507, "The answer is too large: request less at once"],

  // Over a service binding, or in the reply to a single frame.
  batch_too_large: [refusal, null, "The batch has too many operations, or too many bytes"],
  frames_invalid: [refusal, null, "The frames are not a Uint8Array"],
  operation_unknown: [refusal, null, "There is no such operation"],
  options_invalid: [refusal, null, "The frame has options that its request type does not support"],
  props_invalid: [refusal, null, "The props of the service binding are invalid"],
  // Of servers up to release 0.4.
  channels_max: [refusal, null, "The body publishes to too many channels"],

  // Why the server closes a connection: the reason begins with the code.
  bridge_invalid: [transport, null, "The gateway does not speak the bridge protocol"],
  channel_failed: [transport, null, "The object of the channel failed"],
  frame_lost: [transport, null, "The server restarted in the middle of a frame"],
  frame_timeout: [transport, null, "The rest of a frame did not arrive in time"],
  pending_bytes: [transport, null, "The connections of the Hub have too many waiting requests"],
  push_bytes: [transport, null, "The subscriber left too many pushes unread"],
  reply_bytes: [transport, null, "The client left too many replies unread"],
  subscriptions_max: [transport, null, "There are too many subscriptions"],
  text_message: [transport, null, "Frames are binary messages, but a text message arrived"],
  unanswered_bytes: [transport, null, "The connection has too many waiting requests"],

  // In the package alone.
  aborted: [unknown, null, "The call was aborted"],
  closed: [transport, null, "The client was closed"],
  connection_failed: [transport, null, "The server could not be reached"],
  lease_lost: [transport, null, "The lease ended before its work did"],
  option_invalid: [argument, null, "Invalid option"],
  queue_full: [transport, null, "The client has too many waiting calls"],
  reply_invalid: [fault, null, "The reply does not follow the protocol"],
  response_invalid: [fault, null, "The response did not come from a Throttr Edge server"],
  subscribe_refused: [refusal, null, "The server refused the subscription"],
  timeout: [unknown, null, "The call was not answered in time"],
  namespace_invalid: [argument, null, "The namespace of a store is too long"],
  timeout_invalid: [argument, null, "The timeout is out of range"],
  web_socket_missing: [transport, null, "The runtime has no WebSocket"],

  // Between the objects of a deployment: the door asks the shard that owns the range.
  shard_moved: [refusal, null, "The shard does not own the range; nothing was applied"],
  // Between the objects of a deployment. Callers get `outcome_unknown`.
  charge_cancelled: [fault, null, "The charge was cancelled before it came"],
  answer_version: [fault, null, "An object of another release answered"],
  journal_failed: [fault, null, "A shard could not write its journal"],
  page_version: [fault, null, "A shard of another release sent a page of records"],
} as const satisfies Record<string, Row>;

const ROWS: Readonly<Record<string, Row>> = CODES;

/** The code of an error. */
export type Code = keyof typeof CODES;

/** A code that HTTP answers with. */
export type ProblemCode = {
  [Name in Code]: (typeof CODES)[Name][1] extends number ? Name : never;
}[Code];

/** All codes. */
export const ALL_CODES = Object.keys(CODES) as Code[];

/** All codes that HTTP answers with, in the order of their status. */
export const PROBLEM_CODES = ALL_CODES.filter(
  (code): code is ProblemCode => statusOf(code) !== null,
);

/** What a caller may conclude; undefined for a code that is not of the table. */
export const phaseOf = (code: string): Phase | undefined => rowOf(code)?.[0];

/** The HTTP status of a code; null for one that HTTP never answers with. */
export function statusOf(code: ProblemCode): number;
export function statusOf(code: string): number | null;
export function statusOf(code: string): number | null {
  return rowOf(code)?.[1] ?? null;
}

/** What a code means, in a few words. */
export const titleOf = (code: Code): string => CODES[code][2];

/** Whether any route of `/v1` may answer with a code. */
export const isOfAnyRoute = (code: string): boolean => rowOf(code)?.[3] === "anyRoute";

/** Codes come from other releases, too. */
function rowOf(code: string): Row | undefined {
  return Object.hasOwn(ROWS, code) ? ROWS[code] : undefined;
}
