/** An isolate: the production code with modules of its own, on a machine, for the objects or the doors that live in it. */
import { globalsOf } from "./globals.ts";
import type { Exports, Program } from "./program.ts";
import type { Life } from "./life.ts";
import type { Sizes } from "./sizes.ts";
import { RunningLife } from "./running-life.ts";
import type { Machine, Site } from "./site.ts";

export class Isolate extends RunningLife {
  readonly exports: Exports;
  /** Those of its release that differ from the run's. */
  readonly variables: Readonly<Record<string, string>>;
  /** Those that it serves now. */
  readonly requests = new Set<RunningLife>();
  requestsBegun = 0;
  /** When the last turn comes that was asked for so far: turns come in the order in which they were asked for. */
  #turnAtMs = 0;

  constructor(
    site: Site,
    machine: Machine,
    options: {
      readonly name: string;
      readonly release: string;
      readonly program: Program;
      readonly variables: Readonly<Record<string, string>>;
      readonly sizes: Partial<Sizes>;
      readonly onLog: (life: Life, text: string) => void;
    },
  ) {
    super(site, machine, "door", options.name, options.release);
    this.variables = options.variables;
    const globals = globalsOf({
      // Globals are the isolate's; what is called belongs to whose event it is.
      life: () => site.running ?? this,
      network: site.network,
      random: site.random.fork(this.name),
      kind: "worker",
      turnMs: () => this.#turnMs((site.running ?? this).kind),
      onLog: (level, life, text) => {
        site.trace.noteLog(`console.${level}`, life.name, text);
        options.onLog(life, text);
      },
    });
    this.code = options.program({ ...globals, $sizes: options.sizes });
    this.exports = this.code.exports;
  }

  #turnMs(kind: string): number {
    const { time, faults } = this.site;
    this.#turnAtMs = Math.max(this.#turnAtMs, time.nowMs + faults.turnMs(kind));
    return this.#turnAtMs - time.nowMs;
  }

  override get isIdle(): boolean {
    return super.isIdle && this.requests.size === 0;
  }

  override get busyWith(): string {
    const requests = [...this.requests].map((request) => `${request.name}: ${request.busyWith}`);
    return [super.busyWith, ...requests].join("; ");
  }
}
