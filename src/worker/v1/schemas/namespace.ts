/** Requests and answers about a whole namespace, and problems, which any route may answer with. */
import * as v from "valibot";
import { count, counted } from "./parts.ts";

export const adminBody = v.strictObject({
  namespace: v.pipe(
    v.string("expected the name of the namespace"),
    v.description(
      "The name of the token's namespace, once more: `default` with `ACCESS=open`. So that it is no other one than meant.",
    ),
  ),
});

export const clockAnswer = v.strictObject({
  shards: v.array(
    v.strictObject({
      index: count,
      setBackMs: count,
    }),
  ),
});

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
  runningSinceMs: counted("The earliest start of a shard that is awake, in ms since the epoch."),
  connections: count,
  version: v.string(),
});

export const Problem = v.strictObject({
  type: v.pipe(v.string(), v.description("Where the code is explained.")),
  title: v.pipe(v.string(), v.description("What the code means.")),
  status: v.number(),
  code: v.pipe(v.string(), v.description("Stable, for programs.")),
  detail: v.pipe(v.string(), v.description("For people: names the field and the limit.")),
  errors: v.exactOptional(
    v.pipe(
      v.array(v.strictObject({ field: v.string(), message: v.string() })),
      v.description("Of `body_invalid` and `query_invalid`: what is wrong with which field."),
    ),
  ),
});
