/**
 * What a shard has counted, and where it goes: to its own journal, once a minute to the Directory, and to Analytics Engine
 * where a data set is bound.
 */
import { presentMs } from "../../base/clock.ts";
import type { Environment } from "../../base/environment.ts";
import { DataPoints } from "../../base/data-points.ts";
import { logWarning } from "../../base/log.ts";
import { shardName } from "../../base/names.ts";
import { readSettings } from "../../base/settings.ts";
import { sendReport } from "../../base/send-report.ts";
import { hasDirectory } from "../../base/stubs.ts";
import type {
  ShardFigures,
  ShardLimitFigures,
  ShardReport,
  ShardSummary,
} from "../../base/calls/shard.ts";
import type { Timers } from "../../base/timers.ts";
import type { Engine } from "../../engine/engine.ts";
import { SHARD_REST_MS } from "../../engine/sizes.ts";
import type { MinuteReport, MinuteReporter } from "../../engine/minute-report.ts";
import type { TallyFigures } from "../../engine/tally.ts";
import type { Journal } from "./journal.ts";

/** How often a shard looks whether it is at rest while it waits for that. */
const REST_STEPS = 5;

/** The shard whose counts these are. */
export interface CountedShard extends Timers {
  /** The object's. */
  readonly name: string;
  readonly engine: Engine;
  readonly journal: Journal;
  figures(): ShardFigures;
  /** What goes to the Directory beside counts; null for a shard that has no range yet. */
  report(): ShardReport | null;
}

export class ShardCounts {
  readonly #shard: CountedShard;
  readonly #env: Environment;
  readonly #namespace: string;
  readonly #points: DataPoints;
  readonly #reporter: MinuteReporter | null;
  /** What this shard reports is read. */
  #isRead = false;
  #calls = 0;
  #isWaitingForRest = false;

  constructor(env: Environment, shard: CountedShard) {
    this.#env = env;
    this.#shard = shard;
    const { namespace } = shardName.parse(shard.name);
    this.#namespace = namespace;
    const label = shard.name.slice(namespace.length + 1);
    const isReporting = readSettings(env).HISTORY === "on" && hasDirectory(env);
    this.#reporter = isReporting ? shard.engine.newReporter() : null;
    this.#points = new DataPoints(
      env,
      (work) => shard.waitUntil(work),
      { namespace, kind: "shard", name: label },
      () => ({
        tally: shard.engine.tallyFigures(presentMs()),
        limits: shard.engine.limitFigures.snapshot(),
        ...shard.figures(),
      }),
    );
  }

  /** Once what rows have was restored. */
  begin(): void {
    const { storedCounts } = this.#shard.engine;
    storedCounts.begin(presentMs());
    this.#reporter?.begin(storedCounts.sinceMs!, storedCounts.takenMs);
    this.#points.begin();
  }

  /** After each batch, which has turned the tally to its minute. */
  note(): void {
    this.#points.note();
    this.#report();
    this.#calls++;
    if (this.#isRead && !this.#isWaitingForRest) this.#shard.waitUntil(this.#reportAtRest());
  }

  /** Requests by type and bytes, since `sinceMs` and in the last minute. */
  figures(): TallyFigures {
    const figures = this.#shard.engine.tallyFigures(presentMs());
    // What a shard counted before it slept is reported with the first look at it.
    this.#report();
    return figures;
  }

  /** What a summary says of counts. */
  summary(): Pick<ShardSummary, "tally" | "countedSinceMs" | "limits"> {
    const { limitFigures, nowMs } = this.#shard.engine;
    const limits = limitFigures.counts(nowMs);
    return { tally: this.figures(), countedSinceMs: this.sinceMs, limits };
  }

  /** Decisions of limits since `sinceMs`, and the keys that come and are refused most often. */
  limitFigures(): ShardLimitFigures {
    const { limitFigures, nowMs } = this.#shard.engine;
    return { counts: limitFigures.counts(nowMs), ...limitFigures.keys(nowMs) };
  }

  /** Since when counts are kept, ms since the epoch. */
  get sinceMs(): number {
    return this.#shard.engine.storedCounts.sinceMs!;
  }

  /** Before the next minute: something about the shard has changed, such as its range, or its report is missed. */
  reportNow(): void {
    // The reporter needs a tally that is turned to the present.
    this.#shard.engine.tallyFigures(presentMs());
    this.#report(true);
  }

  /** @param isDue there is a report even if this minute had one, or nothing was counted */
  #report(isDue: boolean = false): void {
    if (this.#reporter === null) return;
    const report = isDue ? this.#reporter.takeAnyway() : this.#reporter.take();
    if (report === null) return;
    this.#shard.waitUntil(this.#send(report));
  }

  async #send(report: MinuteReport): Promise<void> {
    const { name } = this.#shard;
    const said = this.#shard.report();
    this.#isRead = await sendReport(this.#env, this.#namespace, name, report, null, said);
  }

  /** Without this the last calls before the shard sleeps would be reported with the next one, which may never come. */
  async #reportAtRest(): Promise<void> {
    this.#isWaitingForRest = true;
    for (let quiet = 0; quiet < REST_STEPS; quiet++) {
      const calls = this.#calls;
      await this.#shard.wait(SHARD_REST_MS / REST_STEPS);
      if (calls !== this.#calls) quiet = -1;
    }
    this.#isWaitingForRest = false;
    this.reportNow();
  }

  /**
   * Writes the counts that no row has, in a row of their own. The shard goes on where that fails, as a full disk serves
   * reads: no caller was promised that counts survive, as it was for records.
   */
  store(): void {
    try {
      this.#shard.journal.storeCounts();
    } catch (error) {
      this.#shard.engine.storedCounts.noteLost();
      logWarning("counts_unstored", { shard: this.#shard.name, error: String(error) });
    }
  }
}
