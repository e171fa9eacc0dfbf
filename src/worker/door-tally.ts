/**
 * Counts requests over HTTP and bindings that no shard sees, such as PUBLISH, and adds them to the Directory's tally.
 *
 * An isolate may end at any time and without notice, so counts are handed over within a second; a call for each request
 * would double the cost of a cheap one.
 */
import { presentMs, stopwatchMs } from "../base/clock.ts";
import type { Environment } from "../base/environment.ts";
import { Tally } from "../engine/tally.ts";
import type { RequestTally } from "../dispatch/dispatch.ts";
import { directoryStub, hasDirectory } from "../base/stubs.ts";
import { DOOR_FLUSH_DELAY_MS } from "../engine/sizes.ts";

/** The runtime may end the request that was to flush. After this time another one schedules a new flush. */
const FLUSH_LOST_MS = 10_000;

/** Tallies of this isolate, by namespace. */
const tallies = new Map<string, DoorTally>();

/**
 * The counts of one namespace in this isolate. Requests share the numbers, and never a promise or stub: those belong to
 * one request.
 */
export class DoorTally {
  readonly tally = new Tally();
  readonly #namespace: string;
  /** When the flush under way was scheduled; -Infinity if none is. */
  #flushAtMs = -Infinity;

  private constructor(namespace: string) {
    this.#namespace = namespace;
  }

  /**
   * The tally of a namespace. What is counted reaches the Directory within a second; a request that counts nothing
   * schedules nothing, as a timer would keep it, and the object that it is made in, for that second.
   */
  static of(
    env: Environment,
    ctx: Pick<ExecutionContext, "waitUntil">,
    namespace: string,
  ): RequestTally {
    return {
      get tally() {
        let doorTally = tallies.get(namespace);
        if (doorTally === undefined) tallies.set(namespace, (doorTally = new DoorTally(namespace)));
        doorTally.#flushLater(env, ctx);
        return doorTally.tally;
      },
      flush: async () => {
        const doorTally = tallies.get(namespace);
        if (doorTally !== undefined) await doorTally.#flush(env);
      },
    };
  }

  /** Schedules a flush unless one is scheduled. `waitUntil` keeps the request for it after the response was sent. */
  #flushLater(env: Environment, ctx: Pick<ExecutionContext, "waitUntil">): void {
    const nowMs = stopwatchMs();
    if (nowMs - this.#flushAtMs < FLUSH_LOST_MS) return;
    this.#flushAtMs = nowMs;
    ctx.waitUntil(
      scheduler.wait(DOOR_FLUSH_DELAY_MS).then(async () => {
        this.#flushAtMs = -Infinity;
        await this.#flush(env);
        // No request came in the meantime, so the namespace is dropped: strangers must not grow the map.
        if (this.#flushAtMs === -Infinity) tallies.delete(this.#namespace);
      }),
    );
  }

  /**
   * Hands the counts over. If that fails they are lost, as the Directory may have added them, and nothing counts twice. One that
   * was overloaded has not seen them: the next flush carries them.
   */
  async #flush(env: Environment): Promise<void> {
    const figures = this.tally.release(presentMs());
    if (figures.every((count) => count === 0) || !hasDirectory(env)) return;
    try {
      await directoryStub(env, this.#namespace).absorb(figures);
    } catch (error) {
      if ((error as { overloaded?: boolean }).overloaded === true)
        this.tally.absorb(figures, presentMs());
      throw error;
    }
  }
}
