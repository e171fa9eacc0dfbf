/** Counting in one call, with the time that is left: what stores of rate limiting libraries report. */
import type { ThrottrService } from "../../wire/edge/service.ts";
import { valueIn } from "./bounded-calls.ts";

/** A counter after it has been changed. */
export interface Counted {
  readonly quota: bigint;
  /** Rounded up. */
  readonly ttlMs: number;
}

/** How a counter is changed. */
export interface CountChange {
  /** What is added; negative to subtract. */
  readonly amount: number;
  /** What a new counter begins with. */
  readonly start: number;
  /** TTL of a new counter. */
  readonly ttlMs: number;
}

/**
 * Adds to a counter, or to a new one. Two operations of one batch, which the shard executes in order: unlike the answer
 * of `increment`, that of `increase` and `decrease` has the time that is left.
 */
export async function count(
  throttr: Pick<ThrottrService, "batch">,
  key: string,
  { amount, start, ttlMs }: CountChange,
): Promise<Counted> {
  const change = amount < 0 ? "decrease" : "increase";
  const [created, changed] = await throttr.batch([
    ["insert", key, { quota: start, ttlMs }],
    [change, key, Math.abs(amount)],
  ]);
  valueIn(created);
  // A TTL of a few milliseconds may end between the two.
  return valueIn(changed) ?? { quota: BigInt(start + amount), ttlMs: 0 };
}
