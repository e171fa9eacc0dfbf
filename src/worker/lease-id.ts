/** Ids of leases for callers who bring none. */
import { withLeaseId } from "../wire/edge/lease-id.ts";
import type { AcquireOptions } from "../wire/edge/semaphores.ts";

/** Options with a lease id: a new one, random, where there is none. */
export const withNewLeaseId = (options: AcquireOptions): AcquireOptions =>
  withLeaseId(options, (bytes) => crypto.getRandomValues(bytes));
