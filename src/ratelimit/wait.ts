/** Waits that end with an answer, a timeout or a signal, and leave no timer behind. */
import { ThrottrError } from "../wire/edge/error.ts";
import type { Clock } from "../wire/clock.ts";

/** How long to wait for a call. */
export interface Patience {
  readonly clock: Clock;
  /** 1 to 2^31 - 1, or Infinity. */
  readonly timeoutMs: number;
  readonly signal: AbortSignal | undefined;
}

/**
 * The result of a call that is under way, if it comes in time. The call itself goes on after a timeout.
 *
 * @param patience.signal not aborted yet
 * @throws ThrottrError `timeout`, the reason of the signal, or what the call throws
 */
export async function within<Result>(
  call: Promise<Result>,
  { clock, timeoutMs, signal }: Patience,
): Promise<Result> {
  let timer: unknown = null;
  let abort = (): void => {};
  const cutOff = new Promise<never>((_, reject) => {
    abort = () => {
      reject(signal?.reason as Error);
    };
    signal?.addEventListener("abort", abort);
    if (timeoutMs === Infinity) return;
    timer = clock.setTimer(() => {
      const detail = `no answer within ${timeoutMs} ms; the request may have been applied`;
      reject(new ThrottrError("timeout", detail));
    }, timeoutMs);
  });
  try {
    return await Promise.race([call, cutOff]);
  } finally {
    if (timer !== null) clock.clearTimer(timer);
    signal?.removeEventListener("abort", abort);
  }
}
