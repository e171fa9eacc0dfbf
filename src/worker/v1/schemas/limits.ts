/** Strategies of rate limits, and requests and answers about them. */
import * as v from "valibot";
import {
  DRAW_RETURNS_MAX,
  LEASE_MS,
  LEASE_MS_MAX,
  LEASE_MS_MIN,
} from "../../../wire/edge/drawn.ts";
import { LIMIT_ALL_MAX } from "../../../wire/edge/limit-all-body.ts";
import {
  RESERVE_TTL_MS,
  RESERVE_TTL_MS_MAX,
  RESERVE_TTL_MS_MIN,
} from "../../../wire/edge/reservation-bounds.ts";
import { WINDOW_MS_MAX } from "../../../wire/ratelimit/configuration.ts";
import { count, counted, integer, moment, positive, uuid } from "./parts.ts";

/** Names of limits and quotas, and keys of limits. They become parts of one stored key of at most 255 bytes. */
const LIMIT_NAME = /^[\w\-:.@+]{1,64}$/;

/**
 * Quotas of one strategy. The state of each is stored in the limit's one record, and each is decided at every request.
 */
const QUOTAS_MAX = 8;

/** Requests per second. GCRA counts in nanoseconds, and a higher rate would have less than one between two requests. */
const GCRA_RATE_MAX = 1e9;

/**
 * Requests of one call. A few places of an idempotency key hold the number of a request, and each request is an
 * operation of its own.
 */
export const LIMIT_REQUESTS_MAX = 1000;

/** A name or key of a limit. Text and not bytes, as strategies elsewhere name their quotas in it, too. */
const limitName = (description: string) => {
  const message = "expected 1 to 64 characters of A-Z a-z 0-9 _ - : . @ +";
  return v.pipe(v.string(message), v.regex(LIMIT_NAME, message), v.description(description));
};

/** A number of requests: whole, and exact in a double. */
const amount = (description: string) => integer(1, Number.MAX_SAFE_INTEGER, description);

/** Need not be whole: windows are counted in nanoseconds. */
const windowMs = positive(WINDOW_MS_MAX, "Length of the window, in ms.");

/** How many requests may come at once, after a pause. */
const burst = amount("Requests at once.");

/** The field that tells strategies apart. */
const is = <const Name extends string>(name: Name) => v.literal(name, `expected ${name}`);

/** Token and leaky bucket have the same fields: a burst, and a rate at which it comes back. */
export const BucketStrategy = v.strictObject({
  strategy: v.picklist(["token_bucket", "leaky_bucket"]),
  burst,
  rate: positive(Number.MAX_VALUE, "Requests per second in the long run; need not be whole."),
});

/** The same fields as a bucket, with a smaller largest rate. */
export const GcraStrategy = v.strictObject({
  strategy: is("gcra"),
  burst,
  rate: positive(GCRA_RATE_MAX, "Requests per second in the long run; need not be whole."),
});

/** One quota of several: so many requests in each window. */
export const Quota = v.strictObject({
  name: limitName("Name of the quota in results."),
  limit: amount("Requests in a window."),
  windowMs,
});

const quotasMessage = `expected 1 to ${QUOTAS_MAX} quotas`;

/**
 * A list even for one quota, so that a second one changes no type. Checks of the quotas together are the operation's.
 */
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

/** One quota for any window, wherever it begins. */
export const SlidingWindowStrategy = v.strictObject({
  strategy: is("sliding_window"),
  limit: amount("Requests in any window."),
  windowMs,
});

/** Both parts must allow a request: the first bounds a period, the second bursts within it. */
export const CompositeStrategy = v.strictObject({
  strategy: is("composite"),
  primary: FixedWindowStrategy,
  secondary: v.variant(
    "strategy",
    [BucketStrategy, GcraStrategy],
    "expected one of token_bucket, leaky_bucket, gcra",
  ),
});

/** In the order of messages, which name them all. */
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

/** Any strategy. The server stores none, so each request carries its own. */
export const Strategy = v.variant(
  "strategy",
  [BucketStrategy, GcraStrategy, FixedWindowStrategy, SlidingWindowStrategy, CompositeStrategy],
  // An issue about the field has a path; an issue about a value that is not an object has none.
  ({ path }) => (path === undefined ? OBJECT_MESSAGE : strategyMessage),
);

/** 1 unless given. It may exceed the limit: such a request is refused and says why. */
const cost = v.optional(amount("Cost of the request."), 1);

const durability = v.optional(
  v.pipe(
    v.picklist(["strict", "relaxed"], "expected one of strict, relaxed"),
    v.description(
      "`relaxed` answers before the decision is on disk: a crash may take back what was charged within the last 50 ms.",
    ),
  ),
  "strict",
);

/** A request to charge or to refund. */
export const limitBody = v.strictObject({ strategy: Strategy, cost, durability });

/** Without a cost: a peek asks about a request of cost 1. */
export const peekBody = v.strictObject({ strategy: Strategy, durability });

/** A count of units or decisions, from 0. */
const units = (description: string) => integer(0, Number.MAX_SAFE_INTEGER, description);
const returnsMessage = `expected at most ${DRAW_RETURNS_MAX} returns`;

