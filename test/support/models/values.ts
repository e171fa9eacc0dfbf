/** What all models know of values: units of a time to live, the ends of a u64, numbers as bytes. */

/** Nanoseconds of each unit of dialects 7.1, 7.3 and edge; 0 is not a unit. */
const UNITS_NS = [0n, 1n, 1000n, 10n ** 6n, 10n ** 9n, 60n * 10n ** 9n, 3600n * 10n ** 9n];
export const U64_MAX = 2n ** 64n - 1n;

/** 0 when there is no such unit. */
export const unitNs = (unit: number): bigint => UNITS_NS[unit] ?? 0n;

/** A time that does not fit is the first one, or the last. */
export const saturated = (ns: bigint): bigint => (ns < 0n ? 0n : ns > U64_MAX ? U64_MAX : ns);

/** Little-endian. */
export function uint(value: bigint, width: number): number[] {
  return Array.from({ length: width }, (_, i) => Number((value >> BigInt(8 * i)) & 255n));
}

/** Little-endian. */
export function uintOf(bytes: readonly number[]): bigint {
  return bytes.reduceRight((sum, byte) => (sum << 8n) | BigInt(byte), 0n);
}
