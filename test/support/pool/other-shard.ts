/** Another shard, as a part of a shard calls it: whatever its name. */
import type { Environment } from "../../../src/base/environment.ts";
import type { ShardCalls } from "../../../src/base/calls/shard.ts";

/** An environment whose shards answer these calls, and no others. */
export function environmentOf(calls: {
  [Method in keyof ShardCalls]?: (...asked: never[]) => Promise<unknown>;
}): Environment {
  return { SHARD: { getByName: () => calls } } as unknown as Environment;
}
