/** Several limits, all of which are charged, or none. */
import { checkOptions, invalid, type FieldNames } from "../wire/edge/argument.ts";
import type { DrawReturn } from "../wire/edge/draw.ts";
import { LIMIT_ALL_MAX } from "../wire/edge/limit-all-body.ts";
import type { LimitRequest } from "../wire/edge/operations.ts";
import { chargeOptions, type LimitBackend } from "./backend.ts";
import { checkCount } from "./decider.ts";
import { encodeKey } from "./key.ts";
import { LimiterCalls } from "./limiter-calls.ts";
import {
  BACKEND,
  failurePolicyOf,
  isBackend,
  type AskOptions,
  type RateLimiterOptions,
} from "./limiter-options.ts";
import { insideOf, RateLimiter } from "./rate-limiter.ts";
import { decisionOf, shadowOf, type RateLimitResult } from "./result.ts";
import { limitMinOf } from "./strategies.ts";
import { callOf05 } from "./unknown-call.ts";

const ENTRY: FieldNames<LimitTogether> = { limiter: true, key: true, cost: true };
const OPTIONS: FieldNames<LimitAllOptions> = { signal: true, timeoutMs: true, onError: true };

/**
 * One of several limits.
 *
 * @example
 * const entry: LimitTogether = { limiter: perUser, key: userId, cost: 5 };
 */
export interface LimitTogether {
  readonly limiter: RateLimiter;
  /** As of `limit`. */
  readonly key: string;
  /** An integer from 1; 1 unless given. */
  readonly cost?: number | undefined;
}

/**
 * Options of `limitAll`. Those of its limiters don't count here, as there is one call for all.
 *
 * @example
 * const options: LimitAllOptions = { timeoutMs: 500, onError: "open" };
 */
export interface LimitAllOptions
  extends AskOptions, Pick<RateLimiterOptions, "timeoutMs" | "onError"> {}

/**
 * What several limits say together.
 *
 * @example
 * const { success, refusedBy, retryAfterMs }: RateLimitAllResult = await limitAll(throttr, entries);
 */
export interface RateLimitAllResult {
  /**
   * True: all were charged. False: none was, or stays charged unless its shard fails before it has given back. Where
   * `onError` has decided, that is not known.
   */
  readonly success: boolean;
  /** Index of the first entry that refused; null where none did. */
  readonly refusedBy: number | null;
  /** The longest wait of the entries that refused, in ms; 0 after a success, null where no wait helps. */
  readonly retryAfterMs: number | null;
  /**
   * Of each entry, in order. After a refusal the others are successes, and their `remaining` is what a charge would have
   * left.
   */
  readonly results: readonly RateLimitResult[];
}

/**
 * Charges several limits together: all of them, or none where one refuses. For a user's, an organisation's and the
 * service's limit of one request, for example.
 *
 * 1 to 32 entries, all of one server; entries of one limiter and key count with their sum. A limiter in shadow mode is
 * charged with the others if it has room, and never refuses. Limiters with `local` give back what they hold of their key,
 * and the server decides; `cache` and `durability` are not used.
 *
 * Limits in several shards are charged at once, and given back where one refuses. So for a round trip others may be
 * refused who would have had room. It is never sent again: after `outcome_unknown` or `timeout` it may have been charged.
 *
 * @example
 * const { success, refusedBy } = await limitAll(env.THROTTR, [
 *   { limiter: perUser, key: userId },
 *   { limiter: perOrganisation, key: organisationId },
 *   { limiter: overall, key: "all" },
 * ]);
 *
 * @throws ThrottrError `limit_all_invalid` for more or fewer entries, and where two limiters share a record;
 * `key_invalid`, `cost_invalid`, `argument_invalid`, `option_invalid`; without `onError` the code of the server,
 * `request_type_unknown` of one before 0.5, or `timeout`
 */
export async function limitAll(
  throttr: LimitBackend,
  entries: readonly LimitTogether[],
  options: LimitAllOptions = {},
): Promise<RateLimitAllResult> {
  checkOptions(options, OPTIONS, "limitAll");
  if (!isBackend(throttr)) throw invalid("throttr", BACKEND, throttr, "argument_invalid");
  if (!Array.isArray(entries) || entries.length < 1 || entries.length > LIMIT_ALL_MAX) {
    const got = Array.isArray(entries) ? entries.length : entries;
    throw invalid("entries", `a list of 1 to ${LIMIT_ALL_MAX}`, got, "limit_all_invalid");
  }
  const parts = await Promise.all((entries as readonly LimitTogether[]).map(partOf));
  const { strategy, clock } = parts[0]!.limiter;
  const policy = failurePolicyOf(options, (field, expected, got) =>
    invalid(field, expected, got, "option_invalid"),
  );
  const calls = new LimiterCalls({ ...policy, strategy, clock, isShadow: false });
  const all = await calls.answer(
    (gone) => ask(throttr, parts, gone),
    options.signal,
    (fallback): RateLimitAllResult => ({
      success: fallback.success,
      refusedBy: null,
      retryAfterMs: fallback.retryAfterMs,
      results: parts.map(({ limiter }) => ({ ...fallback, limit: limitMinOf(limiter.strategy) })),
    }),
  );
  const results = all.results.map((result, i) =>
    parts[i]!.request.shadow ? shadowOf(result) : result,
  );
  return { ...all, results };
}

/** An entry that was checked. */
interface Part {
  readonly limiter: RateLimiter;
  readonly request: LimitRequest & { readonly shadow: boolean };
  /** Takes what the limiter holds here: whatever comes of the call, it is not spent here any more. */
  readonly takeReturns: () => DrawReturn[];
}

async function partOf(entry: LimitTogether, i: number): Promise<Part> {
  checkOptions(entry ?? null, ENTRY, "an entry");
  const { limiter, key, cost } = entry;
  if (!(limiter instanceof RateLimiter)) {
    throw invalid(`entries[${i}].limiter`, "a RateLimiter", limiter, "argument_invalid");
  }
  const { requestOf, isShadow, takeReturns } = insideOf(limiter);
  const request = { ...requestOf(await encodeKey(key), { cost }), shadow: isShadow };
  return { limiter, request, takeReturns: () => takeReturns(request.key) };
}

async function ask(
  throttr: LimitBackend,
  parts: readonly Part[],
  gone: AbortSignal,
): Promise<RateLimitAllResult> {
  const requests = parts.map(({ request, takeReturns }) => {
    return { ...request, returns: takeReturns() };
  });
  const { success, refusedBy, retryAfterMs, results } = await callOf05(
    "charge limits together",
    () => throttr.limitAll!({ requests }, ...chargeOptions(throttr, gone)),
  );
  checkCount(results.length, parts.length);
  return { success, refusedBy, retryAfterMs, results: results.map(decisionOf) };
}
