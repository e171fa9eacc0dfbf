/**
 * Counting what HTTP callers ask that no shard sees: here, and before long in the namespace's Directory.
 */
import { Tally } from "../engine/tally.ts";
import type { Counter } from "../dispatch/dispatch.ts";
import { directoryStub } from "../base/stubs.ts";

const FLUSH_DELAY_MS = 1000;
/** A flush that did not come, because its request was ended, is waited for so long. */
const FLUSH_LOST_MS = 10_000;

/** Counters of this isolate, by namespace. */
const counters = new Map<string, DoorCounter>();

export class DoorCounter {
  readonly tally = new Tally();
  readonly #namespace: string;
  #flushAtMs = -Infinity;

  private constructor(namespace: string) {
    this.#namespace = namespace;
  }

  /** The counter of a namespace, which tells the Directory within a second of being asked for. */
  static of(env: Env, ctx: Pick<ExecutionContext, "waitUntil">, namespace: string): Counter {
    let counter = counters.get(namespace);
    if (counter === undefined) counters.set(namespace, (counter = new DoorCounter(namespace)));
    const { tally } = counter;
    counter.#flushLater(env, ctx);
    return { tally, flush: () => counter.#flush(env) };
  }

  #flushLater(env: Env, ctx: Pick<ExecutionContext, "waitUntil">): void {
    const nowMs = Date.now();
    if (nowMs - this.#flushAtMs < FLUSH_LOST_MS) return;
    this.#flushAtMs = nowMs;
    ctx.waitUntil(
      scheduler.wait(FLUSH_DELAY_MS).then(async () => {
        this.#flushAtMs = -Infinity;
        await this.#flush(env);
        // Nobody has come meanwhile: the next caller begins anew.
        if (this.#flushAtMs === -Infinity) counters.delete(this.#namespace);
      }),
    );
  }

  async #flush(env: Env): Promise<void> {
    const figures = this.tally.release(Date.now());
    if (figures.every((count) => count === 0)) return;
    try {
      await directoryStub(env, this.#namespace).absorb(figures);
    } catch (error) {
      this.tally.absorb(figures, Date.now());
      throw error;
    }
  }
}
