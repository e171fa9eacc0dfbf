/**
 * Strategies of rate limiting as rate limit reference tells them, one after the other, with states that are
 * plain fields: what limiters are compared with. Slow, and of no format.
 */
import type {
  BucketConfiguration,
  FixedWindowConfiguration,
  RateLimitConfiguration,
  SlidingWindowConfiguration,
} from "../../../src/wire/ratelimit/configuration.ts";

/** Grants that are left, by name of the quota. */
export type Remaining = Readonly<Record<string, number>>;

export interface RateLimitModel {
  /** Whether all quotas would grant a cost. */
  allows(nowNs: bigint, cost: number): boolean;
  /** Charges a cost that is allowed. */
  charge(nowNs: bigint, cost: number): void;
  refund(nowNs: bigint, cost: number): void;
  remaining(nowNs: bigint): Remaining;
}

export function modelOf(configuration: RateLimitConfiguration): RateLimitModel {
  switch (configuration.strategy) {
    case "token_bucket":
      return new TokenModel(configuration);
    case "leaky_bucket":
      return new LeakyModel(configuration);
    case "gcra":
      return new GcraModel(configuration);
    case "fixed_window":
      return new FixedWindowModel(configuration);
    case "sliding_window":
      return new SlidingWindowModel(configuration);
    case "composite":
      return new CompositeModel(modelOf(configuration.primary), modelOf(configuration.secondary));
  }
}

/** The greatest cost that is granted, tried one by one. */
function greatest(limit: number, allows: (cost: number) => boolean): number {
  let cost = 0;
  while (cost < limit && allows(cost + 1)) cost++;
  return cost;
}

class TokenModel implements RateLimitModel {
  readonly #burst: number;
  readonly #rate: number;
  #tokens: number;
  #lastNs = 0n;

  constructor({ burst, rate }: BucketConfiguration) {
    this.#burst = burst;
    this.#rate = rate;
    this.#tokens = burst;
  }

  #at(nowNs: bigint): number {
    return Math.min(this.#tokens + (Number(nowNs - this.#lastNs) * this.#rate) / 1e9, this.#burst);
  }

  allows(nowNs: bigint, cost: number): boolean {
    return this.#at(nowNs) >= cost;
  }

  charge(nowNs: bigint, cost: number): void {
    this.#tokens = this.#at(nowNs) - cost;
    this.#lastNs = nowNs;
  }

  refund(_nowNs: bigint, cost: number): void {
    this.#tokens = Math.min(this.#tokens + cost, this.#burst);
  }

