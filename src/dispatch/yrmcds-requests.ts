/**
 * Requests of the yrmcds protocol about all of a namespace: Stats and Dump.
 *
 * Dump streams: a page of a shard goes out before the next one is asked for. It is no snapshot; a shard
 * that starts anew meanwhile is told of from its beginning.
 */
import {
  sumFigures,
  TALLY_YRMCDS_CONNECTIONS,
  TALLY_YRMCDS_DUMP,
  TALLY_YRMCDS_STATS,
  type Tally,
} from "../engine/tally.ts";
import { ByteWriter } from "../wire/bytes.ts";
import type { YrmcdsProtocol } from "../wire/yrmcds/dialect.ts";
import { writeDumpReplies, type DumpForm } from "../wire/yrmcds/dump.ts";
import { Opcode } from "../wire/yrmcds/protocol.ts";
import { writeSuccess } from "../wire/yrmcds/replies.ts";
import { RequestView } from "../wire/yrmcds/request.ts";
import { writeStats, type StatsFigures } from "../wire/yrmcds/stats.ts";
import { askHubs } from "./ask-hubs.ts";
import { walk, type ShardGroup } from "./shard-group.ts";
import type { YrmcdsFigures } from "../base/calls/shard.ts";
import type { Frames, Sink } from "./sink.ts";
import { directoryStub } from "../base/stubs.ts";
import { turn } from "../base/turn.ts";

const PAGE_BYTES = 64 << 10;

export class YrmcdsRequests {
  readonly #env: Env;
  readonly #shards: ShardGroup;
  readonly #tally: Tally;

  /** @param tally counts these requests */
  constructor(env: Env, shards: ShardGroup, tally: Tally) {
    this.#env = env;
    this.#shards = shards;
    this.#tally = tally;
  }

  /** Answers a run of one request. */
  async answer({ bytes, protocol }: Frames<YrmcdsProtocol>, sink: Sink): Promise<void> {
    const { opcode, opaque } = requestOf(bytes);
    try {
      await turn();
      if (opcode === Opcode.stats) await this.#stats(opaque, sink);
      else await this.#dump(opaque, protocol.dumpForm, sink);
    } catch (error) {
      sink.failed(error);
    }
  }

  async #stats(opaque: number, sink: Sink): Promise<void> {
    this.#tally.totals[TALLY_YRMCDS_STATS]!++;
    const { namespace, placement } = this.#shards;
    const [survey, ...shards] = await Promise.all([
      directoryStub(this.#env, namespace).survey(),
      ...this.#shards.all().map((shard) => shard.counterFigures(placement)),
    ]);
    const hubs = await askHubs(this.#env, survey.hubs, (hub) => hub.figures());
    const figures = sumFigures([survey.figures, ...hubs.map(({ answer }) => answer.tally)]);
    const out = new ByteWriter(512);
    writeStats(out, opaque, {
      ...statsOf(shards),
      curr_connections: hubs.reduce((sum, { answer }) => sum + answer.counterConnections, 0),
      total_connections: figures[TALLY_YRMCDS_CONNECTIONS]!,
      "command:stats": figures[TALLY_YRMCDS_STATS]!,
      "command:dump": figures[TALLY_YRMCDS_DUMP]!,
    });
    sink.reply(out.take(), true);
  }

  async #dump(opaque: number, form: DumpForm, sink: Sink): Promise<void> {
    this.#tally.totals[TALLY_YRMCDS_DUMP]!++;
    const out = new ByteWriter(PAGE_BYTES);
    const { placement } = this.#shards;
    for (const shard of this.#shards.all()) {
      const pages = walk(async (hashes, cursor) => {
        const room = sink.room();
        if (room !== null) await room;
        await turn();
        return await shard.dump(placement, hashes, cursor, PAGE_BYTES);
      });
      for await (const { entries } of pages) {
        out.reset();
        writeDumpReplies(out, opaque, form, entries);
        if (out.length > 0) sink.reply(out.take(), false);
      }
    }
    out.reset();
    writeSuccess(out, Opcode.dump, opaque);
    sink.reply(out.take(), true);
  }
}

function requestOf(frame: Uint8Array): RequestView {
  const request = new RequestView();
  request.read(frame, 0);
  return request;
}

type ShardStats = Omit<
  StatsFigures,
  "curr_connections" | "total_connections" | "command:stats" | "command:dump"
>;

/** What shards count, together. Keys that share a first slot are not counted as conflicts. */
function statsOf(shards: readonly YrmcdsFigures[]): ShardStats {
  const sumOf = (count: (shard: YrmcdsFigures) => number): number =>
    shards.reduce((sum, shard) => sum + count(shard), 0);
  return {
    objects: sumOf(({ semaphores }) => semaphores.objects),
    total_objects: sumOf(({ semaphores }) => semaphores.totalObjects),
    used_memory: sumOf(({ semaphores }) => semaphores.usedBytes),
    conflicts: 0,
    gc_count: sumOf(({ semaphores }) => semaphores.collections),
    last_gc_elapsed: Math.max(
      ...shards.map(({ semaphores }) => semaphores.lastCollectionMicroseconds),
    ),
    total_gc_elapsed: sumOf(({ semaphores }) => semaphores.totalCollectionMicroseconds),
    "command:noop": sumOf(({ requests }) => requests.noop),
    "command:get": sumOf(({ requests }) => requests.get),
    "command:acquire": sumOf(({ requests }) => requests.acquire),
    "command:release": sumOf(({ requests }) => requests.release),
  };
}
