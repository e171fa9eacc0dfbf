/** A clock that a test moves, and a backend of limiters on the real core, in memory. */
import { createLimiter, type StoredDecision } from "../../../src/engine/ratelimit/limiter.ts";
import type { Clock } from "../../../src/wire/clock.ts";
import type { LimitBackend } from "../../../src/ratelimit/backend.ts";
import { configurationOf, limitResultOf, type LimitResult } from "../../../src/wire/edge/limit.ts";
import type { LimitRequest } from "../../../src/wire/edge/operations.ts";
import { storageKey } from "../../../src/wire/ratelimit/keys.ts";

export const START_MS = 1_761_884_055_000;

interface Timer {
  readonly atMs: number;
  readonly callback: () => void;
}

/** Time passes when a test says so. */
export class FakeClock implements Clock {
  timeMs = START_MS;
  /** Of all timers so far. */
  readonly delaysMs: number[] = [];
  readonly #timers = new Set<Timer>();

  nowMs(): number {
    return this.timeMs;
  }

  setTimer(callback: () => void, delayMs: number): unknown {
    this.delaysMs.push(delayMs);
    const timer = { atMs: this.timeMs + delayMs, callback };
    this.#timers.add(timer);
    return timer;
  }

  clearTimer(timer: unknown): void {
    this.#timers.delete(timer as Timer);
  }

  /** Timers that wait. */
  get timers(): number {
    return this.#timers.size;
  }

  /** Lets time pass: timers end in their order, each with time for what follows from it. */
  async advance(byMs: number): Promise<void> {
    const untilMs = this.timeMs + byMs;
    for (;;) {
      await settle();
      const due = [...this.#timers].filter(({ atMs }) => atMs <= untilMs);
      const [next] = due.toSorted((a, b) => a.atMs - b.atMs);
      if (next === undefined) break;
      this.#timers.delete(next);
      this.timeMs = Math.max(this.timeMs, next.atMs);
      next.callback();
    }
    this.timeMs = untilMs;
    await settle();
  }
}

/** Lets all promises that can be settled be settled. */
export async function settle(): Promise<void> {
  await new Promise((resolve) => {
    setImmediate(resolve);
  });
}

type Method = "limit" | "limitMany" | "peek" | "refund" | "reset";

/** Decides as the server does. It can be late, fail, and have a clock of its own. */
export class FakeBackend implements LimitBackend {
  /** Its clock is so far ahead. */
  skewMs = 0;
  /** What calls fail with, as long as it is there. */
  failure: Error | null = null;
  /** Calls so far, with all their requests. */
  readonly calls: { method: Method; requests: Omit<LimitRequest, "cost">[] }[] = [];
  readonly #clock: FakeClock;
  readonly #states = new Map<string, { text: string; untilNs: bigint }>();
  readonly #replays = new Map<string, LimitResult>();
  #gate: Promise<void> | null = null;
  #open: () => void = () => {};

  constructor(clock: FakeClock) {
    this.#clock = clock;
  }

  /** Decisions are made as ever, but answers wait for `release`. */
  hold(): void {
    this.#gate = new Promise((resolve) => {
      this.#open = resolve;
    });
  }

  async release(): Promise<void> {
    this.#gate = null;
    this.#open();
    await settle();
  }

  async limit(request: LimitRequest): Promise<LimitResult> {
    return await this.#answer("limit", [request], () => this.#decide("limit", request));
  }

  async limitMany(requests: readonly LimitRequest[]): Promise<LimitResult[]> {
    return await this.#answer("limitMany", requests, () =>
      requests.map((request) => this.#decide("limit", request)),
    );
  }

  async peek(request: LimitRequest): Promise<LimitResult> {
    return await this.#answer("peek", [request], () => this.#decide("peek", request));
  }

  async refund(request: LimitRequest): Promise<LimitResult> {
    return await this.#answer("refund", [request], () => this.#decide("refund", request));
  }

  async reset(request: Omit<LimitRequest, "cost">): Promise<boolean> {
    return await this.#answer("reset", [request], () => this.#states.delete(keyOf(request)));
  }

  async #answer<Result>(
    method: Method,
    requests: readonly Omit<LimitRequest, "cost">[],
    decide: () => Result,
  ): Promise<Result> {
    this.calls.push({ method, requests: [...requests] });
    if (this.failure !== null) throw this.failure;
    const result = decide();
    if (this.#gate !== null) await this.#gate;
    return result;
  }

  #decide(operation: "limit" | "peek" | "refund", request: LimitRequest): LimitResult {
    const { cost = 1, idempotencyKey, strategy } = request;
    const configuration = configurationOf(strategy);
    const key = keyOf(request);
    const replay = `${key} ${String(idempotencyKey)}`;
    const before = idempotencyKey === undefined ? undefined : this.#replays.get(replay);
    if (before !== undefined) return before;
    const nowNs = BigInt(Math.round((this.#clock.nowMs() + this.skewMs) * 1_000)) * 1_000n;
    const state = this.#states.get(key);
    const stored = state !== undefined && state.untilNs > nowNs ? state.text : null;
    const limiter = createLimiter(configuration);
    const decision: StoredDecision =
      operation === "peek" ? limiter.peek(stored, nowNs) : limiter[operation](stored, nowNs, cost);
    if (decision.state !== null) {
      this.#states.set(key, { text: decision.state, untilNs: nowNs + decision.ttlNs });
    }
    const result = limitResultOf(configuration, decision);
    if (idempotencyKey !== undefined) this.#replays.set(replay, result);
    return result;
  }
}

function keyOf({ name, key, strategy }: Omit<LimitRequest, "cost">): string {
  return storageKey(name, key, strategy.strategy === "composite");
}
