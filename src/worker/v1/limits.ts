/** Routes of rate limits. A request carries the strategy; the server stores only the state, under name and key. */
import { binaryString } from "../../wire/bytes.ts";
import { IDEMPOTENCY_KEY_BYTES_MAX } from "../../wire/edge/command.ts";
import { ThrottrError } from "../../wire/edge/error.ts";
import { checked, type LimitResult } from "../../wire/edge/limit.ts";
import * as operations from "../../wire/edge/operations.ts";
import type { LimitRequest } from "../../wire/edge/operations.ts";
import type { Operation } from "../../wire/edge/operation.ts";
import { storageKey } from "../../wire/ratelimit/keys.ts";
import { execute, executeOne } from "../execute.ts";
import { withNewReservationId } from "../new-ids.ts";
import type { ProblemCode } from "../../wire/edge/codes.ts";
import { nothing, ok, present, route } from "./route.ts";
import { components } from "./schemas/components.ts";
import {
  drawBody,
  limitAllBody,
  LIMIT_REQUESTS_MAX,
  limitBody,
  limitManyAnswer,
  limitManyBody,
  peekBody,
  reserveBody,
  resetQuery,
  settleBody,
} from "./schemas/limits.ts";

const tag = "limits";
/** A limit has two names: its own and that of whom it limits. The server joins them into one key. */
const path = "/v1/limits/{name}/{key}";
/** The strategy of the examples. */
const strategy = { strategy: "token_bucket", burst: 10, rate: 2 } as const;

/** The reservation of the examples. */
const exampleId = "6ba7b810-9dad-41d1-80b4-00c04fd430c8";

/** The answer of routes that decide. */
const result = { 200: { description: "The decision.", schema: components.LimitResult } };

/** Codes of names in the path, which a request of many has in its body instead. */
const nameErrors: readonly ProblemCode[] = ["base_key_invalid", "key_invalid"];
/**
 * Codes of a strategy. Schemas check each field; these are about a window that rounds to 0 ns, about fields together, and about
 * the stored state.
 */
const strategyErrors: readonly ProblemCode[] = [
  "window_invalid",
  "quota_name_taken",
  "quota_ratio_taken",
  "time_overflow",
  "kind_mismatch",
  "state_invalid",
];
const limitErrors = [...nameErrors, ...strategyErrors];

/** A name as text. Other bytes than ASCII become characters that the check of names refuses. */
const nameOf = (bytes: Uint8Array): string => binaryString(bytes, 0, bytes.length);

/** The two names of a path, as operations take them. */
const namesOf = (path: { name: Uint8Array; key: Uint8Array }): { name: string; key: string } => ({
  name: nameOf(path.name),
  key: nameOf(path.key),
});

/** What the routes that write a cost, charged or refunded, have in common. */
const charging = {
  method: "POST",
  tag,
  scopes: ["write"],
  once: "one",
  body: limitBody,
  answers: result,
  errors: [...limitErrors, "shard_full"],
} as const;

