/** Ids of leases: UUIDs. */
import { isObject } from "./argument.ts";
import { newUuid, uuidBytes, type FillRandom } from "./uuid.ts";

/**
 * The bytes of an id.
 *
 * @throws ThrottrError `lease_invalid`
 */
export function leaseIdOf(text: unknown): Uint8Array<ArrayBuffer> {
  return uuidBytes(text, "leaseId", "lease_invalid");
}

/** Options with a lease id: a new one where there is none. What is not an object stays as it is. */
export function withLeaseId<Options extends { readonly leaseId?: string | undefined }>(
  options: Options,
  fill: FillRandom,
): Options {
  if (!isObject(options)) return options;
  return { ...options, leaseId: options.leaseId ?? newUuid(fill) };
}
