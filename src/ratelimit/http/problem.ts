/** What a refused request is answered with: problem details (RFC 9457) with a stable `code`. */
import type { RateLimitResult } from "../result.ts";
import { retryAfterSeconds } from "./headers.ts";
import type { Policy } from "./policies.ts";

/**
 * Problem details of a refusal.
 *
 * 429 `rate_limited`: the limit refused; `reason` says where no wait helps, `violated-policies` the quotas
 * that had no room. 503 `limit_unavailable`: the limit could not be asked, and the limiter's `onError` is
 * "closed"; `reason` is "timeout" or "error".
 *
 * @example
 * const problem = (await response.json()) as RateLimitProblem;
 * if (problem.retryAfterMs !== null) await sleep(problem.retryAfterMs);
 */
export interface RateLimitProblem {
  /** Of draft-ietf-httpapi-ratelimit-headers; without one the status says all. */
  readonly type?: string;
  readonly title: string;
  readonly status: 429 | 503;
  readonly detail: string;
  readonly code: "rate_limited" | "limit_unavailable";
  readonly retryAfterMs: number | null;
  readonly reason?: RateLimitResult["reason"];
  readonly "violated-policies"?: readonly string[];
}

/** Content type of problem details. */
export const PROBLEM_TYPE = "application/problem+json";

const QUOTA_EXCEEDED = "https://iana.org/assignments/http-problem-types#quota-exceeded";

/** @param result a refusal */
export function problemOf(result: RateLimitResult, policies: readonly Policy[]): RateLimitProblem {
  const { reason, retryAfterMs, quotas } = result;
  const why = reason === undefined ? {} : { reason };
  if (reason === "timeout" || reason === "error") {
    return {
      title: "Service Unavailable",
      status: 503,
      detail: "the limit could not be checked: try again",
      code: "limit_unavailable",
      retryAfterMs,
      ...why,
    };
  }
  const violated = policies.filter(({ resultName }) => quotas[resultName]?.allowed === false);
  return {
    type: QUOTA_EXCEEDED,
    title: "Quota Exceeded",
    status: 429,
    detail: detailOf(result),
    code: "rate_limited",
    retryAfterMs,
    ...why,
    "violated-policies": violated.map(({ name }) => name),
  };
}

function detailOf(result: RateLimitResult): string {
  const seconds = retryAfterSeconds(result);
  return seconds === null
    ? "the request costs more than the limit ever allows: waiting does not help"
    : `the request is over the limit: try again in ${seconds} s`;
}
