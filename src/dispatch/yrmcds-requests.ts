/**
 * Requests of the yrmcds protocol about all of a namespace: Stats and Dump. Those about one name go to its shard.
 *
 * Dump streams: a page of a shard goes out before the next one is asked for, so its size is bounded by the page. It is
 * not a snapshot; a shard that restarts meanwhile has another order of its table, and begins again, so clients may see
 * a name twice.
 */
import { presentMs } from "../base/clock.ts";
import type { Environment } from "../base/environment.ts";
import {
  TALLY_YRMCDS_ACQUIRE,
  TALLY_YRMCDS_CONNECTIONS,
  TALLY_YRMCDS_DUMP,
  TALLY_YRMCDS_GET,
  TALLY_YRMCDS_NOOP,
  TALLY_YRMCDS_RELEASE,
  TALLY_YRMCDS_STATS,
  type Tally,
} from "../engine/tally.ts";
import type { SemaphoreFigures } from "../engine/semaphores/semaphores.ts";
import { ByteWriter } from "../wire/bytes.ts";
import type { YrmcdsProtocol } from "../wire/yrmcds/dialect.ts";
import { writeDumpReplies, type DumpForm } from "../wire/yrmcds/dump.ts";
import { Opcode } from "../wire/yrmcds/protocol.ts";
import { writeSuccess } from "../wire/yrmcds/replies.ts";
import { RequestView } from "../wire/yrmcds/request.ts";
import { writeStats, type StatsFigures } from "../wire/yrmcds/stats.ts";
import { figuresOf } from "./overview.ts";
import { walk, type ShardGroup } from "./shard-group.ts";
import type { Frames, Sink } from "./sink.ts";
import { answeringHubs, askWhole, type WholeSurvey } from "./survey.ts";
import { turn } from "../base/turn.ts";
import { DUMP_PAGE_BYTES } from "../engine/sizes.ts";

/** Answers a run of one request, and counts it where there is a tally. */
export async function answerYrmcds(
  { env, shards, tally }: { env: Environment; shards: ShardGroup; tally: Tally | null },
  { bytes, protocol }: Frames<YrmcdsProtocol>,
  sink: Sink,
): Promise<void> {
  const request = new RequestView();
  request.read(bytes, 0);
  const { opcode, opaque } = request;
  try {
    await turn();
    const isStats = opcode === Opcode.stats;
    if (tally !== null) {
      tally.turn(presentMs());
      tally.totals[isStats ? TALLY_YRMCDS_STATS : TALLY_YRMCDS_DUMP]!++;
    }
    if (isStats) {
      const out = new ByteWriter(512);
      writeStats(out, opaque, statsOf(await askWhole(env, shards)));
      sink.reply(out.take(), true);
    } else {
      await dump(shards, opaque, protocol.dumpForm, sink);
    }
  } catch (error) {
    sink.fail(error);
  }
}

/** Sends a reply for each semaphore, then one without a name, which ends the dump. */
async function dump(shards: ShardGroup, opaque: number, form: DumpForm, sink: Sink): Promise<void> {
  const out = new ByteWriter(DUMP_PAGE_BYTES);
  await shards.askInTurn(async ({ placement, stub }) => {
    const pages = walk(async (hashes, cursor) => {
      const room = sink.room();
      if (room !== null) await room;
      // Answers of an object in the same process are always ready: without a turn nothing else would be served.
      await turn();
      return await stub().dump(placement, hashes, cursor, DUMP_PAGE_BYTES);
    });
    for await (const { entries } of pages) {
      out.reset();
      writeDumpReplies(out, opaque, form, entries);
      if (out.length > 0) sink.reply(out.take(), false);
    }
  });
  out.reset();
  writeSuccess(out, Opcode.dump, opaque);
  sink.reply(out.take(), true);
}

/** Keys that share a first slot are not counted as conflicts. */
function statsOf(survey: WholeSurvey): StatsFigures {
  const counts = figuresOf(survey);
  const semaphores = survey.shards.map(({ answer }) => answer.semaphores);
  const sumOf = (count: (figures: SemaphoreFigures) => number): number =>
    semaphores.reduce((sum, figures) => sum + count(figures), 0);
  return {
    objects: sumOf(({ objects }) => objects),
    total_objects: sumOf(({ totalObjects }) => totalObjects),
    used_memory: sumOf(({ usedBytes }) => usedBytes),
    conflicts: 0,
    gc_count: sumOf(({ collections }) => collections),
    last_gc_elapsed: Math.max(
      ...semaphores.map(({ lastCollectionMicroseconds }) => lastCollectionMicroseconds),
    ),
    total_gc_elapsed: sumOf(({ totalCollectionMicroseconds }) => totalCollectionMicroseconds),
    curr_connections: answeringHubs(survey).reduce((sum, hub) => sum + hub.counterConnections, 0),
    total_connections: counts[TALLY_YRMCDS_CONNECTIONS]!,
    "command:noop": counts[TALLY_YRMCDS_NOOP]!,
    "command:get": counts[TALLY_YRMCDS_GET]!,
    "command:acquire": counts[TALLY_YRMCDS_ACQUIRE]!,
    "command:release": counts[TALLY_YRMCDS_RELEASE]!,
    "command:stats": counts[TALLY_YRMCDS_STATS]!,
    "command:dump": counts[TALLY_YRMCDS_DUMP]!,
  };
}
