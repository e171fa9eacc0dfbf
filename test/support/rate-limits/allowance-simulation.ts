/**
 * A shard and isolates that draw allowances from it, in simulated time: messages that are late, lost or come twice, isolates
 * that die, a shard that forgets, a state that is removed. What was spent is compared with bounds that are written down here
 * from the promise of each strategy, not from its code.
 */
import { ChargeLedger, type ClosedCharge } from "../../../src/engine/charge-ledger.ts";
import { createLimiter } from "../../../src/engine/ratelimit/limiter.ts";
import type {
  BucketConfiguration,
  QuotaConfiguration,
  RateLimitConfiguration,
  SlidingWindowConfiguration,
} from "../../../src/wire/ratelimit/configuration.ts";

const KEY = "api:ada";
const START_NS = 1_761_884_055_342_794_596n;

/** Faults that are planted to see that the bounds notice them. */
export type Fault =
  | "returnedTwice"
  | "keptOverReset"
  | "spentAfterEnd"
  | "notCut"
  | "anyWindow"
  | "returnedAfterSpent";

/** Units that were charged at one moment, and how many of them were spent. */
interface Charge {
  readonly atNs: bigint;
  /** Counts resets of the key: what is charged before one says nothing of what is charged after. */
  readonly era: number;
  /** Of fixed windows, by quota: the start of the window that it was charged to. */
  readonly starts: ReadonlyMap<string, bigint>;
  spent: number;
  lastSpentNs: bigint;
}

interface Held {
  readonly number: number;
  readonly charge: Charge;
  readonly endNs: bigint;
  left: number;
}

/** How often isolates draw, spend, give back and ask exactly, the shard restarts, the key is reset, an isolate dies. */
type Weights = readonly number[];
const PHASES: readonly Weights[] = [
  [30, 40, 15, 10, 2, 1, 2],
  [50, 0, 50, 0, 0, 0, 0],
  [0, 100, 0, 0, 0, 0, 0],
  [30, 10, 30, 30, 0, 3, 0],
  [0, 10, 30, 60, 0, 0, 0],
];

export class AllowanceSimulation {
  readonly charges: Charge[] = [];
  readonly #configuration: RateLimitConfiguration;
  readonly #random: () => number;
  readonly #fault: Fault | null;
  readonly #limiter;
  #ledger: ChargeLedger;
  #stored: string | null = null;
  /** The last state that was noted in the ledger. */
  #noted: string | null = null;
  #nowNs = START_NS;
  #era = 0;
  /** By isolate. */
  readonly #held: Held[][] = [[], [], [], []];
  /** Returns on their way. */
  #messages: { readonly atNs: bigint; readonly number: number; readonly units: number }[] = [];
  /** What a fault gives back once more. */
  readonly #closed: ClosedCharge[] = [];

  constructor(configuration: RateLimitConfiguration, random: () => number, fault: Fault | null) {
    this.#configuration = configuration;
    this.#random = random;
    this.#fault = fault;
    this.#limiter = createLimiter(configuration);
    this.#ledger = new ChargeLedger(this.#below(1_000_000));
  }

  /**
   * Phases in which the isolates hoard, spend, or do anything, at a pace of its own each.
   *
   * @param lifeNs about the life of an allowance
   */
  run(phases: number, lifeNs: number): void {
    for (let i = 0; i < phases; i++) {
      const weights = PHASES[this.#below(PHASES.length)]!;
      const stepNs = lifeNs * [0.02, 0.2, 2][this.#below(3)]!;
      for (let step = 0; step < 40; step++) {
        this.#nowNs += BigInt(this.#below(stepNs));
        this.#deliver();
        this.#act(weights, lifeNs);
      }
    }
  }

  #act(weights: Weights, lifeNs: number): void {
    let choice = this.#random() * weights.reduce((sum, weight) => sum + weight, 0);
    const index = weights.findIndex((weight) => (choice -= weight) < 0);
    switch (index) {
      case 0:
        return this.#draw(weights[1] === 0 ? 0 : this.#below(3));
      case 1:
        return this.#spend();
      case 2:
        return this.#giveBack(lifeNs);
      case 3:
        return this.#limit();
      case 4:
        return this.#restart();
      case 5:
        return this.#reset();
      default:
        this.#held[this.#below(4)] = [];
    }
  }

  #below(end: number): number {
    return Math.floor(this.#random() * end);
  }

  /** What the ledger is told to be stored. */
  get #shown(): string | null {
    return this.#fault === "keptOverReset" ? this.#noted : this.#stored;
  }

