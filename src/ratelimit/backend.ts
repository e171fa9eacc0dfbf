/** What a limiter needs of a server: a client and a service binding both have these methods. */
import type { DrawRequest, DrawResult } from "../wire/edge/draw.ts";
import type { LimitResult } from "../wire/edge/limit.ts";
import type { LimitAllRequest, LimitAllResult } from "../wire/edge/limit-all.ts";
import type {
  LimitRequest,
  ReserveRequest,
  ReserveResult,
  SettleRequest,
  SettleResult,
} from "../wire/edge/operations.ts";

/**
 * Decides limits. A client of Throttr Edge is one, and so is the binding of a Worker to it.
 *
 * Errors have a message that begins with a stable code and a colon.
 *
 * @example
 * const backend: LimitBackend = env.THROTTR;
 * const limiter = new RateLimiter({ throttr: backend, name: "api", strategy });
 */
export interface LimitBackend {
  /** Asks a limit, and charges the cost if it allows it. */
  limit(request: LimitRequest): PromiseLike<LimitResult>;
  /** Asks many limits at once; the results are in the order of the requests. */
  limitMany(requests: readonly LimitRequest[]): PromiseLike<readonly LimitResult[]>;
  /** What a limit would say to a cost of 1. */
  peek(request: LimitRequest): PromiseLike<LimitResult>;
  /** Gives a cost back; the result is as that of `peek`. */
  refund(request: LimitRequest): PromiseLike<LimitResult>;
  /** Removes the state of a limit for a key; false where no state exists. */
  reset(request: Omit<LimitRequest, "cost">): PromiseLike<boolean>;
  /** Draws units of a limit, for `local`; without it and `drawMany`, limiters with `local` ask exactly. */
  draw?(request: DrawRequest): PromiseLike<DrawResult>;
  /** Draws units of many limits at once; the results are in the order of the requests. */
  drawMany?(requests: readonly DrawRequest[]): PromiseLike<readonly DrawResult[]>;
  /** Charges an estimate, for `reserve`. */
  reserve?(request: ReserveRequest): PromiseLike<ReserveResult>;
  /** Corrects an estimate, for `settle`. */
  settle?(request: SettleRequest): PromiseLike<SettleResult>;
  /** Charges several limits together, for `limitAll`. */
  limitAll?(request: LimitAllRequest): PromiseLike<LimitAllResult>;
}
