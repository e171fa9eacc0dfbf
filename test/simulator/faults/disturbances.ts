/** What befalls the deployment at moments that the seed chooses: sleep, resets, new releases, clocks that are set, partitions. */
import { DURATION_MS } from "../campaign/plan.ts";
import type { Random } from "../kernel/random.ts";
import type { FaultyLink } from "../platform/net/network.ts";
import type { Release } from "../platform/realm.ts";
import type { SimulatedObject } from "../platform/object.ts";
import { SPLIT_NAME } from "../witness.ts";
import type { World } from "../world.ts";
import type { FaultCounts } from "./counts.ts";
import { drawnChange, RIGHT_SECRET, WRONG_SECRET } from "./setting-changes.ts";

/** Each with its weight in runs that have it. */
const KINDS = {
  "put to sleep": 8,
  "object reset": 4,
  "isolate ended": 0.6,
  // All that lives on it begins anew, which costs more time of the processor than anything else.
  "machine ended": 0.2,
  deployment: 0.1,
  "clock set": 2,
  partition: 2,
  "alarm twice": 3,
  "disk full": 1,
  "connection cut": 6,
  "slow reader": 4,
  storm: 1,
  "client suspended": 8,
} as const;
type Kind = keyof typeof KINDS;

/** Between two of them, in ms; in a longer run than most the pauses are longer. */
const PAUSE_MS = { least: 20, most: 120_000 };
/** A clock is set by so much at most, in ms. */
const CLOCK_STEP_MS = 60_000;
/** The longest time that a disk is full, in ms. */
const FULL_MS = 20_000;
/** How often it is one of the Hubs that wait for the answer to a close that is put to sleep, where there is one. */
const CLOSING_SHARE = 0.8;
/** The longest time that a reader reads nothing, in ms. */
export const STALL_MS = 30_000;

/** How long nothing happens in a client: its process waits for a processor, or its machine is suspended. */
const SUSPENDED_MS = { least: 20, most: 120_000 };

/** How long the database of a shard is away, in ms. */
const MISSING_MS = { least: 1000, most: 120_000 };
/** How long after that an operator accepts the loss, in ms. */
const ACCEPTED_MS = { least: 1000, most: 60_000 };

/** Databases vanish, and settings change, when clients have begun to write, and before this part of the run has passed. */
const PLANNED_FROM_MS = 20_000;
const PLANNED_UNTIL = 0.8;

/** How long a deployment takes that changes a setting, and how long a wrong secret is in force, in ms. */
const CHANGE_MS = { least: 100, most: 60_000 };

/** How long a deployment takes in which a release takes the place of another, in ms. */
const DEPLOYMENT_MS = { least: 10_000, most: 180_000 };
/**
 * A release that takes the place of another does so when clients have begun to write, which fixes the number of shards, and
 * before this part of the run has passed.
 */
const DEPLOYED_FROM_MS = 20_000;
const DEPLOYED_UNTIL = 0.7;

export class Disturbances {
  readonly #world: World;
  readonly #random: Random;
  readonly #counts: FaultCounts;
  readonly #kinds: readonly Kind[];
  readonly #pauseMs: number;

  readonly #successor: Release | null;
  readonly #losses: number;
  readonly #accepting: Release | null;
  readonly #changes: number;
  readonly #mistakes: number;

  /**
   * @param options.successor takes the place of the release that the run begins with; null where that stays
   * @param options.isCalm objects are put to sleep, and nothing goes wrong
   * @param options.losses how often the database of a shard vanishes for a while
   * @param options.accepting what an operator deploys for whom the first of them is lost for good; null where all come back
   * @param options.changes how often a deployment changes settings
   * @param options.mistakes how often one has another secret for a while
   */
  constructor(
    world: World,
    counts: FaultCounts,
    {
      successor,
      isCalm,
      losses,
      accepting,
      changes,
      mistakes,
    }: {
      readonly successor: Release | null;
      readonly isCalm: boolean;
      readonly losses: number;
      readonly accepting: Release | null;
      readonly changes: number;
      readonly mistakes: number;
    },
  ) {
    this.#world = world;
    this.#losses = accepting === null ? losses : 1;
    this.#accepting = accepting;
    this.#changes = changes;
    this.#mistakes = mistakes;
    this.#random = world.random.fork("disturbances");
    this.#counts = counts;
    this.#successor = successor;
    const kinds: Kind[] = isCalm
      ? ["put to sleep"]
      : (Object.keys(KINDS) as Kind[]).filter(() => this.#random.chance(0.6));
    // The time of a shard of release 0.4.0 stands still behind a clock that went back, and that of a shard without its data follows its
    // clock back, which no checker expects.
    const isSteady = successor !== null || accepting !== null;
    this.#kinds = isSteady ? kinds.filter((kind) => kind !== "clock set") : kinds;
    const stretch = world.durationMs / DURATION_MS;
    this.#pauseMs = this.#random.skewed(PAUSE_MS.least * 200, PAUSE_MS.most) * stretch;
  }

  start(): void {
    this.#next();
    this.#planLosses();
    this.#planDeployments();
    const successor = this.#successor;
    if (successor === null) return;
    const { durationMs, time } = this.#world;
    time.after(this.#random.between(DEPLOYED_FROM_MS, durationMs * DEPLOYED_UNTIL), () =>
      this.#note(
        "deployment",
        this.#deploy(successor, this.#random.skewed(DEPLOYMENT_MS.least, DEPLOYMENT_MS.most)),
      ),
    );
  }

