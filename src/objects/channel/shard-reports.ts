/**
 * Shard reports: what the shards of a namespace have said of themselves last, while they were awake.
 *
 * Where there are many shards, overview and metrics read it here: asking each of them would wake all. Nothing is kept before the
 * first of these reads. From then on reports are in rows of 64 shards each, written a few seconds after a report.
 */
import { logWarning } from "../../base/log.ts";
import type { ShardReport, ShardSummary } from "../../base/calls/shard.ts";
import { LIMIT_COUNTS } from "../../engine/limit-figures.ts";
import {
  MAP_RANGES_MAX,
  SHARD_REPORTS_GATHER_MS,
  SHARD_REPORTS_PER_ROW,
} from "../../engine/sizes.ts";

const VERSION = 1;
const keyOf = (row: number): string => `shards/${row}`;

/** What is stored in a row. A later release may add fields. */
interface Stored {
  readonly version: number;
  readonly reports: readonly ShardReport[];
}

/** What the Directory's object gives: its storage, and a way to go on after an answer. */
type State = Pick<DurableObjectState, "storage" | "waitUntil">;

export class ShardReports {
  readonly #state: State;
  readonly #namespace: string;
  readonly #isKept: boolean;
  /** In the order in which the shards were first heard of, which decides what row a report is in. */
  readonly #reports: ShardReport[] = [];
  /** Places in it, by where the ranges of the shards begin. */
  readonly #places = new Map<number, number>();
  /** Rows that differ from what is stored. */
  readonly #changed = new Set<number>();
  #isLoaded = false;
  /** A door has asked for reports, and will again. */
  #isRead = false;
  #isGathering = false;

  /** @param isKept `HISTORY` and `METRICS`: else no shard reports, and what is stored is old */
  constructor(state: State, namespace: string, isKept: boolean) {
    this.#state = state;
    this.#namespace = namespace;
    this.#isKept = isKept;
  }

  /**
   * A shard has reported.
   *
   * @returns whether reports are read
   */
  note(report: ShardReport): boolean {
    this.load();
    if (!this.#isRead) return false;
    this.#add(report);
    if (!this.#isGathering) {
      this.#isGathering = true;
      this.#state.waitUntil(this.#writeLater());
    }
    return true;
  }

  /** @param isKept what has changed is stored first */
  list(isKept: boolean): ShardReport[] {
    if (!this.#isKept) return [];
    this.load();
    this.#isRead = true;
    if (isKept) this.#write();
    return this.#reports;
  }

  /** Reads the rows, with the first need of them. */
  load(): void {
    if (this.#isLoaded) return;
    this.#isLoaded = true;
    for (let row = 0; ; row++) {
      const stored = this.#state.storage.kv.get<Stored>(keyOf(row));
      // What a later release has stored in another way is not read: figures are no reason to fail.
      if (stored?.version !== VERSION) return;
      this.#isRead = true;
      for (const report of stored.reports) this.#add(report);
      this.#changed.delete(row);
    }
  }

  /** Reports are in the storage. */
  get isStored(): boolean {
    return this.#state.storage.kv.get(keyOf(0)) !== undefined;
  }

  #add(report: ShardReport): void {
    const { from } = report.summary.state.range;
    const place = this.#places.get(from) ?? this.#reports.length;
    if (place === MAP_RANGES_MAX) return;
    const before = this.#reports[place];
    this.#places.set(from, place);
    this.#reports[place] = before === undefined ? report : withoutLoss(before, report);
    this.#noteChanged(place);
  }

  #noteChanged(place: number): void {
    this.#changed.add(Math.floor(place / SHARD_REPORTS_PER_ROW));
  }

  async #writeLater(): Promise<void> {
    await scheduler.wait(SHARD_REPORTS_GATHER_MS);
    this.#isGathering = false;
    this.#write();
  }

  /** A failure costs figures alone: the next row has them. */
  #write(): void {
    try {
      for (const row of this.#changed) {
        const at = row * SHARD_REPORTS_PER_ROW;
        const reports = this.#reports.slice(at, at + SHARD_REPORTS_PER_ROW);
        this.#state.storage.kv.put(keyOf(row), { version: VERSION, reports });
        this.#changed.delete(row);
      }
    } catch (error) {
      logWarning("history_failed", { namespace: this.#namespace, error: String(error) });
    }
  }
}

/** A shard that lost its last counts says less than before: Prometheus would take that for a counter that began at 0. */
function withoutLoss(before: ShardReport, report: ShardReport): ShardReport {
  const { summary } = report;
  if (summary.countedSinceMs !== before.summary.countedSinceMs) return report;
  const tally = highestTotals(before.summary.tally, summary.tally, summary.tally.length / 2);
  return { ...report, summary: { ...summary, tally, ...limitsOf(before.summary, summary) } };
}

function limitsOf(before: ShardSummary, { limits }: ShardSummary): Pick<ShardSummary, "limits"> {
  if (limits === undefined || before.limits === undefined) return {};
  const counts = highestTotals(before.limits.counts, limits.counts, LIMIT_COUNTS);
  return { limits: { ...limits, counts } };
}

/** @param length counts in a row: rows of totals and of the last minute alternate */
function highestTotals(
  before: Float64Array,
  counts: Float64Array,
  length: number,
): Float64Array<ArrayBuffer> {
  return Float64Array.from(counts, (count, i) => {
    const isTotal = Math.floor(i / length) % 2 === 0;
    return isTotal ? Math.max(count, before[i] ?? 0) : count;
  });
}
