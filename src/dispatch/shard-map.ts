/**
 * Shard map: which shards a namespace has, as far as this isolate knows.
 *
 * At first it knows the first shard alone. A shard that is asked for keys of another one says where they are, and the map
 * becomes finer. What it does not know costs a call, and never a wrong answer: each shard checks what it is asked for.
 */
import { labelOfShard, shardName } from "../base/names.ts";
import type { Placement } from "../wire/batch.ts";
import { beginsOf, type ShardRanges } from "../wire/moved.ts";
import { initialFroms, type Range } from "../wire/range.ts";
import { KeyHash } from "./placement.ts";
import { RangeMap } from "./range-map.ts";

/** `SHARDS` of releases before 0.5.0 where it was not set. */
const SHARDS_BEFORE = 4;

/** Of one namespace, for as long as its isolate remembers it. */
export class ShardMap extends KeyHash {
  readonly namespace: string;
  /** `SHARDS`: how many ranges the namespace begins with if this isolate is the first to write to it. */
  readonly #shardsAtFirst: number;
  /** How many it began with; 0 while that is not known. */
  shards = 0;
  /** Shards of an earlier release have not said how many they are, and were taken for `SHARDS`. */
  #isAssumed = false;
  ranges = RangeMap.WHOLE;

  /** @param shards `SHARDS` */
  constructor(namespace: string, shards: number, secret: string) {
    super(namespace, secret);
    this.namespace = namespace;
    this.#shardsAtFirst = shards;
  }

  /** What a call to the shard of a range says; a plain object. */
  placementOf({ from, to }: Range): Placement {
    const { fingerprint } = this;
    return { shards: this.shards || this.#shardsAtFirst, fingerprint, range: { from, to } };
  }

  /** The same for a shard of a release that knows no ranges but those a namespace began with. */
  get oldPlacement(): Placement {
    return { shards: this.shards, fingerprint: this.fingerprint };
  }

  /** Name of the object whose range begins at a hash. */
  nameAt(from: number): string {
    return shardName.at(this.namespace, from, this.shards);
  }

  /** The same without the namespace. */
  labelAt(from: number): string {
    return labelOfShard(from, this.shards);
  }

  /**
   * Notes what a shard has said. A namespace that began with another number of ranges, or has no data any more, is another
   * one than before under the same name: all that was known of that is forgotten.
   */
  learn(said: ShardRanges): void {
    if (said.shards !== this.shards) this.ranges = RangeMap.WHOLE;
    this.shards = said.shards;
    this.#isAssumed = false;
    if (said.shards !== 0) this.ranges = this.ranges.with(beginsOf(said));
  }

  /** Notes where ranges begin, as shards of this namespace have said it elsewhere. */
  learnBegins(begins: readonly number[]): void {
    this.ranges = this.ranges.with(begins);
  }

  /** Notes that the shards are of a release without splits: they are `SHARDS`, or as many as that release made by default. */
  assumeInitial(): void {
    if (this.shards === 0) this.#assume(this.#shardsAtFirst);
  }

  /**
   * Notes that such a shard has refused a request, as its namespace has another number of shards. A deployment that never
   * set `SHARDS` meets shards that the release before made, for some minutes.
   *
   * @returns false where no other number is left to be tried
   */
  assumeDefaultBefore(): boolean {
    if (!this.#isAssumed || this.shards !== 1) return false;
    this.#assume(SHARDS_BEFORE);
    return true;
  }

  #assume(shards: number): void {
    this.shards = shards;
    this.ranges = RangeMap.WHOLE.with(initialFroms(shards));
    this.#isAssumed = true;
  }

  /** Begins with the ranges that the namespace began with: what is known is out of order, such as after a restored backup. */
  forget(): void {
    this.ranges = RangeMap.initial(Math.max(1, this.shards));
  }
}
