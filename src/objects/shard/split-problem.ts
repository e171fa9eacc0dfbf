/**
 * Why a split of a shard does not come to its end: shown to operators as long as the shard wants the split.
 *
 * A shard that has shrunk, or that has few calls by now, needs no split, so it has no problem with one either.
 */
import { SPLIT_RETRY_MS_MAX } from "../../engine/sizes.ts";

/** Why a shard splits: it is large, it has too many calls, or an operator has asked for it. */
export type SplitCause = "size" | "load" | "operator";

/** Of one instance of a shard. */
export class SplitProblem {
  readonly #isWanted: (cause: "size" | "load") => boolean;
  #reason: string | null = null;
  #cause: SplitCause | "untold" = "operator";
  /** When it was noted, in ms since the epoch. */
  #atMs = 0;

  /** @param isWanted whether the shard is large, or has too many calls */
  constructor(isWanted: (cause: "size" | "load") => boolean) {
    this.#isWanted = isWanted;
  }

  /** @param cause of the split; `untold` for one that the other shard has to learn of, whatever its cause was */
  note(reason: string, cause: SplitCause | "untold", nowMs: number): void {
    this.#reason = reason;
    this.#cause = cause;
    this.#atMs = nowMs;
  }

  /** The problem is solved, whatever it was. */
  clear(): void {
    this.#reason = null;
  }

  /** Why the split does not come to its end; null without a problem. */
  reasonAt(nowMs: number): string | null {
    if (this.#reason !== null && this.#isOver(nowMs)) this.clear();
    return this.#reason;
  }

  /** Whether there was one, and the shard does not need the split any more. */
  endsAt(nowMs: number): boolean {
    return this.#reason !== null && this.reasonAt(nowMs) === null;
  }

  #isOver(nowMs: number): boolean {
    if (this.#cause === "untold") return false;
    if (this.#cause !== "operator") return !this.#isWanted(this.#cause);
    // Nothing but another request tries that split again. A clock that has gone back must not make it longer.
    const sinceMs = nowMs - this.#atMs;
    return sinceMs < 0 || sinceMs >= SPLIT_RETRY_MS_MAX;
  }
}
