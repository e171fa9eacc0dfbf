/** Requests and answers about counters. */
import * as v from "valibot";
import { U64, U64Text, integer, remaining, ttlMs } from "./parts.ts";

/** Both fields are needed: every record expires. */
export const insertBody = v.strictObject({ quota: U64, ttlMs });

/** The TTL is needed although an existing counter ignores it: a caller cannot know which it will meet. */
export const incrementBody = v.strictObject({
  by: v.optional(U64, "1"),
  ttlMs: integer(
    1,
    Number.MAX_SAFE_INTEGER,
    "TTL of a new counter, in ms; an existing one keeps its own.",
  ),
});

/** The quota to set; the TTL stays. */
export const quotaBody = v.strictObject({ quota: U64 });

/** What to add or subtract, never negative: a quota is unsigned. */
export const amountBody = v.strictObject({ amount: U64 });

/** A counter that was read. */
export const Counter = v.strictObject({ quota: U64Text, ...remaining });

/** The counter after a change, or as it is when the change did not apply. */
export const CounterChange = v.strictObject({
  applied: v.pipe(
    v.boolean(),
    v.description(
      "False if the quota would have left the range 0 to 2^64 - 1; it is unchanged then.",
    ),
  ),
  quota: U64Text,
  ...remaining,
});

/** The quota alone: the reply to an increment has nothing else. */
export const quotaAnswer = v.strictObject({ quota: U64Text });
