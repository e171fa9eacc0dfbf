/**
 * A hot key: many isolates that are asked about one key very often, and the calls that come of it at the shard.
 *
 * Requests are simulated one by one while an isolate has to ask. Once it decides by itself, the requests of a tick are
 * asked as one of their sum, or, where it refuses, not at all: they would be decided in the same way.
 */
import type { LimitStrategy } from "../../../src/wire/edge/limit.ts";
import { calmWorld, type CalmWorld } from "./calm-world.ts";
import type { SimulatedIsolate } from "./isolate.ts";

interface HotKeyOptions {
  readonly seed: number;
  readonly strategy: LimitStrategy;
  readonly isolates: number;
  /** Requests a second, of all isolates. */
  readonly pace: number;
  readonly durationMs: number;
  /** All isolates have begun by then, at random moments. */
  readonly rampMs: number;
}

interface HotKeyFigures {
  readonly calls: number;
  /** Calls in the worst 100 ms, and in the worst second. */
  readonly worst100: number;
  readonly worstSecond: number;
  readonly checks: number;
  readonly granted: number;
  /** What broke the limit; null when all is well. */
  readonly violation: string | null;
}

/** A request, and what became of it so far. */
interface Asked {
  decision: "granted" | "refused" | null;
}

const TICK_MS = 5;
const KEY = "hot";

export async function hotKey(options: HotKeyOptions): Promise<HotKeyFigures> {
  return await new HotKey(options).run();
}

class HotKey {
  readonly #options: HotKeyOptions;
  readonly #world: CalmWorld;
  #checks = 0;
  #granted = 0;

  constructor(options: HotKeyOptions) {
    this.#options = options;
    this.#world = calmWorld(options);
  }

  async run(): Promise<HotKeyFigures> {
    const { durationMs, rampMs } = this.#options;
    const { time, random, isolates, callsAtMs, history } = this.#world;
    for (const isolate of isolates) time.at(random() * rampMs, () => this.#tick(isolate));
    await time.runUntil(durationMs);
    return {
      calls: callsAtMs.length,
      worst100: mostWithin(callsAtMs, 100),
      worstSecond: mostWithin(callsAtMs, 1000),
      checks: this.#checks,
      granted: this.#granted,
      violation: history.violation(),
    };
  }

  /** The requests of a tick: the first one alone. */
  #tick(isolate: SimulatedIsolate): void {
    const { time, random } = this.#world;
    const { pace, isolates } = this.#options;
    const mean = (pace * TICK_MS) / 1000 / isolates;
    const count = Math.floor(mean) + (random() < mean % 1 ? 1 : 0);
    time.after(TICK_MS, () => this.#tick(isolate));
    if (count === 0) return;
    const first = this.#ask(isolate, 1);
    // By then everything is done that the first one needs no message for.
    time.after(0, () => {
      if (first.decision === "refused") this.#checks += count - 1;
      else if (first.decision === "granted" && count > 1) this.#ask(isolate, count - 1);
      else if (first.decision === null) this.#spread(isolate, count - 1);
    });
  }

  /** Each request comes by itself. */
  #spread(isolate: SimulatedIsolate, count: number): void {
    for (let i = 1; i <= count; i++) {
      this.#world.time.after((TICK_MS * i) / (count + 1), () => this.#ask(isolate, 1));
    }
  }

  #ask(isolate: SimulatedIsolate, cost: number): Asked {
    const asked: Asked = { decision: null };
    this.#checks += cost;
    isolate.enter(() => void this.#limit(isolate, cost, asked));
    return asked;
  }

  async #limit(isolate: SimulatedIsolate, cost: number, asked: Asked): Promise<void> {
    const { limiter } = isolate;
    const isGranted = await isolate.ask(`api:${KEY}`, cost, () => limiter.limit(KEY, { cost }));
    asked.decision = isGranted ? "granted" : "refused";
    if (isGranted) this.#granted += cost;
  }
}

/** The most of ascending moments that lie within a span. */
function mostWithin(atMs: readonly number[], spanMs: number): number {
  let most = 0;
  let from = 0;
  for (const [i, at] of atMs.entries()) {
    while (at - atMs[from]! >= spanMs) from++;
    most = Math.max(most, i + 1 - from);
  }
  return most;
}
