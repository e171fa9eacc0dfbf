/** How a limiter decides: by asking for each request, or from what it knows. */
import { inBatches } from "../wire/edge/batch-parts.ts";
import type { DrawReturn } from "../wire/edge/draw.ts";
import { ThrottrError } from "../wire/edge/error.ts";
import type { LimitRequest } from "../wire/edge/operations.ts";
import { chargeOptions } from "./backend.ts";
import type { DecisionCalls } from "./relaxed.ts";
import { decisionOf, type RateLimitResult } from "./result.ts";

/** Keeps work alive after the response to a request, as `ctx.waitUntil` of a Worker. */
export type WaitUntil = (work: Promise<unknown>) => void;

/** What is asked for, by the caller's key, and as the server is asked. */
export interface Wish {
  readonly key: string;
  readonly request: LimitRequest;
}

export interface Decider {
  /**
   * Decides without a call; null where the server must be asked. Not for requests with an idempotency key.
   *
   * @param key the caller's
   */
  decide(key: string, cost: number, waitUntil: WaitUntil | undefined): RateLimitResult | null;
  /**
   * Asks the server in one call for each 10,000, and learns from its answers. Requests with an idempotency key may take
   * another one.
   *
   * @param gone aborted when the caller has got another answer
   */
  ask(
    wishes: readonly Wish[],
    gone: AbortSignal,
    waitUntil: WaitUntil | undefined,
  ): Promise<RateLimitResult[]>;
  /**
   * Waits for what other requests of a hot key have asked for, and decides from it; null, at once or in the end, where the
   * server must be asked.
   *
   * @param gone aborted when the caller has got another answer
   * @throws the reason of `gone`: nothing is spent or sent for a caller that is gone
   */
  waitFor?(wish: Wish, gone: AbortSignal): Promise<RateLimitResult | null> | null;
  /** Takes all units of a key that are here, for a message that gives them back. */
  takeReturns(storedKey: string): DrawReturn[];
  /** A key was refunded or settled, or may have been. */
  noteRefund(storedKey: string): void;
  /** A key was reset, or may have been. */
  noteReset(storedKey: string): void;
}

/** Knows nothing. */
export class ExactDecider implements Decider {
  readonly #throttr: DecisionCalls;

  constructor(throttr: DecisionCalls) {
    this.#throttr = throttr;
  }

  decide(): null {
    return null;
  }

  ask(wishes: readonly Wish[], gone: AbortSignal): Promise<RateLimitResult[]> {
    return inBatches(wishes, (part) => this.#askBatch(part, gone));
  }

  async #askBatch(wishes: readonly Wish[], gone: AbortSignal): Promise<RateLimitResult[]> {
    gone.throwIfAborted();
    const requests = wishes.map(({ request }) => request);
    const options = chargeOptions(this.#throttr, gone);
    const results =
      requests.length === 1
        ? [await this.#throttr.limit(requests[0]!, ...options)]
        : await this.#throttr.limitMany(requests, ...options);
    checkCount(results.length, requests.length);
    return results.map(decisionOf);
  }

  takeReturns(): DrawReturn[] {
    return [];
  }

  noteRefund(): void {}

  noteReset(): void {}
}

/** @throws ThrottrError `reply_invalid` unless there is a result for each request */
export function checkCount(results: number, requests: number): void {
  if (results === requests) return;
  throw new ThrottrError("reply_invalid", `expected ${requests} results, got ${results}`);
}
