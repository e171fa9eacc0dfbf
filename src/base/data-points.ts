/**
 * Data points about an object for Workers Analytics Engine: one for each few seconds in which something
 * has happened there, if the deployment has bound a data set as `ANALYTICS`; else none, and no cost.
 *
 *     index   namespace
 *     blob    1 namespace, 2 "shard", "hub" or "door", 3 which of them, 4 the server's release
 *     double  1 requests, 2 bytes read, 3 bytes written,
 *             4 reads, 5 writes, 6 checks of limits, 7 requests on semaphores, 8 messages published,
 *             9 other requests, 10 requests refused for want of space, 11 rows written,
 *             12 records, 13 bytes of them, 14 connections, 15 subscriptions
 *
 * A shard writes one more for each limiter that has decided, the 20 busiest and one for all others:
 *
 *     blob    1 namespace, 2 "limit", 3 which shard, 4 the server's release, 5 the limiter, empty for all others
 *     double  1 to 15 are 0, 16 allowed, 17 refused, 18 errors, 19 those of 16 and 17
 *             that callers decided from allowances
 *
 * So sums over doubles need no condition. Doubles 16 to 19 are of the time since the shard's last point.
 *
 * Doubles 1 to 11 are of the time since the object's last point, the rest are of now. A point that is waited for when the
 * object dies is lost.
 */
import { COUNTED_REQUESTS, type RequestFamily } from "../engine/counted-requests.ts";
import { TALLY_READ_BYTES, TALLY_WRITE_BYTES, type TallyFigures } from "../engine/tally.ts";
import type { LimitTotals } from "../engine/limit-figures.ts";
import { variableOf } from "./deployment.ts";
import type { Environment } from "./environment.ts";
import { LimitPoints } from "./limit-points.ts";
import { VERSION } from "./version.ts";

/** From the first event to the point that tells of it. The object stays awake that long, which is billed. */
const DELAY_MS = 5000;

/** What is used of a data set. */
export interface Dataset {
  writeDataPoint(point: {
    readonly indexes: string[];
    readonly blobs: string[];
    readonly doubles: number[];
  }): void;
}

/** Who the points are about. */
export interface Subject {
  readonly namespace: string;
  /** A door is counted by the Directory, as doors live for one request. */
  readonly kind: "shard" | "hub" | "door";
  /** Which of them; empty where there is one. */
  readonly name: string;
}

/** What is so now: counts since the object started, and how things stand. */
export interface Measured {
  readonly tally: TallyFigures;
  /** Of shards, like the next three: requests refused since the start because the shard was full. */
  readonly refusedForSpace?: number;
  readonly rowsWritten?: number;
  readonly records?: number;
  readonly bytes?: number;
  readonly connections?: number;
  readonly subscriptions?: number;
  /** Decisions of limits. */
  readonly limits?: LimitTotals;
}

/** Doubles of points about objects. Those about limiters have theirs behind them. */
const DOUBLES = 15;

/** Doubles 4 to 9, in this order: a dashboard reads them by position, so it never changes. */
const FAMILIES: readonly RequestFamily[] = [
  "read",
  "write",
  "limit",
  "semaphore",
  "publish",
  "other",
];

/** Of one object. Without a data set nothing is measured, and `note` costs a comparison. */
export class DataPoints {
  /** Undefined where the deployment has bound no data set: then nothing is measured, and nothing waits. */
  readonly #dataset: Dataset | undefined;
  readonly #waitUntil: (work: Promise<void>) => void;
  readonly #subject: Subject;
  readonly #measure: () => Measured;
  /** What was counted when the last point was written, or when counting began. */
  #written: readonly number[] = [];
  readonly #limits = new LimitPoints();
  /** A point is waited for: further events before it cost nothing. */
  #isWaiting = false;

  /**
   * @param waitUntil keeps the object awake until the point is written
   * @param measure is called for each point, at most once in `DELAY_MS`
   */
  constructor(
    env: Environment,
    waitUntil: (work: Promise<void>) => void,
    subject: Subject,
    measure: () => Measured,
  ) {
    this.#dataset = variableOf(env, "ANALYTICS") as Dataset | undefined;
    this.#waitUntil = waitUntil;
    this.#subject = subject;
    this.#measure = measure;
  }

  /** What was counted before this instance of the object is in the points of those before it. */
  begin(): void {
    if (this.#dataset === undefined) return;
    const measured = this.#measure();
    this.#written = countsOf(measured);
    if (measured.limits !== undefined) this.#limits.take(measured.limits);
  }

  /** Something has happened: a point tells of it before long. */
  note(): void {
    if (this.#dataset === undefined || this.#isWaiting) return;
    this.#isWaiting = true;
    this.#waitUntil(this.#writeLater());
  }

  /** Writes the point that is waited for, if one is: what it tells of is about to be forgotten. */
  flush(): void {
    if (!this.#isWaiting) return;
    this.#isWaiting = false;
    this.#write();
  }

  /** Waits in the object's memory: an alarm would cost a row. */
  async #writeLater(): Promise<void> {
    await new Promise((resolve) => setTimeout(resolve, DELAY_MS));
    this.flush();
  }

  /** The data set takes points without an answer: nothing is awaited, and a lost one is not noticed. */
  #write(): void {
    const measured = this.#measure();
    const counts = countsOf(measured);
    // What is less than it was has started anew.
    const since = counts.map((count, i) => {
      const written = this.#written[i] ?? 0;
      return count < written ? count : count - written;
    });
    this.#written = counts;
    const { namespace, kind, name } = this.#subject;
    const { records = 0, bytes = 0, connections = 0, subscriptions = 0 } = measured;
    this.#dataset!.writeDataPoint({
      indexes: [namespace],
      blobs: [namespace, kind, name, VERSION],
      doubles: [...since, records, bytes, connections, subscriptions],
    });
    for (const limiter of measured.limits === undefined ? [] : this.#limits.take(measured.limits)) {
      this.#dataset!.writeDataPoint({
        indexes: [namespace],
        blobs: [namespace, "limit", name, VERSION, limiter.name],
        doubles: [...Array.from({ length: DOUBLES }, () => 0), ...limiter.counts],
      });
    }
  }
}

/** Doubles 1 to 11: counts since the object started, which a point turns into differences. */
function countsOf({ tally, refusedForSpace = 0, rowsWritten = 0 }: Measured): number[] {
  const families = FAMILIES.map((family) =>
    COUNTED_REQUESTS.reduce(
      (sum, counted) => (counted.family === family ? sum + tally[counted.index]! : sum),
      0,
    ),
  );
  const requests = families.reduce((sum, count) => sum + count, 0);
  return [
    requests,
    tally[TALLY_READ_BYTES]!,
    tally[TALLY_WRITE_BYTES]!,
    ...families,
    refusedForSpace,
    rowsWritten,
  ];
}
