/**
 * Header fields that tell clients of a limit.
 *
 * Sources: draft-ietf-httpapi-ratelimit-headers, revisions 06, 07 and 08 (as which 09 to 11 are written);
 * `X-RateLimit-…` as it is common.
 */
import type { QuotaResult } from "../../wire/edge/limit.ts";
import type { RateLimitResult } from "../result.ts";
import type { Policy } from "./policies.ts";

/**
 * Which fields:
 *
 * - `draft-8`: `RateLimit-Policy: "burst";q=10;w=10` and `RateLimit: "burst";r=8;t=1`, an item for each
 *   quota, by its name, or by the limiter's where it has one limit. Fields of several limiters add up.
 * - `draft-7`: `RateLimit-Policy: 10;w=10` and `RateLimit: limit=10, remaining=8, reset=1`
 * - `draft-6`: `RateLimit-Policy`, `RateLimit-Limit`, `RateLimit-Remaining`, `RateLimit-Reset`
 * - `legacy`: `X-RateLimit-Limit`, `X-RateLimit-Remaining`, `X-RateLimit-Reset`, in seconds since the epoch
 *
 * All but the first tell of the quota with the smallest remainder, and of the innermost limiter. Times are
 * rounded up: of a refusal the wait, else until the window ends, or one more fits into the bucket.
 *
 * @example
 * app.use(rateLimit({ limiter, key, headers: "draft-7" satisfies HeaderStyle }));
 */
export type HeaderStyle = (typeof HEADER_STYLES)[number];

export const HEADER_STYLES = ["draft-8", "draft-7", "draft-6", "legacy"] as const;

/** Name and value of a field. */
export type Field = readonly [name: string, value: string];

/** Integers of structured fields have 15 digits. */
const INTEGER_MAX = 999_999_999_999_999;

/**
 * The fields of a decision. What is not known is left out: figures where the limit could not be asked, and
 * the time where no wait helps.
 *
 * @param nowMs present of the decision, by the server's clock or one that is about the same
 */
export function fieldsOf(
  style: HeaderStyle,
  policies: readonly Policy[],
  decision: RateLimitResult,
  nowMs: number,
): Field[] {
  switch (style) {
    case "draft-8":
      return draft8(policies, decision, nowMs);
    case "draft-7":
      return draft7(policies, decision, nowMs);
    case "draft-6":
      return [oldPolicyField(policies), ...separate("RateLimit-", policies, decision, nowMs, 0)];
    case "legacy":
      return separate("X-RateLimit-", policies, decision, nowMs, nowMs);
  }
}

/** True for fields that are lists of items with names. */
export function isCumulative(style: HeaderStyle): boolean {
  return style === "draft-8";
}

/** Seconds after which to try again; null where no wait is known to help. */
export function retryAfterSeconds({ retryAfterMs }: RateLimitResult): number | null {
  return retryAfterMs === null ? null : secondsOf(retryAfterMs);
}

function draft8(policies: readonly Policy[], { quotas }: RateLimitResult, nowMs: number): Field[] {
  const items: string[] = [];
  for (const policy of policies) {
    const quota = quotaOf(policy, quotas);
    if (quota === undefined) continue;
    const waitMs = waitMsOf(policy, quota, nowMs);
    const time = waitMs === null ? "" : `;t=${secondsOf(waitMs)}`;
    items.push(`"${policy.name}";r=${integerOf(quota.remaining)}${time}`);
  }
  const all = policies.map(
    (policy) => `"${policy.name}";q=${integerOf(policy.limit)}${window(policy)}`,
  );
  const policy: Field = ["RateLimit-Policy", all.join(", ")];
  return items.length === 0 ? [policy] : [policy, ["RateLimit", items.join(", ")]];
}

function draft7(policies: readonly Policy[], decision: RateLimitResult, nowMs: number): Field[] {
  const tightest = tightestOf(policies, decision);
  if (tightest === null) return [oldPolicyField(policies)];
  const { limit, remaining } = decision;
  // All three are required.
  const waitMs = wholeWaitMsOf(decision, tightest, nowMs) ?? tightest.policy.windowMs;
  const figures = `limit=${integerOf(limit)}, remaining=${integerOf(remaining)}`;
  const value = `${figures}, reset=${secondsOf(waitMs)}`;
  return [oldPolicyField(policies), ["RateLimit", value]];
}

/** A field for each figure. @param offsetMs added to the wait: the present where the reset counts from the epoch */
function separate(
  prefix: string,
  policies: readonly Policy[],
  decision: RateLimitResult,
  nowMs: number,
  offsetMs: number,
): Field[] {
  const fields: Field[] = [[`${prefix}Limit`, String(integerOf(decision.limit))]];
  const tightest = tightestOf(policies, decision);
  if (tightest === null) return fields;
  fields.push([`${prefix}Remaining`, String(integerOf(decision.remaining))]);
  const waitMs = wholeWaitMsOf(decision, tightest, nowMs);
  if (waitMs !== null) fields.push([`${prefix}Reset`, String(secondsOf(offsetMs + waitMs))]);
  return fields;
}

function oldPolicyField(policies: readonly Policy[]): Field {
  const all = policies.map((policy) => `${integerOf(policy.limit)}${window(policy)}`);
  return ["RateLimit-Policy", all.join(", ")];
}

const window = ({ windowMs }: Policy): string => `;w=${Math.max(1, secondsOf(windowMs))}`;

interface Tightest {
  readonly policy: Policy;
  readonly quota: QuotaResult;
}

/** Of the quota of a policy; undefined where nothing is known. Names are any text: also those that every object has. */
function quotaOf(
  { resultName }: Policy,
  quotas: RateLimitResult["quotas"],
): QuotaResult | undefined {
  return Object.hasOwn(quotas, resultName) ? quotas[resultName] : undefined;
}

/** The policy with the smallest remainder; null where nothing is known. */
function tightestOf(policies: readonly Policy[], { quotas }: RateLimitResult): Tightest | null {
  let tightest: Tightest | null = null;
  for (const policy of policies) {
    const quota = quotaOf(policy, quotas);
    if (quota === undefined) continue;
    if (tightest === null || quota.remaining < tightest.quota.remaining) {
      tightest = { policy, quota };
    }
  }
  return tightest;
}

function wholeWaitMsOf(
  { success, retryAfterMs }: RateLimitResult,
  { policy, quota }: Tightest,
  nowMs: number,
): number | null {
  return success ? waitMsOf(policy, quota, nowMs) : retryAfterMs;
}

/** About how long a caller has the remainder alone to use, ms; null where waiting does not help. */
function waitMsOf(
  { windowMs, stepMs }: Policy,
  { allowed, reset }: QuotaResult,
  nowMs: number,
): number | null {
  if (reset === null) return null;
  if (allowed && stepMs !== null) return stepMs;
  const leftMs = Math.max(0, reset - nowMs);
  return allowed ? Math.min(leftMs, windowMs) : leftMs;
}

/** Rounded up. */
function secondsOf(ms: number): number {
  return integerOf(Math.ceil(ms / 1_000));
}

function integerOf(value: number): number {
  return Math.min(value, INTEGER_MAX);
}
