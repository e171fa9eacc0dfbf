/**
 * The shards of a namespace as a group: the way of requests that concern all of them.
 *
 * Requests on a key take a lane instead (`shard-lane.ts`), which gathers what many callers bring into one call.
 * What walks a whole shard needs no gathering: each of its calls is bounded work, and others come between them.
 */
import type { ShardCalls } from "../base/calls/shard.ts";
import type { Placement } from "../wire/batch.ts";
import type { ShardMap } from "./placement.ts";

/** Made with each `Dispatch`; it holds no stub, so it costs nothing before it is used. */
export class ShardGroup {
  readonly map: ShardMap;
  /**
   * Makes a stub of the shard with an index: a new one for each use, as one that has seen its object reset fails
   * from then on.
   */
  readonly stub: (index: number) => DurableObjectStub<ShardCalls>;

  constructor(map: ShardMap, stub: (index: number) => DurableObjectStub<ShardCalls>) {
    this.map = map;
    this.stub = stub;
  }

  /** Goes along with every call: a shard of another number of shards, or another seed, refuses it. */
  get placement(): Placement {
    return this.map.placement;
  }

  /** Stubs of all shards, by index. */
  all(): DurableObjectStub<ShardCalls>[] {
    return Array.from({ length: this.map.shards }, (_, index) => this.stub(index));
  }

  /** Index of the shard that owns a key. */
  indexOf(keyspace: number, key: Uint8Array): number {
    return this.map.shardOf(keyspace, key, 0, key.length);
  }
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
