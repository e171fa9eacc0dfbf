/**
 * An operator splits shards at random moments, while clients of other workloads use them, and lists them by `GET /v1/shards`: each
 * list has each hash once. In the end every split must be over, and the shards that serve must own the circle of hashes once.
 */
import type { ShardState, SplitCalls } from "../../../src/base/calls/splits.ts";
import { KeyHash } from "../../../src/dispatch/placement.ts";
import { CIRCLE, endOf, initialRange, widthOf, type Range } from "../../../src/wire/range.ts";
import type { ShardRow, Shards } from "../../../src/wire/shards.ts";
import type { Plan } from "../campaign/plan.ts";
import type { Violation } from "../checks/history.ts";
import { describeMoment } from "../checks/order.ts";
import type { Random } from "../kernel/random.ts";
import type { SimulatedObject } from "../platform/object.ts";
import type { RunningLife } from "../platform/running-life.ts";
import { makeStub } from "../platform/stub.ts";
import type { Workload, World } from "../world.ts";
import { getJson } from "./listings/ways.ts";

/** Splits in the middle of the records, as the shard chooses it. */
const MIDDLE_SHARE = 0.6;
/** Of a range: so near to its ends are some splits. */
const EDGE_SHARE = 0.1;
/** How long a split may take once nothing goes wrong any more. */
const SETTLE_MS = 600_000;
const LOOK_MS = 5000;
const PAUSE_STEP_MS = 600_000;
/** Lists for each split that is asked for: reports of shards are read in them, where the namespace has many. */
const LISTS = 3;

/** Methods as a stub has them. */
type Asynchronous<Calls> = {
  [Name in keyof Calls]: Calls[Name] extends (...asked: infer Asked) => infer Answer
    ? (...asked: Asked) => Promise<Awaited<Answer>>
    : never;
};

/** A shard, and what it says of itself. */
interface Seen {
  readonly name: string;
  readonly state: ShardState;
}

/** What an operator was told of all shards. */
interface Listed {
  /** When, for messages. */
  readonly at: string;
  readonly rows: readonly ShardRow[];
}

export class Splits implements Workload {
  readonly name = "splits";
  readonly #count: number;
  readonly #durationMs: number;
  readonly #shards: number;
  readonly #fingerprint = new KeyHash("default", "").fingerprint;
  readonly #listed: Listed[] = [];
  #seen: readonly Seen[] = [];

  constructor(plan: Plan) {
    this.#count = plan.splits;
    this.#durationMs = plan.durationMs;
    this.#shards = Number(plan.variables["SHARDS"]);
  }

