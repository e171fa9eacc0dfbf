/** Requests and answers about a whole namespace, and problems, which any route may answer with. */
import * as v from "valibot";
import { count, counted } from "./parts.ts";

/** A confirmation. What these routes do cannot be undone, and the token alone does not show its namespace. */
export const adminBody = v.strictObject({
  namespace: v.pipe(
    v.string("expected the name of the namespace"),
    v.description(
      "The namespace of the caller, repeated as a confirmation: `default` with `ACCESS=open`.",
    ),
  ),
});

/** All shards, with 0 for those whose time was right. */
export const clockAnswer = v.strictObject({
  shards: v.array(
    v.strictObject({
      index: count,
      setBackMs: count,
    }),
  ),
});

/** The figures of INFO, with the requests by the names of calls. */
export const Info = v.strictObject({
  nowSeconds: counted("The server's clock, in s since the epoch."),
  requests: count,
  requestsPerMinute: count,
  requestsByType: v.pipe(
    v.record(v.string(), v.strictObject({ total: count, perMinute: count })),
    v.description(
      "By name: requests of the Throttr protocol, and the calls (`increment`, `limit`, …).",
    ),
  ),
  readBytes: count,
  readBytesPerMinute: count,
  writeBytes: count,
  writeBytesPerMinute: count,
  keys: count,
  counters: count,
  buffers: count,
  counterBytes: count,
  bufferBytes: count,
  subscriptions: count,
  channels: count,
  runningSinceMs: counted("Since when requests and bytes count, in ms since the epoch."),
  connections: count,
  version: v.string(),
});

/** Problem details (RFC 9457), with a `code` of our own: programs compare the code, and never a text. */
export const Problem = v.strictObject({
  type: v.pipe(v.string(), v.description("URL of the explanation of the code.")),
  title: v.pipe(v.string(), v.description("Meaning of the code.")),
  status: v.number(),
  code: v.pipe(v.string(), v.description("Stable, for programs.")),
  detail: v.pipe(v.string(), v.description("For people: names the field and the limit.")),
  errors: v.exactOptional(
    v.pipe(
      v.array(v.strictObject({ field: v.string(), message: v.string() })),
      v.description("With `body_invalid` and `query_invalid`: the invalid fields."),
    ),
  ),
});
