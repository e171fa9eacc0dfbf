/**
 * StoredMap: what a Hub knows of the shards of its namespace, kept while it sleeps.
 *
 * A Hub wakes up with an empty memory for each message of a quiet client. Without this its first request on a key would
 * ask the first shard for the way each time. A map that is out of date costs a call, and never a wrong answer.
 */
import { presentMs } from "../../base/clock.ts";
import { isWithin } from "../../base/recent.ts";
import type { RangeMap } from "../../dispatch/range-map.ts";
import type { ShardMap } from "../../dispatch/shard-map.ts";
import { logWarning } from "../../base/log.ts";
import { MAP_STORE_MS } from "../../engine/sizes.ts";

const KEY = "shards";

/** As it is stored. */
interface Stored {
  /** Ranges that the namespace began with. */
  readonly shards: number;
  /** Where all known ranges begin, ascending. */
  readonly froms: Uint32Array;
}

/** A part of the object's storage. */
interface MapStore {
  get(key: string): unknown;
  put(key: string, value: Stored): void;
}

/** Of one instance of a Hub. */
export class StoredMap {
  readonly #hub: string;
  readonly #map: ShardMap;
  readonly #store: MapStore;
  /** As it was stored last; null for nothing. */
  #ranges: RangeMap | null = null;
  #storedAtMs = -Infinity;

  /** @param hub name of the object */
  constructor(hub: string, map: ShardMap, store: MapStore) {
    this.#hub = hub;
    this.#map = map;
    this.#store = store;
  }

  /** After a start. */
  load(): void {
    const stored = this.#store.get(KEY) as Stored | undefined;
    if (stored === undefined || this.#map.shards > 0) return;
    const [, to = 0] = stored.froms;
    this.#map.learn({ shards: stored.shards, range: { from: 0, to }, begins: [...stored.froms] });
    this.#ranges = this.#map.ranges;
  }

  /** With each message: stores what has become known, one row a minute at most. One range alone is not worth a row. */
  note(): void {
    const { shards, ranges } = this.#map;
    if (ranges === this.#ranges || shards === 0 || (ranges.count === 1 && this.#ranges === null))
      return;
    if (isWithin(this.#storedAtMs, MAP_STORE_MS)) return;
    this.#ranges = ranges;
    this.#storedAtMs = presentMs();
    try {
      this.#store.put(KEY, { shards, froms: ranges.froms });
    } catch (error) {
      // A full disk costs a call with each wake-up, and nothing else.
      logWarning("map_unstored", { hub: this.#hub, error: String(error) });
    }
  }
}
