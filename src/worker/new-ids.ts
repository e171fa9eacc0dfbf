/** Ids of leases and reservations for callers who bring none. */
import { withLeaseId } from "../wire/edge/lease-id.ts";
import { withReservationId, type ReserveRequest } from "../wire/edge/reservations.ts";
import type { AcquireOptions } from "../wire/edge/semaphores.ts";
import type { FillRandom } from "../wire/edge/uuid.ts";

const fillRandom: FillRandom = (bytes) => crypto.getRandomValues(bytes);

/** Options with a lease id: a new one, random, where there is none. */
export const withNewLeaseId = (options: AcquireOptions): AcquireOptions =>
  withLeaseId(options, fillRandom);

/** A request with the id of a reservation: a new one, random, where there is none. */
export const withNewReservationId = (request: ReserveRequest): ReserveRequest =>
  withReservationId(request, fillRandom);
