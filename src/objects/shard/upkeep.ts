/**
 * Upkeep: what a shard does by its alarm. It collects what has expired, gives resources back, goes on with what a split has left to
 * do, and cuts a journal that no commit would cut.
 */
import { presentMs } from "../../base/clock.ts";
import type { Timers } from "../../base/timers.ts";
import { turn } from "../../base/turn.ts";
import type { Engine } from "../../engine/engine.ts";
import { SWEEP_STEPS } from "../../engine/sizes.ts";
import { FullLog } from "./full-log.ts";
import type { Journal } from "./journal.ts";
import type { SemaphoreWork } from "./semaphore-work.ts";
import type { ShardSplits } from "./shard-splits.ts";

/** The shard. */
interface UpkeepHost extends Timers {
  /** Name of the object. */
  readonly name: string;
  /** `SHARD_BYTES_MAX`. */
  readonly bytesMax: number;
  readonly engine: Engine;
  readonly journal: Journal;
  readonly semaphoreWork: SemaphoreWork;
  readonly splits: ShardSplits;
  /** Moves the engine's clock. */
  advance(): void;
  /** Resolves when all that was applied is durable. */
  flush(): Promise<void>;
  /** Executes what writes; a failure resets the object. */
  write(write: () => void): void;
}

/** Of one shard. */
export class Upkeep {
  readonly #host: UpkeepHost;
  /** Logs refusals for want of room, once a minute at most. */
  readonly #fullLog: FullLog;

  constructor(host: UpkeepHost) {
    this.#host = host;
    this.#fullLog = new FullLog(host.name, host.bytesMax);
  }

  /**
   * After each call: a full shard refuses new records one by one. The log says it once a minute, and semaphores that are not in use
   * make room before their time.
   */
  noteRefusals(): void {
    const { engine } = this.#host;
    const { refusedForSpace, bytes } = engine.figures;
    if (!this.#fullLog.note(refusedForSpace, bytes, engine.nowMs)) return;
    this.#host.waitUntil(this.#reclaim());
  }

  async #reclaim(): Promise<void> {
    await this.#host.semaphoreWork.reclaim();
    await this.#host.flush();
  }

  /** When there is something to do, in the platform's time; Infinity for never. */
  findDeadlineMs(): number {
    const { engine, semaphoreWork, splits } = this.#host;
    const { splitting, adoption } = splits;
    if (adoption.isPending) return adoption.deadlineMs;
    return Math.min(
      engine.findDeadline() ?? Infinity,
      semaphoreWork.findDeadlineMs(),
      splitting.deadlineMs,
    );
  }

  /** Does what is due. A shard that adopts a range only asks for it. */
  async run(): Promise<void> {
    const { semaphoreWork, splits } = this.#host;
    const { splitting, adoption } = splits;
    if (adoption.isPending) return await adoption.askByAlarm();
    this.#host.advance();
    await this.sweep();
    await semaphoreWork.run();
    await splitting.runDue();
    await this.#host.flush();
    await this.#cut();
  }

  /**
   * A shard that is only read has no commits, which would cut its journal: when its records have expired, and when it has given a part
   * of its range away.
   */
  async #cut(): Promise<void> {
    const { journal } = this.#host;
    if (!journal.isMostlyDead && !journal.isCutDue) return;
    this.#host.write(() => journal.beginCut());
    while (journal.isCutting) {
      this.#host.write(() => journal.append());
      await turn();
    }
  }

  /** Collects what has expired. */
  async sweep(): Promise<void> {
    let cursor: number | null = 0;
    for (let step = 1; cursor !== null; step++) {
      cursor = this.#host.engine.sweepStep(cursor, presentMs());
      if (step % SWEEP_STEPS === 0) await turn();
    }
  }
}
