/** Strategies of rate limits, and requests and answers about them. */
import * as v from "valibot";
import { count, counted, integer, moment, positive } from "./parts.ts";

/** Names of limits and quotas, and keys of limits. */
const LIMIT_NAME = /^[\w\-:.@+]{1,64}$/;

const QUOTAS_MAX = 8;

/** 58 years. The state of a window counts nanoseconds in 64 bits, which a longer window would overflow. */
const WINDOW_MS_MAX = 1_844_674_407_370;

const GCRA_RATE_MAX = 1e9;

export const LIMIT_REQUESTS_MAX = 1000;

const limitName = (description: string) => {
  const message = "expected 1 to 64 characters of A-Z a-z 0-9 _ - : . @ +";
  return v.pipe(v.string(message), v.regex(LIMIT_NAME, message), v.description(description));
};

const amount = (description: string) => integer(1, Number.MAX_SAFE_INTEGER, description);

const windowMs = positive(WINDOW_MS_MAX, "Length of the window, in ms.");

const burst = amount("Requests at once.");

/** The field that tells strategies apart. */
const is = <const Name extends string>(name: Name) => v.literal(name, `expected ${name}`);

export const BucketStrategy = v.strictObject({
  strategy: v.picklist(["token_bucket", "leaky_bucket"]),
  burst,
  rate: positive(Number.MAX_VALUE, "Requests per second in the long run; need not be whole."),
});

export const GcraStrategy = v.strictObject({
  strategy: is("gcra"),
  burst,
  rate: positive(GCRA_RATE_MAX, "Requests per second in the long run; need not be whole."),
});

export const Quota = v.strictObject({
  name: limitName("Name of the quota in results."),
  limit: amount("Requests in a window."),
  windowMs,
});

const quotasMessage = `expected 1 to ${QUOTAS_MAX} quotas`;

export const FixedWindowStrategy = v.strictObject({
  strategy: is("fixed_window"),
  quotas: v.pipe(
    v.array(Quota, quotasMessage),
    v.minLength(1, quotasMessage),
    v.maxLength(QUOTAS_MAX, quotasMessage),
    v.description(
      "All must have room. No two may have the same name, or the same ratio of limit to window.",
    ),
  ),
});

export const SlidingWindowStrategy = v.strictObject({
  strategy: is("sliding_window"),
  limit: amount("Requests in any window."),
  windowMs,
});

export const CompositeStrategy = v.strictObject({
  strategy: is("composite"),
  primary: FixedWindowStrategy,
  secondary: v.variant(
    "strategy",
    [BucketStrategy, GcraStrategy],
    "expected one of token_bucket, leaky_bucket, gcra",
  ),
});

const STRATEGIES = [
  "token_bucket",
  "leaky_bucket",
  "gcra",
  "fixed_window",
  "sliding_window",
  "composite",
] as const;

const OBJECT_MESSAGE = "expected an object with a field strategy";

const strategyMessage = `expected one of ${STRATEGIES.join(", ")}`;

export const Strategy = v.variant(
  "strategy",
  [BucketStrategy, GcraStrategy, FixedWindowStrategy, SlidingWindowStrategy, CompositeStrategy],
  // An issue about the field has a path; an issue about a value that is not an object has none.
  ({ path }) => (path === undefined ? OBJECT_MESSAGE : strategyMessage),
);

const cost = v.optional(amount("Cost of the request."), 1);

export const limitBody = v.strictObject({ strategy: Strategy, cost });

export const peekBody = v.strictObject({ strategy: Strategy });

const requestsMessage = `expected 1 to ${LIMIT_REQUESTS_MAX} requests`;

export const limitManyBody = v.strictObject({
  requests: v.pipe(
    v.array(
      v.strictObject({
        name: limitName("Name of the limit."),
        key: limitName("Key of the limit, such as a user."),
        strategy: Strategy,
        cost,
      }),
      requestsMessage,
    ),
    v.minLength(1, requestsMessage),
    v.maxLength(LIMIT_REQUESTS_MAX, requestsMessage),
  ),
});

export const resetQuery = v.strictObject({
  strategy: v.pipe(
    v.picklist(STRATEGIES, strategyMessage),
    v.description(
      "Strategy of the limit. The state of a composite is stored under a key of its own.",
    ),
  ),
});

export const QuotaResult = v.strictObject({
  allowed: v.boolean(),
  limit: v.number(),
  remaining: counted("Further requests of cost 1 that would be allowed now."),
  reset: moment("In ms since the epoch; null if waiting does not help."),
});

export const LimitResult = v.strictObject({
  success: v.pipe(v.boolean(), v.description("Whether the request is allowed.")),
  limit: v.pipe(v.number(), v.description("Limit of the quota with the smallest `remaining`.")),
  remaining: count,
  reset: moment(
    "In ms since the epoch. After a refusal: when the same request will be allowed, if no other comes before it; null if waiting does not help.",
  ),
  retryAfterMs: moment("0 if the request is allowed; null if waiting does not help."),
  reason: v.exactOptional(
    v.pipe(
      v.literal("cost_exceeds_limit"),
      v.description("Why it was refused, if the limit can never allow it."),
    ),
  ),
  quotas: v.pipe(
    v.record(v.string(), QuotaResult),
    v.description(
      "By name: `default` for a strategy with one limit; `primary_…` and `secondary_default` for a composite.",
    ),
  ),
});

export const limitManyAnswer = v.strictObject({
  results: v.pipe(
    v.array(
      v.union([
        v.strictObject({ result: LimitResult }),
        v.strictObject({ error: v.strictObject({ code: v.string(), detail: v.string() }) }),
      ]),
    ),
    v.description("One for each request, in the same order."),
  ),
});
