/**
 * What a strategy admits, written from its promise and not from its code: a judge is told each charge, in the order of the
 * shard's time, with the units of it that could ever be spent, and says what is too much.
 *
 * A refund is meant for units that were spent. One that comes after their window, or after a reset, finds units of others
 * there, and may take those that are out: then as many more are admitted. So the count of a window may fall below 0, by
 * what is out of it. A bucket does not need that: what it has taken from a refund, it doesn't take back again.
 *
 * Doubles may be rounded; so a bucket may hold a little more than a judge has computed.
 */
import type {
  BucketConfiguration,
  FixedWindowConfiguration,
  QuotaConfiguration,
  RateLimitConfiguration,
  SlidingWindowConfiguration,
} from "../../../src/wire/ratelimit/configuration.ts";

const NS_PER_S = 1e9;
const ROUNDING = 1e-9;

/** Units that were charged at once. */
export interface JudgedCharge {
  readonly atNs: bigint;
  readonly units: number;
  /** Units that were charged as well, and that will be given back: until then they are out. */
  readonly out: number;
  /** The stored text that the charge left; null where the strategy needs none. */
  readonly state: string | null;
}

export interface Judge {
  /** Says what is too much; null when the charge is admitted. */
  charge(charge: JudgedCharge): string | null;
  /** A caller gave back what it had been granted. */
  refund(atNs: bigint, units: number): void;
  /** The units of a charge that were out are given back. */
  giveBack(charge: JudgedCharge): void;
}

/** @param state what was stored from outside when the time of the judge begins; null for nothing */
export function judgeOf(configuration: RateLimitConfiguration, state: string | null): Judge {
  switch (configuration.strategy) {
    case "fixed_window":
      return new FixedWindowJudge(configuration, state);
    case "sliding_window":
      return new SlidingWindowJudge(configuration, state);
    case "composite": {
      const [primary, secondary] = partsOfComposite(state);
      return new CompositeJudge(
        new FixedWindowJudge(configuration.primary, primary),
        judgeOf(configuration.secondary, secondary),
      );
    }
    case "gcra":
      return new GcraJudge(configuration, state);
    default:
      return new BucketJudge(configuration, state);
  }
}

/** `51|primary$secondary` */
function partsOfComposite(state: string | null): [string | null, string | null] {
  if (state === null) return [null, null];
  const [primary, secondary] = state.slice(state.indexOf("|") + 1).split("$");
  return [primary!, secondary!];
}

/** True if a judge looks at the states that charges leave. */
export const needsStates = ({ strategy }: RateLimitConfiguration): boolean =>
  strategy === "fixed_window" || strategy === "composite";

/** Token bucket `12|tokens|time` and leaky bucket `32|level|time`: both have so much room, which time gives back. */
class BucketJudge implements Judge {
  readonly #burst: number;
  readonly #rate: number;
  #room: number;
  #atNs = 0n;

  constructor({ strategy, burst, rate }: BucketConfiguration, state: string | null) {
    this.#burst = burst;
    this.#rate = rate;
    this.#room = burst;
    if (state === null) return;
    const [, amount, at] = state.split("|");
    this.#room = strategy === "token_bucket" ? Number(amount) : burst - Number(amount);
    this.#atNs = BigInt(at!);
  }

