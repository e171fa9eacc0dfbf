/**
 * The shards of a namespace as a group: the way of requests that concern all of them.
 *
 * Requests on a key take a lane instead (`shard-lane.ts`), which gathers what many callers bring into one call.
 * What walks a whole shard needs no gathering: each of its calls is bounded work, and others come between them.
 *
 * Each call says which range it is for, and a shard that owns another one refuses it. So an answer is for the range that was
 * asked for, and a walk is complete when the ranges with an answer cover the circle once. Where a shard has split, those
 * that have its range now are asked in its place.
 */
import type { ShardCalls } from "../base/calls/shard.ts";
import { failureOfPart, hasMoved, refusalOf } from "../base/failure.ts";
import { turn } from "../base/turn.ts";
import { orIfUnknown } from "../base/unknown-method.ts";
import { MOVES_MAX } from "../engine/sizes.ts";
import type { Placement } from "../wire/batch.ts";
import { ThrottrError } from "../wire/edge/error.ts";
import { CIRCLE, endOf, WHOLE, type Range } from "../wire/range.ts";
import type { PageSource } from "./merge.ts";
import type { ShardMap } from "./shard-map.ts";

/** A shard that is asked for a range. */
export interface AskedShard {
  readonly range: Range;
  /** Goes along with every call: a shard of another range, or another seed, refuses it. */
  readonly placement: Placement;
  /** Makes a stub: a new one for each stretch of work, as one that has seen its object reset fails from then on. */
  readonly stub: () => DurableObjectStub<ShardCalls>;
  /** What tells it from the others of its namespace: an index, or the hash at which its range begins. */
  readonly label: string;
  /** Of its object. */
  readonly name: string;
}

/** What is of one shard. */
interface OfShard {
  readonly shard: AskedShard;
}

/** What a shard has answered. */
export interface Answered<T> extends OfShard {
  readonly answer: T;
}

type Ask<T> = (shard: AskedShard) => Promise<T>;

/** Made with each `Dispatch`; it holds no stub, so it costs nothing before it is used. */
export class ShardGroup {
  readonly map: ShardMap;
  readonly #stubAt: (from: number) => DurableObjectStub<ShardCalls>;

  /** @param stubAt makes a stub of the shard whose range begins at a hash */
  constructor(map: ShardMap, stubAt: (from: number) => DurableObjectStub<ShardCalls>) {
    this.map = map;
    this.#stubAt = stubAt;
  }

  /**
   * Asks all shards at once; the answers are in the order of the circle.
   *
   * @param ask may be called again for a part of a range: when it throws because its shard has split
   */
  async askAll<T>(ask: Ask<T>): Promise<Answered<T>[]> {
    await this.findShards();
    return await this.askKnown(ask);
  }

