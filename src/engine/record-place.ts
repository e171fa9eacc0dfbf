/**
 * The place of a record on the circle of placement hashes, which says what shard owns it.
 *
 * Doors hash the key of a request with a seed that is not the table's. A record that its request's key does not name has the
 * place of another one: see `hashOf`. What a connection or a lease holds lies where its semaphore does, and names it by
 * number only: `SemaphoreRecords.placeOf` finds that.
 */
import { RESERVATION_ID_BYTES } from "../wire/edge/reservation-bounds.ts";
import { Keyspace } from "../wire/keyspace.ts";
import { hashBytes, type HashKey } from "./hash.ts";

export class RecordPlace {
  readonly #seed: HashKey;

  /** @param seed of the placement: of the namespace, and the same at all doors */
  constructor(seed: HashKey) {
    this.#seed = seed;
  }

  /**
   * Placement hash of a record by its key as stored, `bytes[at, at + length)`; not of a holding.
   *
   * A kept answer lies with the record of its command, and a reservation with the state that it has charged: their keys
   * begin with an ID, and end with that of the other record.
   */
  hashOf(keyspace: Keyspace, bytes: Uint8Array, at: number, length: number): number {
    switch (keyspace) {
      case Keyspace.answers: {
        const idBytes = 1 + bytes[at]!;
        return hashBytes(this.#seed, Keyspace.throttr, bytes, at + idBytes, length - idBytes);
      }
      case Keyspace.reservations:
        return hashBytes(
          this.#seed,
          Keyspace.throttr,
          bytes,
          at + RESERVATION_ID_BYTES,
          length - RESERVATION_ID_BYTES,
        );
      default:
        return hashBytes(this.#seed, keyspace, bytes, at, length);
    }
  }
}
