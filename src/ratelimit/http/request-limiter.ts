/** A limiter as HTTP needs it: header fields and problem details of what it has decided. */
import { configurationInvalid } from "../../wire/ratelimit/error.ts";
import type { RateLimiter } from "../rate-limiter.ts";
import type { RateLimitResult } from "../result.ts";
import { fieldsOf, HEADER_STYLES, type Field, type HeaderStyle } from "./headers.ts";
import { policiesOf } from "./policies.ts";
import { problemOf, type RateLimitProblem } from "./problem.ts";

/**
 * What limiting requests needs of a limiter.
 *
 * @example
 * const limiter: RequestLimiter = new RateLimiter({ throttr, name: "api", strategy });
 */
export type RequestLimiter = Pick<RateLimiter, "name" | "strategy" | "clock" | "limit" | "refund">;

/** What was decided; in shadow mode it differs from the result. */
export function decisionIn(result: RateLimitResult): RateLimitResult {
  return result.shadow ?? result;
}

/** The header fields of a result. */
export function fieldsFor(
  limiter: RequestLimiter,
  result: RateLimitResult,
  style: HeaderStyle,
): Field[] {
  const decision = decisionIn(result);
  const policies = policiesOf(limiter.name, limiter.strategy);
  return fieldsOf(style, policies, decision, presentOf(decision, limiter));
}

/** The problem details of a refusal. */
export function problemFor(limiter: RequestLimiter, refusal: RateLimitResult): RateLimitProblem {
  return problemOf(refusal, policiesOf(limiter.name, limiter.strategy));
}

/** @throws RateLimitError `configuration_invalid` */
export function checkLimiter(limiter: RequestLimiter, expected = "a RateLimiter"): void {
  const { limit } = (limiter ?? {}) as Partial<RequestLimiter>;
  if (typeof limit === "function") return;
  throw configurationInvalid("limiter", `expected ${expected}`, limiter);
}

/** @throws RateLimitError `configuration_invalid` */
export function checkHeaderStyle(style: HeaderStyle | false): void {
  if (style === false || HEADER_STYLES.includes(style)) return;
  const expected = `expected false or one of ${HEADER_STYLES.join(", ")}`;
  throw configurationInvalid("headers", expected, style);
}

/** By the server's clock where the decision says it, else by ours. */
function presentOf({ reset, retryAfterMs }: RateLimitResult, { clock }: RequestLimiter): number {
  return reset !== null && retryAfterMs ? reset - retryAfterMs : clock.nowMs();
}
