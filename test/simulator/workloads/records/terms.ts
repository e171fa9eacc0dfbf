/** What the checker of records needs to know of a run. */
import { Keyspace } from "../../../../src/wire/keyspace.ts";
import type { Plan } from "../../campaign/plan.ts";
import type { RecordCall, RecordTerms } from "../../checks/records.ts";
import type { World } from "../../world.ts";
import { shardsOf } from "../shards.ts";
import { bytesOf } from "./commands.ts";
import { isPair, pairBytes } from "./pair-frames.ts";

export function recordTermsOf(world: World, plan: Plan): RecordTerms {
  const shardOf = shardsOf(plan);
  const { facts } = world.witness;
  return {
    clocks: world.clocks,
    objectOf: (key) =>
      isPair(key)
        ? shardOf(Keyspace.throttrPairs, pairBytes(key))
        : shardOf(Keyspace.throttr, bytesOf(key)),
    idempotencyTtlMs: world.settings.IDEMPOTENCY_TTL_MS,
    mayBeStale: (object: string, { begun, ended }: RecordCall): boolean =>
      ended !== null && facts.staleSince(object, begun, ended) !== begun,
    hasTaken: (connection) => world.hasTaken(connection),
    wasFull: (object) => facts.wasFull(object),
  };
}
