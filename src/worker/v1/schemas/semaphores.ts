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
  uuid,
} from "./parts.ts";

/** At most a day, as nothing else ends a lease whose holder has died. */
const leaseTtlMs = integer(
  1,
  LEASE_TTL_MS_MAX,
  "TTL of the lease, in ms: at most a day. If its caller dies, the resources stay in use until then.",
);

/** 32 bits, as the yrmcds protocol has them: both doors share the semaphores. */
const resources = integer(1, U32_MAX, "Number of resources to hold.");

/** The maximum comes with each request, as in the yrmcds protocol: no semaphore is configured. */
export const leaseBody = v.strictObject({
  resources: v.optional(resources, 1),
  maximum: integer(1, U32_MAX, "Most that all holders together may hold."),
  ttlMs: leaseTtlMs,
  leaseId: v.exactOptional(uuid("A UUID. Default: a new one.")),
});

/** The new TTL, from the renewal on. */
export const renewBody = v.strictObject({ ttlMs: leaseTtlMs });

/** Its cursor is a name, and names from the yrmcds protocol may be longer than 255 bytes. */
export const semaphoresQuery = v.strictObject({
  prefix,
  limit,
  cursor: queryCursor(SEMAPHORE_NAME_BYTES_MAX),
});

/** Its cursor is a kind and an id, so it has one length. */
export const holdersQuery = v.strictObject({
  limit,
  cursor: queryCursor(HOLDER_CURSOR_BYTES, HOLDER_CURSOR_BYTES),
});

/** A lease as it was given or renewed. */
export const Lease = v.strictObject({
  leaseId: v.pipe(v.string(), v.description("A UUID, by which the lease is renewed and released.")),
  name: textAnswer("Name of the semaphore, if it is UTF-8."),
  nameBase64: base64Answer("Name of the semaphore, if it is not UTF-8."),
  resources: count,
  ...remaining,
});

/** What a semaphore is known by: no maximum is stored, only the most that was held. */
const semaphoreState = {
  consumption: counted("Resources that all holders hold together."),
  mostHeld: counted("The largest consumption of the last day or so."),
  maximum: counted("Deprecated: the former name of `mostHeld`."),
};

/** A semaphore whose name the caller knows. */
export const Semaphore = v.strictObject(semaphoreState);

/** A semaphore of a list. */
export const ListedSemaphore = v.strictObject({
  name: textAnswer("The name, if it is UTF-8."),
  nameBase64: base64Answer("The name, if it is not UTF-8."),
  ...semaphoreState,
});

export const semaphoresAnswer = v.strictObject({
  semaphores: v.pipe(v.array(ListedSemaphore), v.description("In the order of their names.")),
  cursor,
});

/** Who holds how much. Both kinds of holders have a UUID, and `kind` tells them apart. */
export const Holder = v.strictObject({
  kind: v.pipe(
    v.picklist(["connection", "lease"]),
    v.description("A connection holds until it releases or closes."),
  ),
  id: v.pipe(v.string(), v.description("UUID of the connection or of the lease.")),
  resources: count,
  expiresAtMs: v.pipe(
    v.nullable(v.number()),
    v.description(
      "Expiry of a lease, in ms since the epoch by the server's clock; null for a connection.",
    ),
  ),
});

export const holdersAnswer = v.strictObject({
  holders: v.pipe(v.array(Holder), v.description("Connections, then leases, each ordered by id.")),
  cursor,
});
