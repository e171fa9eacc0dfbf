/** Where keys are, as traces and facts of a run name it. */
import { InitialShards } from "../../support/shards.ts";
import type { Keyspace } from "../../../src/wire/keyspace.ts";
import type { Plan } from "../campaign/plan.ts";

/** @returns the name of the shard that has a key */
export function shardsOf({ variables }: Plan): (keyspace: Keyspace, key: Uint8Array) => string {
  const map = new InitialShards("default", Number(variables["SHARDS"]), "");
  return (keyspace, key) => `Shard default/${map.shardOf(keyspace, key, 0, key.length)}`;
}
