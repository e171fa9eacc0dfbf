/**
 * What reservations promise, written from the text and not from the code.
 *
 * A bucket is the list of what was charged to it and when, replayed for each question: a settled reservation counts with
 * its real cost at the moment at which it was made. Windows are counts with a start. Times are whole milliseconds, and a
 * bucket gains whole units in each, so that nothing is rounded.
 */
import type {
  BucketStrategy,
  FixedWindowStrategy,
  LimitStrategy,
  SlidingWindowStrategy,
} from "../../../src/wire/edge/limit.ts";

/** A reservation that the model has charged. */
export interface Held {
  readonly cost: number;
  /** Where it was charged, for the part that made it. */
  readonly place: unknown;
}

/** One part of a strategy. */
interface Part {
  /** Further requests of cost 1. */
  remaining(nowMs: number): number;
  has(nowMs: number, cost: number): boolean;
  /** Charges a cost, whether there is room or not. Returns where. */
  charge(nowMs: number, cost: number): unknown;
  refund(nowMs: number, cost: number): void;
  /** Charges by how much a cost differs from what was reserved; less where it is below 0. */
  settle(nowMs: number, held: Held, by: number): void;
}

interface Charge {
  readonly atMs: number;
  cost: number;
}

/** A bucket that holds `burst` units and gains `perMs` in each millisecond. */
class BucketModel implements Part {
  readonly #burst: number;
  readonly #perMs: number;
  readonly #charges: Charge[] = [];
  /** Settling gives nothing back, and charges at the moment of settling: the least that a server may do. */
  readonly #isGrudging: boolean;

  constructor({ burst, rate }: BucketStrategy, isGrudging = false) {
    this.#burst = burst;
    this.#perMs = rate / 1000;
    this.#isGrudging = isGrudging;
  }

