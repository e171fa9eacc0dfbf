/** The codes that a route of `/v1` may answer with, beside those that any route has. */
import { isOfAnyRoute, PROBLEM_CODES, type ProblemCode } from "../../wire/edge/codes.ts";
import type { Route } from "./route.ts";

/** What any route may answer. No route has codes of its own with the same status. */
export const SHARED_CODES = PROBLEM_CODES.filter(isOfAnyRoute);

/** A route's own codes and those that follow from its parts, in the order of their status. */
export function codesOf(route: Route): ProblemCode[] {
  // A body is read whether or not the route has one.
  const codes = new Set<ProblemCode>([
    "query_invalid",
    "body_too_large",
    "body_aborted",
    "body_timeout",
    ...route.errors,
  ]);
  const add = (condition: boolean, ...more: readonly ProblemCode[]): void => {
    if (condition) for (const code of more) codes.add(code);
  };
  add(route.path.includes("{key}"), "key_invalid");
  add(route.path.includes("{name}"), "name_invalid");
  add(route.path.includes("{lease}"), "lease_invalid");
  add(route.path.includes("{channel}"), "channel_invalid");
  add(route.body !== undefined, "json_invalid", "body_invalid");
  add(
    route.method !== "GET" && route.scopes.some((scope) => scope !== "read"),
    "idempotency_key_invalid",
  );
  add(route.once === "one", "idempotency_conflict", "answer_lost", "shard_full");
  return PROBLEM_CODES.filter((code) => codes.has(code));
}
