/** What pages of records, removals and exports are asked for. */
import type { Keyspace } from "../wire/keyspace.ts";

/** Which records. */
export interface ScanQuery {
  readonly keyspace: Keyspace;
  /**
   * Keys begin with this, consumers where they are pairs. Of holdings: the name of the semaphore that they
   * are of.
   */
  readonly prefix: Uint8Array;
  /** They begin with one of these, too; empty for all keys. */
  readonly prefixes: readonly Uint8Array[];
}
