/**
 * Tally: counts by request type, and of bytes, in all and in the last 60 seconds.
 *
 * The last 60 seconds are this minute and as much of the last one as still counts.
 */
import { REQUEST_TYPES_END } from "../wire/throttr/requests.ts";

/** Places of a tally beside the request types. */
export const TALLY_READ_BYTES = REQUEST_TYPES_END;
export const TALLY_WRITE_BYTES = REQUEST_TYPES_END + 1;
/** Of the yrmcds protocol: requests that no shard sees, and connections. */
export const TALLY_YRMCDS_STATS = REQUEST_TYPES_END + 2;
export const TALLY_YRMCDS_DUMP = REQUEST_TYPES_END + 3;
export const TALLY_YRMCDS_CONNECTIONS = REQUEST_TYPES_END + 4;
/** Requests of the yrmcds protocol that a shard sees. */
export const TALLY_YRMCDS_NOOP = REQUEST_TYPES_END + 5;
export const TALLY_YRMCDS_GET = REQUEST_TYPES_END + 6;
export const TALLY_YRMCDS_ACQUIRE = REQUEST_TYPES_END + 7;
export const TALLY_YRMCDS_RELEASE = REQUEST_TYPES_END + 8;
const PLACES = REQUEST_TYPES_END + 9;

export const MINUTE_MS = 60_000;

/** Figures of one or several tallies: totals, then the last 60 seconds, by place. */
export type TallyFigures = Float64Array;

export class Tally {
  /** Counted so far, by place. Whoever counts adds to it, once `turn` has been told the time. */
  readonly totals = new Float64Array(PLACES);
  readonly #atMinute = new Float64Array(PLACES);
  readonly #lastMinute = new Float64Array(PLACES);
  #minute = 0;

  /** Moves the clock: what is counted from now on belongs to the minute of `nowMs`. */
  turn(nowMs: number): void {
    const minute = Math.floor(nowMs / MINUTE_MS);
    if (minute === this.#minute) return;
    const isNext = minute === this.#minute + 1;
    for (let place = 0; place < PLACES; place++) {
      const total = this.totals[place]!;
      this.#lastMinute[place] = isNext ? total - this.#atMinute[place]! : 0;
      this.#atMinute[place] = total;
    }
    this.#minute = minute;
  }

  /** Adds what another tally has counted. */
  absorb(figures: TallyFigures, nowMs: number): void {
    if (!isReadable(figures)) return;
    this.turn(nowMs);
    for (let place = 0; place < PLACES; place++) {
      const total = figures[place]!;
      this.totals[place]! += total;
      // What is older than a minute counts for none.
      this.#atMinute[place]! += total - figures[PLACES + place]!;
    }
  }

  /** Starts anew; what was counted so far is returned, and is another's now. */
  release(nowMs: number): TallyFigures {
    const figures = this.figures(nowMs);
    for (const counts of [this.totals, this.#atMinute, this.#lastMinute]) counts.fill(0);
    return figures;
  }

  figures(nowMs: number): TallyFigures {
    this.turn(nowMs);
    const left = 1 - (nowMs % MINUTE_MS) / MINUTE_MS;
    const figures = new Float64Array(2 * PLACES);
    for (let place = 0; place < PLACES; place++) {
      const total = this.totals[place]!;
      figures[place] = total;
      figures[PLACES + place] = Math.round(
        total - this.#atMinute[place]! + this.#lastMinute[place]! * left,
      );
    }
    return figures;
  }
}

/** Adds figures up. */
export function sumFigures(all: Iterable<TallyFigures>): TallyFigures {
  const sum = new Float64Array(2 * PLACES);
  for (const figures of all) {
    if (!isReadable(figures)) continue;
    for (let i = 0; i < sum.length; i++) sum[i]! += figures[i]!;
  }
  return sum;
}

/** False for figures of a release that counts other types: during a deployment they are left out. */
function isReadable(figures: TallyFigures): boolean {
  return figures.length === 2 * PLACES;
}

/** Total and last 60 seconds of a place. */
export function placeOf(figures: TallyFigures, place: number): [total: number, perMinute: number] {
  return [figures[place]!, figures[PLACES + place]!];
}
