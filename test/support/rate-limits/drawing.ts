/** A server that limiters with `local` draw from: the real engine, with messages that a test counts, holds and fails. */
import type { LimitBackend } from "../../../src/ratelimit/backend.ts";
import type { DrawRequest, DrawResult } from "../../../src/wire/edge/draw.ts";
import type { LimitResult } from "../../../src/wire/edge/limit.ts";
import type { LimitRequest } from "../../../src/wire/edge/operations.ts";
import { EngineServer } from "../client/engine-client.ts";
import { FakeClock, settle, START_MS } from "./backend.ts";

/** The clocks of an isolate: that of the wall, which may be wrong, and one that never goes back. */
export class IsolateClock extends FakeClock {
  /** How far the wall clock is ahead. */
  skewMs = 0;

  override nowMs(): number {
    return this.timeMs + this.skewMs;
  }

  monotonicMs(): number {
    return this.timeMs - START_MS;
  }
}

type Method = "limit" | "limitMany" | "peek" | "refund" | "reset" | "draw" | "drawMany";

/** A message that came. */
export interface Message {
  readonly method: Method;
  readonly requests: readonly (LimitRequest & DrawRequest)[];
}

export class DrawServer implements LimitBackend {
  readonly messages: Message[] = [];
  /** What calls fail with, as long as it is there. */
  failure: Error | null = null;
  /** Answers wait until `release`. */
  isHeld = false;
  readonly #clock: FakeClock;
  readonly #engine = new EngineServer(START_MS);
  readonly #held: (() => void)[] = [];

  constructor(clock: FakeClock) {
    this.#clock = clock;
  }

  /** Methods of the messages so far. */
  get methods(): readonly Method[] {
    return this.messages.map(({ method }) => method);
  }

  /** The request of the last message, which had one. */
  get last(): LimitRequest & DrawRequest {
    return this.messages.at(-1)!.requests[0]!;
  }

  /** Lets the answers go that wait, the oldest first. */
  async release(count = Infinity): Promise<void> {
    await settle();
    for (const go of this.#held.splice(0, count)) go();
    await settle();
  }

  limit(request: LimitRequest): Promise<LimitResult> {
    return this.#call("limit", [request], () => this.#engine.client.limit(request));
  }

  limitMany(requests: readonly LimitRequest[]): Promise<LimitResult[]> {
    return this.#call("limitMany", requests, () => this.#engine.client.limitMany(requests));
  }

  peek(request: LimitRequest): Promise<LimitResult> {
    return this.#call("peek", [request], () => this.#engine.client.peek(request));
  }

  refund(request: LimitRequest): Promise<LimitResult> {
    return this.#call("refund", [request], () => this.#engine.client.refund(request));
  }

  reset(request: LimitRequest): Promise<boolean> {
    return this.#call("reset", [request], () => this.#engine.client.reset(request));
  }

  draw(request: DrawRequest): Promise<DrawResult> {
    return this.#call("draw", [request], () => this.#engine.client.draw(request));
  }

  drawMany(requests: readonly DrawRequest[]): Promise<DrawResult[]> {
    return this.#call("drawMany", requests, () => this.#engine.client.drawMany(requests));
  }

  async #call<Result>(
    method: Method,
    requests: readonly (LimitRequest | DrawRequest)[],
    work: () => Promise<Result>,
  ): Promise<Result> {
    this.messages.push({ method, requests: requests as readonly (LimitRequest & DrawRequest)[] });
    if (this.failure !== null) throw this.failure;
    this.#engine.advance(this.#clock.timeMs - this.#engine.nowMs);
    const result = await work();
    if (this.isHeld) {
      await new Promise<void>((resolve) => {
        this.#held.push(resolve);
      });
    }
    return result;
  }
}
