/** An isolate: real limiters with a client of their own, in a process that runs one event at a time and may end at any moment. */
import { ThrottrClient } from "../../../src/client/client.ts";
import type { LimitBackend } from "../../../src/ratelimit/backend.ts";
import { AllowanceStore } from "../../../src/ratelimit/index.ts";
import type { RateLimiterOptions } from "../../../src/ratelimit/limiter-options.ts";
import { RateLimiter } from "../../../src/ratelimit/rate-limiter.ts";
import type { RateLimitResult } from "../../../src/ratelimit/result.ts";
import { ThrottrError } from "../../../src/wire/edge/error.ts";
import type { LimitStrategy } from "../../../src/wire/edge/limit.ts";
import { IsolateClock, type MachineClock } from "./clocks.ts";
import { withDraws } from "./draws.ts";
import type { History } from "./history.ts";
import type { Sender, SimulatedNetwork } from "./network.ts";
import type { VirtualTime } from "./virtual-time.ts";

export const LIMITER_NAME = "api";
const CLIENT_TIMEOUT_MS = 10_000;

/** How limiters are made in an isolate. */
export interface LimiterManner {
  readonly strategy: LimitStrategy;
  readonly leaseMs: number;
  readonly keysMax: number;
  readonly timeoutMs: number;
  readonly onError: "open" | "closed" | undefined;
  readonly isShadow: boolean;
  /** A limiter for each request, with a store that they share. */
  readonly isPerRequest: boolean;
  /** Work that goes on behind a request is handed over. */
  readonly hasWaitUntil: boolean;
}

export interface IsolateParts {
  readonly id: number;
  readonly time: VirtualTime;
  readonly random: () => number;
  readonly machine: MachineClock;
  readonly network: SimulatedNetwork;
  readonly history: History;
  readonly manner: LimiterManner;
  /** A fault: the backend as limiters see it. */
  readonly wrap?: ((backend: LimitBackend, time: VirtualTime) => LimitBackend) | undefined;
}

export class SimulatedIsolate implements Sender {
  readonly id: number;
  readonly clock: IsolateClock;
  readonly client: ThrottrClient;
  readonly machine: MachineClock;
  readonly #parts: IsolateParts;
  readonly #options: RateLimiterOptions;
  readonly #limiter: RateLimiter;
  #isAlive = true;
  #busyUntilMs = 0;

  constructor(parts: IsolateParts) {
    const { id, time, machine, random, network, history, manner } = parts;
    this.id = id;
    this.machine = machine;
    this.#parts = parts;
    this.clock = new IsolateClock(time, machine, random, (run) => this.enter(run));
    this.client = new ThrottrClient(network.transportOf(this), {
      clock: this.clock.monotonic,
      timeoutMs: CLIENT_TIMEOUT_MS,
    });
    const wrap = parts.wrap ?? ((backend) => backend);
    const { leaseMs, keysMax } = manner;
    const waitUntil = (work: Promise<unknown>): void => void this.#goOn(work);
    this.#options = {
      throttr: countedDraws(wrap(this.client, time), history),
      name: LIMITER_NAME,
      strategy: manner.strategy,
      timeoutMs: manner.timeoutMs,
      ...(manner.onError === undefined ? {} : { onError: manner.onError }),
      shadow: manner.isShadow,
      local: {
        leaseMs,
        store: new AllowanceStore({ keysMax }),
        ...(manner.hasWaitUntil ? { waitUntil } : {}),
      },
      clock: this.clock,
    };
    this.#limiter = new RateLimiter(this.#options);
  }

  /** The limiter that a request uses. */
  get limiter(): RateLimiter {
    return this.#parts.manner.isPerRequest ? new RateLimiter(this.#options) : this.#limiter;
  }

  /** Runs something as an event, unless the isolate is gone; later, while another event computes. */
  enter(run: () => void): void {
    if (!this.#isAlive) return;
    const { time } = this.#parts;
    if (time.nowMs < this.#busyUntilMs) {
      time.at(this.#busyUntilMs, () => this.enter(run));
      return;
    }
    this.clock.read();
    run();
  }

  /** One event that does several things, and computes between them: its clock stands still. */
  enterLong(runs: readonly (() => void)[], durationMs: number): void {
    this.enter(() => {
      const { time } = this.#parts;
      this.#busyUntilMs = time.nowMs + durationMs;
      for (const [i, run] of runs.entries()) {
        time.after((durationMs * i) / runs.length, () => {
          if (this.#isAlive) run();
        });
      }
    });
  }

  /** Its memory is gone, and so is everything that waits in it. */
  evict(): void {
    this.#isAlive = false;
  }

  /** Work behind a request must not fail: it would show up as an error of the Worker. */
  async #goOn(work: Promise<unknown>): Promise<void> {
    try {
      await work;
    } catch (error) {
      this.#parts.history.faults.push(`work behind a request failed: ${String(error)}`);
    }
  }

  /**
   * A request: what it is granted goes into the history.
   *
   * @param isOfMany what is decided here may wait for what is asked: then the decision is as old as the request
   */
  async ask(
    key: string,
    cost: number,
    ask: () => Promise<RateLimitResult>,
    isOfMany = false,
  ): Promise<boolean> {
    const { history, time } = this.#parts;
    const began = { atMs: time.nowMs, readAtMs: this.clock.readAtMs };
    try {
      const result = await ask();
      const decision = result.shadow ?? result;
      const isDecided = decision.reason === undefined;
      if (decision.success && isDecided) {
        const isLocal = decision.local === true;
        const ended = { atMs: time.nowMs, readAtMs: this.clock.readAtMs };
        const decided = isOfMany && isLocal ? began : ended;
        history.noteAdmitted(this.id, key, { ...decided, units: cost, isLocal });
      }
      return decision.success && isDecided;
    } catch (error) {
      if (!(error instanceof ThrottrError)) history.faults.push(`a call failed: ${String(error)}`);
      return false;
    }
  }
}

/** Counts what limiters ask for: each draw must be sent once at most. */
function countedDraws(backend: LimitBackend, history: History): LimitBackend {
  return withDraws(backend, {
    draw: (request) => {
      history.drawsAsked++;
      return backend.draw!(request);
    },
    drawMany: (requests) => {
      history.drawsAsked += requests.length;
      return backend.drawMany!(requests);
    },
  });
}
