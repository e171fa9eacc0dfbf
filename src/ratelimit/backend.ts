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
  /**
   * True for a client: `limit`, `limitMany`, `reserve` and `limitAll` take a signal, and a call that was not sent when its
   * signal is aborted is never sent. A binding gets no signal, as RPC cannot carry one.
   */
  readonly takesSignals?: boolean;
  /** Asks a limit, and charges the cost if it allows it. */
  limit(request: LimitRequest, options?: ChargeOptions): PromiseLike<LimitResult>;
  /** Asks many limits at once; the results are in the order of the requests. */
  limitMany(
    requests: readonly LimitRequest[],
    options?: ChargeOptions,
  ): PromiseLike<readonly LimitResult[]>;
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
  reserve?(request: ReserveRequest, options?: ChargeOptions): PromiseLike<ReserveResult>;
  /** Corrects an estimate, for `settle`. */
  settle?(request: SettleRequest): PromiseLike<SettleResult>;
  /** Charges several limits together, for `limitAll`. */
  limitAll?(request: LimitAllRequest, options?: ChargeOptions): PromiseLike<LimitAllResult>;
}

/**
 * Options of a call that charges, where `takesSignals` is true.
 *
 * @example
 * const options: ChargeOptions = { signal: AbortSignal.timeout(500) };
 */
export interface ChargeOptions {
  readonly signal: AbortSignal;
}

/** The arguments that end a call which charges: none where the backend takes no signals. */
export function chargeOptions(
  // A binding has any property, but none that is true.
  { takesSignals }: Pick<LimitBackend, "takesSignals">,
  signal: AbortSignal,
): [options?: ChargeOptions] {
  return takesSignals === true ? [{ signal }] : [];
}
