/** The query of pages of records, of removals and of exports. */
import type { Keyspace } from "../wire/keyspace.ts";

/** Which records to visit. */
export interface ScanQuery {
  readonly keyspace: Keyspace;
  /**
   * Keys begin with this; of pairs, their consumers do. For holdings it is the name of the semaphore.
   */
  readonly prefix: Uint8Array;
  /** Keys also begin with one of these; empty for all keys. */
  readonly prefixes: readonly Uint8Array[];
}