  remaining(nowNs: bigint): Remaining {
    return { default: greatest(this.#burst, (cost) => this.allows(nowNs, cost)) };
  }
}

class LeakyModel implements RateLimitModel {
  readonly #burst: number;
  readonly #rate: number;
  #level = 0;
  #lastNs = 0n;

  constructor({ burst, rate }: BucketConfiguration) {
    this.#burst = burst;
    this.#rate = rate;
  }

  #at(nowNs: bigint): number {
    if (this.#level === 0) return 0;
    return Math.max(0, this.#level - (Number(nowNs - this.#lastNs) * this.#rate) / 1e9);
  }

  allows(nowNs: bigint, cost: number): boolean {
    return this.#at(nowNs) + cost <= this.#burst;
  }

  charge(nowNs: bigint, cost: number): void {
    this.#level = this.#at(nowNs) + cost;
    this.#lastNs = nowNs;
  }

  refund(nowNs: bigint, cost: number): void {
    if (this.#at(nowNs) > 0) this.#level = Math.max(0, this.#level - cost);
  }

  remaining(nowNs: bigint): Remaining {
    return { default: greatest(this.#burst, (cost) => this.allows(nowNs, cost)) };
  }
}

class GcraModel implements RateLimitModel {
  readonly #burst: number;
  readonly #emissionNs: bigint;
  #arrivalNs = 0n;

  constructor({ burst, rate }: BucketConfiguration) {
    this.#burst = burst;
    this.#emissionNs = BigInt(Math.trunc(1e9 / rate));
  }

  #next(nowNs: bigint, cost: number): bigint {
    const fromNs = this.#arrivalNs > nowNs ? this.#arrivalNs : nowNs;
    return fromNs + BigInt(cost) * this.#emissionNs;
  }

  allows(nowNs: bigint, cost: number): boolean {
    return this.#next(nowNs, cost) - nowNs <= BigInt(this.#burst) * this.#emissionNs;
  }

  charge(nowNs: bigint, cost: number): void {
    this.#arrivalNs = this.#next(nowNs, cost);
  }

  refund(nowNs: bigint, cost: number): void {
    if (this.#arrivalNs <= nowNs) return;
    this.#arrivalNs -= BigInt(cost) * this.#emissionNs;
    if (this.#arrivalNs < nowNs) this.#arrivalNs = nowNs;
  }

  remaining(nowNs: bigint): Remaining {
    return { default: greatest(this.#burst, (cost) => this.allows(nowNs, cost)) };
  }
}

class FixedWindowModel implements RateLimitModel {
  readonly #quotas: FixedWindowConfiguration["quotas"];
  /** By name: the costs that were counted, and when the window ends. */
  readonly #windows = new Map<string, { endNs: bigint; count: number }>();

  constructor({ quotas }: FixedWindowConfiguration) {
    this.#quotas = quotas;
  }

  #forgetEnded(nowNs: bigint): void {
    for (const [name, { endNs, count }] of this.#windows) {
      if (nowNs >= endNs || count === 0) this.#windows.delete(name);
    }
  }

  allows(nowNs: bigint, cost: number): boolean {
    return Object.values(this.remaining(nowNs)).every((left) => cost <= left);
  }

  charge(nowNs: bigint, cost: number): void {
    this.#forgetEnded(nowNs);
    for (const { name, windowNs } of this.#quotas) {
      const { endNs, count } = this.#windows.get(name) ?? { endNs: nowNs + windowNs, count: 0 };
      this.#windows.set(name, { endNs, count: count + cost });
    }
  }

  refund(nowNs: bigint, cost: number): void {
    this.#forgetEnded(nowNs);
    for (const window of this.#windows.values()) window.count -= Math.min(window.count, cost);
  }

  remaining(nowNs: bigint): Remaining {
    this.#forgetEnded(nowNs);
    return Object.fromEntries(
      this.#quotas.map(({ name, limit }) => [name, limit - (this.#windows.get(name)?.count ?? 0)]),
    );
  }
}

/** Keeps what was counted in every bucket of the grid since the epoch. */
class SlidingWindowModel implements RateLimitModel {
  readonly #limit: number;
  readonly #windowNs: bigint;
  readonly #counts = new Map<bigint, number>();

  constructor({ limit, windowNs }: SlidingWindowConfiguration) {
    this.#limit = limit;
    this.#windowNs = windowNs;
  }

  #count(bucket: bigint): number {
    return this.#counts.get(bucket) ?? 0;
  }

  allows(nowNs: bigint, cost: number): boolean {
    const bucket = nowNs / this.#windowNs;
    const coveredNs = this.#windowNs - (nowNs % this.#windowNs);
    const wanted =
      BigInt(this.#count(bucket - 1n)) * coveredNs +
      BigInt(this.#count(bucket) + cost) * this.#windowNs;
    return wanted <= BigInt(this.#limit) * this.#windowNs;
  }

  charge(nowNs: bigint, cost: number): void {
    const bucket = nowNs / this.#windowNs;
    this.#counts.set(bucket, this.#count(bucket) + cost);
  }

  /** From this bucket first, what is left from the one before. */
  refund(nowNs: bigint, cost: number): void {
    const bucket = nowNs / this.#windowNs;
    let left = cost;
    for (const at of [bucket, bucket - 1n]) {
      const taken = Math.min(left, this.#count(at));
      this.#counts.set(at, this.#count(at) - taken);
      left -= taken;
    }
  }

  remaining(nowNs: bigint): Remaining {
    return { default: greatest(this.#limit, (cost) => this.allows(nowNs, cost)) };
  }
}

class CompositeModel implements RateLimitModel {
  readonly #primary: RateLimitModel;
  readonly #secondary: RateLimitModel;

  constructor(primary: RateLimitModel, secondary: RateLimitModel) {
    this.#primary = primary;
    this.#secondary = secondary;
  }

  allows(nowNs: bigint, cost: number): boolean {
    return this.#primary.allows(nowNs, cost) && this.#secondary.allows(nowNs, cost);
  }

  charge(nowNs: bigint, cost: number): void {
    this.#primary.charge(nowNs, cost);
    this.#secondary.charge(nowNs, cost);
  }

  refund(nowNs: bigint, cost: number): void {
    this.#primary.refund(nowNs, cost);
    this.#secondary.refund(nowNs, cost);
  }

  remaining(nowNs: bigint): Remaining {
    const withPrefix = (prefix: string, remaining: Remaining): [string, number][] =>
      Object.entries(remaining).map(([name, count]) => [prefix + name, count]);
    return Object.fromEntries([
      ...withPrefix("primary_", this.#primary.remaining(nowNs)),
      ...withPrefix("secondary_", this.#secondary.remaining(nowNs)),
    ]);
  }
}
