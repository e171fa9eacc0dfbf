/** Requests and answers about counters. */
import * as v from "valibot";
import { U64, U64Text, integer, remaining, ttlMs } from "./parts.ts";

export const insertBody = v.strictObject({ quota: U64, ttlMs });

export const incrementBody = v.strictObject({
  by: v.optional(U64, "1"),
  ttlMs: integer(
    1,
    Number.MAX_SAFE_INTEGER,
    "TTL of a new counter, in ms; an existing one keeps its own.",
  ),
});

export const quotaBody = v.strictObject({ quota: U64 });

export const amountBody = v.strictObject({ amount: U64 });

export const Counter = v.strictObject({ quota: U64Text, ...remaining });

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

export const quotaAnswer = v.strictObject({ quota: U64Text });
