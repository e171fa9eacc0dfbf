/** Errors of a rate limit that is refused before anything is decided. Codes are stable, messages are not. */

export type RateLimitErrorCode =
  | "configuration_invalid"
  | "strategy_unknown"
  | "combination_invalid"
  | "burst_invalid"
  | "rate_invalid"
  | "quotas_invalid"
  | "quota_name_invalid"
  | "quota_name_taken"
  | "quota_ratio_taken"
  | "limit_invalid"
  | "window_invalid"
  | "time_overflow"
  | "base_key_invalid"
  | "key_invalid"
  | "cost_invalid";

/** Longest stretch of a wrong value that a message shows. */
const SHOWN_MAX = 100;

/** A configuration, key or cost that no limiter takes. */
export class RateLimitError extends Error {
  override readonly name = "RateLimitError";
  readonly code: RateLimitErrorCode;
  /** Path of the field, such as `secondary.rate` or `quotas[2].limit`. */
  readonly field: string;

  /** @param expected the range, such as "expected an integer from 1 to 8" */
  constructor(code: RateLimitErrorCode, field: string, expected: string, got: unknown) {
    super(`${code}: ${field}: ${expected}, got ${shown(got)}`);
    this.code = code;
    this.field = field;
  }
}

/** The error of a configuration with a field that is not what was expected. */
export function configurationInvalid(
  field: string,
  expected: string,
  got: unknown,
): RateLimitError {
  return new RateLimitError("configuration_invalid", field, expected, got);
}

/** Any value as a short text for a message. */
export function shown(value: unknown): string {
  const text = textOf(value);
  return text.length > SHOWN_MAX ? `${text.slice(0, SHOWN_MAX)}…` : text;
}

function textOf(value: unknown): string {
  if (typeof value === "string") return JSON.stringify(value.slice(0, SHOWN_MAX + 1));
  // Objects convert themselves to text: they may be too deep for that, or throw.
  if (typeof value === "object" && value !== null)
    return Array.isArray(value) ? "a list" : "an object";
  return typeof value === "function" ? "a function" : String(value);
}
