/** Ids of leases. */
import { withLeaseId } from "../../wire/edge/lease-id.ts";
import type { AcquireOptions } from "../../wire/edge/semaphores.ts";
import { newUuid } from "../../wire/edge/uuid.ts";
import { platform } from "../platform.ts";

export const fillRandom = (bytes: Uint8Array<ArrayBuffer>): unknown =>
  platform.crypto.getRandomValues(bytes);

/** A random UUID. `getRandomValues` also works on insecure origins; `randomUUID` does not. */
export const newRandomLeaseId = (): string => newUuid(fillRandom);

/** Adds a random lease id to options without one. */
export const withRandomLeaseId = <Options extends AcquireOptions>(options: Options): Options =>
  withLeaseId(options, fillRandom);
