/**
 * What a Hub has counted: requests that no shard counts. It tells the Directory once a minute, as it keeps nothing itself:
 * a Hub that sleeps, or is reset, begins to count at 0.
 */
import type { Environment } from "../../base/environment.ts";
import type { HubReport } from "../../base/calls/channel.ts";
import type { HubFigures } from "../../base/calls/hub.ts";
import { presentMs } from "../../base/clock.ts";
import { DataPoints } from "../../base/data-points.ts";
import { withTimeout } from "../../base/in-time.ts";
import { logWarning } from "../../base/log.ts";
import { hubName } from "../../base/names.ts";
import { readSettings } from "../../base/settings.ts";
import { sendReport } from "../../base/send-report.ts";
import { MinuteReporter, type Sums } from "../../engine/minute-report.ts";
import { StoredCounts } from "../../engine/stored-counts.ts";
import { Tally, type TallyFigures } from "../../engine/tally.ts";

/** How long the last counts of a Hub wait for a report that is under way. */
const REPORT_MS_MAX = 2000;

/** The Hub whose counts these are. */
export interface CountedHub {
  /** The object's. */
  readonly name: string;
  readonly waitUntil: (work: Promise<void>) => void;
  figures(): HubFigures;
  /** All that was counted is on its way to the Directory. */
  onReported(): void;
}

export class HubCounts {
  readonly tally = new Tally();
  readonly #env: Environment;
  readonly #hub: CountedHub;
  readonly #points: DataPoints;
  readonly #namespace: string;
  readonly #reporter: MinuteReporter | null;
  /** Since when the tally counts, ms since the epoch. */
  #sinceMs = presentMs();
  /** The reports under way of what is counted now, and the sums before the first of them; null when there are none. */
  #reporting: { readonly base: Sums; readonly answered: Promise<void> } | null = null;

  constructor(env: Environment, hub: CountedHub) {
    this.#env = env;
    this.#hub = hub;
    const { namespace, address } = hubName.parse(hub.name);
    this.#namespace = namespace;
    this.#points = new DataPoints(
      env,
      hub.waitUntil,
      { namespace, kind: "hub", name: `${address.location}/${address.index}` },
      () => hub.figures(),
    );
    const { METRICS, HISTORY } = readSettings(env);
    const isReporting = METRICS === "on" && HISTORY === "on";
    this.#reporter = isReporting ? new MinuteReporter(this.tally, null) : null;
    this.#reporter?.begin(this.#sinceMs, 0);
  }

  get sinceMs(): number {
    return this.#sinceMs;
  }

  /** After each event of a connection. */
  note(): void {
    this.#points.note();
  }

  /** Tells the Directory what was counted, if this minute's report has not been made. */
  report(): void {
    if (this.#reporter === null) return;
    this.tally.turn(presentMs());
    const report = this.#reporter.take();
    if (report === null) return;
    const counts = new StoredCounts(this.tally, null, true).takeAll(presentMs());
    const { name, waitUntil } = this.#hub;
    const sent = sendReport(this.#env, this.#namespace, name, report, counts);
    const before = this.#reporting;
    const answered = Promise.all([sent, before?.answered]).then(() => {
      if (this.#reporting === reporting) this.#reporting = null;
    });
    const reporting = { base: before?.base ?? report.base, answered };
    this.#reporting = reporting;
    waitUntil(answered);
    this.#hub.onReported();
  }

  /** Gives all counts away, and begins at 0. Reports under way arrive first, as calls of two stubs have no order. */
  async release(): Promise<{ figures: TallyFigures; last: HubReport }> {
    await this.#reported();
    this.#points.flush();
    const nowMs = presentMs();
    this.tally.turn(nowMs);
    const last = { sinceMs: this.#sinceMs, report: this.#reporter?.take(true) ?? null };
    const figures = this.tally.release(nowMs);
    this.#hub.onReported();
    // Never the same time again, as the Directory drops what still comes of the counts that were given away.
    this.#sinceMs = Math.max(nowMs, this.#sinceMs + 1);
    this.#reporter?.begin(this.#sinceMs, 0);
    return { figures, last };
  }

  /**
   * Resolves when no report is waited for. The Directory is not kept waiting for one that hangs: the last report has what it said,
   * and the Directory drops it where it comes behind that.
   */
  async #reported(): Promise<void> {
    try {
      while (this.#reporting !== null) await withTimeout(this.#reporting.answered, REPORT_MS_MAX);
    } catch (error) {
      logWarning("report_failed", { object: this.#hub.name, error: String(error) });
      if (this.#reporting !== null) this.#reporter?.repeatFrom(this.#reporting.base);
      this.#reporting = null;
    }
  }
}
