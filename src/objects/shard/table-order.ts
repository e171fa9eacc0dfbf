/** The order of a shard's table: plans and cursors are places in it, and of use while it stays, also after a restart. */
import { hashKeyName, type HashKey } from "../../engine/hash.ts";
import { ThrottrError } from "../../wire/edge/error.ts";

/** Changes with the meaning of hashes, plans and cursors: those of another version are refused. */
const ORDER_VERSION = 1;

export class TableOrder {
  /** Callers bring it back with their places. */
  readonly name: string;

  /** @param hashKey seed of the table. Data of releases before 0.5.0 gets it with its first commit: until then an instance has its own. */
  constructor(hashKey: HashKey) {
    this.name = `${ORDER_VERSION}-${hashKeyName(hashKey).toString(16)}`;
  }

  /**
   * @param name null at the start of a walk
   * @throws ThrottrError `listing_lost`
   */
  assertSame(name: string | null): void {
    if (name === null || name === this.name) return;
    throw new ThrottrError(
      "listing_lost",
      "a shard reordered its records during the listing: list them again",
    );
  }

  /** Where a walk goes on that may begin again: at its start in another order. */
  cursorIn(name: string | null, cursor: number): number {
    return name === this.name ? cursor : 0;
  }
}
