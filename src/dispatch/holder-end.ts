/**
 * The end of a holder, on its way to the shards that may know it.
 *
 * It goes over the lanes, as a call of its own could overtake an Acquire that is under way. A shard that does not get it
 * asks the Hub before long whether the connection still lives (`objects/shard/lost-connections.ts`).
 */
import { logWarning } from "../base/log.ts";
import type { AnyProtocol } from "../wire/protocols.ts";
import type { Range } from "../wire/range.ts";
import type { Holder } from "./holder.ts";
import type { FramesPiece, ShardLanes } from "./shard-lane.ts";

/** Tells the shards of all ranges that a holder has noted; resolves when each has answered, or failed. */
export async function endHolder(
  lanes: ShardLanes,
  holder: Holder,
  protocol: AnyProtocol,
): Promise<void> {
  await holder.idle();
  await Promise.all(holder.ranges.map((range) => tellRange(lanes, range, holder, protocol, 0)));
}

/** Tells all shards that have hashes of a range now. */
async function tellRange(
  lanes: ShardLanes,
  range: Range,
  holder: Holder,
  protocol: AnyProtocol,
  moves: number,
): Promise<void> {
  await Promise.all(
    lanes.view.within(range).map(async (owned) => {
      const { promise, resolve } = Promise.withResolvers<Promise<void> | void>();
      const piece: FramesPiece = {
        bytes: holder.bytes.length,
        protocolCode: protocol.code,
        frames: new Uint8Array(0),
        replyBytesMax: 0,
        holder: holder.bytes,
        hasEnded: true,
        moves,
        answer: () => resolve(),
        divide: () => resolve(tellRange(lanes, owned, holder, protocol, piece.moves)),
        refuseUnknownTypes: () => false,
        fail: (error) => {
          const shard = lanes.map.labelAt(owned.from);
          logWarning("release_failed", { shard, error: String(error) });
          resolve();
        },
      };
      lanes.submit(owned.from, piece);
      await promise;
    }),
  );
}
