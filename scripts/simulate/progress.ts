/** How far a campaign is: a bar on a terminal, and otherwise a line now and then, for a log. */
import { SingleBar } from "cli-progress";
import type { CampaignTotals } from "../../test/simulator/campaign/campaign.ts";

/** Runs from one line of a log to the next. */
const RUNS_PER_LINE = 500;
const HOUR_MS = 3_600_000;
const FIGURES =
  "{rate} a second, {hours} simulated hours, {operations} operations, {faults} faults, {violations} runs with violations";
/** Goes to the start of a line of the terminal, and clears it. */
const CLEAR_LINE = "\r\u001b[K";

export class Progress {
  readonly #seeds: number;
  readonly #beganMs = Date.now();
  /** Draws nothing where the output is not a terminal. */
  readonly #bar = new SingleBar({
    format: `[{bar}] {value}/{total} runs, ${FIGURES}`,
    hideCursor: true,
  });

  constructor(seeds: number) {
    this.#seeds = seeds;
    this.#bar.start(seeds, 0, { rate: 0, hours: 0, operations: 0, faults: 0, violations: 0 });
  }

  /** A run has ended. */
  update(totals: CampaignTotals): void {
    const { runs } = totals;
    if (process.stderr.isTTY) this.#bar.update(runs, this.#figuresOf(totals));
    else if (runs % RUNS_PER_LINE === 0) this.print(this.#lineOf(totals));
  }

  /** Prints a line above the bar. */
  print(line: string): void {
    process.stderr.write(process.stderr.isTTY ? `${CLEAR_LINE}${line}\n` : `${line}\n`);
  }

  stop(): void {
    this.#bar.stop();
  }

  get tookMs(): number {
    return Date.now() - this.#beganMs;
  }

  #figuresOf(totals: CampaignTotals): Record<string, string | number> {
    return {
      rate: (totals.runs / Math.max(1, this.tookMs / 1000)).toFixed(1),
      hours: (totals.simulatedMs / HOUR_MS).toFixed(1),
      operations: totals.operations,
      faults: [...totals.faults.values()].reduce((sum, count) => sum + count, 0),
      violations: totals.failed.length,
    };
  }

  #lineOf(totals: CampaignTotals): string {
    const figures = this.#figuresOf(totals);
    const text = FIGURES.replaceAll(/\{(\w+)\}/g, (_, name: string) => String(figures[name]));
    return `${totals.runs}/${this.#seeds} runs, ${text}`;
  }
}
