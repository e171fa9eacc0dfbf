/** What a shard says of itself in figures: its size, and sums of its records and requests. */
import { presentMs } from "../../base/clock.ts";
import type { AlarmClock } from "../../base/alarm-clock.ts";
import type {
  ShardFigures,
  ShardLimitFigures,
  ShardReport,
  ShardSummary,
  YrmcdsFigures,
} from "../../base/calls/shard.ts";
import type { Engine } from "../../engine/engine.ts";
import { withoutNames } from "../../engine/limit-figures.ts";
import type { Journal } from "./journal.ts";
import type { ShardCounts } from "./shard-counts.ts";
import type { ShardSplits } from "./shard-splits.ts";

/** The shard. */
interface FiguredShard {
  readonly engine: Engine;
  readonly journal: Journal;
  readonly counts: ShardCounts;
  readonly alarm: AlarmClock;
  readonly splits: ShardSplits;
  /** `SHARD_BYTES_MAX`. */
  readonly bytesMax: number;
}

/** Of one instance of a shard. */
export class Figures {
  readonly #shard: FiguredShard;
  readonly #startedAtMs = presentMs();

  constructor(shard: FiguredShard) {
    this.#shard = shard;
  }

  /** The size of the shard; of memory alone, so it needs no flush. */
  size(): ShardFigures {
    const { engine, journal, alarm, bytesMax } = this.#shard;
    const { rows, bytes, rowsWritten } = journal;
    return {
      ...engine.figures,
      bytesMax,
      journalRows: rows,
      journalBytes: bytes,
      rowsWritten: rowsWritten + alarm.timesSet,
      clockLagMs: engine.clockLagMs,
    };
  }

  /**
   * Sums, once what has expired is collected.
   *
   * @param flush resolves when all that was applied is durable
   * @param isKept counts are written down before they are told
   * @param isToReport the shard reports them to the Directory, too
   */
  async summary(
    flush: () => Promise<void>,
    isKept: boolean = false,
    isToReport: boolean = false,
  ): Promise<ShardSummary> {
    const { engine, counts, journal, alarm } = this.#shard;
    const { totals } = engine;
    const semaphores = engine.semaphores.figures(presentMs());
    await flush();
    if (isKept) {
      counts.store();
      // No commit may come that would cut it.
      if (journal.isCutDue) await alarm.setFor(presentMs());
    }
    if (isToReport) counts.reportNow();
    const figures = this.size();
    const counted = counts.summary();
    const { state } = this.#shard.splits;
    return { totals, startedAtMs: this.#startedAtMs, figures, semaphores, ...counted, state };
  }

  /** The same as it is now, for the Directory; null while the shard has no range of its own. */
  report(): ShardReport | null {
    const { engine, counts, splits } = this.#shard;
    const { state } = splits;
    if (state === null || !state.isActive) return null;
    const atMs = presentMs();
    const summary = {
      totals: engine.totals,
      startedAtMs: this.#startedAtMs,
      figures: this.size(),
      semaphores: engine.semaphores.figures(atMs),
      tally: engine.tallyFigures(atMs),
      countedSinceMs: counts.sinceMs,
      limits: withoutNames(engine.limitFigures.counts(engine.nowMs)),
      state,
    };
    return { atMs, summary };
  }

  limits(): ShardLimitFigures {
    return this.#shard.counts.limitFigures();
  }

  counters(): YrmcdsFigures {
    const { engine } = this.#shard;
    return {
      semaphores: engine.semaphores.figures(presentMs()),
      requests: engine.semaphoreRequests.counts,
    };
  }
}
