/** Tally: counts of requests by type, and of bytes, in all and in the last 60 seconds. */
import { REQUEST_TYPES_END } from "../wire/throttr/requests.ts";
import { MinuteCounts } from "./minute-counts.ts";

/** Indexes of a tally beside the request types. */
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
const COUNTS = REQUEST_TYPES_END + 9;

/** Figures of one or several tallies: totals, then the last 60 seconds, by index. */
export type TallyFigures = Float64Array;

export class Tally extends MinuteCounts {
  constructor() {
    super(COUNTS);
  }

  /** Adds what another tally has counted. */
  absorb(figures: TallyFigures, nowMs: number): void {
    if (!isReadable(figures)) return;
    this.turn(nowMs);
    // Counts of more than a minute ago are left out of this minute.
    for (let index = 0; index < COUNTS; index++) {
      this.add(index, figures[index]!, figures[COUNTS + index]!);
    }
  }

  /** Returns the counts so far, and starts from zero. */
  release(nowMs: number): TallyFigures {
    const figures = this.figures(nowMs);
    this.clear();
    return figures;
  }
}

/** The sum of figures. */
export function sumFigures(all: Iterable<TallyFigures>): TallyFigures {
  const sum = new Float64Array(2 * COUNTS);
  for (const figures of all) {
    if (!isReadable(figures)) continue;
    for (let i = 0; i < sum.length; i++) sum[i]! += figures[i]!;
  }
  return sum;
}

/** False for figures of a release that counts other types: during a deployment they are left out. */
function isReadable(figures: TallyFigures): boolean {
  return figures.length === 2 * COUNTS;
}

/** Total and last 60 seconds of an index. */
export function countsAt(figures: TallyFigures, index: number): [total: number, perMinute: number] {
  return [figures[index]!, figures[COUNTS + index]!];
}
