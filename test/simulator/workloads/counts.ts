/**
 * Someone reads what the namespace has counted, by `GET /metrics` and `GET /v1/overview`, while clients of other workloads use it. In the end,
 * when nothing changes any more but what expires, sums of records and semaphores are compared with listings.
 */
import { RequestType } from "../../../src/wire/throttr/request-types.ts";
import { decodeInfo, INFO_BYTES } from "../../../src/wire/throttr/info.ts";
import type { Operation } from "../../../src/wire/edge/operation.ts";
import type { Overview } from "../../../src/wire/overview.ts";
import { isRelaxed, type Plan } from "../campaign/plan.ts";
import { checkSums, checkTotals, type CountedSum, type CountSample } from "../checks/counts.ts";
import type { Moment, Violation } from "../checks/history.ts";
import type { ListedRow } from "../checks/listing-calls.ts";
import type { Random } from "../kernel/random.ts";
import type { RunningLife } from "../platform/running-life.ts";
import type { Workload, World } from "../world.ts";
import { pauseBeside } from "./client.ts";
import { CountedCaller } from "./counts/caller.ts";
import { CountedUser } from "./counts/user.ts";
import { SETTLED_MS } from "./give-up.ts";
import { walksFor, type Walk } from "./listings/walks.ts";
import { getJson, getText, PortWay, resultOf, type Failed } from "./listings/ways.ts";
import { httpPort } from "./ports.ts";

/** Between two looks at the counts, in ms. */
const PAUSE_MS = { least: 1000, most: 90_000 };
const METRICS_SHARE = 0.6;
/** By then nothing is left of any request. */
const REST_MS = SETTLED_MS + 60_000;
/** A split may be under way, and a listing may break off. */
const TRIES_MAX = 5;
const TRY_MS = 60_000;
const PAGE_ROWS = 1000;
/** Series of shards whose samples never go down. */
const SERIES = /^(throttr_(?:requests|read_bytes|write_bytes)_total)\{(.*)\} (\d+)$/;
/** Only a shard that was asked, and did not report, has this one. */
const ASKED = /^throttr_shard_up\{.*shard="([^"]*)".*\} 1$/;
const RECORDS = /^throttr_shard_records\{.*shard="([^"]*)".*\} (\d+)$/;
const SHARD = /shard="([^"]*)"/;

const WALKS = walksFor(() => true);

export class Counts implements Workload {
  readonly name = "counts";
  readonly #samples: CountSample[] = [];
  readonly #sums: CountedSum[] = [];
  readonly #plan: Plan;
  readonly #user: CountedUser;
  readonly #caller = new CountedCaller();

  constructor(plan: Plan) {
    this.#plan = plan;
    this.#user = new CountedUser(plan);
  }

  start(world: World): void {
    this.#user.start(world);
    this.#caller.start(world);
    world.start("reader of counts", async (life) => {
      const random = world.random.fork(life.name);
      while (!world.isClosing) {
        await pauseBeside(world, life, random, PAUSE_MS);
        const begun = world.moments.now();
        if (random.chance(METRICS_SHARE)) {
          const text = await readMetrics(world, life, random);
          if (text !== null) this.#noteMetrics(text, begun, world.moments.now());
        } else {
          const answer = await readOverview(world, life, random);
          if (!("failed" in answer)) this.#noteOverview(answer, begun, world.moments.now());
        }
      }
    });
  }

