/**
 * Time points and durations: u64 nanoseconds, as two u32 halves.
 *
 * A double can't hold nanoseconds since the epoch, and BigInt allocates; so the hot path compares
 * halves, and the rare product beyond 2^53 goes through BigInt. Every sum saturates at the ends of
 * the u64 range: the far future is never in the past. Source: protocol reference, "Semantics".
 */

/** Nanoseconds of a unit, by TTL type 1 to 6 (ns, µs, ms, s, min, h); 0 for any other type. */
export function unitNs(ttlType: number): number {
  switch (ttlType) {
    case 1:
      return 1;
    case 2:
      return 1e3;
    case 3:
      return 1e6;
    case 4:
      return 1e9;
    case 5:
      return 60e9;
    case 6:
      return 3600e9;
    default:
      return 0;
  }
}

export const NS_PER_MS = 1_000_000n;
const U32 = 2 ** 32;
const U64_MAX = (1n << 64n) - 1n;

/** A u64 of two halves. Its methods change it in place, so that arithmetic on the hot path allocates nothing. */
export class U64 {
  high = 0;
  low = 0;

  set(high: number, low: number): this {
    this.high = high;
    this.low = low;
    return this;
  }

  /** Sets it to `ms` milliseconds, in nanoseconds. */
  setMs(ms: number): this {
    return this.setBig(BigInt(Math.trunc(ms)) * NS_PER_MS);
  }

  /** Sets it to a value that is clamped to the u64 range. */
  setBig(value: bigint): this {
    const clamped = value < 0n ? 0n : value > U64_MAX ? U64_MAX : value;
    this.high = Number(clamped >> 32n);
    this.low = Number(clamped & 0xffffffffn);
    return this;
  }

  toBig(): bigint {
    return (BigInt(this.high) << 32n) | BigInt(this.low);
  }

  /** Sets it to `count` (u64, as halves) times `unit` nanoseconds; saturates. */
  setDuration(countHigh: number, countLow: number, unit: number): this {
    const product = (countHigh * U32 + countLow) * unit;
    if (product <= Number.MAX_SAFE_INTEGER) {
      this.high = Math.floor(product / U32);
      this.low = product >>> 0;
      return this;
    }
    return this.setBig(((BigInt(countHigh) << 32n) | BigInt(countLow)) * BigInt(unit));
  }

  /** Adds; saturates at the top. */
  add(high: number, low: number): this {
    const lowSum = this.low + low;
    const highSum = this.high + high + (lowSum >= U32 ? 1 : 0);
    return highSum >= U32 ? this.set(0xffffffff, 0xffffffff) : this.set(highSum, lowSum >>> 0);
  }

  /** Subtracts; saturates at 0. */
  subtract(high: number, low: number): this {
    const highDifference = this.high - high - (this.low < low ? 1 : 0);
    return highDifference < 0 ? this.set(0, 0) : this.set(highDifference, (this.low - low) >>> 0);
  }

  /** Divides by a unit and rounds down. */
  divide(unit: number): this {
    const value = this.high * U32 + this.low;
    if (value <= Number.MAX_SAFE_INTEGER) {
      const quotient = Math.floor(value / unit);
      return this.set(Math.floor(quotient / U32), quotient >>> 0);
    }
    return this.setBig(this.toBig() / BigInt(unit));
  }

  /** True when it is at or before the other time point. */
  notAfter(high: number, low: number): boolean {
    return this.high < high || (this.high === high && this.low <= low);
  }

  /** Sets it to an earlier time point; false, and nothing changed, for one that is not earlier. */
  lower(high: number, low: number): boolean {
    if (this.notAfter(high, low)) return false;
    this.high = high;
    this.low = low;
    return true;
  }

  /** Subtracts milliseconds; saturates at 0. */
  subtractMs(ms: number): this {
    return this.setBig(this.toBig() - BigInt(ms) * NS_PER_MS);
  }

  /** Milliseconds, rounded up: the first whole millisecond at which the time point is reached. */
  toMsCeil(): number {
    return Number((this.toBig() + 999_999n) / NS_PER_MS);
  }
}