  charge({ atNs, units }: JudgedCharge): string | null {
    this.#turn(atNs);
    const room = this.#room;
    this.#room -= units;
    if (units <= room + ROUNDING * this.#burst) return null;
    return `${units} charged where the bucket has ${room} of ${this.#burst}`;
  }

  refund(atNs: bigint, units: number): void {
    this.#turn(atNs);
    this.#room = Math.min(this.#burst, this.#room + units);
  }

  giveBack(): void {}

  #turn(atNs: bigint): void {
    const gained = (Number(atNs - this.#atNs) * this.#rate) / NS_PER_S;
    this.#room = Math.min(this.#burst, this.#room + gained);
    this.#atNs = atNs;
  }
}

/** `42|arrival`: exact, with an interval of whole nanoseconds. */
class GcraJudge implements Judge {
  readonly #intervalNs: bigint;
  readonly #limitNs: bigint;
  #arrivalNs: bigint;

  constructor({ burst, rate }: BucketConfiguration, state: string | null) {
    this.#intervalNs = BigInt(Math.trunc(NS_PER_S / rate));
    this.#limitNs = BigInt(burst) * this.#intervalNs;
    this.#arrivalNs = state === null ? 0n : BigInt(state.split("|")[1]!);
  }

  charge({ atNs, units }: JudgedCharge): string | null {
    if (units === 0) return null;
    const fromNs = this.#arrivalNs > atNs ? this.#arrivalNs : atNs;
    this.#arrivalNs = fromNs + BigInt(units) * this.#intervalNs;
    const aheadNs = this.#arrivalNs - atNs;
    if (aheadNs <= this.#limitNs) return null;
    return `${units} charged, ${aheadNs} ns ahead where ${this.#limitNs} are allowed`;
  }

  refund(atNs: bigint, units: number): void {
    const arrivalNs = this.#arrivalNs - BigInt(units) * this.#intervalNs;
    this.#arrivalNs = arrivalNs > atNs ? arrivalNs : atNs;
  }

  giveBack(): void {}
}

/** What is counted in a window, or a bucket of one. */
class Count {
  /** Units that could ever be spent, less those refunded. */
  units: number;
  /** Units that were charged as well. */
  #out = 0;

  constructor(units: number) {
    this.units = units;
  }

  charge({ units, out }: JudgedCharge): void {
    this.units += units;
    this.#out += out;
  }

  /** @returns the units that were taken: not more than are there */
  refund(units: number): number {
    const taken = Math.min(units, this.units + this.#out);
    this.units -= taken;
    return taken;
  }

  giveBack({ out }: JudgedCharge): void {
    this.#out -= out;
    this.units = Math.max(this.units, -this.#out);
  }
}

interface Window {
  readonly startNs: bigint;
  readonly count: Count;
}

/**
 * `23|N|name|count|start|…`: in each window at most the limit, a window begins with a charge, and the next one not before
 * it is over, unless everything was given back. Which window a charge was counted in is what the shard has stored.
 */
class FixedWindowJudge implements Judge {
  readonly #quotas: readonly QuotaConfiguration[];
  readonly #windows: ReadonlyMap<string, Window>;
  readonly #current = new Map<string, Window>();

  constructor({ quotas }: FixedWindowConfiguration, state: string | null) {
    this.#quotas = quotas;
    this.#windows = state === null ? new Map() : windowsOf(state);
    for (const [name, window] of this.#windows) this.#current.set(name, window);
  }

  charge(charge: JudgedCharge): string | null {
    const { atNs, state } = charge;
    const stored = windowsOf(state!);
    for (const { name, limit, windowNs } of this.#quotas) {
      const startNs = stored.get(name)!.startNs;
      let current = this.#current.get(name);
      if (current?.startNs !== startNs) {
        const isEarly = current !== undefined && startNs - current.startNs < windowNs;
        if (isEarly && current!.count.units > 0) {
          return `${name}: a window at ${startNs}, while that of ${current!.startNs} runs`;
        }
        if (startNs !== atNs) return `${name}: a window at ${startNs}, and a charge at ${atNs}`;
        this.#current.set(name, (current = { startNs, count: new Count(0) }));
      }
      if (atNs - startNs >= windowNs) return `${name}: charged to a window that is over`;
      const { count } = current;
      count.charge(charge);
      if (count.units > limit) return `${name}: ${count.units} in a window of ${limit}`;
    }
    return null;
  }

  refund(atNs: bigint, units: number): void {
    for (const { name, windowNs } of this.#quotas) {
      const window = this.#current.get(name);
      if (window === undefined || atNs - window.startNs >= windowNs) continue;
      window.count.refund(units);
    }
  }

  giveBack(charge: JudgedCharge): void {
    const stored = windowsOf(charge.state!);
    for (const { name } of this.#quotas) {
      const window = this.#current.get(name);
      if (window?.startNs === stored.get(name)!.startNs) window.count.giveBack(charge);
    }
  }
}

/** The windows of a state, or of the primary part of one. */
export function windowsOf(state: string): Map<string, Window> {
  const fields = /(?:^|\|)23\|\d+\|([^$]*)/.exec(state)?.[1]?.split("|") ?? [];
  const windows = new Map<string, Window>();
  for (let i = 0; i + 2 < fields.length; i += 3) {
    const count = new Count(Number(fields[i + 1]));
    windows.set(fields[i]!, { count, startNs: BigInt(fields[i + 2]!) });
  }
  return windows;
}

/**
 * `61|current|previous|start`: two buckets on the grid of the epoch, the previous one counts for the share of it that the
 * window still covers.
 */
class SlidingWindowJudge implements Judge {
  readonly #limit: bigint;
  readonly #windowNs: bigint;
  /** By their starts. */
  readonly #counts = new Map<bigint, Count>();

  constructor({ limit, windowNs }: SlidingWindowConfiguration, state: string | null) {
    this.#limit = BigInt(limit);
    this.#windowNs = windowNs;
    if (state === null) return;
    const [, current, previous, start] = state.split("|");
    this.#counts.set(BigInt(start!), new Count(Number(current)));
    this.#counts.set(BigInt(start!) - windowNs, new Count(Number(previous)));
  }

  charge(charge: JudgedCharge): string | null {
    const { atNs, units } = charge;
    const startNs = this.#startOf(atNs);
    this.#count(startNs).charge(charge);
    if (units === 0) return null;
    const current = this.#unitsOf(startNs);
    const previous = this.#unitsOf(startNs - this.#windowNs);
    const coveredNs = BigInt(previous) * (startNs + this.#windowNs - atNs);
    if (coveredNs + BigInt(current) * this.#windowNs <= this.#limit * this.#windowNs) return null;
    return `${current} after ${previous} in windows of ${this.#limit}`;
  }

  refund(atNs: bigint, units: number): void {
    const startNs = this.#startOf(atNs);
    const taken = this.#count(startNs).refund(units);
    this.#count(startNs - this.#windowNs).refund(units - taken);
  }

  giveBack(charge: JudgedCharge): void {
    this.#count(this.#startOf(charge.atNs)).giveBack(charge);
  }

  #startOf(atNs: bigint): bigint {
    return atNs - (atNs % this.#windowNs);
  }

  /** Of a bucket, which never makes up for the other one. */
  #unitsOf(startNs: bigint): number {
    return Math.max(0, this.#count(startNs).units);
  }

  #count(startNs: bigint): Count {
    let count = this.#counts.get(startNs);
    if (count === undefined) this.#counts.set(startNs, (count = new Count(0)));
    return count;
  }
}

class CompositeJudge implements Judge {
  readonly #primary: Judge;
  readonly #secondary: Judge;

  constructor(primary: Judge, secondary: Judge) {
    this.#primary = primary;
    this.#secondary = secondary;
  }

  charge(charge: JudgedCharge): string | null {
    return this.#primary.charge(charge) ?? this.#secondary.charge(charge);
  }

  refund(atNs: bigint, units: number): void {
    this.#primary.refund(atNs, units);
    this.#secondary.refund(atNs, units);
  }

  giveBack(charge: JudgedCharge): void {
    this.#primary.giveBack(charge);
    this.#secondary.giveBack(charge);
  }
}

/** The longest that units may be spent after their charge, in ms: a tenth of what the limit is about. */
export function lifeMsMaxOf(configuration: RateLimitConfiguration): number {
  switch (configuration.strategy) {
    case "fixed_window":
      return Math.min(...configuration.quotas.map(({ windowNs }) => Number(windowNs) / 1e7));
    case "sliding_window":
      return Number(configuration.windowNs) / 1e7;
    case "composite":
      return Math.min(lifeMsMaxOf(configuration.primary), lifeMsMaxOf(configuration.secondary));
    default:
      return ((configuration.burst / configuration.rate) * 1e3) / 10;
  }
}

/** Until the first window is over that a charge was counted in, in ms. */
export function windowMsLeft(
  configuration: RateLimitConfiguration,
  { atNs, state }: Pick<JudgedCharge, "atNs" | "state">,
): number {
  const quotas =
    configuration.strategy === "fixed_window"
      ? configuration.quotas
      : configuration.strategy === "composite"
        ? configuration.primary.quotas
        : [];
  const windows = state === null ? new Map<string, Window>() : windowsOf(state);
  return quotas.reduce((least, { name, windowNs }) => {
    const leftNs = windows.get(name)!.startNs + windowNs - atNs;
    return Math.min(least, Number(leftNs) / 1e6);
  }, Infinity);
}
