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
import type { ShardFigures, ShardLimitFigures, ShardSummary } from "../../base/calls/shard.ts";
import type { Engine } from "../../engine/engine.ts";
import type { MinuteReporter } from "../../engine/minute-report.ts";
import type { TallyFigures } from "../../engine/tally.ts";
import type { Journal } from "./journal.ts";

/** The shard whose counts these are. */
export interface CountedShard {
  /** The object's. */
  readonly name: string;
  readonly engine: Engine;
  readonly journal: Journal;
  readonly waitUntil: (work: Promise<void>) => void;
  figures(): ShardFigures;
}

export class ShardCounts {
  readonly #shard: CountedShard;
  readonly #env: Environment;
  readonly #namespace: string;
  readonly #points: DataPoints;
  readonly #reporter: MinuteReporter | null;

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
      shard.waitUntil,
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

  #report(): void {
    const report = this.#reporter?.take() ?? null;
    if (report === null) return;
    const { name, waitUntil } = this.#shard;
    waitUntil(sendReport(this.#env, this.#namespace, name, report));
  }

  /**
   * Writes the counts that no row has, in a row of their own. The shard goes on where that fails, as a full disk serves
   * reads: counts are not records, and nobody was promised them.
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