  #noteMetrics(text: string, begun: Moment, ended: Moment): void {
    const lines = text.split("\n");
    const asked = new Set(lines.map((line) => ASKED.exec(line)?.[1]));
    // One without records may have no data, and begins at 0 again.
    const filled = new Set(
      lines
        .map((line) => RECORDS.exec(line))
        .map((found) => (Number(found?.[2]) > 0 ? found![1] : null)),
    );
    for (const line of lines) {
      const [, name, labels, value] = SERIES.exec(line) ?? [];
      const shard = SHARD.exec(labels ?? "")?.[1];
      if (shard === undefined || !asked.has(shard) || !filled.has(shard)) continue;
      const series = `${name}{${labels}}`;
      this.#samples.push({
        shard,
        series,
        value: Number(value),
        begun,
        ended,
        lasts: "restarts",
        startedAtMs: null,
      });
    }
  }

  #noteOverview({ shards }: Overview, begun: Moment, ended: Moment): void {
    for (const said of shards) {
      if (said.isUnreachable || said.reportedAtMs !== null) continue;
      const { shard, startedAtMs, requests } = said;
      const of = { shard, begun, ended, lasts: "life", startedAtMs } as const;
      this.#samples.push({ ...of, series: "requests", value: requests.total });
      this.#samples.push({ ...of, series: "refusedForSpace", value: said.refusedForSpace });
      this.#samples.push({ ...of, series: "rowsWritten", value: said.rowsWritten });
    }
  }

  async finish(world: World, life: RunningLife): Promise<void> {
    const random = world.random.fork("finish of counts");
    await life.settled(REST_MS, "rest", () => {});
    for (let tries = 0; tries < TRIES_MAX; tries++) {
      if (await this.#compare(world, life, random)) return;
      await life.settled(TRY_MS, "pause", () => {});
    }
    throw new Error("counts could not be compared with listings");
  }

  /** @returns whether all answered, and nothing was in motion */
  async #compare(world: World, life: RunningLife, random: Random): Promise<boolean> {
    const way = new PortWay(httpPort(world, life, random));
    const before = await thingsOf(way);
    const begun = world.moments.now();
    const overview = await readOverview(world, life, random);
    const ended = world.moments.now();
    const info = await readInfo(way);
    const after = await thingsOf(way);
    if (before === null || after === null || info === null || "failed" in overview) return false;
    const { records, semaphores, requests, shards } = overview;
    if (shards.some((shard) => shard.isUnreachable || shard.isSplitting)) return false;
    // What shards have reported is as old as that.
    if (shards.every((shard) => !shard.isUnreachable && shard.reportedAtMs === null)) {
      this.#user.told = { total: requests.byName["stat"]?.total ?? 0, begun, ended };
      this.#caller.total = requests.byName["event"]?.total ?? 0;
      this.#add("counters of the overview", records.counters, before.counters, after.counters);
      this.#add("buffers of the overview", records.buffers, before.buffers, after.buffers);
      this.#add("bytes of the overview", records.bufferBytes, before.bytes, after.bytes);
      this.#add(
        "semaphores of the overview",
        semaphores.objects,
        before.semaphores,
        after.semaphores,
      );
    }
    this.#add("counters of INFO", info.counters, before.counters, after.counters);
    this.#add("buffers of INFO", info.buffers, before.buffers, after.buffers);
    this.#add("bytes of INFO", info.bufferBytes, before.bytes, after.bytes);
    const byName = Object.values(requests.byName).reduce((sum, { total }) => sum + total, 0);
    this.#add("requests of the overview", requests.total, byName, byName);
    return true;
  }

  #add(what: string, told: number, before: number, after: number): void {
    this.#sums.push({ what, told, before, after });
  }

  check(world: World): readonly Violation[] {
    const { facts, unstored } = world.witness;
    return [
      ...checkTotals(this.#samples, {
        mayBeStale: ({ shard, begun, ended }) =>
          facts.staleSince(`Shard default/${shard}`, begun, ended) !== begun,
        hasStarted: (shard, before, after) =>
          facts.wasAway(`Shard default/${shard}`, before.begun, after.ended),
        // Relaxed shards show what they have counted before it is on disk.
        hasLost: (shard) => isRelaxed(this.#plan) || unstored.has(`default/${shard}`),
      }),
      ...checkSums(this.#sums),
      ...this.#user.check(world),
      ...this.#caller.check(world),
    ];
  }
}

/** Null for an answer that was lost or refused. */
async function readMetrics(
  world: World,
  life: RunningLife,
  random: Random,
): Promise<string | null> {
  const answer = await getText({ world, life, random, path: "/metrics", kind: "counts" });
  return "failed" in answer ? null : answer.result;
}

async function readOverview(
  world: World,
  life: RunningLife,
  random: Random,
): Promise<Overview | Failed> {
  const answer = await getJson({ world, life, random, path: "/v1/overview", kind: "counts" });
  return "failed" in answer ? answer : (answer.result as Overview);
}

/** What listings have found. */
interface Things {
  readonly counters: number;
  readonly buffers: number;
  /** Of the values of buffers. */
  readonly bytes: number;
  readonly semaphores: number;
}

/** Null where a listing broke off. */
async function thingsOf(way: PortWay): Promise<Things | null> {
  const records = await listAll(way, "LIST");
  const semaphores = await listAll(way, "SEMAPHORES");
  if (records === null || semaphores === null) return null;
  const buffers = records.filter(({ kind }) => kind === "buffer");
  return {
    counters: records.length - buffers.length,
    buffers: buffers.length,
    bytes: buffers.reduce((sum, { bytes }) => sum + bytes!, 0),
    semaphores: semaphores.length,
  };
}

async function listAll(way: PortWay, by: Walk["by"]): Promise<readonly ListedRow[] | null> {
  const walk = WALKS.find((each) => each.by === by)!;
  const rows: ListedRow[] = [];
  const means = {
    port: way,
    way: () => way,
    getJson: async () => await Promise.reject(new Error()),
  };
  for (let cursor: unknown = null; ;) {
    const request = { prefix: "", limit: PAGE_ROWS, bytesMax: Infinity, cursor };
    const page = await walk.page(means, request);
    if ("failed" in page) return null;
    rows.push(...page.rows);
    if (page.next === null) return rows;
    cursor = page.next;
  }
}

async function readInfo({ port }: PortWay): Promise<ReturnType<typeof decodeInfo> | null> {
  const operation: Operation<ReturnType<typeof decodeInfo> | null> = {
    type: RequestType.info,
    frame: Uint8Array.of(RequestType.info),
    isRead: true,
    isRepeatable: true,
    replyLength: (bytes, at, end) => {
      const length = bytes[at] === 1 ? 1 + INFO_BYTES : 1;
      return at + length > end ? 0 : length;
    },
    read: (reply) => (reply[0] === 1 ? decodeInfo(reply.subarray(1)) : null),
  };
  const [answer] = await port.exchange([operation]);
  const read = resultOf(port, operation, answer!);
  return "failed" in read ? null : read.result;
}