  #planLosses(): void {
    const random = this.#random.fork("losses");
    this.#plan(this.#losses, random, () => {
      const lost = this.#loseData(random);
      if (lost !== null) this.#note("data lost", lost);
    });
  }

  #planDeployments(): void {
    const random = this.#random.fork("deployments");
    this.#plan(this.#changes, random, () => this.#change(random));
    this.#plan(this.#mistakes, random, () => this.#mistake(random));
  }

  /** Lets something happen a number of times, when clients have begun to write and before most of the run has passed. */
  #plan(times: number, random: Random, happen: () => void): void {
    const { durationMs, time } = this.#world;
    for (let i = 0; i < times; i++) {
      time.after(random.between(PLANNED_FROM_MS, durationMs * PLANNED_UNTIL), happen);
    }
  }

  #change(random: Random): void {
    if (!this.#hasData()) return;
    const { name, variables } = drawnChange(this.#world.settings, random);
    this.#deployWith(variables, random);
    this.#note("setting changed", name);
  }

  #mistake(random: Random): void {
    if (!this.#hasData()) return;
    this.#deployWith(WRONG_SECRET, random);
    this.#world.time.after(random.skewed(CHANGE_MS.least, CHANGE_MS.most), () =>
      this.#deployWith(RIGHT_SECRET, random),
    );
    this.#note("setting changed", "SHARD_SECRET");
  }

  #deployWith(variables: Readonly<Record<string, string>>, random: Random): void {
    const { release } = this.#world.cluster;
    const changed = { ...release, variables: { ...release.variables, ...variables } };
    this.#world.noteVariables(changed.variables);
    this.#deploy(changed, random.skewed(CHANGE_MS.least, CHANGE_MS.most));
  }

  /** Whether the numbers of shards and the secret are fixed: the first shard of each namespace, which knows them, has data. */
  #hasData(): boolean {
    const { cluster, namespaces } = this.#world;
    const stored = new Set([...cluster.objects].filter(isStored).map(({ name }) => name));
    return namespaces.every((namespace) => stored.has(`${namespace}/0`));
  }

  /** One shard at a time: each is missed by the others. */
  #loseData(random: Random): string | null {
    const { cluster, settings, witness, time } = this.#world;
    const missed = [...cluster.objects].filter(isMissed);
    if (missed.length === 0 || witness.missing.size > 0) return null;
    const object = random.pick(missed);
    witness.missing.add(object.name);
    const accepting = this.#accepting;
    if (accepting !== null) {
      witness.noteLost(object, cluster.objects, settings.SHARDS);
      object.loseData();
      time.after(random.skewed(ACCEPTED_MS.least, ACCEPTED_MS.most), () =>
        this.#note(
          "loss accepted",
          this.#deploy(accepting, random.skewed(1000, DEPLOYMENT_MS.most)),
        ),
      );
      return `Shard ${object.name}`;
    }
    const putBack = object.loseData();
    time.after(random.skewed(MISSING_MS.least, MISSING_MS.most), () => {
      putBack();
      witness.noteBack(object.name);
    });
    return `Shard ${object.name}`;
  }

  #next(): void {
    if (this.#kinds.length === 0) return;
    const { time } = this.#world;
    time.after(this.#random.skewed(PAUSE_MS.least, this.#pauseMs), () => {
      if (this.#world.isClosing) return;
      this.#disturb(this.#pickKind());
      this.#next();
    });
  }

  #pickKind(): Kind {
    const total = this.#kinds.reduce((sum, kind) => sum + KINDS[kind], 0);
    let at = this.#random.between(0, total);
    return this.#kinds.find((kind) => (at -= KINDS[kind]) < 0) ?? this.#kinds[0]!;
  }

  #disturb(kind: Kind): void {
    const subject = this.#apply(kind);
    if (subject !== null) this.#note(kind, subject);
  }

  #note(kind: Kind | "data lost" | "loss accepted" | "setting changed", subject: string): void {
    this.#world.trace.note("disturbance", kind, subject);
    this.#counts.add(kind, subject.split(" ")[0]!);
  }

  /** @returns to whom it happened; null where it could not */
  #apply(kind: Kind): string | null {
    const { cluster } = this.#world;
    switch (kind) {
      case "put to sleep":
        return this.#toObject(
          ({ life }) => life!.isIdle && (life!.evict(), true),
          this.#sleepers(),
        );
      case "object reset":
        return this.#toObject(({ life }) => (life!.crash("reset"), true));
      case "partition":
        return this.#toObject((object) => (object.partition(), true));
      case "alarm twice":
        return this.#toObject((object) => object.ringAgain());
      case "disk full":
        return this.#toObject((object) => {
          object.disk.fillUp({
            freeBytes: this.#random.int(20_000),
            isReset: () => this.#random.chance(0.5),
          });
          this.#world.time.after(this.#random.skewed(100, FULL_MS), () => object.disk.makeRoom());
          return true;
        });
      case "isolate ended":
        return this.#endDoor();
      case "machine ended": {
        const machine = this.#random.pick(cluster.machines);
        cluster.endMachine(machine);
        return machine.name;
      }
      case "deployment":
        return this.#deploy(cluster.release, this.#random.skewed(1, DEPLOYMENT_MS.most));
      case "clock set": {
        const machine = this.#random.pick(cluster.machines);
        const isSmall = this.#random.chance(0.7);
        this.#world.setClock(
          machine,
          this.#random.between(-1, 1) * (isSmall ? 500 : CLOCK_STEP_MS),
        );
        return machine.name;
      }
      case "connection cut":
        return this.#toLink((link) => link.cut());
      case "slow reader":
        return this.#toLink((link) => {
          const side = this.#random.int(2) as 0 | 1;
          link.stall(side);
          this.#world.time.after(this.#random.skewed(10, STALL_MS), () => link.resume(side));
        });
      case "storm":
        return this.#resetAll();
      case "client suspended":
        return this.#suspend();
    }
  }

  #suspend(): string | null {
    const busy = [...this.#world.suspendable].filter(
      ({ isOver, planned }) => !isOver && planned > 0,
    );
    if (busy.length === 0) return null;
    const client = this.#random.pick(busy);
    const ms = this.#random.skewed(SUSPENDED_MS.least, SUSPENDED_MS.most);
    const isMachine = this.#random.chance(0.5);
    if (!client.suspend(ms, isMachine)) return null;
    return isMachine ? "machine" : "process";
  }

  #deploy(release: Release, overMs: number): string {
    const { cluster } = this.#world;
    const subject = `${cluster.release.name}-to-${release.name}`;
    cluster.deploy(release, overMs);
    return subject;
  }

  /** Hubs whose clients leave a close unanswered sleep more often: they must not serve such a client when they wake up. */
  #sleepers(): readonly SimulatedObject[] {
    const running = this.#running();
    const closing = running.filter(({ sockets }) => sockets.awaitsClose);
    return closing.length > 0 && this.#random.chance(CLOSING_SHARE) ? closing : running;
  }

  #running(): SimulatedObject[] {
    return [...this.#world.cluster.objects].filter(({ life }) => life !== null);
  }

  #toObject(
    befall: (object: SimulatedObject) => boolean,
    running: readonly SimulatedObject[] = this.#running(),
  ): string | null {
    if (running.length === 0) return null;
    const object = this.#random.pick(running);
    return befall(object) ? `${object.className} ${object.name}` : null;
  }

  #toLink(befall: (link: FaultyLink) => void): string | null {
    const links = [...this.#world.cluster.site.network.links];
    if (links.length === 0) return null;
    const link = this.#random.pick(links);
    befall(link);
    return link.name;
  }

  #endDoor(): string | null {
    const open = this.#world.doors.filter(({ isolate }) => !isolate.isOver);
    if (open.length === 0) return null;
    const { isolate } = this.#random.pick(open);
    isolate.crash("out of memory");
    return `door ${isolate.name}`;
  }

  /** All Hubs end at once, so that all clients connect again at once. */
  #resetAll(): string {
    for (const { className, life } of this.#world.cluster.objects) {
      if (className === "Hub") life?.crash("storm");
    }
    return "Hubs";
  }
}

/** Whether it is a shard that has data, all of it on disk. */
const isStored = ({ className, disk }: SimulatedObject): boolean =>
  className === "Shard" && disk.isDurable && disk.database.hasTable("shard");

/** Whether others know that the shard has data: its own row says so. */
function isMissed(object: SimulatedObject): boolean {
  if (!isStored(object)) return false;
  const { disk, name } = object;
  const isOfSplit = SPLIT_NAME.test(name);
  const said = isOfSplit
    ? "is_active = 1"
    : "is_noted = 1 OR is_witnessed = 1 OR LENGTH(noted_shards) > 0";
  return disk.database.ownRows(`SELECT 1 FROM shard WHERE ${said}`).length > 0;
}
