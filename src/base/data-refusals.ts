/**
 * Whether the data of this deployment can be served: what `GET /health` says beyond the answer of one shard.
 *
 * An isolate remembers that a shard has refused its data, until another call succeeds. A deployment with another number of
 * shards than its data has would seem healthy otherwise, while it answers nothing.
 */
import { presentMs } from "./clock.ts";
import { isWithin } from "./recent.ts";
import type { ThrottrError } from "../wire/edge/error.ts";

/** Refusals of the data, not of a request. */
const CODES: readonly string[] = ["shards_mismatch", "format_unknown", "row_version"];
/** A balancer that has taken a server out sends it no call that could succeed: it gets another chance. */
const REMEMBERED_MS = 60_000;

// Of the isolate, not of a request: `GET /health` is another request than the one that met the refusal.
let last: { readonly failure: ThrottrError; readonly atMs: number } | null = null;

/** Remembers a refusal of the data; other failures say nothing about the data. */
export function noteFailure(failure: ThrottrError): void {
  if (CODES.includes(failure.code)) last = { failure, atMs: presentMs() };
}

/** A call to a shard has succeeded: the data can be served. */
export function noteServed(): void {
  last = null;
}

/** The refusal that this isolate met last; null when calls have succeeded since, or it is long ago. */
export function dataRefusal(): ThrottrError | null {
  return last !== null && isWithin(last.atMs, REMEMBERED_MS) ? last.failure : null;
}