  units(nowMs: number): number {
    let units = this.#burst;
    let atMs = 0;
    for (const charge of this.#charges) {
      units = Math.min(this.#burst, units + (charge.atMs - atMs) * this.#perMs);
      units = Math.min(this.#burst, units - charge.cost);
      atMs = charge.atMs;
    }
    return Math.min(this.#burst, units + (nowMs - atMs) * this.#perMs);
  }

  remaining(nowMs: number): number {
    return Math.max(0, this.units(nowMs));
  }

  has(nowMs: number, cost: number): boolean {
    return this.units(nowMs) >= cost;
  }

  charge(nowMs: number, cost: number): Charge {
    const charge = { atMs: nowMs, cost };
    this.#charges.push(charge);
    return charge;
  }

  refund(nowMs: number, cost: number): void {
    this.charge(nowMs, -cost);
  }

  settle(nowMs: number, { place }: Held, by: number): void {
    if (!this.#isGrudging) (place as Charge).cost += by;
    else if (by > 0) this.charge(nowMs, by);
  }
}

interface Window {
  startMs: number;
  count: number;
}

/** One quota, whose window starts with the first request in it. Its start is all that tells it from others. */
class WindowModel implements Part {
  readonly #limit: number;
  readonly #windowMs: number;
  #window: Window | null = null;

  constructor({ limit, windowMs }: { readonly limit: number; readonly windowMs: number }) {
    this.#limit = limit;
    this.#windowMs = windowMs;
  }

  #live(nowMs: number): Window | null {
    const window = this.#window;
    if (window === null || window.count === 0) return null;
    return nowMs - window.startMs < this.#windowMs ? window : null;
  }

  remaining(nowMs: number): number {
    return Math.max(0, this.#limit - (this.#live(nowMs)?.count ?? 0));
  }

  has(nowMs: number, cost: number): boolean {
    return (this.#live(nowMs)?.count ?? 0) + cost <= this.#limit;
  }

  charge(nowMs: number, cost: number): number {
    const window = this.#live(nowMs) ?? { startMs: nowMs, count: 0 };
    window.count += cost;
    this.#window = window;
    return window.startMs;
  }

  refund(nowMs: number, cost: number): void {
    const window = this.#live(nowMs);
    if (window !== null) window.count = Math.max(0, window.count - cost);
  }

  settle(nowMs: number, { place }: Held, by: number): void {
    const window = this.#live(nowMs);
    if (window !== null && window.startMs === place) window.count = Math.max(0, window.count + by);
  }
}

/** Counts by buckets on the grid of the epoch, the one before the present one for the share that is still covered. */
class SlidingModel implements Part {
  readonly #limit: number;
  readonly #windowMs: number;
  readonly #counts = new Map<number, number>();

  constructor({ limit, windowMs }: SlidingWindowStrategy) {
    this.#limit = limit;
    this.#windowMs = windowMs;
  }

  #at(bucket: number): number {
    return this.#counts.get(bucket) ?? 0;
  }

  #add(bucket: number, by: number): void {
    this.#counts.set(bucket, Math.max(0, this.#at(bucket) + by));
  }

  #bucket(nowMs: number): number {
    return Math.floor(nowMs / this.#windowMs);
  }

  remaining(nowMs: number): number {
    const bucket = this.#bucket(nowMs);
    const coveredMs = (bucket + 1) * this.#windowMs - nowMs;
    const free = this.#limit * this.#windowMs - this.#at(bucket - 1) * coveredMs;
    return Math.max(0, Math.floor(free / this.#windowMs) - this.#at(bucket));
  }

  has(nowMs: number, cost: number): boolean {
    return cost <= this.remaining(nowMs);
  }

  charge(nowMs: number, cost: number): number {
    const bucket = this.#bucket(nowMs);
    this.#add(bucket, cost);
    return bucket;
  }

  refund(nowMs: number, cost: number): void {
    const bucket = this.#bucket(nowMs);
    const ofBucket = Math.min(this.#at(bucket), cost);
    this.#add(bucket, -ofBucket);
    this.#add(bucket - 1, ofBucket - cost);
  }

  settle(nowMs: number, { place }: Held, by: number): void {
    const bucket = this.#bucket(nowMs);
    if (place === bucket || place === bucket - 1) this.#add(place as number, by);
  }
}

const windowsOf = ({ quotas }: FixedWindowStrategy): Part[] =>
  quotas.map((quota) => new WindowModel(quota));

/**
 * The parts of a strategy, all of which must have room.
 *
 * @param isGrudging of buckets: see `BucketModel`
 */
function partsOfStrategy(strategy: LimitStrategy, isGrudging = false): Part[] {
  switch (strategy.strategy) {
    case "fixed_window":
      return windowsOf(strategy);
    case "sliding_window":
      return [new SlidingModel(strategy)];
    case "composite":
      return [...windowsOf(strategy.primary), new BucketModel(strategy.secondary, isGrudging)];
    default:
      return [new BucketModel(strategy, isGrudging)];
  }
}

/** A model of a limit, as a list of its parts. */
export class ReservationModel {
  readonly #strategy: LimitStrategy;
  readonly #isGrudging: boolean;
  #parts: Part[];

  constructor(strategy: LimitStrategy, isGrudging = false) {
    this.#strategy = strategy;
    this.#isGrudging = isGrudging;
    this.#parts = partsOfStrategy(strategy, isGrudging);
  }

  remaining(nowMs: number): number {
    return Math.min(...this.#parts.map((part) => part.remaining(nowMs)));
  }

  has(nowMs: number, cost: number): boolean {
    return this.#parts.every((part) => part.has(nowMs, cost));
  }

  charge(nowMs: number, cost: number): Held[] {
    return this.#parts.map((part) => ({ cost, place: part.charge(nowMs, cost) }));
  }

  refund(nowMs: number, cost: number): void {
    for (const part of this.#parts) part.refund(nowMs, cost);
  }

  settle(nowMs: number, held: readonly Held[], cost: number): void {
    for (const [i, part] of this.#parts.entries())
      part.settle(nowMs, held[i]!, cost - held[i]!.cost);
  }

  reset(): void {
    this.#parts = partsOfStrategy(this.#strategy, this.#isGrudging);
  }
}
