/** Calls that don't wait for the disk, to a server that may not know them. */
import { ThrottrError } from "../wire/edge/error.ts";
import type { LimitResult } from "../wire/edge/limit.ts";
import type { LimitRequest } from "../wire/edge/operations.ts";
import type { LimitBackend, ChargeOptions } from "./backend.ts";

/** Calls that may be relaxed. */
export type DecisionCalls = Pick<
  LimitBackend,
  "takesSignals" | "limit" | "limitMany" | "peek" | "refund"
>;

export class RelaxedCalls implements DecisionCalls {
  readonly #throttr: DecisionCalls;

  constructor(throttr: DecisionCalls) {
    this.#throttr = throttr;
  }

  get takesSignals(): boolean {
    return this.#throttr.takesSignals === true;
  }

  limit(request: LimitRequest, ...options: [options?: ChargeOptions]): PromiseLike<LimitResult> {
    return askRelaxed([request], ([asked]) => this.#throttr.limit(asked!, ...options));
  }

  limitMany(
    requests: readonly LimitRequest[],
    ...options: [options?: ChargeOptions]
  ): PromiseLike<readonly LimitResult[]> {
    return askRelaxed(requests, (asked) => this.#throttr.limitMany(asked, ...options));
  }

  peek(request: LimitRequest): PromiseLike<LimitResult> {
    return askRelaxed([request], ([asked]) => this.#throttr.peek(asked!));
  }

  refund(request: LimitRequest): PromiseLike<LimitResult> {
    return askRelaxed([request], ([asked]) => this.#throttr.refund(asked!));
  }
}

/**
 * A server before 0.5 refuses relaxed requests, and so does a shard that still runs such a release during a deployment:
 * then it asks again, strictly, which promises more. Nothing was applied of a request that was refused; in a call of many,
 * others may have been charged, and are charged again.
 */
async function askRelaxed<Result>(
  requests: readonly LimitRequest[],
  ask: (asked: readonly LimitRequest[]) => PromiseLike<Result>,
): Promise<Result> {
  try {
    return await ask(requests.map((request) => ({ ...request, durability: "relaxed" })));
  } catch (error) {
    if (ThrottrError.from(error).code !== "flags_invalid") throw error;
    return await ask(requests);
  }
}
