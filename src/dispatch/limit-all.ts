/** The command LIMIT_ALL at a door: its body, and the rights to each of its keys. `charge-together.ts` does the rest. */
import { missingRight, missingRightError, type Access } from "../base/access.ts";
import { presentMs } from "../base/clock.ts";
import { readEntries, type LimitEntry } from "../engine/limit-all-entries.ts";
import { Refusal } from "../engine/refusal.ts";
import type { ByteWriter } from "../wire/bytes.ts";
import { Command } from "../wire/edge/command.ts";
import { EDGE } from "../wire/edge/protocol.ts";
import { layoutsOf } from "../wire/throttr/requests.ts";
import { chargeTogether } from "./charge-together.ts";
import { check, readParts } from "./scans.ts";
import type { ShardGroup } from "./shard-group.ts";

/**
 * Writes the answer to a LIMIT_ALL.
 *
 * @throws Refusal when nothing was charged; what a shard throws, when that is unknown
 */
export async function limitAll(
  { map, placement, stub }: ShardGroup,
  frame: Uint8Array,
  access: Access,
  out: ByteWriter,
): Promise<void> {
  const { prefix, body } = readParts(frame, 1);
  check(prefix.length === 0, "key", "no bytes", prefix.length);
  const entries = readEntries(body);
  assertAllowed(entries, access);
  const shards = {
    map,
    limitAll: (shard: number, part: Uint8Array, id: Uint8Array | null) =>
      stub(shard).limitAll(placement, part, id, presentMs()),
    cancelLimits: (shard: number, part: Uint8Array, id: Uint8Array) =>
      stub(shard).cancelLimits(placement, part, id),
  };
  const newId = (): Uint8Array => crypto.getRandomValues(new Uint8Array(16));
  for (const decision of await chargeTogether(shards, entries, newId)) out.copy(decision);
}

/** The frame has no key to see the rights by: each entry needs those of a LIMIT. */
function assertAllowed(entries: readonly LimitEntry[], access: Access): void {
  const layout = layoutsOf(EDGE)[Command.limit]!;
  for (const { bytes, keyAt, keyBytes } of entries) {
    const missing = missingRight(access, layout, bytes, keyAt, keyBytes);
    if (missing !== null) throw new Refusal(missingRightError(missing, layout, access).message);
  }
}
