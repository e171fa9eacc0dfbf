/**
 * What goes wrong by chance in a run, call by call. The seed says how often each kind of fault happens; most runs have some
 * kinds of them alone, so that a fault is also seen among calls that go well.
 */
import type { Random } from "../kernel/random.ts";
import type { CallFate, CommitFate, Faults, Mortal } from "../platform/faults.ts";
import type { FaultCounts } from "./counts.ts";

/** The highest probability of each kind, for one call, event or message. A run draws its own below that, or has none of the kind. */
const RATES = {
  crash: 1e-3,
  "call lost": 0.02,
  "answer lost": 0.02,
  overload: 0.02,
  "slow network": 0.05,
  "slow disk": 0.05,
  "commit failed": 2e-3,
  "durable, and reported as failed": 2e-3,
  // Others happen between events: see `Disturbances`.
  "partition at a commit": 5e-4,
  "late alarm": 0.3,
  "late turn": 0.2,
  "client gone": 0.01,
  "broken frame": 0.01,
  "close left unanswered": 1,
} as const;
export type ChanceFault = keyof typeof RATES;

/**
 * A step that comes once in a run is hardly ever hit by a rate. So half of the runs draw a lot for each kind of fault and each step
 * when they first come to it. The winners are one in 16: there the fault happens at every second chance, until it has happened twice.
 */
const AIM = { runs: 0.5, share: 1 / 16, probability: 0.5, most: 2 };

/** The share of the calls that a plan aims at to which something happens, and what that is. */
const AIMED_CALLS = 0.15;
const AIMED_FATES = ["lost", "answer lost", "caller ended"] as const;

/** A commit takes so long at most, in ms: of a disk that is slow now, and of one that is not. */
export const COMMIT_MS = { slow: 5000, most: 15 };
/** A turn comes within that, in ms: of an isolate that others keep waiting, and of one that has the processor for itself. */
const TURN_MS = { late: 100, most: 1 };
/** A slow message takes so long at most, in ms: longer than the time that any caller waits. */
export const SLOW_MS = 30_000;
/** The client of an exchange that leaves does so by then, in ms: most answers come earlier, and some listeners stay longer. */
const STAY_MS = 5000;
/** A client that leaves a close unanswered does so for as long, in ms: its Hub may sleep meanwhile. */
const LEFT_MS = { least: 1000, most: 60_000 };

export class SeededFaults implements Faults {
  readonly #random: Random;
  readonly #counts: FaultCounts;
  readonly #rates: Readonly<Record<ChanceFault, number>>;
  readonly #aims: boolean;
  /** workerd makes calls behind their event, and nothing says that Cloudflare always does. */
  readonly hasEarlyCalls: boolean;
  commitMsMost = 0;
  /** How often a fault is still to happen at a step, by kind and step. */
  readonly #aimed = new Map<ChanceFault, Map<string, number>>();
  #hasCeased = false;

  /** Calls at which faults happen often. */
  readonly #aimedCalls: readonly string[];

  /** @param aimedCalls such as `Shard.adopt` */
  constructor(random: Random, counts: FaultCounts, aimedCalls: readonly string[] = []) {
    this.#random = random;
    this.#counts = counts;
    this.#aimedCalls = aimedCalls;
    const rates = Object.entries(RATES).map(([kind, most]) => [
      kind,
      random.chance(0.5) ? random.skewed(most / 30, most) : 0,
    ]);
    this.#rates = Object.fromEntries(rates) as Record<ChanceFault, number>;
    this.#aims = random.chance(AIM.runs);
    this.hasEarlyCalls = random.chance(0.5);
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

  turnMs(kind: string): number {
    return this.#happens("late turn", kind)
      ? this.#random.skewed(TURN_MS.most, TURN_MS.late)
      : this.#random.skewed(TURN_MS.most / 100, TURN_MS.most);
  }

  commitMs(): number {
    const ms = this.#happens("slow disk", "commit")
      ? this.#random.skewed(20, COMMIT_MS.slow)
      : this.#random.skewed(0.2, COMMIT_MS.most);
    this.commitMsMost = Math.max(this.commitMsMost, ms);
    return ms;
  }

  callFate(target: string, method: string): CallFate {
    const at = `${target}.${method}`;
    if (this.#aimedCalls.includes(at) && !this.#hasCeased && this.#random.chance(AIMED_CALLS)) {
      const fate = this.#random.pick(AIMED_FATES);
      this.#counts.add(fate === "lost" ? "call lost" : fate, at);
      return fate;
    }
    if (this.#happens("call lost", at)) return "lost";
    if (this.#happens("answer lost", at)) return "answer lost";
    return this.#happens("overload", at) ? "overloaded" : "delivered";
  }

  commitFate(object: string, step: string): CommitFate {
    const at = `${classOf(object)} ${step}`;
    if (this.#happens("commit failed", at)) return "failed";
    const isReported = this.#happens("durable, and reported as failed", at);
    return isReported ? "durable, and reported as failed" : "durable";
  }

  partsAt(object: string, step: string): boolean {
    return this.#happens("partition at a commit", `${classOf(object)} ${step}`);
  }

  clientStaysMs(): number {
    return this.#happens("client gone", "exchange") ? this.#random.skewed(1, STAY_MS) : Infinity;
  }

  breaksFrame(): boolean {
    return this.#happens("broken frame", "socket");
  }

  leavesCloseMs(): number {
    const isLeft = this.#happens("close left unanswered", "socket");
    return isLeft ? this.#random.between(LEFT_MS.least, LEFT_MS.most) : 0;
  }

  noteGone(what: string): void {
    this.#counts.add("client gone", what);
  }

  alarmLateMs(): number {
    return this.#happens("late alarm", "alarm")
      ? this.#random.skewed(10, 60_000)
      : this.#random.skewed(0.1, 5);
  }

  #happens(kind: ChanceFault, at: string): boolean {
    if (this.#hasCeased) return false;
    const rate = this.#rates[kind];
    const isHit = (this.#aims && this.#isHit(kind, at)) || (rate > 0 && this.#random.chance(rate));
    if (isHit) this.#counts.add(kind, at);
    return isHit;
  }

  /** Whether the run aims at a step, and hits it now. */
  #isHit(kind: ChanceFault, at: string): boolean {
    let ofKind = this.#aimed.get(kind);
    if (ofKind === undefined) this.#aimed.set(kind, (ofKind = new Map()));
    let left = ofKind.get(at);
    if (left === undefined) left = this.#random.chance(AIM.share) ? AIM.most : 0;
    const isHit = left > 0 && this.#random.chance(AIM.probability);
    ofKind.set(at, isHit ? left - 1 : left);
    return isHit;
  }
}

const classOf = (object: string): string => object.slice(0, object.indexOf(" "));

const nameOf = ({ kind, release }: Mortal): string => `${kind} ${release}`;
