/** Where keys are, as traces and facts of a run name it. */
import { InitialShards } from "../../support/shards.ts";
import type { Keyspace } from "../../../src/wire/keyspace.ts";
import type { Plan } from "../campaign/plan.ts";
import type { Facts } from "../checks/facts.ts";
import type { Moment } from "../checks/history.ts";
import { isBefore } from "../checks/order.ts";
import { SPLIT_NAME } from "../witness.ts";
import { DEFAULT } from "./namespaces.ts";

/** @returns the name of the shard that has a key */
export function shardsOf(
  plan: Plan,
  namespace = DEFAULT,
): (keyspace: Keyspace, key: Uint8Array) => string {
  const map = mapOf(plan, namespace);
  return (keyspace, key) => `Shard ${namespace}/${map.shardOf(keyspace, key, 0, key.length)}`;
}

/** @returns the place of a key on the circle of hashes */
export function hashesOf(
  plan: Plan,
  namespace = DEFAULT,
): (keyspace: Keyspace, key: Uint8Array) => number {
  const map = mapOf(plan, namespace);
  return (keyspace, key) => map.hashOf(keyspace, key, 0, key.length);
}

/** @returns whether a split had begun by a moment that gives keys, which one shard had at first, to several */
export function splitsOf(
  plan: Plan,
  facts: Facts,
): (keyspace: Keyspace, keys: readonly Uint8Array[], by: Moment) => boolean {
  const map = mapOf(plan, DEFAULT);
  const shardOf = shardsOf(plan);
  return (keyspace, keys, by) => {
    const hashes = keys.map((key) => map.hashOf(keyspace, key, 0, key.length));
    const [least, most] = [Math.min(...hashes), Math.max(...hashes)];
    return facts.membersOf(shardOf(keyspace, keys[0]!)).some((member) => {
      const from = SPLIT_NAME.exec(member)?.[2];
      if (from === undefined) return false;
      const first = Number.parseInt(from, 16);
      // A split starts the new shard before it gives anything to it.
      return first > least && first <= most && isBefore(facts.livesOf(member)[0]!.begun, by);
    });
  };
}

const mapOf = ({ variables }: Plan, namespace: string): InitialShards =>
  new InitialShards(namespace, Number(variables["SHARDS"]), "");
