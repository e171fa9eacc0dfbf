/** Requests and answers about semaphores and their leases. */
import * as v from "valibot";
import {
  HOLDER_CURSOR_BYTES,
  LEASE_TTL_MS_MAX,
  SEMAPHORE_NAME_BYTES_MAX,
  U32_MAX,
} from "../../../wire/edge/command.ts";
import {
  base64Answer,
  count,
  counted,
  cursor,
  integer,
  limit,
  prefix,
  queryCursor,
  remaining,
  textAnswer,
} from "./parts.ts";

const LEASE_ID = /^[\da-fA-F]{8}(?:-[\da-fA-F]{4}){3}-[\da-fA-F]{12}$/;

const leaseIdMessage = "expected a UUID";

const leaseTtlMs = integer(
  1,
  LEASE_TTL_MS_MAX,
  "From now to the end of the lease, in ms: a day at most. What a caller held that is no more is in use until then.",
);

const resources = integer(1, U32_MAX, "How much is held.");

export const leaseBody = v.strictObject({
  resources: v.optional(resources, 1),
  maximum: integer(1, U32_MAX, "What all that is held together must not exceed."),
  ttlMs: leaseTtlMs,
  leaseId: v.exactOptional(
    v.pipe(
      v.string(leaseIdMessage),
      v.regex(LEASE_ID, leaseIdMessage),
      v.description("A UUID; a new one unless given."),
    ),
  ),
});

export const renewBody = v.strictObject({ ttlMs: leaseTtlMs });

export const semaphoresQuery = v.strictObject({
  prefix,
  limit,
  cursor: queryCursor(SEMAPHORE_NAME_BYTES_MAX),
});

export const holdersQuery = v.strictObject({
  limit,
  cursor: queryCursor(HOLDER_CURSOR_BYTES, HOLDER_CURSOR_BYTES),
});

export const Lease = v.strictObject({
  leaseId: v.pipe(v.string(), v.description("A UUID: what renews and releases it.")),
  name: textAnswer("Of the semaphore, where it is UTF-8."),
  nameBase64: base64Answer("Of the semaphore, where it is not."),
  resources: count,
  ...remaining,
});

const semaphoreState = {
  consumption: counted("All that is held together."),
  mostHeld: counted("The largest consumption in this interval."),
  maximum: counted("Deprecated: `mostHeld` under its former name."),
};

export const Semaphore = v.strictObject(semaphoreState);

export const ListedSemaphore = v.strictObject({
  name: textAnswer("The name, where it is UTF-8."),
  nameBase64: base64Answer("The name, where it is not."),
  ...semaphoreState,
});

export const semaphoresAnswer = v.strictObject({
  semaphores: v.pipe(v.array(ListedSemaphore), v.description("In the order of their names.")),
  cursor,
});

export const Holder = v.strictObject({
  kind: v.pipe(
    v.picklist(["connection", "lease"]),
    v.description("A connection holds until it releases, or ends."),
  ),
  id: v.pipe(v.string(), v.description("A UUID: of the connection, or of the lease.")),
  resources: count,
  expiresAtMs: v.pipe(
    v.nullable(v.number()),
    v.description("Of a lease: its end, in ms since the epoch by the server's clock."),
  ),
});

export const holdersAnswer = v.strictObject({
  holders: v.pipe(
    v.array(Holder),
    v.description("Connections, then leases, each in the order of their ids."),
  ),
  cursor,
});
