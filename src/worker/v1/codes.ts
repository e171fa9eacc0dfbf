/** The codes that routes may answer with: those of each, and those that all have. */
import { PROBLEM_CODES, type ProblemCode } from "../problem-codes.ts";
import type { Route } from "./route.ts";

/** What any route may answer. No route has codes of its own with the same status. */
export const SHARED_CODES: readonly ProblemCode[] = [
  "token_missing",
  "token_invalid",
  "token_expired",
  "token_not_yet_valid",
  "ticket_too_long",
  "scope_missing",
  "prefix_missing",
  "origin_not_allowed",
  "host_not_allowed",
  "internal",
  "config_invalid",
  "access_not_configured",
  "outcome_unknown",
  "format_unknown",
  "shards_mismatch",
  "shard_data_missing",
  "bodies_max",
  "listing_outgrown",
];

/** What a route answers beyond that, in the order of status: its own, and what follows from what it takes. */
export function codesOf(route: Route): ProblemCode[] {
  const codes = new Set<ProblemCode>(["query_invalid", ...route.errors]);
  const add = (condition: boolean, ...more: readonly ProblemCode[]): void => {
    if (condition) for (const code of more) codes.add(code);
  };
  add(route.path.includes("{key}"), "key_invalid");
  add(route.path.includes("{name}"), "name_invalid");
  add(route.path.includes("{lease}"), "lease_invalid");
  add(route.path.includes("{channel}"), "channel_invalid");
  add(route.body !== undefined, "json_invalid", "body_invalid", "body_too_large");
  add(route.body !== undefined, "body_aborted", "body_timeout");
  add(
    route.method !== "GET" && route.scopes.some((scope) => scope !== "read"),
    "idempotency_key_invalid",
  );
  add(route.once === "one", "idempotency_conflict", "answer_lost", "shard_full");
  return PROBLEM_CODES.filter((code) => codes.has(code));
}
