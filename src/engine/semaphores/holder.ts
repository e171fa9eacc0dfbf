/**
 * Holders of resources of semaphores: connections and leases.
 *
 *     holder = kind u8, id 16
 *
 * Part of the stored formats.
 */
export const HOLDER_BYTES = 17;
export const HOLDER_ID_BYTES = 16;

export const HolderKind = {
  /** Holds until it releases, or closes. */
  connection: 1,
  /** Holds resources of one semaphore until it is released, or its time ends. */
  lease: 2,
} as const;

/**
 * The holder of a connection.
 *
 * @throws RangeError when the id has not 16 bytes
 */
export function connectionHolder(id: Uint8Array): Uint8Array<ArrayBuffer> {
  return makeHolder(HolderKind.connection, id);
}

/**
 * The holder of a lease.
 *
 * @throws RangeError when the id has not 16 bytes
 */
export function leaseHolder(id: Uint8Array): Uint8Array<ArrayBuffer> {
  return makeHolder(HolderKind.lease, id);
}

function makeHolder(kind: number, id: Uint8Array): Uint8Array<ArrayBuffer> {
  if (id.length !== HOLDER_ID_BYTES) {
    throw new RangeError(`holder: expected an id of ${HOLDER_ID_BYTES} bytes, got ${id.length}`);
  }
  const holder = new Uint8Array(HOLDER_BYTES);
  holder[0] = kind;
  holder.set(id, 1);
  return holder;
}
