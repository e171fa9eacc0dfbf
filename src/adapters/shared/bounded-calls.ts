/**
 * Calls of an adapter: each ends in time, and fails with an error that has a code.
 *
 * A service binding has no timeout of its own, and the libraries wait for their store as long as it takes.
 */
import { clockOption, integerOf } from "../../wire/edge/argument.ts";
import { ThrottrError } from "../../wire/edge/error.ts";
import type {
  BatchCall,
  BatchOutcome,
  BatchOutcomes,
  ThrottrService,
} from "../../wire/edge/service.ts";
import { TIMER_MS_MAX, type Clock } from "../../wire/clock.ts";
import { configurationInvalid } from "../../wire/ratelimit/error.ts";
import { chargeOptions, type ChargeOptions, type LimitBackend } from "../../ratelimit/backend.ts";
import { systemClock } from "../../ratelimit/clock.ts";
import { within } from "../../ratelimit/wait.ts";

/** Longer than any answer should take, and short enough for a person who waits for a page. */
const TIMEOUT_MS = 5_000;

/** How long the calls of an adapter may take. */
export interface CallLimits {
  /** In ms: 1 to 2^31 - 1; 5,000 unless given. A call that took longer may have been applied. */
  readonly timeoutMs?: number | undefined;
  /** The clock of the platform unless given. */
  readonly clock?: Clock | undefined;
}

/** The arguments that end a call which writes: a client never sends it once its caller is gone. None for a binding. */
export type Ending = [options?: ChargeOptions];

/** A server that executes operations in order. */
export interface Batches {
  batch<const Calls extends readonly BatchCall[]>(
    calls: Calls,
    ...ending: Ending
  ): Promise<BatchOutcomes<Calls>>;
}

export class BoundedCalls {
  readonly #throttr: Pick<LimitBackend, "takesSignals">;
  readonly #timeoutMs: number;
  readonly #clock: Clock;

  /** @throws ThrottrError `option_invalid` */
  constructor(throttr: object, { timeoutMs = TIMEOUT_MS, clock = systemClock }: CallLimits) {
    this.#throttr = throttr;
    this.#timeoutMs = integerOf(timeoutMs, "timeoutMs", 1, TIMER_MS_MAX, "option_invalid");
    this.#clock = clockOption(clock);
  }

  /** @throws ThrottrError `timeout`, or what the call fails with */
  async run<Result>(call: (ending: Ending) => Promise<Result>): Promise<Result> {
    const patience = { clock: this.#clock, timeoutMs: this.#timeoutMs, signal: undefined };
    const caller = new AbortController();
    try {
      return await within(call(chargeOptions(this.#throttr, caller.signal)), patience);
    } catch (error) {
      caller.abort(error);
      throw ThrottrError.from(error, "outcome_unknown");
    }
  }
}

/**
 * A server of an adapter. Platforms make stubs of many kinds, functions and proxies among them, and these have any property:
 * what lacks `batch` is another thing, such as a transport or an address.
 *
 * @param field the name of the option, for the message
 * @throws RateLimitError `configuration_invalid`
 */
export function checkBackend<Backend extends Pick<ThrottrService, "batch">>(
  throttr: Backend,
  field = "throttr",
): Backend {
  if ((throttr as Partial<Backend> | null | undefined)?.batch !== undefined) return throttr;
  throw configurationInvalid(field, "expected a client or a service binding", throttr);
}

/** The value of an outcome of a batch. @throws ThrottrError */
export function valueIn<Value>(outcome: BatchOutcome<Value>): Value {
  if (outcome.ok) return outcome.value;
  throw ThrottrError.from(outcome.error.message);
}