export const limitRoutes = [
  route({
    ...charging,
    path,
    id: "limit",
    summary: "Check a limit, and charge the cost if it is allowed",
    description:
      "A refusal is a normal answer: 200 with `success` false. The request carries the strategy; the server stores the state under the name of the limit and the key.",
    example: { url: "/v1/limits/api/user:42", body: { strategy, cost: 2 } },
    answer: async ({ caller, path, body, once }) => {
      const request = { ...namesOf(path), ...body, ...once };
      return ok(await executeOne(caller, operations.limit(request)));
    },
  }),
  route({
    method: "POST",
    path: `${path}/peek`,
    id: "peekLimit",
    tag,
    summary: "Check a limit without charging it",
    description: "Decides about a cost of 1. Nothing is charged, and nothing is written.",
    scopes: ["read"],
    body: peekBody,
    answers: result,
    errors: limitErrors,
    example: { url: "/v1/limits/api/user:42/peek", body: { strategy } },
    answer: async ({ caller, path, body }) => {
      const request = { ...namesOf(path), ...body };
      return ok(await executeOne(caller, operations.peek(request)));
    },
  }),
  route({
    ...charging,
    path: `${path}/refund`,
    id: "refundLimit",
    summary: "Refund a cost to a limit",
    example: { url: "/v1/limits/api/user:42/refund", body: { strategy, cost: 2 } },
    answer: async ({ caller, path, body, once }) => {
      const request = { ...namesOf(path), ...body, ...once };
      return ok(await executeOne(caller, operations.refund(request)));
    },
  }),
  route({
    method: "POST",
    path: `${path}/draw`,
    id: "drawLimit",
    tag,
    summary: "Draw units of a limit, to spend them without a call for each",
    description:
      "The units are charged at once; spend them within `lifeMs` of the moment you sent the request. Give back with your next draw what you did not spend. Never repeat a draw: if its answer is lost, so are its units.",
    scopes: ["write"],
    body: drawBody,
    answers: {
      200: {
        description: "The decision on the cost, and the units.",
        schema: components.DrawResult,
      },
    },
    errors: [...limitErrors, "draw_invalid", "shard_full"],
    example: { url: "/v1/limits/api/user:42/draw", body: { strategy, cost: 1, wanted: 20 } },
    answer: async ({ caller, path, body }) =>
      ok(await executeOne(caller, operations.draw({ ...namesOf(path), ...body }))),
  }),
  route({
    method: "POST",
    path: `${path}/reserve`,
    id: "reserveLimit",
    tag,
    summary: "Charge an estimate to a limit, and settle it later",
    description:
      "The estimate is charged at once, or refused as by a check; `id` is null then. A request with an `id` can be repeated safely: it is charged once. What is not settled within `ttlMs` counts as spent.",
    scopes: ["write"],
    body: reserveBody,
    answers: {
      200: { description: "The decision, and the reservation.", schema: components.ReserveResult },
    },
    errors: [...limitErrors, "reservation_invalid", "reservation_conflict", "shard_full"],
    example: {
      url: "/v1/limits/api/user:42/reserve",
      body: { strategy, cost: 8, ttlMs: 30_000 },
    },
    answer: async ({ caller, path, body }) => {
      // The id is made here and not by the shard: the frame then says all, however often it is executed.
      const request = withNewReservationId({ ...namesOf(path), ...body });
      return ok(await executeOne(caller, operations.reserve(request)));
    },
  }),
  route({
    method: "POST",
    path: `${path}/settle`,
    id: "settleLimit",
    tag,
    summary: "Settle a reservation with its real cost",
    description:
      "Gives back what was reserved too much, or charges what is missing, even beyond the limit. A cost of 0 releases the reservation. It is settled once; later calls change nothing, and `settled` has the cost of the first.",
    scopes: ["write"],
    body: settleBody,
    answers: {
      200: {
        description: "The decision on a cost of 1 afterwards, and the cost.",
        schema: components.SettleResult,
      },
    },
    errors: [...limitErrors, "reservation_invalid", "reservation_ended", "shard_full"],
    example: {
      url: "/v1/limits/api/user:42/settle",
      body: { strategy, id: exampleId, cost: 5 },
    },
    answer: async ({ caller, path, body }) =>
      ok(await executeOne(caller, operations.settle({ ...namesOf(path), ...body }))),
  }),
  route({
    method: "DELETE",
    path,
    id: "resetLimit",
    tag,
    summary: "Reset a limit",
    scopes: ["write"],
    once: "one",
    query: resetQuery,
    answers: { 204: { description: "The state was deleted." } },
    errors: [...nameErrors, "key_absent"],
    example: { url: "/v1/limits/api/user:42?strategy=token_bucket" },
    answer: async ({ caller, path, query, once }) => {
      const isComposite = query.strategy === "composite";
      const { name, key } = namesOf(path);
      const stored = checked(() => storageKey(name, key, isComposite));
      const isRemoved = await executeOne(caller, operations.purge(stored, once));
      present(isRemoved || null, "state");
      return nothing;
    },
  }),
  route({
    method: "POST",
    // Not below `/v1/limits/`, where names of limiters are.
    path: "/v1/limit-all",
    id: "limitAll",
    tag,
    summary: "Charge several limits together, or none",
    description:
      "All limits are charged, or none where one refuses: a refusal is a normal answer, and `refusedBy` says whose. A call must not be repeated after `outcome_unknown`, as it may have been charged.",
    scopes: ["write"],
    body: limitAllBody,
    answers: {
      200: { description: "What the limits decided.", schema: components.LimitAllResult },
    },
    errors: [...limitErrors, "cost_invalid", "limit_all_invalid", "shard_full"],
    example: {
      url: "/v1/limit-all",
      body: {
        requests: [
          { name: "api", key: "user:42", strategy },
          { name: "organisation", key: "acme", strategy, cost: 2 },
        ],
      },
    },
    answer: async ({ caller, body }) => ok(await executeOne(caller, operations.limitAll(body))),
  }),
  route({
    method: "POST",
    path: "/v1/limits",
    id: "limitMany",
    tag,
    summary: "Check many limits at once",
    description:
      "One call to each shard, however many requests there are. Each request has its own result or error, with the codes of a single check. `Idempotency-Key` covers all of them in this order, and has at most 60 bytes here.",
    scopes: ["write"],
    once: "each",
    body: limitManyBody,
    answers: {
      200: { description: "A result or an error for each request.", schema: limitManyAnswer },
    },
    example: {
      url: "/v1/limits",
      body: { requests: [{ name: "api", key: "user:42", strategy }] },
    },
    answer: async ({ caller, body, once }) => {
      // A wrong request fails by itself: the others must be decided as if it were not there.
      const attempts = body.requests.map((request, i) =>
        attempt({ ...request, ...onceOf(once.idempotencyKey, i) }),
      );
      const settled = await execute(
        caller,
        attempts.flatMap((tried) => (tried instanceof ThrottrError ? [] : [tried])),
      );
      let next = 0;
      const results = attempts.map((tried) => {
        if (tried instanceof ThrottrError) return errorOf(tried);
        const outcome = settled[next++]!;
        return outcome.ok ? { result: outcome.value } : errorOf(outcome.error);
      });
      return ok({ results });
    },
  }),
];

/** Bytes of an idempotency key that are reserved for the number of a request. */
const NUMBER_BYTES = `.${LIMIT_REQUESTS_MAX - 1}`.length;
const KEY_BYTES_MAX = IDEMPOTENCY_KEY_BYTES_MAX - NUMBER_BYTES;

/** An idempotency key for each request: two requests may be about the same record, and must both be charged. */
function onceOf(key: string | undefined, i: number): { idempotencyKey?: string } {
  if (key === undefined) return {};
  if (key.length <= KEY_BYTES_MAX) return { idempotencyKey: `${key}.${i}` };
  throw new ThrottrError(
    "idempotency_key_invalid",
    `Idempotency-Key: expected 1 to ${KEY_BYTES_MAX} bytes here, got ${key.length}`,
  );
}

/** Makes an operation; an error of its arguments is returned, as the other requests go on. */
function attempt(request: LimitRequest): Operation<LimitResult> | ThrottrError {
  try {
    return operations.limit(request);
  } catch (error) {
    return ThrottrError.from(error);
  }
}

/** An error in a list of results, with the fields of a problem that a program reads. */
function errorOf({ code, detail }: ThrottrError): object {
  return { error: { code, detail } };
}
