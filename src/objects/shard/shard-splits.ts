/**
 * What a shard has to do with splits: it gives parts of its range away, by size, under load and by hand, or adopts a part of another
 * shard's. Here the parts of that are joined; what they do is written in their files.
 */
import { presentMs } from "../../base/clock.ts";
import type { ShardState, Verdict } from "../../base/calls/splits.ts";
import type { Environment } from "../../base/environment.ts";
import type { Settings } from "../../base/settings.ts";
import type { Timers } from "../../base/timers.ts";
import type { KeyHash } from "../../dispatch/placement.ts";
import type { Engine } from "../../engine/engine.ts";
import type { Placement } from "../../wire/batch.ts";
import { Adoption } from "./adoption.ts";
import { Gate } from "./gate.ts";
import type { Journal } from "./journal.ts";
import { LoadWatch } from "./load-watch.ts";
import type { OwnRange } from "./own-range.ts";
import type { ShardClaim } from "./shard-claim.ts";
import { isLarge } from "./split-pace.ts";
import { Splitting } from "./splitting.ts";
import { TableOrder } from "./table-order.ts";
import type { Walks } from "./walks.ts";

/** The shard. */
interface SplitsHost extends Timers {
  /** Name of the object. */
  readonly name: string;
  readonly settings: Settings;
  readonly engine: Engine;
  readonly journal: Journal;
  readonly own: OwnRange;
  readonly walks: Walks;
  readonly claim: ShardClaim;
  /** Says where keys lie on the circle. */
  readonly hasher: KeyHash;
  /** Executes what writes; a failure resets the object. */
  write(write: () => void): void;
  /** Resolves when all that was written is on disk. */
  sync(): Promise<void>;
  /** The range that was adopted is in force: the shard goes on as after a start. */
  onActive(): Promise<void>;
  /** The range, or what becomes of a split, is another than before. */
  onChange(): void;
  /** Sets the alarm for what is due next. */
  setAlarm(): Promise<void>;
}

/** Of one shard. */
export class ShardSplits {
  /** Holds calls back while a part of the range is handed over. */
  readonly gate = new Gate();
  /** Gives a part of the range to a new shard. */
  readonly splitting: Splitting;
  /** Takes a part of another shard's range. */
  readonly adoption: Adoption;
  readonly #host: SplitsHost;
  readonly #load: LoadWatch;

  constructor(env: Environment, host: SplitsHost) {
    const { settings, own, walks, claim, hasher } = host;
    this.#host = host;
    this.splitting = new Splitting(env, {
      ...host,
      seed: hasher.seed,
      gate: this.gate,
      shardsMax: settings.SHARDS_MAX,
      isWanted: (cause) => (cause === "size" ? this.#isLarge : this.#load.isHot(presentMs())),
      noteSplit: async (...noted) => await claim.noteSplit(...noted),
      noteGivenUp: async () => await claim.noteGivenUp(),
      listedAtMs: () => walks.listedAtMs,
    });
    this.adoption = new Adoption(env, {
      ...host,
      onBegin: ({ hashKey }) => (walks.order = new TableOrder(hashKey)),
      onActive: async () => {
        await host.onActive();
        host.onChange();
      },
    });
    this.#load = new LoadWatch({
      callsMax: settings.SPLIT_CALLS_PER_SECOND,
      hasher,
      range: () => own.ranges.range,
      split: (at) => this.splitting.noteHot(at),
    });
  }

  /** A batch is applied. */
  noteBatch(placement: Placement, batch: Uint8Array, nowMs: number): void {
    this.#load.note(placement, batch, nowMs);
  }

  /** The body of a LIMIT_ALL is executed. */
  noteLimits(body: Uint8Array, nowMs: number): void {
    this.#load.noteLimits(body, nowMs);
  }

  /** A commit is written. */
  noteCommit(): void {
    if (this.#isLarge) this.splitting.noteLarge();
    this.splitting.noteCommit();
  }

  get #isLarge(): boolean {
    const { engine, settings } = this.#host;
    return isLarge(engine.figures.bytes, settings.SHARD_BYTES_MAX);
  }

  /** See `SplitCalls.shardState`. */
  get state(): ShardState | null {
    const { journal, own, engine, settings } = this.#host;
    if (journal.placement === null) return null;
    const nowMs = presentMs();
    const { records, bytes } = engine.figures;
    return {
      range: own.ranges.range,
      records,
      bytes,
      bytesMax: settings.SHARD_BYTES_MAX,
      callsPerSecond: this.#load.callsPerSecond(nowMs),
      isHot: this.#load.isHot(nowMs),
      isActive: journal.split.isActive,
      split: this.splitting.figures,
      splitProblem: this.splitting.problem,
      isForgetting: engine.ownership.isForgetting,
    };
  }

  /** See `SplitCalls.verdictOn`; the engine must have read the clock just now. */
  verdictOn(from: number, attempt: number): { verdict: Verdict; nowMs: number } {
    const { journal, engine } = this.#host;
    return { verdict: journal.split.verdictOn(from, attempt), nowMs: engine.nowMs };
  }
}