  start(world: World): void {
    world.start("operator", async (life) => await this.#work(world, life));
    world.start("reader of shards", async (life) => await this.#read(world, life));
  }

  async #read(world: World, life: RunningLife): Promise<void> {
    const random = world.random.fork(life.name);
    const count = LISTS * this.#count;
    for (let i = 0; i < count && !world.isClosing; i++) {
      await pause(world, life, random.between(0, (2 * this.#durationMs) / count));
      const begun = world.moments.now();
      const rows = await listShards(world, life, random);
      if (rows === null) continue;
      const at = `from ${describeMoment(begun)} to ${describeMoment(world.moments.now())}`;
      this.#listed.push({ at, rows });
    }
  }

  async #work(world: World, life: RunningLife): Promise<void> {
    const random = world.random.fork(life.name);
    const pauseMs = this.#durationMs / this.#count;
    for (let i = 0; i < this.#count && !world.isClosing; i++) {
      await pause(world, life, random.between(0, 2 * pauseMs));
      const shards = shardsOf(world);
      if (shards.length === 0) continue;
      try {
        await this.#split(world, life, random.pick(shards), random);
      } catch (error) {
        // Calls are lost, and shards refuse to split while they do: the next attempt comes later.
        world.failures.noteFailure("a split", error, "split");
      }
    }
  }

  async #split(
    world: World,
    life: RunningLife,
    shard: SimulatedObject,
    random: Random,
  ): Promise<void> {
    const stub = stubOf(world, life, shard);
    const state = await stub.shardState();
    if (state === null) return;
    const { from, to } = state.range;
    const placement = { shards: 1, fingerprint: this.#fingerprint, range: { from, to } };
    const at = random.chance(MIDDLE_SHARE) ? null : placeIn(state.range, random);
    await stub.split(placement, at);
  }

  async finish(world: World, life: RunningLife): Promise<void> {
    const untilMs = world.time.nowMs + SETTLE_MS;
    const random = world.random.fork(life.name);
    do {
      await life.settled(LOOK_MS, "look", () => {});
      // A shard whose loss is accepted has its range again when it is first asked. INFO asks all; the overview reads reports of many.
      if (world.witness.lost !== null)
        await getJson({ world, life, random, path: "/v1/info", kind: "counts" });
      // Where nothing is deployed, shards of the release before stay, which never split.
      if (shardsOf(world).some(({ release }) => release.name !== "today")) return;
      this.#seen = await look(world, life);
    } while (!this.#isSettled() && world.time.nowMs < untilMs);
  }

  /** No split is under way, and the data of no shard is missed. */
  #isSettled(): boolean {
    const isOver = this.#seen.every(({ state }) => state.split === null && state.isActive);
    return isOver && gapIn(this.#owned()) === null;
  }

  /** The ranges that shards own, in their order. A shard that the namespace began with has no data before its first write. */
  #owned(): Range[] {
    const owned = this.#seen.filter(({ state }) => state.isActive).map(({ state }) => state.range);
    const unborn = Array.from({ length: this.#shards }, (_, i) => initialRange(i, this.#shards));
    const untouched = unborn.filter(({ from }) => owned.every((range) => range.from !== from));
    return [...owned, ...untouched].toSorted((a, b) => a.from - b.from);
  }

  check(): readonly Violation[] {
    const violations: Violation[] = [];
    const violate = (subject: string, message: string): void => {
      violations.push({ promise: "Splits", subject, message });
    };
    for (const { name, state } of this.#seen) {
      if (state.split !== null) violate(name, `its split does not end: ${JSON.stringify(state)}`);
      if (!state.isActive) violate(name, `it has adopted a range, and learns no more of it`);
    }
    for (const { at, rows } of this.#listed) {
      const gap = gapIn(rows.map(({ from, to }) => ({ from, to: to === CIRCLE ? 0 : to })));
      if (gap === null) continue;
      const shown = JSON.stringify(rows.map(({ shard, from, to }) => [shard, from, to]));
      violate("GET /v1/shards", `${at} does not have each hash once, at ${gap}: ${shown}`);
    }
    const owned = this.#owned();
    if (this.#seen.some(({ state }) => state.isActive) && gapIn(owned) !== null) {
      violate("the circle", `not each hash has one owner: ${JSON.stringify(owned)}`);
    }
    return violations;
  }
}

/** Waits, but not much beyond the time in which something begins: in long runs pauses are long. */
async function pause(world: World, life: RunningLife, ms: number): Promise<void> {
  for (let leftMs = ms; leftMs > 0 && !world.isClosing; leftMs -= PAUSE_STEP_MS) {
    await life.settled(Math.min(leftMs, PAUSE_STEP_MS), "pause", () => {});
  }
}

/** The first hash that ranges in their order do not have once; null where they have all. */
function gapIn(ranges: readonly Range[]): number | null {
  let at = 0;
  for (const range of ranges) {
    const end = endOf(range);
    if (range.from !== at || end <= range.from) return at;
    at = end;
  }
  return at === CIRCLE ? null : at;
}

/** Null for an answer that was lost, and for that of a door that does not know the route. */
async function listShards(
  world: World,
  life: RunningLife,
  random: Random,
): Promise<readonly ShardRow[] | null> {
  const answer = await getJson({ world, life, random, path: "/v1/shards", kind: "shards" });
  return "failed" in answer ? null : (answer.result as Shards).shards;
}

const shardsOf = (world: World): SimulatedObject[] =>
  [...world.cluster.objects].filter(
    ({ className, name }) => className === "Shard" && name.startsWith("default/"),
  );

function stubOf(world: World, life: RunningLife, shard: SimulatedObject): Asynchronous<SplitCalls> {
  return makeStub(world.cluster.site, life, shard) as Asynchronous<SplitCalls>;
}

async function look(world: World, life: RunningLife): Promise<Seen[]> {
  const seen: Seen[] = [];
  for (const shard of shardsOf(world)) {
    const state = await stubOf(world, life, shard).shardState();
    if (state !== null) seen.push({ name: shard.name, state });
  }
  return seen;
}

/** A hash in a range, at times near an end. */
function placeIn(range: Range, random: Random): number {
  const width = widthOf(range);
  const share = random.chance(0.8) ? 1 : EDGE_SHARE;
  const offset = 1 + random.int(Math.max(1, Math.floor(width * share) - 1));
  return random.chance(0.5) ? range.from + offset : endOf(range) - offset;
}
