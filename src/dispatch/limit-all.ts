/** The command LIMIT_ALL at a door: its body, and the rights to each of its keys. `charge-together.ts` does the rest. */
import { missingRight, missingRightError, type Access } from "../base/access.ts";
import { presentMs } from "../base/clock.ts";
import { readEntries, type LimitEntry } from "../engine/limit-all-entries.ts";
import { Refusal } from "../engine/refusal.ts";
import type { ByteWriter } from "../wire/bytes.ts";
import { Command } from "../wire/edge/command.ts";
import { EDGE } from "../wire/edge/protocol.ts";
import { layoutsOf } from "../wire/throttr/requests.ts";
import { chargeTogether, type ChargingShards } from "./charge-together.ts";
import { check, readParts } from "./scans.ts";
import type { ShardGroup } from "./shard-group.ts";

/**
 * Writes the answer to a LIMIT_ALL.
 *
 * @throws Refusal when nothing was charged; what a shard throws, when that is unknown
 */
export async function limitAll(
  group: ShardGroup,
  frame: Uint8Array,
  access: Access,
  out: ByteWriter,
): Promise<void> {
  const { prefix, body } = readParts(frame, 1);
  check(prefix.length === 0, "key", "no bytes", prefix.length);
  const entries = readEntries(body);
  assertAllowed(entries, access);
  const shards = new OwnerShards(group);
  const newId = (): Uint8Array => crypto.getRandomValues(new Uint8Array(16));
  for (const decision of await chargeTogether(shards, entries, newId)) out.copy(decision);
}

/** The shards, named by the hashes at which their ranges begin. */
class OwnerShards implements ChargingShards {
  readonly #group: ShardGroup;

  constructor(group: ShardGroup) {
    this.#group = group;
  }

  shardOf(keyspace: number, bytes: Uint8Array, at: number, length: number): number {
    const { map } = this.#group;
    return map.ranges.rangeOf(map.hashOf(keyspace, bytes, at, length)).from;
  }

  nameOf(shard: number): string {
    return this.#group.map.nameAt(shard);
  }

  async limitAll(shard: number, body: Uint8Array, id: Uint8Array | null): Promise<Uint8Array> {
    const { placement, stub } = this.#group.shardAt(shard);
    return await stub().limitAll(placement, body, id, presentMs());
  }

  async cancelLimits(shard: number, body: Uint8Array, id: Uint8Array): Promise<void> {
    const { placement, stub } = this.#group.shardAt(shard);
    await stub().cancelLimits(placement, body, id);
  }

  async learn(shard: number): Promise<void> {
    await this.#group.learn(this.#group.shardAt(shard));
  }
}

/** The frame has no key to see the rights by: each entry needs those of a LIMIT. */
function assertAllowed(entries: readonly LimitEntry[], access: Access): void {
  const layout = layoutsOf(EDGE)[Command.limit]!;
  for (const { bytes, keyAt, keyBytes } of entries) {
    const missing = missingRight(access, layout, bytes, keyAt, keyBytes);
    if (missing !== null) throw new Refusal(missingRightError(missing, layout, access).message);
  }
}
