/** Routes of counters. Quotas are strings of digits in JSON, because JSON readers round numbers above 2^53. */
import * as operations from "../../wire/edge/operations.ts";
import type { CounterChange, CounterRecord } from "../../wire/edge/operations.ts";
import { ThrottrError } from "../../wire/edge/error.ts";
import { executeOne } from "../execute.ts";
import { recordRoutes } from "./records.ts";
import { created, ok, present, route, type Answer, type Route } from "./route.ts";
import { components } from "./schemas/components.ts";
import {
  amountBody,
  incrementBody,
  insertBody,
  quotaAnswer,
  quotaBody,
} from "./schemas/counters.ts";

const tag = "counters";

/** The answer of routes that change a counter. */
const changed = {
  200: {
    description: "The outcome, and the counter as it is now.",
    schema: components.CounterChange,
  },
};

/** A counter as JSON has it: `JSON.stringify` throws on a `bigint`. */
const inJson = (counter: CounterRecord): object => ({
  ...counter,
  quota: String(counter.quota),
});

/**
 * The answer to a change. One that did not apply is a normal answer, with `applied` false.
 *
 * @throws ThrottrError `key_absent`
 */
const changeOf = (change: CounterChange | null): Answer => ok(inJson(present(change, "counter")));

/** The routes that add to a counter and subtract from it. */
const changeRoute = (
  name: "increase" | "decrease",
  change: typeof operations.increase,
  summary: string,
): Route =>
  route({
    method: "POST",
    path: `/v1/counters/{key}/${name}`,
    id: `${name}Counter`,
    tag,
    summary,
    scopes: ["write"],
    once: "one",
    body: amountBody,
    answers: changed,
    errors: ["key_absent", "kind_mismatch"],
    example: { url: `/v1/counters/visits/${name}`, body: { amount: 5 } },
    answer: async ({ caller, path, body, once }) => {
      return changeOf(await executeOne(caller, change(path.key, body.amount, once)));
    },
  });

export const counterRoutes = [
  route({
    method: "PUT",
    path: "/v1/counters/{key}",
    id: "insertCounter",
    tag,
    summary: "Create a counter",
    description: "Only if the key has no record. An existing record stays as it is.",
    scopes: ["write"],
    once: "one",
    body: insertBody,
    answers: { 201: { description: "The counter was created." } },
    errors: ["exists", "shard_full"],
    example: { url: "/v1/counters/visits", body: { quota: "100", ttlMs: 60_000 } },
    answer: async ({ caller, path, body, once }) => {
      const isNew = await executeOne(
        caller,
        operations.insert(path.key, { quota: body.quota, ttlMs: body.ttlMs, ...once }),
      );
      if (isNew) return created;
      throw new ThrottrError(
        "exists",
        "there is already a record under the key; nothing was changed",
      );
    },
  }),
  route({
    method: "GET",
    path: "/v1/counters/{key}",
    id: "queryCounter",
    tag,
    summary: "Read a counter",
    scopes: ["read"],
    answers: { 200: { description: "The counter.", schema: components.Counter } },
    errors: ["key_absent", "kind_mismatch"],
    example: { url: "/v1/counters/visits" },
    answer: async ({ caller, path }) => {
      const counter = await executeOne(caller, operations.query(path.key));
      return ok(inJson(present(counter, "counter")));
    },
  }),
  route({
    method: "PATCH",
    path: "/v1/counters/{key}",
    id: "patchCounter",
    tag,
    summary: "Set the quota of a counter",
    scopes: ["write"],
    once: "one",
    body: quotaBody,
    answers: changed,
    errors: ["key_absent", "kind_mismatch"],
    example: { url: "/v1/counters/visits", body: { quota: 7 } },
    answer: async ({ caller, path, body, once }) => {
      return changeOf(await executeOne(caller, operations.patch(path.key, body.quota, once)));
    },
  }),
  ...recordRoutes("counter"),
  route({
    method: "POST",
    path: "/v1/counters/{key}/increment",
    id: "incrementCounter",
    tag,
    summary: "Add to a counter, or create it",
    description: "A key without a record gets a counter with this amount and TTL.",
    scopes: ["write"],
    once: "one",
    body: incrementBody,
    answers: { 200: { description: "The new quota.", schema: quotaAnswer } },
    errors: ["kind_mismatch", "quota_overflow", "shard_full"],
    example: { url: "/v1/counters/visits/increment", body: { ttlMs: 60_000 } },
    answer: async ({ caller, path, body, once }) => {
      const { by, ttlMs } = body;
      const options = { by, ttlMs, ...once };
      const quota = await executeOne(caller, operations.increment(path.key, options));
      return ok({ quota: String(quota) });
    },
  }),
  changeRoute("increase", operations.increase, "Add to the quota of a counter"),
  changeRoute(
    "decrease",
    operations.decrease,
    "Subtract from the quota of a counter, if it is large enough",
  ),
];
