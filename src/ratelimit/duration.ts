/** Lengths of windows, in milliseconds or as a short text such as `10 s`. */
import { windowNsOf } from "../wire/edge/limit.ts";
import { RateLimitError } from "../wire/ratelimit/error.ts";

const UNIT_MS = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const;
type Unit = keyof typeof UNIT_MS;

/**
 * A number and a unit: `ms`, `s`, `m` (minutes), `h` or `d`, with or without a space between them.
 *
 * @example
 * const window: Duration = "10 s";
 */
export type Duration = `${number} ${Unit}` | `${number}${Unit}`;

/**
 * How long a window is: `windowMs`, above 0, or `window`, but not both.
 *
 * @example
 * const hour: Window = { windowMs: 3_600_000 };
 * const same: Window = { window: "1 h" };
 */
export type Window =
  | { readonly windowMs: number; readonly window?: never }
  | { readonly window: Duration; readonly windowMs?: never };

const DURATION = /^(\d+(?:\.\d+)?) ?(ms|s|m|h|d)$/;

/**
 * Milliseconds of a window, checked.
 *
 * @param path of what it belongs to: "" or such as `quotas[0].`
 * @throws RateLimitError `window_invalid`, `time_overflow`
 */
export function windowMsOf({ windowMs, window }: Window, path: string): number {
  if (window === undefined) {
    windowNsOf(windowMs, `${path}windowMs`);
    return windowMs;
  }
  const [, count, unit] = DURATION.exec(window) ?? [];
  if (windowMs === undefined && count !== undefined) {
    const ms = Number(count) * UNIT_MS[unit as Unit];
    windowNsOf(ms, `${path}window`, window);
    return ms;
  }
  const expected =
    windowMs === undefined
      ? 'expected a number and one of ms, s, m, h, d, such as "10 s"; milliseconds are windowMs'
      : "expected either window or windowMs";
  throw new RateLimitError("window_invalid", `${path}window`, expected, window);
}