  #cut(): void {
    const limiter = this.#fault === "notCut" ? { missing: () => Infinity } : this.#limiter;
    this.#ledger.cut(KEY, this.#shown, limiter, this.#nowNs);
  }

  #draw(cost: number): void {
    this.#cut();
    const ask = { cost, wanted: this.#below(60) };
    const drawn = this.#limiter.draw(this.#stored, this.#nowNs, ask);
    if (drawn.units === 0) return;
    this.#stored = drawn.decision.state!;
    this.#noteState();
    const { units, lifeNs } = drawn;
    const number = this.#ledger.nextNumber();
    const open = {
      id: number,
      units,
      charged: this.#stored,
      endNs: this.#nowNs + 2n * lifeNs,
    };
    this.#ledger.open(KEY, this.#stored, open, this.#nowNs);
    const charge = this.#charge();
    this.#note(charge, cost);
    // The reply may be lost: then its units are, too.
    if (this.#below(20) === 0) return;
    const endNs = this.#nowNs + (this.#fault === "spentAfterEnd" ? 20n : 1n) * lifeNs;
    this.#held[this.#below(4)]!.push({ number, charge, endNs, left: units - cost });
  }

  #spend(): void {
    const held = this.#held[this.#below(4)]!;
    const allowance = held[this.#below(held.length)];
    if (allowance === undefined || allowance.left === 0 || allowance.endNs <= this.#nowNs) return;
    const units = 1 + this.#below(allowance.left);
    allowance.left -= units;
    this.#note(allowance.charge, units);
  }

  /** The isolate forgets what it gives back when it sends the message. */
  #giveBack(lifeNs: number): void {
    const held = this.#held[this.#below(4)]!;
    const [allowance] = held.splice(this.#below(held.length), 1);
    if (allowance === undefined) return;
    const { number, left } = allowance;
    const spent = this.#fault === "returnedAfterSpent" ? allowance.charge.spent : 0;
    const send = (): void => {
      const atNs = this.#nowNs + BigInt(this.#below(lifeNs * (this.#below(5) === 0 ? 3 : 0.3)));
      this.#messages.push({ atNs, number, units: left + spent });
    };
    if (this.#below(10) > 0) send();
    if (this.#below(5) === 0) send();
  }

  #deliver(): void {
    const due = this.#messages.filter(({ atNs }) => atNs <= this.#nowNs);
    this.#messages = this.#messages.filter(({ atNs }) => atNs > this.#nowNs);
    for (const { number, units } of due) this.#close(number, units);
  }

  #close(number: number, units: number): void {
    this.#cut();
    const closed = this.#ledger.close(KEY, this.#shown, { id: number, units }, this.#nowNs);
    if (closed !== null) this.#closed.push(closed);
    const again = this.#fault === "returnedTwice" && closed === null ? this.#closed.at(-1) : null;
    const returned = closed ?? again ?? null;
    if (returned === null || this.#stored === null) return;
    const charged = this.#fault === "anyWindow" ? this.#anyCharged() : returned.charged;
    const given = this.#limiter.giveBack(this.#stored, this.#nowNs, { ...returned, charged });
    if (given === null) return;
    this.#stored = given.state;
    this.#noteState();
  }

  /** As if a return did not say which window it was charged to. */
  #anyCharged(): string {
    const drawn = this.#limiter.draw(this.#stored, this.#nowNs, { cost: 0, wanted: 1 });
    return drawn.decision.state ?? this.#limiter.limit(null, this.#nowNs).state!;
  }

  #limit(): void {
    const cost = 1 + this.#below(4);
    this.#cut();
    const decision = this.#limiter.limit(this.#stored, this.#nowNs, cost);
    if (decision.state === null) return;
    this.#stored = decision.state;
    this.#noteState();
    this.#note(this.#charge(), cost);
  }

  #restart(): void {
    this.#ledger = new ChargeLedger(this.#below(1_000_000));
  }

  #reset(): void {
    this.#stored = null;
    this.#era++;
  }

  #noteState(): void {
    this.#noted = this.#stored;
    this.#ledger.noteState(KEY, this.#stored!);
  }

  #charge(): Charge {
    const charge: Charge = {
      atNs: this.#nowNs,
      era: this.#era,
      starts: this.#starts(),
      spent: 0,
      lastSpentNs: this.#nowNs,
    };
    this.charges.push(charge);
    return charge;
  }

  #note(charge: Charge, units: number): void {
    charge.spent += units;
    charge.lastSpentNs = this.#nowNs;
  }

  /** Read from the stored text: `23|N|name|count|start|…`, within a composite before the `$`. */
  #starts(): ReadonlyMap<string, bigint> {
    const text = /(?:^|\|)23\|\d\|([^$]*)/.exec(this.#stored!)?.[1];
    const fields = text?.split("|") ?? [];
    const starts = new Map<string, bigint>();
    for (let i = 0; i + 2 < fields.length; i += 3) starts.set(fields[i]!, BigInt(fields[i + 2]!));
    return starts;
  }

  /** What broke the promise; null when all is well. */
  violation(): string | null {
    const { strategy } = this.#configuration;
    switch (strategy) {
      case "fixed_window":
        return this.#windowViolation(this.#configuration.quotas);
      case "sliding_window":
        return this.#slidingViolation(this.#configuration);
      case "composite":
        return (
          this.#windowViolation(this.#configuration.primary.quotas) ??
          this.#bucketViolation(this.#configuration.secondary)
        );
      default:
        return this.#bucketViolation(this.#configuration);
    }
  }

  /** Charges of one era, which were spent. */
  #eras(): Charge[][] {
    return Array.from({ length: this.#era + 1 }, (_, era) =>
      this.charges.filter((charge) => charge.era === era && charge.spent > 0),
    );
  }

  /** In each window at most the limit, nothing spent after its end, and no window before the last one is over. */
  #windowViolation(quotas: readonly QuotaConfiguration[]): string | null {
    for (const charges of this.#eras()) {
      for (const { name, limit, windowNs } of quotas) {
        const sums = new Map<bigint, number>();
        for (const { starts, spent, lastSpentNs } of charges) {
          const startNs = starts.get(name)!;
          sums.set(startNs, (sums.get(startNs) ?? 0) + spent);
          if (lastSpentNs >= startNs + windowNs) return `${name}: spent after the window`;
        }
        const all = [...sums].toSorted(([a], [b]) => (a < b ? -1 : 1));
        for (const [i, [startNs, sum]] of all.entries()) {
          if (sum > limit) return `${name}: ${sum} in a window of ${limit}`;
          if (i > 0 && startNs - all[i - 1]![0] < windowNs) return `${name}: windows overlap`;
        }
      }
    }
    return null;
  }

  /** In any span of time at most the burst, and what the rate gives in it: by the charges, and later by at most a life when spent. */
  #bucketViolation({ strategy, burst, rate }: BucketConfiguration): string | null {
    const realRate = strategy === "gcra" ? 1e9 / Math.trunc(1e9 / rate) : rate;
    const lifeNs = (burst / rate / 10) * 1e9;
    const room = (spanNs: number): number => burst + (realRate * spanNs) / 1e9 + 1e-6;
    for (const charges of this.#eras()) {
      for (let i = 0; i < charges.length; i++) {
        let sum = 0;
        for (let j = i; j < charges.length; j++) {
          const charge = charges[j]!;
          sum += charge.spent;
          const spanNs = Number(charge.atNs - charges[i]!.atNs);
          if (sum > room(spanNs)) return `${sum} within ${spanNs} ns`;
          if (Number(charge.lastSpentNs - charge.atNs) > lifeNs) return "spent after its end";
        }
      }
    }
    return null;
  }

  /** The charges, one after the other, each fit into the two buckets of the grid. */
  #slidingViolation({ limit, windowNs }: SlidingWindowConfiguration): string | null {
    for (const charges of this.#eras()) {
      const counts = new Map<bigint, number>();
      for (const { atNs, spent, lastSpentNs } of charges) {
        const startNs = atNs - (atNs % windowNs);
        const previous = counts.get(startNs - windowNs) ?? 0;
        const current = (counts.get(startNs) ?? 0) + spent;
        counts.set(startNs, current);
        const covered = BigInt(previous) * (startNs + windowNs - atNs);
        if (covered + BigInt(current) * windowNs > BigInt(limit) * windowNs) {
          return `${current} after ${previous} in windows of ${limit}`;
        }
        if (lastSpentNs - atNs > windowNs / 10n) return "spent after its end";
      }
    }
    return null;
  }
}
