/**
 * What a Hub has counted: requests that no shard counts. It tells the Directory once a minute, as it keeps nothing itself:
 * a Hub that sleeps, or is reset, begins to count at 0.
 */
import type { Environment } from "../../base/environment.ts";
import type { HubReport } from "../../base/calls/channel.ts";
import type { HubFigures } from "../../base/calls/hub.ts";
import { presentMs } from "../../base/clock.ts";
import { DataPoints } from "../../base/data-points.ts";
import { hubName } from "../../base/names.ts";
import { readSettings } from "../../base/settings.ts";
import { sendReport } from "../../base/send-report.ts";
import { MinuteReporter } from "../../engine/minute-report.ts";
import { StoredCounts } from "../../engine/stored-counts.ts";
import { Tally, type TallyFigures } from "../../engine/tally.ts";

/** The Hub whose counts these are. */
export interface CountedHub {
  /** The object's. */
  readonly name: string;
  readonly waitUntil: (work: Promise<void>) => void;
  figures(): HubFigures;
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
    waitUntil(sendReport(this.#env, this.#namespace, name, report, counts).then(() => {}));
  }

  /** Gives all counts away, and begins at 0. */
  release(): { figures: TallyFigures; last: HubReport } {
    this.#points.flush();
    const nowMs = presentMs();
    this.tally.turn(nowMs);
    const last = { sinceMs: this.#sinceMs, report: this.#reporter?.take(true) ?? null };
    const figures = this.tally.release(nowMs);
    this.#sinceMs = nowMs;
    this.#reporter?.begin(nowMs, 0);
    return { figures, last };
  }
}
