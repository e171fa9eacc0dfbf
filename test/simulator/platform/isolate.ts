/** An isolate: the production code with modules of its own, on a machine, for the objects or the doors that live in it. */
import { globalsOf } from "./globals.ts";
import type { Life } from "./life.ts";
import type { Bundle, Exports } from "./realm.ts";
import { RunningLife } from "./running-life.ts";
import type { Machine, Site } from "./site.ts";

/** What production code extends. */
class Instance {
  readonly ctx: unknown;
  readonly env: unknown;

  constructor(ctx: unknown, env: unknown) {
    this.ctx = ctx;
    this.env = env;
  }
}

export class Isolate extends RunningLife {
  readonly exports: Exports;
  /** Of another release, or of the code of today. */
  readonly release: string;

  constructor(
    site: Site,
    machine: Machine,
    options: { readonly name: string; readonly release: string; readonly bundle: Bundle },
  ) {
    super(site, machine, "door", options.name);
    this.release = options.release;
    this.exports = options.bundle(globalsOf(runningLife(site, this), site.random.fork(this.name)), {
      "cloudflare:workers": {
        DurableObject: Instance,
        WorkerEntrypoint: Instance,
        exports: {},
        env: {},
      },
    });
  }
}

/** Globals are the isolate's, and what is called belongs to whose event it is. */
function runningLife(site: Site, isolate: Isolate): Life {
  const life = (): Life => site.running ?? isolate;
  return {
    get name() {
      return life().name;
    },
    get isOver() {
      return life().isOver;
    },
    get clockMs() {
      return life().clockMs;
    },
    call: (what) => life().call(what),
    later: (delayMs, what, event) => life().later(delayMs, what, event),
    settled: async (delayMs, what, settle) => await life().settled(delayMs, what, settle),
    whenDurable: (send) => life().whenDurable(send),
    break: (reason) => life().break(reason),
  };
}
