/** Time and chance, behind one interface that a test can stand in for: the client and rate limits share it. */

/** Longest delay of a platform's timer, ms: a longer one would end at once. */
export const TIMER_MS_MAX = 2 ** 31 - 1;

/**
 * Where a client, or a rate limiter, gets the time from.
 *
 * @example
 * const clock: Clock = {
 *   nowMs: () => simulation.nowMs,
 *   setTimer: (run, delayMs) => simulation.schedule(run, delayMs),
 *   clearTimer: (timer) => simulation.cancel(timer),
 * };
 * const throttr = new ThrottrClient(transport, { clock });
 */
export interface Clock {
  /**
   * Milliseconds. A rate limiter expects them since the epoch, and stands a clock that goes back. The client measures
   * lengths of time only, from any moment, with a clock that never goes back. `performance.timeOrigin + performance.now()`
   * is good for both.
   */
  nowMs(): number;
  /**
   * Runs something once, later.
   *
   * @param delayMs 0 to 2^31 - 1
   * @returns what `clearTimer` takes
   */
  setTimer(run: () => void, delayMs: number): unknown;
  clearTimer(timer: unknown): void;
  /**
   * Milliseconds from any moment, by a clock that never goes back: rate limits with `local` end drawn units by it, too, and
   * `blockUntilReady` counts its timeout by it. `nowMs` unless given.
   */
  monotonicMs?(): number;
  /**
   * Milliseconds from any moment, by a clock that goes on while the machine is suspended, though it may be set: the client
   * ends leases of semaphores by it, too. `nowMs` unless given.
   */
  wallMs?(): number;
  /** From 0 to below 1, for the waits between attempts of the client; `Math.random` unless given. */
  random?(): number;
}

const METHODS = ["nowMs", "setTimer", "clearTimer"] as const satisfies (keyof Clock)[];

/** Whether a value has what every clock needs. Plain JavaScript may leave a part of it out. */
export function isClock(value: unknown): value is Clock {
  if (typeof value !== "object" || value === null) return false;
  return METHODS.every((name) => typeof (value as Partial<Clock>)[name] === "function");
}

/** The time for lengths of time: by a clock that never goes back, where there is one. */
export const monotonicMsOf = (clock: Clock): number => clock.monotonicMs?.() ?? clock.nowMs();

/** What a wait needs of an `AbortSignal`. */
interface Signal {
  readonly aborted: boolean;
  readonly reason: unknown;
  addEventListener(type: "abort", listener: () => void): void;
  removeEventListener(type: "abort", listener: () => void): void;
}

/**
 * Waits for the delay, or as much of it as one timer can take.
 *
 * @param signals end the wait early
 * @throws the reason of the signal that was aborted first
 */
export async function pause(
  delayMs: number,
  clock: Clock,
  signals: readonly (Signal | null | undefined)[],
): Promise<void> {
  const enders = signals.filter((signal) => signal != null);
  let timer: unknown;
  let end = (): void => {};
  const over = new Promise<void>((resolve, reject) => {
    timer = clock.setTimer(resolve, Math.min(delayMs, TIMER_MS_MAX));
    end = () => {
      const ender = enders.find(({ aborted }) => aborted);
      if (ender !== undefined) reject(ender.reason as Error);
    };
  });
  for (const signal of enders) signal.addEventListener("abort", end);
  end();
  try {
    await over;
  } finally {
    clock.clearTimer(timer);
    for (const signal of enders) signal.removeEventListener("abort", end);
  }
}
