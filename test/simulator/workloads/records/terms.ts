/** What the checker of records needs to know of a run. */
import { isIn } from "../../../../src/wire/range.ts";
import { Keyspace } from "../../../../src/wire/keyspace.ts";
import { isRelaxed, type Plan } from "../../campaign/plan.ts";
import type { RecordCall, RecordTerms } from "../../checks/records.ts";
import type { World } from "../../world.ts";
import { hashesOf, shardsOf } from "../shards.ts";
import { bytesOf } from "./commands.ts";
import { isPair, pairBytes } from "./pair-frames.ts";

export function recordTermsOf(world: World, plan: Plan, namespace: string): RecordTerms {
  const shardOf = shardsOf(plan, namespace);
  const hashes = hashesOf(plan, namespace);
  const { facts, lost } = world.witness;
  const hashOf = (key: string): number =>
    isPair(key)
      ? hashes(Keyspace.throttrPairs, pairBytes(key))
      : hashes(Keyspace.throttr, bytesOf(key));
  return {
    clocks: world.clocks,
    objectOf: (key) =>
      isPair(key)
        ? shardOf(Keyspace.throttrPairs, pairBytes(key))
        : shardOf(Keyspace.throttr, bytesOf(key)),
    answersKept: world.answersKept,
    mayBeStale: (object: string, { begun, ended }: RecordCall): boolean =>
      ended !== null && facts.staleSince(object, begun, ended) !== begun,
    hasTaken: (connection) => world.hasTaken(connection),
    wasFull: (object) => facts.wasFull(object),
    ...(isRelaxed(plan) ? { hasLost: world.hasLostRelaxed.bind(world) } : {}),
    lossOf: (key) => {
      if (lost === null) return null;
      const hash = hashOf(key);
      if (lost.adopted.some((range) => isIn(range, hash))) return { at: lost.at, isWhole: false };
      return isIn(lost.range, hash) ? { at: lost.at, isWhole: true } : null;
    },
  };
}
