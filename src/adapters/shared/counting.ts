/** Counting in one call, with the time that is left: what stores of rate limiting libraries report. */
import { ThrottrError } from "../../wire/edge/error.ts";
import { valueIn, type Batches, type Ending } from "./bounded-calls.ts";

/** A counter after it has been changed. */
export interface Counted {
  readonly quota: bigint;
  /** Rounded up. */
  readonly ttlMs: number;
  /** The change has created it. */
  readonly isNew: boolean;
}

/** How a counter is changed. */
export interface CountChange {
  /** What is added, an integer; negative to subtract. */
  readonly amount: number;
  /** What a new counter begins with. */
  readonly start: number;
  /** TTL of a new counter. */
  readonly ttlMs: number;
}

/**
 * Adds to a counter, or to a new one. Two operations of one batch, which the shard executes in order: unlike the answer
 * of `increment`, that of `increase` and `decrease` has the time that is left.
 *
 * @throws ThrottrError `quota_overflow` where the sum leaves 0 to 2^64 - 1, and what the operations fail with
 */
export async function count(
  throttr: Batches,
  key: string,
  { amount, start, ttlMs }: CountChange,
  ending: Ending,
): Promise<Counted> {
  const [created, changed] = await throttr.batch(
    [
      ["insert", key, { quota: start, ttlMs }],
      [amount < 0 ? "decrease" : "increase", key, Math.abs(amount)],
    ],
    ...ending,
  );
  const isNew = valueIn(created);
  const counter = valueIn(changed);
  // A TTL of a few milliseconds may end between the two.
  if (counter === null) return { quota: BigInt(start + amount), ttlMs: 0, isNew };
  if (counter.applied) return { quota: counter.quota, ttlMs: counter.ttlMs, isNew };
  throw new ThrottrError("quota_overflow", "the counter would leave the range 0 to 2^64 - 1");
}
