/** What all parts of a run share: time, chance, the trace, and whose event it is. */
import type { Random } from "../kernel/random.ts";
import type { Trace } from "../kernel/trace.ts";
import type { VirtualTime } from "../kernel/virtual-time.ts";
import type { Faults } from "./faults.ts";
import type { Network } from "./net/network.ts";
import type { RunningLife } from "./running-life.ts";

export interface Site {
  readonly time: VirtualTime;
  readonly trace: Trace;
  readonly random: Random;
  readonly faults: Faults;
  readonly network: Network;
  /** Whose event happens now; null between events, and in those of no life. */
  running: RunningLife | null;
  /** The platform was given an error that code has thrown, and goes on. */
  readonly onError: (life: RunningLife, what: string, error: unknown) => void;
}

/** A machine has a clock, which may be wrong. */
export class Machine {
  readonly name: string;
  /** How far its clock is ahead, in ms. */
  offsetMs = 0;
  readonly #time: VirtualTime;

  constructor(time: VirtualTime, name: string) {
    this.#time = time;
    this.name = name;
  }

  get clockMs(): number {
    return Math.floor(this.#time.nowMs + this.offsetMs);
  }
}