/** Units that a caller gives back. */
const returns = v.optional(
  v.pipe(
    v.array(
      v.strictObject({
        draw: units("`draw` of the answer that the units came with."),
        units: units("Units that were not spent."),
      }),
      returnsMessage,
    ),
    v.maxLength(DRAW_RETURNS_MAX, returnsMessage),
    v.description("Units of earlier draws that you give back."),
  ),
  [],
);

/** A request for an allowance. */
export const drawBody = v.strictObject({
  strategy: Strategy,
  cost: v.optional(units("Units that are needed now."), 1),
  wanted: v.optional(units("Units that you expect to need while they live."), 0),
  leaseMs: v.optional(
    integer(LEASE_MS_MIN, LEASE_MS_MAX, "The longest life of the units, in ms."),
    LEASE_MS,
  ),
  returns,
  granted: v.optional(units("Requests that you granted from your units since the last draw."), 0),
  refused: v.optional(units("Requests that you refused yourself since the last draw."), 0),
});

/** Names of a request that has none in its path. */
const names = {
  name: limitName("Name of the limit."),
  key: limitName("Key of the limit, such as a user."),
};

const togetherMessage = `expected 1 to ${LIMIT_ALL_MAX} requests`;

/** Limits that are charged together. */
export const limitAllBody = v.strictObject({
  requests: v.pipe(
    v.array(
      v.strictObject({
        ...names,
        strategy: Strategy,
        cost,
        shadow: v.optional(
          v.pipe(
            v.boolean("expected true or false"),
            v.description(
              "True: the limit is charged with the others if it has room, and refuses nothing.",
            ),
          ),
          false,
        ),
        returns,
      }),
      togetherMessage,
    ),
    v.minLength(1, togetherMessage),
    v.maxLength(LIMIT_ALL_MAX, togetherMessage),
    v.description("The costs of requests with the same name, key and strategy are added."),
  ),
});

/** A request for a reservation. */
export const reserveBody = v.strictObject({
  strategy: Strategy,
  cost: v.optional(amount("The estimate."), 1),
  ttlMs: v.optional(
    integer(
      RESERVE_TTL_MS_MIN,
      RESERVE_TTL_MS_MAX,
      "How long the reservation may be settled, in ms.",
    ),
    RESERVE_TTL_MS,
  ),
  id: v.exactOptional(
    uuid("A new one unless given. Repeat a request with the same one: it is charged once."),
  ),
});

/** The real cost of a reservation. */
export const settleBody = v.strictObject({
  strategy: Strategy,
  id: uuid("`id` of the reservation."),
  cost: units("The real cost; 0 releases all that was reserved."),
});

const requestsMessage = `expected 1 to ${LIMIT_REQUESTS_MAX} requests`;

/** Requests with their names, which a single request has in its path. */
export const limitManyBody = v.strictObject({
  requests: v.pipe(
    v.array(v.strictObject({ ...names, strategy: Strategy, cost, durability }), requestsMessage),
    v.minLength(1, requestsMessage),
    v.maxLength(LIMIT_REQUESTS_MAX, requestsMessage),
  ),
});

/** In the query, as many clients send no body with DELETE. */
export const resetQuery = v.strictObject({
  strategy: v.pipe(
    v.picklist(STRATEGIES, strategyMessage),
    v.description(
      "Strategy of the limit. The state of a composite is stored under a key of its own.",
    ),
  ),
});

/** One quota's part in a decision. */
export const QuotaResult = v.strictObject({
  allowed: v.boolean(),
  limit: v.number(),
  remaining: counted("Further requests of cost 1 that would be allowed now."),
  reset: moment("In ms since the epoch; null if waiting does not help."),
});

/** A decision. Times are null when no waiting helps, as JSON has no infinity. */
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

/** What was drawn, beside the decision on the cost. */
export const DrawResult = v.strictObject({
  ...LimitResult.entries,
  units: counted("Units that were charged, those of the cost among them."),
  draw: v.pipe(
    v.nullable(v.number()),
    v.description("Names the draw, to give units back; null without units."),
  ),
  lifeMs: counted("How long the units may be spent, in ms from the moment you sent the request."),
  pauseMs: counted("How long to wait before the next draw, in ms."),
});

/** What limits that are charged together say. */
export const LimitAllResult = v.strictObject({
  success: v.pipe(v.boolean(), v.description("Whether all were charged; else none was.")),
  refusedBy: v.pipe(
    v.nullable(v.number()),
    v.description("Index of the first request that was refused; null if all were charged."),
  ),
  retryAfterMs: moment(
    "The longest wait of the requests that were refused; null if waiting does not help.",
  ),
  results: v.pipe(
    v.array(LimitResult),
    v.description(
      "One for each request, in the same order. After a refusal the others say what a charge would have left.",
    ),
  ),
});

/** The decision on an estimate. */
export const ReserveResult = v.strictObject({
  ...LimitResult.entries,
  id: v.pipe(
    v.nullable(v.string()),
    v.description("Names the reservation, to settle it; null after a refusal."),
  ),
});

/** The figures of a limit after a reservation was settled. */
export const SettleResult = v.strictObject({
  ...LimitResult.entries,
  settled: counted("The cost that the reservation was settled with: that of the first call."),
});

/** Results and errors mixed: the failure of one request says nothing about the others. */
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
