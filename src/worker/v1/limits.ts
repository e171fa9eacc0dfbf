/** Routes of rate limits. */
import { binaryString } from "../../wire/bytes.ts";
import { IDEMPOTENCY_KEY_BYTES_MAX } from "../../wire/edge/command.ts";
import { ThrottrError } from "../../wire/edge/error.ts";
import { checked, type LimitResult } from "../../wire/edge/limit.ts";
import * as operations from "../../wire/edge/operations.ts";
import type { LimitRequest } from "../../wire/edge/operations.ts";
import type { Operation } from "../../wire/edge/operation.ts";
import { storageKey } from "../../wire/ratelimit/keys.ts";
import { execute, executeOne } from "../execute.ts";
import type { ProblemCode } from "../../wire/edge/codes.ts";
import { nothing, ok, present, route } from "./route.ts";
import { components } from "./schemas/components.ts";
import {
  LIMIT_REQUESTS_MAX,
  limitBody,
  limitManyAnswer,
  limitManyBody,
  peekBody,
  resetQuery,
} from "./schemas/limits.ts";
import { noQuery } from "./schemas/parts.ts";

const tag = "limits";
const path = "/v1/limits/{name}/{key}";
const strategy = { strategy: "token_bucket", burst: 10, rate: 2 } as const;

const result = { 200: { description: "What the limit says.", schema: components.LimitResult } };

const nameErrors: readonly ProblemCode[] = ["base_key_invalid", "key_invalid"];
const strategyErrors: readonly ProblemCode[] = [
  "quota_name_taken",
  "quota_ratio_taken",
  "time_overflow",
  "kind_mismatch",
  "state_invalid",
];
const limitErrors = [...nameErrors, ...strategyErrors];

/** Names of limits are ASCII: whatever else comes is refused as it is. */
const nameOf = (bytes: Uint8Array): string => binaryString(bytes, 0, bytes.length);

const namesOf = (path: { name: Uint8Array; key: Uint8Array }): { name: string; key: string } => ({
  name: nameOf(path.name),
  key: nameOf(path.key),
});

export const limitRoutes = [
  route({
    method: "POST",
    path,
    id: "limit",
    tag,
    summary: "Ask a limit, and charge the cost if it allows it",
    description:
      "A refusal is an answer, too: 200 with `success` false. The request brings the strategy; the state is kept under the name of the limit and the key of who is limited.",
    scopes: ["write"],
    once: "one",
    query: noQuery,
    body: limitBody,
    answers: result,
    errors: [...limitErrors, "shard_full"],
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
    summary: "What a limit would say to a cost of 1",
    description: "Nothing is charged; `remaining` is what it is before.",
    scopes: ["read"],
    query: noQuery,
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
    method: "POST",
    path: `${path}/refund`,
    id: "refundLimit",
    tag,
    summary: "Give a cost back to a limit",
    scopes: ["write"],
    once: "one",
    query: noQuery,
    body: limitBody,
    answers: result,
    errors: [...limitErrors, "shard_full"],
    example: { url: "/v1/limits/api/user:42/refund", body: { strategy, cost: 2 } },
    answer: async ({ caller, path, body, once }) => {
      const request = { ...namesOf(path), ...body, ...once };
      return ok(await executeOne(caller, operations.refund(request)));
    },
  }),
  route({
    method: "DELETE",
    path,
    id: "resetLimit",
    tag,
    summary: "Forget the state of a limit",
    scopes: ["write"],
    once: "one",
    query: resetQuery,
    body: undefined,
    answers: { 204: { description: "It is forgotten." } },
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
    path: "/v1/limits",
    id: "limitMany",
    tag,
    summary: "Ask many limits at once",
    description:
      "One call to each shard, whatever their number. Each request is answered by itself: with its result, or with an error of the codes of a single one. `Idempotency-Key` covers them all, in this order: it has 60 bytes at most here.",
    scopes: ["write"],
    once: "each",
    query: noQuery,
    body: limitManyBody,
    answers: { 200: { description: "What the limits say.", schema: limitManyAnswer } },
    errors: [],
    example: {
      url: "/v1/limits",
      body: { requests: [{ name: "api", key: "user:42", strategy }] },
    },
    answer: async ({ caller, body, once }) => {
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

/** Bytes of a key that are left to the number of a request. */
const NUMBER_BYTES = `.${LIMIT_REQUESTS_MAX - 1}`.length;
const KEY_BYTES_MAX = IDEMPOTENCY_KEY_BYTES_MAX - NUMBER_BYTES;

/** A key of its own for each request of many: two of them may be on one record. */
function onceOf(key: string | undefined, i: number): { idempotencyKey?: string } {
  if (key === undefined) return {};
  if (key.length <= KEY_BYTES_MAX) return { idempotencyKey: `${key}.${i}` };
  throw new ThrottrError(
    "idempotency_key_invalid",
    `Idempotency-Key: expected 1 to ${KEY_BYTES_MAX} bytes here, got ${key.length}`,
  );
}

function attempt(request: LimitRequest): Operation<LimitResult> | ThrottrError {
  try {
    return operations.limit(request);
  } catch (error) {
    return ThrottrError.from(error);
  }
}

function errorOf({ code, detail }: ThrottrError): object {
  return { error: { code, detail } };
}