  /** The same without finding out first which shards there are: what is not known is learned from those that are. */
  async askKnown<T>(ask: Ask<T>): Promise<Answered<T>[]> {
    return await this.untilWhole(async () => await this.#askRange(WHOLE, ask, 0));
  }

  /**
   * Asks shards again until each hash has one answer. Where the namespace is not the one that was known under its name, what was
   * asked by its ranges means nothing.
   *
   * @param ask its answers are in the order of the circle
   */
  async untilWhole<A extends OfShard>(ask: () => Promise<A[]>): Promise<A[]> {
    for (let moves = 0; ; moves++) {
      const { shards } = this.map;
      const answers = await ask();
      const isSame = this.map.shards === shards || shards === 0;
      if (isSame && isWhole(answers)) return answers;
      this.#assertSettles(moves);
    }
  }

  /** Asks one shard after the other, in the order of the circle. One that splits before it has answered is asked anew. */
  async askInTurn(ask: Ask<void>): Promise<void> {
    await this.findShards();
    for (let hash = 0, moves = 0; hash < CIRCLE;) {
      const shard = this.shardAt(hash);
      if ((await this.#unlessMoved(shard, ask)) !== null) {
        hash = endOf(shard.range);
        moves = 0;
      } else {
        this.#assertSettles(moves++);
      }
    }
  }

  /** Asks the shards that have hashes of a range, as `askAll` does. */
  async askWithin<T>(range: Range, ask: Ask<T>): Promise<Answered<T>[]> {
    await this.findShards();
    return await this.#askRange(range, ask, 0);
  }

  /** Asks the shard that owns a key. */
  async askOwner<T>(keyspace: number, key: Uint8Array, ask: Ask<T>): Promise<T> {
    await this.findShards();
    const hash = this.map.hashOf(keyspace, key, 0, key.length);
    return await this.askOwnerOf(hash, ask);
  }

  /**
   * As `askAll`, for calls that change something: where one is refused, others may have changed what they were asked to.
   *
   * @param ask notes each call that it makes, before it makes it
   */
  async changeAll<T>(
    ask: (shard: AskedShard, noteCall: () => void) => Promise<T>,
  ): Promise<Answered<T>[]> {
    let calls = 0;
    const noteCall = (): void => void calls++;
    try {
      return await this.askAll(async (shard) => await ask(shard, noteCall));
    } catch (error) {
      throw calls > 1 ? failureOfPart(error) : error;
    }
  }

  /** Asks the shard that owns a hash. */
  async askOwnerOf<T>(hash: number, ask: Ask<T>): Promise<T> {
    for (let moves = 0; ; moves++) {
      const shard = this.#shardOf(this.map.ranges.rangeOf(hash));
      const asked = await this.#unlessMoved(shard, ask);
      if (asked !== null) return asked.answer;
      this.#assertSettles(moves);
      await turn();
    }
  }

  /** Sources of the pages of all shards, for a merge: a shard that splits meanwhile is replaced by its parts. */
  async sources(
    ask: (shard: AskedShard, after: Uint8Array | null, isFirst: boolean) => Promise<Uint8Array>,
  ): Promise<PageSource[]> {
    await this.findShards();
    const sourceOf = (range: Range, moves: number): PageSource => {
      return async (after, isFirst) => {
        const shard = this.#shardOf(range);
        const asked = await this.#unlessMoved(shard, async () => await ask(shard, after, isFirst));
        if (asked !== null) return asked.answer;
        this.#assertSettles(moves);
        return this.map.ranges.within(range).map((part) => sourceOf(part, moves + 1));
      };
    };
    return this.map.ranges.within(WHOLE).map((range) => sourceOf(range, 0));
  }

  async #askRange<T>(range: Range, ask: Ask<T>, moves: number): Promise<Answered<T>[]> {
    const answers = await Promise.all(
      this.map.ranges.within(range).map(async (owned) => {
        const asked = await this.#unlessMoved(this.#shardOf(owned), ask);
        if (asked !== null) return [asked];
        this.#assertSettles(moves);
        await turn();
        return await this.#askRange(owned, ask, moves + 1);
      }),
    );
    return answers.flat();
  }

  /** Null when the shard does not own the range: then the map knows more than before. */
  async #unlessMoved<T>(shard: AskedShard, ask: Ask<T>): Promise<Answered<T> | null> {
    try {
      return { shard, answer: await ask(shard) };
    } catch (error) {
      if (hasMoved(error)) await this.learn(shard);
      else if (!this.#isOfDefaultBefore(error)) throw error;
      return null;
    }
  }

  /** Whether a shard of an earlier release has refused a call, as there are as many as that release made by default. */
  #isOfDefaultBefore(error: unknown): boolean {
    return refusalOf(error)?.code === "shards_mismatch" && this.map.assumeDefaultBefore();
  }

  /** Asks a shard which ranges it knows of: it does not own what it was asked for. */
  async learn({ placement, stub }: AskedShard): Promise<void> {
    this.map.learn(await stub().ranges(placement));
  }

  /** The shard whose range has a hash. */
  shardAt(hash: number): AskedShard {
    return this.#shardOf(this.map.ranges.rangeOf(hash));
  }

  #shardOf(range: Range): AskedShard {
    const { map } = this;
    return {
      range,
      placement: map.placementOf(range),
      stub: () => this.#stubAt(range.from),
      label: map.labelAt(range.from),
      name: map.nameAt(range.from),
    };
  }

  /**
   * Finds out which ranges the namespace began with, unless that is known.
   *
   * A shard of an earlier release answers for the range that it owns, whatever it is asked for. It owns one that the
   * namespace began with: so that must be known before anything is asked.
   */
  async findShards(): Promise<void> {
    const { map } = this;
    if (map.shards !== 0) return;
    const first = this.#shardOf(map.ranges.rangeOf(0));
    const ranges = await orIfUnknown(first.stub().ranges(first.placement), () => null);
    if (ranges === null) map.assumeInitial();
    // Others may have learned more meanwhile, as the namespace has begun: this answer may be from before.
    else if (map.shards === 0) map.learn(ranges);
  }

  #assertSettles(moves: number): void {
    if (moves < MOVES_MAX) return;
    this.map.forget();
    throw new ThrottrError(
      "shards_unsettled",
      "the shards of this namespace do not agree who has these keys; nothing was applied: try again",
    );
  }
}

/** Whether answers cover the circle once. */
function isWhole(answers: readonly OfShard[]): boolean {
  let at = 0;
  for (const { shard } of answers) {
    if (shard.range.from !== at) return false;
    at = endOf(shard.range);
  }
  return at === CIRCLE;
}

/** What a step of a walk through a shard says beside its yield. */
interface Step {
  /** Names the order of the table, which the cursor is a place in; a shard that starts anew has another. */
  readonly hashes: string;
  /** Where to go on; null behind the last step. */
  readonly cursor: number | null;
}

/** Walks through a shard, a call for each step. The shard decides what a cursor of another order means. */
export async function* walk<S extends Step>(
  takeStep: (hashes: string | null, cursor: number) => Promise<S>,
): AsyncGenerator<S> {
  let hashes: string | null = null;
  let cursor: number | null = 0;
  while (cursor !== null) {
    const step: S = await takeStep(hashes, cursor);
    yield step;
    ({ hashes, cursor } = step);
  }
}
