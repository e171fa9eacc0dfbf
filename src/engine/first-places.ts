/** The first places of records in the order of their keys, found in one walk over all of them. */
import { forEachLive } from "./live.ts";
import { compareKeys, compareSlots, isBehind, type Place } from "./place.ts";
import type { Records } from "./records.ts";
import type { Segment } from "./segment.ts";

/** Records beyond those that are asked for, that are gathered before they are put in order. */
const SLACK_RECORDS = 256;

/** Which records. */
export interface PlaceQuery {
  readonly keyspace: number;
  /** Their keys begin with one of these; empty for all keys. */
  readonly prefixes: readonly Uint8Array[];
  readonly isAsked: (segment: Segment, slot: number) => boolean;
  /** Their keys come behind it; null for all. */
  readonly after: Uint8Array | null;
}

/**
 * The live records of a query that come first. Few more than they are kept, so memory is bounded,
 * whatever there is.
 */
export function firstPlaces(
  { table, now }: Records,
  { keyspace, prefixes, isAsked, after }: PlaceQuery,
  placesMax: number,
): { places: Place[]; isAll: boolean } {
  let places: Place[] = [];
  let isAll = true;
  /** Once there are enough, the last of the first: nothing behind it is kept. */
  let end: Place | null = null;
  const keepFirst = (): void => {
    places.sort(compareKeys);
    isAll &&= places.length <= placesMax;
    places = places.slice(0, placesMax);
    end = places.length === placesMax ? places.at(-1)! : null;
  };
  for (const segment of table.segments()) {
    forEachLive(segment, now, keyspace, prefixes, (slot) => {
      if (!isAsked(segment, slot)) return;
      if (after !== null && !isBehind(segment, slot, after)) return;
      if (end !== null && compareSlots(segment, slot, end) > 0) return;
      places.push({ segment, slot });
      if (places.length >= placesMax + SLACK_RECORDS) keepFirst();
    });
  }
  keepFirst();
  return { places, isAll };
}
