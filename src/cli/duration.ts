/**
 * Durations as people write them on a command line: `500ms`, `30s`, `1h30m`.
 *
 * The same spelling is read by every flag and printed by every command, so output can be pasted back as input.
 */
import { InvalidArgumentError } from "commander";

/** Milliseconds of each unit. Months and years have no fixed length. */
const UNIT_MS: Readonly<Record<string, number>> = {
  ms: 1,
  s: 1000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
};
/** One count with its unit; `ms` stands before `m`, so that it is not read as minutes. */
const PART = /(\d+(?:\.\d+)?)(ms|s|m|h|d)/g;
/** A whole duration. Tested first, as `matchAll` would skip what it does not know. */
const WHOLE = /^(?:\d+(?:\.\d+)?(?:ms|s|m|h|d))+$/;
/** Plain milliseconds, as JSON and the protocol have them. */
const PLAIN = /^\d+$/;

/**
 * Reads a duration such as `500ms`, `30s`, `1h30m` or `1d`. A plain number counts milliseconds.
 *
 * @returns whole milliseconds, 0 to 2^53 - 1
 * @throws InvalidArgumentError for any other text, for fractions of a millisecond, and above 2^53 - 1 ms
 */
export function durationMsOf(text: string): number {
  const written = text.trim();
  const ms = PLAIN.test(written) ? Number(written) : sumOf(written);
  if (Number.isSafeInteger(ms)) return ms;
  throw new InvalidArgumentError(
    "Expected a duration such as 500ms, 30s, 5m, 1h30m or 1d, or plain milliseconds.",
  );
}

/** The sum of the parts; NaN if the text is not a duration. */
function sumOf(text: string): number {
  if (!WHOLE.test(text)) return NaN;
  let ms = 0;
  for (const [, count, unit] of text.matchAll(PART)) ms += Number(count) * UNIT_MS[unit!]!;
  return rounded(ms);
}

/**
 * Whole milliseconds, or NaN for a fraction such as 0.5 ms. 1.1 s must become 1,100 ms although the nearest double is a
 * little more: so differences below a nanosecond do not count.
 */
function rounded(ms: number): number {
  const whole = Math.round(ms);
  return Math.abs(ms - whole) < 1e-6 ? whole : NaN;
}

/** A duration for people, in its two largest units: `1h 30m`. Below a second it is in milliseconds. */
export function shownDuration(ms: number): string {
  if (ms < 1000) return `${ms}ms`;
  const units: readonly [name: string, count: number][] = [
    ["d", Math.floor(ms / 86_400_000)],
    ["h", Math.floor(ms / 3_600_000) % 24],
    ["m", Math.floor(ms / 60_000) % 60],
    ["s", Math.floor(ms / 1000) % 60],
  ];
  const first = units.findIndex(([, count]) => count > 0);
  return units
    .slice(first, first + 2)
    .filter(([, count]) => count > 0)
    .map(([name, count]) => `${count}${name}`)
    .join(" ");
}
