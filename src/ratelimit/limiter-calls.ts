/** Calls to the server of a limiter: how long they may take, and what a failed one is answered with. */
import { signalOption } from "../wire/edge/argument.ts";
import type { Code } from "../wire/edge/codes.ts";
import { ThrottrError } from "../wire/edge/error.ts";
import type { LimiterSettings } from "./limiter-options.ts";
import { shadowOf, type RateLimitResult } from "./result.ts";
import { limitMinOf } from "./strategies.ts";
import { within } from "./wait.ts";

/** Of limits that cannot be charged together. The server alone detects it, and it is the caller's mistake, not a failure. */
const WRONG_ARGUMENT: Code = "limit_all_invalid";

type Settings = Pick<LimiterSettings, "strategy" | "clock" | "timeoutMs" | "onError" | "isShadow">;

export class LimiterCalls {
  readonly #settings: Settings;

  constructor(settings: Settings) {
    this.#settings = settings;
  }

  /** The result that the caller of a limiter gets for a call with one decision. */
  async decide(
    call: (gone: AbortSignal) => Promise<RateLimitResult>,
    signal: AbortSignal | undefined,
  ): Promise<RateLimitResult> {
    return this.shown(await this.answer(call, signal, (fallback) => fallback));
  }

  /** The answer of a call, or of `onError` when the call fails. A wrong argument always throws. */
  async answer<Answer>(
    call: (gone: AbortSignal) => Promise<Answer>,
    signal: AbortSignal | undefined,
    answerWith: (fallback: RateLimitResult) => Answer,
  ): Promise<Answer> {
    signalOption(signal);
    try {
      return await this.call(call, signal);
    } catch (error) {
      const { onError, isShadow } = this.#settings;
      const isDecided = onError !== undefined || isShadow;
      if (!isDecided || signal?.aborted || !(error instanceof ThrottrError)) throw error;
      if (error.code === WRONG_ARGUMENT) throw error;
      return answerWith(this.#fallbackFor(error));
    }
  }

  /**
   * Makes a call, and tells it by a signal when its caller is gone: what was not sent by then is not wanted any more.
   *
   * @throws ThrottrError, or the reason of the signal
   */
  async call<Answer>(
    call: (gone: AbortSignal) => Promise<Answer>,
    signal: AbortSignal | undefined,
  ): Promise<Answer> {
    signalOption(signal);
    signal?.throwIfAborted();
    const { clock, timeoutMs } = this.#settings;
    const caller = new AbortController();
    try {
      return await within(call(caller.signal), { clock, timeoutMs, signal });
    } catch (cause) {
      caller.abort(cause);
      signal?.throwIfAborted();
      throw ThrottrError.from(cause, "outcome_unknown");
    }
  }

  /** The result that the caller of a limiter gets. */
  shown(decision: RateLimitResult): RateLimitResult {
    return this.#settings.isShadow ? shadowOf(decision) : decision;
  }

  #fallbackFor(error: ThrottrError): RateLimitResult {
    const success = this.#settings.onError === "open";
    return {
      success,
      limit: limitMinOf(this.#settings.strategy),
      remaining: 0,
      reset: null,
      retryAfterMs: success ? 0 : null,
      reason: error.code === "timeout" ? "timeout" : "error",
      quotas: {},
      error,
    };
  }
}
