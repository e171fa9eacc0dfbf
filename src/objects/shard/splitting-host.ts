/** What a shard gives to `Splitting`. */
import type { Timers } from "../../base/timers.ts";
import type { Engine } from "../../engine/engine.ts";
import type { HashKey } from "../../engine/hash.ts";
import type { Range } from "../../wire/range.ts";
import type { Gate } from "./gate.ts";
import type { Journal } from "./journal.ts";
import type { OwnRange } from "./own-range.ts";

/** The shard. */
export interface SplittingHost extends Timers {
  /** Name of the object. */
  readonly name: string;
  readonly engine: Engine;
  readonly journal: Journal;
  /** Seed of the placement. */
  readonly seed: HashKey;
  /** `SHARDS_MAX`. */
  readonly shardsMax: number;
  readonly gate: Gate;
  readonly own: OwnRange;
  /** Whether the shard is large, or has too many calls. */
  isWanted(cause: "size" | "load"): boolean;
  /** When a listing last asked for a part of the shard, ms since the epoch; -Infinity for never. */
  listedAtMs(): number;
  /**
   * Before a part is given away: tells the witness what the shard will own.
   *
   * @param begins first hashes of all ranges that the shard will know of
   */
  noteSplit(range: Range, begins: readonly number[]): Promise<void>;
  /** After a split was given up: tells the witness that the shard owns what it did before. Never rejects. */
  noteGivenUp(): Promise<void>;
  /** Executes what writes; a failure resets the object. */
  write(write: () => void): void;
  /** Sets the alarm for what is due next. */
  setAlarm(): Promise<void>;
  /** The range, or the state of a split, has changed. */
  onChange(): void;
}
