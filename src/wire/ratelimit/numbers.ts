/**
 * Numbers in rate limit states: doubles as Go's shortest `g` text, points in time as int64 in decimal.
 *
 * Source: rate limit reference, "Algorithms"; data format of the library.
 */

export const INT64_MAX = 2n ** 63n - 1n;
const INT64_MIN = -(2n ** 63n);

/** From here on up to there the text has no exponent. Literals: `10 ** -4` is another double than `1e-4`. */
const PLAIN_MIN = 1e-4;
const PLAIN_END = 1e6;

// Digits match in one way only: a long text that is no number is refused in one pass.
const FLOAT_TEXT = /^[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?$/;
const INTEGER_TEXT = /^[+-]?\d+$/;

/**
 * The shortest text that reads as the same double: `8.5`, `1e+06` from 10^6 up, `1e-05` below 10^-4.
 *
 * @param value finite
 */
export function formatFloat(value: number): string {
  if (Object.is(value, -0)) return "-0";
  const size = Math.abs(value);
  // Here JavaScript's own text has no exponent either.
  if (size === 0 || (size >= PLAIN_MIN && size < PLAIN_END)) return String(value);
  const [digits, exponentText] = value.toExponential().split("e") as [string, string];
  const exponent = Number(exponentText);
  const sign = exponent < 0 ? "-" : "+";
  return `${digits}e${sign}${String(Math.abs(exponent)).padStart(2, "0")}`;
}

/** The double of a decimal text; null for anything else: NaN, infinities, hex, spaces, beyond the range. */
export function readFloat(text: string): number | null {
  if (!FLOAT_TEXT.test(text)) return null;
  const value = Number(text);
  return Number.isFinite(value) ? value : null;
}

/** As `readFloat`, for amounts: null below zero too, and 0 for -0. */
export function readAmount(text: string): number | null {
  const value = readFloat(text);
  return value !== null && value >= 0 ? Math.abs(value) : null;
}

/** The int64 of a decimal text; null for anything else. */
export function readInt64(text: string): bigint | null {
  if (!INTEGER_TEXT.test(text)) return null;
  const value = BigInt(text);
  return value >= INT64_MIN && value <= INT64_MAX ? value : null;
}

/** A count, 0 to 2^53 - 1; null for anything else, and 0 for -0. */
export function readCount(text: string): number | null {
  if (!INTEGER_TEXT.test(text)) return null;
  const count = Number(text);
  return count >= 0 && Number.isSafeInteger(count) ? Math.abs(count) : null;
}
