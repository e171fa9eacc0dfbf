/** Ids of leases. */
import { newLeaseId } from "../wire/edge/lease-id.ts";
import { platform } from "./platform.ts";

/** A random UUID. Other than `randomUUID`, what it is made of is there on pages without TLS, too. */
export const newRandomLeaseId = (): string =>
  newLeaseId((bytes) => platform.crypto.getRandomValues(bytes));
