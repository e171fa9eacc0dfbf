/**
 * What goes wrong by chance in a run, call by call. The seed says how often each kind of fault happens; most runs have some
 * kinds of them alone, so that a fault is also seen among calls that go well.
 */
import type { Random } from "../kernel/random.ts";
import type { CallFate, CommitFate, Faults, Mortal } from "../platform/faults.ts";
import type { FaultCounts } from "./counts.ts";

/** Each with the probability, for one call, event or message, in a run that has many of them. */
const RATES = {
  crash: 1e-3,
  "call lost": 0.02,
  "answer lost": 0.02,
  overload: 0.02,
  "slow network": 0.05,
  "slow disk": 0.05,
  "commit failed": 2e-3,
  "durable, and reported as failed": 2e-3,
  "late alarm": 0.3,
} as const;
export type ChanceFault = keyof typeof RATES;

/** The first time that a step comes in a run, a fault is so much more probable there: steps that are rare are met, too. */
const RARE_BONUS = 30;
const PROBABILITY_MAX = 0.2;

/** A slow message takes so long at most, in ms: longer than the time that any caller waits. */
const SLOW_MS = 30_000;

export class SeededFaults implements Faults {
  readonly #random: Random;
  readonly #counts: FaultCounts;
  readonly #rates: Readonly<Record<ChanceFault, number>>;
  readonly #times = new Map<ChanceFault, Map<string, number>>();
  #hasCeased = false;

  constructor(random: Random, counts: FaultCounts) {
    this.#random = random;
    this.#counts = counts;
    const rates = Object.entries(RATES).map(([kind, most]) => [
      kind,
      random.chance(0.5) ? random.skewed(most / 30, most) : 0,
    ]);
    this.#rates = Object.fromEntries(rates) as Record<ChanceFault, number>;
  }

  meet(caller: Mortal, callee: Mortal): void {
    this.#counts.add("releases meet", `${nameOf(caller)} calls ${nameOf(callee)}`);
  }

  cease(): void {
    this.#hasCeased = true;
  }

  crashesAt(life: Mortal, what: string): boolean {
    return life.kind !== "client" && this.#happens("crash", `${life.kind} ${what}`);
  }

  latencyMs(link: "object" | "client"): number {
    if (this.#happens("slow network", link)) return this.#random.skewed(100, SLOW_MS);
    return this.#random.skewed(0.05, link === "object" ? 5 : 50);
  }

  commitMs(): number {
    return this.#happens("slow disk", "commit")
      ? this.#random.skewed(20, 5000)
      : this.#random.skewed(0.2, 15);
  }

  callFate(target: string, method: string): CallFate {
    const at = `${target}.${method}`;
    if (this.#happens("call lost", at)) return "lost";
    if (this.#happens("answer lost", at)) return "answer lost";
    return this.#happens("overload", at) ? "overloaded" : "delivered";
  }

  commitFate(object: string): CommitFate {
    const className = object.slice(0, object.indexOf(" "));
    if (this.#happens("commit failed", className)) return "failed";
    const isReported = this.#happens("durable, and reported as failed", className);
    return isReported ? "durable, and reported as failed" : "durable";
  }

  alarmLateMs(): number {
    return this.#happens("late alarm", "alarm")
      ? this.#random.skewed(10, 60_000)
      : this.#random.skewed(0.1, 5);
  }

  #happens(kind: ChanceFault, at: string): boolean {
    const rate = this.#rates[kind];
    if (this.#hasCeased || rate === 0) return false;
    const times = this.#timesAt(kind, at);
    if (!this.#random.chance(Math.min(PROBABILITY_MAX, rate * (1 + RARE_BONUS / times))))
      return false;
    this.#counts.add(kind, at);
    return true;
  }

  /** How often a fault could have happened at a step so far, this time included. */
  #timesAt(kind: ChanceFault, at: string): number {
    let times = this.#times.get(kind);
    if (times === undefined) this.#times.set(kind, (times = new Map()));
    const now = (times.get(at) ?? 0) + 1;
    times.set(at, now);
    return now;
  }
}

const nameOf = ({ kind, release }: Mortal): string => `${kind} ${release}`;
