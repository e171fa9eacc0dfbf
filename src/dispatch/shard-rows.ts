/** The shards of a namespace for an operator: what each says of its range, and splits by hand. */
import type { ShardState } from "../base/calls/splits.ts";
import type { Environment } from "../base/environment.ts";
import { refuseUnknown } from "../base/unknown-method.ts";
import { ThrottrError } from "../wire/edge/error.ts";
import { endOf, initialFroms } from "../wire/range.ts";
import type { BegunSplit, ShardRow } from "../wire/shards.ts";
import { hexOfHash } from "../wire/range.ts";
import type { ShardGroup } from "./shard-group.ts";
import { readOrAsk, type SaidOf } from "./shard-reports.ts";

/**
 * What all shards are, in the order of the circle.
 *
 * @throws Refusal `batch_version` where a shard is of a release before 0.5.0
 */
export async function shardRows(env: Environment, shards: ShardGroup): Promise<ShardRow[]> {
  await shards.findShards();
  const said = await readOrAsk(env, shards, false, {
    ask: async ({ placement, stub }, isToReport) =>
      await refuseUnknown(stub().shardState(placement, isToReport)),
    read: ({ summary }): ShardState | null => summary.state,
  });
  return said.map(rowOf);
}

/** One without data has its range all the same. */
function rowOf({ shard, answer: state, reportedAtMs }: SaidOf<ShardState | null>): ShardRow {
  const { label, range } = shard;
  const { from } = range;
  return {
    shard: label,
    from,
    to: endOf(range),
    records: state?.records ?? 0,
    bytes: state?.bytes ?? 0,
    bytesMax: state?.bytesMax ?? 0,
    callsPerSecond: state?.callsPerSecond ?? 0,
    isHot: state?.isHot ?? false,
    splitProblem: state?.splitProblem ?? null,
    reportedAtMs,
    split: state?.split ? { at: state.split.at, isGiven: state.split.isGiven } : null,
  };
}

/**
 * Begins a split.
 *
 * @param label of the shard
 * @param at first hash of the upper part; null for the middle of the records
 * @throws ThrottrError `split_refused`; Refusal `batch_version` where the shard is of a release before 0.5.0
 */
export async function splitShard(
  shards: ShardGroup,
  label: string,
  at: number | null,
): Promise<BegunSplit> {
  await shards.findShards();
  const from = fromOf(label, shards.map.shards);
  if (from === null) throw unknownShard(label);
  return await shards.askOwnerOf(from, async (shard) => {
    if (shard.range.from !== from) {
      // This isolate may not know of a split yet: then the shard it knows has another range, and refuses.
      await refuseUnknown(shard.stub().shardState(shard.placement));
      throw unknownShard(label);
    }
    const begun = await refuseUnknown(shard.stub().split(shard.placement, at));
    return { shard: shard.label, newShard: hexOfHash(begun.at), at: begun.at };
  });
}

const HASH = /^[0-9a-f]{8}$/;
const INDEX = /^\d{1,5}$/;

/** Where the range of a shard begins; null for no name of one. */
function fromOf(label: string, shards: number): number | null {
  if (HASH.test(label)) return Number.parseInt(label, 16);
  if (!INDEX.test(label)) return null;
  return initialFroms(Math.max(1, shards))[Number(label)] ?? null;
}

function unknownShard(label: string): ThrottrError {
  return new ThrottrError(
    "split_refused",
    `there is no shard ${label}: GET /v1/shards lists all; nothing was changed`,
  );
}
