/**
 * Looks at a run from outside, whatever its workloads do: whether calls go on and end, whether all comes to rest when the clients
 * have ended, and whether memory, rows and objects stay within what is promised.
 */
import type { Settings } from "../../src/base/settings.ts";
import {
  checkGroupBudgets,
  checkHubBudgets,
  checkNamespaceBudgets,
  checkShardBudgets,
  type GroupFigures,
  type HubFigures,
  type NamespaceFigures,
  type Sample,
  type ShardFigures,
} from "./checks/budgets.ts";
import type { CallTimes } from "./call-times.ts";
import type { ClockHistory } from "./checks/clocks.ts";
import { checkDoorCounts, type DoorCounts } from "./checks/door-counts.ts";
import type { Moment, Moments, Violation } from "./checks/history.ts";
import { checkProgress, checkRun, type Checkpoint, type Waiting } from "./checks/progress.ts";
import type { Cluster } from "./platform/cluster.ts";
import type { Door } from "./platform/door.ts";
import type { SimulatedObject } from "./platform/object.ts";
import type { RunningLife } from "./platform/running-life.ts";
import type { Sizes } from "./platform/sizes.ts";
import { nameOf, SPLIT_NAME } from "./witness.ts";
import { isOfNamespace } from "./workloads/namespaces.ts";

/** How often it looks, in ms of virtual time. */
export const AUDIT_MS = 5000;
/** It looks at the disks of groups of channels once in this many times, as that takes longer. */
const LOOKS_AT_GROUPS = 6;
/** The longest that a call may take, with all that can happen to it one after the other. */
const ANSWER_MS = 300_000;
/** A run is at rest this long after its clients have ended: longer than a connection may stall, and than a shard looks for a holder. */
export const REST_MS = 180_000;

/** What a Hub has for all of its connections: see src/objects/hub/hub.ts. */
interface ShownHub {
  readonly roster: { readonly size: number };
  readonly pendingBytes: number;
  readonly backlog: { readonly bytes: number };
  readonly unread: { readonly bytes: number };
}

/** What a group has in its tables: see src/objects/channel/group-joins.ts, group-replay.ts and group-numbers.ts. */
const OF_GROUP = `
  SELECT
    (SELECT COALESCE(SUM(LENGTH(name) - 1 + 128), 0) FROM joins),
    (SELECT COALESCE(SUM(bytes), 0) FROM messages),
    (SELECT COALESCE(SUM(LENGTH(name) - 1 + 128), 0) FROM numbers WHERE name NOT IN (SELECT name FROM joins))`;

/** What a shard says of itself: see src/base/calls/shard.ts. */
interface Shown {
  readonly bytes: number;
  readonly journalRows: number;
  readonly journalBytes: number;
}

/** Connections that are being opened, in src/worker/hubs.ts, and bytes of bodies that have not come whole, in src/worker/body.ts. */
const COUNTED_BY_DOORS = ["opening", "unfinishedBytes"];

export interface Audited {
  readonly cluster: Cluster;
  readonly doors: readonly Door[];
  readonly moments: Moments;
  readonly times: Pick<CallTimes, "ended">;
  readonly clocks: ClockHistory;
  readonly sizes: Sizes;
  readonly namespaces: readonly string[];
  /** The highest of all deployments. */
  readonly settings: Settings;
  /** Whether all objects run today's code: budgets of the release before are others. */
  readonly isToday: boolean;
}

export class Auditor {
  readonly #run: Audited;
  readonly #checkpoints: Checkpoint[] = [];
  readonly #shards: Sample<ShardFigures>[] = [];
  readonly #groups: Sample<GroupFigures>[] = [];
  readonly #hubs: Sample<HubFigures>[] = [];
  readonly #begunMs = new Map<SimulatedObject, number>();
  readonly #bytesMost = new Map<SimulatedObject, number>();
  /** Of each shard, the number of its last attempt at a split, and how many there were. */
  readonly #attempts = new Map<SimulatedObject, { last: number; count: number }>();
  #restless: RunningLife[] | null = null;

  constructor(run: Audited) {
    this.#run = run;
  }

  /** Looks at the run between two events. */
  look(): void {
    const { cluster, moments, times, clocks, isToday } = this.#run;
    const { begun, ended } = moments;
    const at = moments.now();
    this.#checkpoints.push({ at, begun, ended, requests: times.ended });
    if (!isToday) return;
    if (this.#checkpoints.length % LOOKS_AT_GROUPS === 0) this.#lookAtGroups();
    for (const object of cluster.objects) {
      if (object.className === "Hub") this.#lookAtHub(object);
      if (object.className !== "Shard") continue;
      const begunMs = this.#begunMs.get(object) ?? at.ms;
      this.#begunMs.set(object, begunMs);
      if (object.life?.isReady !== true) continue;
      const shown = (object.life.instance as { figures(): Shown }).figures();
      const { rows, bytes, turnBytesMost, alarms } = object.disk.written;
      const bytesMost = Math.max(shown.bytes, this.#bytesMost.get(object) ?? 0);
      this.#bytesMost.set(object, bytesMost);
      const figures = {
        engineBytes: shown.bytes,
        engineBytesMost: bytesMost,
        journalRows: shown.journalRows,
        journalBytes: shown.journalBytes,
        hasAdopted: hasAdopted(object),
        rowsWritten: rows + alarms,
        changingCalls: object.taken,
        changedBytes: bytes,
        commitBytesMost: turnBytesMost,
        alarmsSet: alarms,
        timesRungAgain: object.timesRungAgain,
        lives: object.livesBegun,
        livesParted: object.livesParted,
        hints: object.takenOf("noteSplit"),
        offers: object.late.callersOf("adopt"),
        splits: this.#splitsOf(object),
        clockSteps: clocks.stepCount(nameOf(object)),
        elapsedMs: at.ms - begunMs + AUDIT_MS,
      };
      this.#shards.push({ subject: object.disk.name, at, figures });
    }
  }

  /** Attempts at a split that a shard has begun; one that was split off may have begun the first before it was seen. */
  #splitsOf(object: SimulatedObject): number {
    const attempt = attemptOf(object);
    const isSplitOff = SPLIT_NAME.test(object.name);
    const before = this.#attempts.get(object) ?? { last: attempt, count: isSplitOff ? 1 : attempt };
    // It begins anew with the number of another offer.
    const count = before.count + Math.max(0, attempt - before.last);
    this.#attempts.set(object, { last: attempt, count });
    return count;
  }

  #lookAtHub({ life, disk: { name } }: SimulatedObject): void {
    if (life?.isReady !== true) return;
    const hub = life.instance as unknown as ShownHub;
    const figures = {
      connections: hub.roster.size,
      pendingBytes: hub.pendingBytes,
      backlogBytes: hub.backlog.bytes,
      silentBytes: hub.unread.bytes,
    };
    this.#hubs.push({ subject: name, at: this.#run.moments.now(), figures });
  }

  #lookAtGroups(): void {
    for (const { className, disk } of this.#run.cluster.objects) {
      const isGroup = className === "Channel" || className === "Directory";
      if (!isGroup || !disk.database.hasTable("messages")) continue;
      const [row] = disk.database.ownRows(OF_GROUP);
      const [joinedBytes, keptBytes, idleNumberedBytes] = row!.map(Number);
      const figures = {
        joinedBytes: joinedBytes!,
        keptBytes: keptBytes!,
        idleNumberedBytes: idleNumberedBytes!,
      };
      this.#groups.push({ subject: disk.name, at: this.#run.moments.now(), figures });
    }
  }

  /** All clients have ended. @returns whether everything has been at rest since it was first asked */
  isAtRest(): boolean {
    this.#restless ??= [
      ...[...this.#run.cluster.objects].map(({ life }) => life).filter((life) => life !== null),
      ...this.#run.doors.map(({ isolate }) => isolate),
    ];
    this.#restless = this.#restless.filter((life) => !life.isOver && !life.isIdle);
    return this.#restless.length === 0;
  }

  check(): Violation[] {
    const { moments, sizes, isToday, settings: set } = this.#run;
    const rules = {
      stallTimeoutMs: set.STALL_TIMEOUT_MS,
      holderTimeoutMs: set.HOLDER_TIMEOUT_MS,
      answerMs: ANSWER_MS,
      slackMs: 0,
    };
    const settings = {
      shardBytesMax: set.SHARD_BYTES_MAX,
      shards: set.SHARDS,
      shardsMax: set.SHARDS_MAX,
      hubsMax: set.HUBS_MAX,
      hubConnectionsMax: set.HUB_CONNECTIONS_MAX,
      frameBytesMax: set.FRAME_BYTES_MAX,
    };
    const now = moments.now();
    const since = { tick: now.tick, ms: now.ms - REST_MS };
    const waiting = (this.#restless ?? []).map((life): Waiting => ({
      kind: "task",
      name: `${life.name} (${life.busyWith})`,
      reason: "ending",
      since,
      progressed: since,
    }));
    return [
      ...checkDoorCounts(this.#doorCounts()),
      ...checkRun(this.#checkpoints, rules),
      ...checkProgress(waiting, now, true, { ...rules, answerMs: REST_MS - 1 }),
      ...checkShardBudgets(this.#shards, settings, sizes),
      ...checkGroupBudgets(this.#groups, sizes),
      ...checkHubBudgets(this.#hubs, settings, sizes),
      // Release 0.4.0 makes an object for each channel.
      ...(isToday ? checkNamespaceBudgets(this.#namespaces(now), settings) : []),
    ];
  }

  /** Of doors that are at rest; those that are not, are judged by their progress. */
  #doorCounts(): DoorCounts[] {
    return this.#run.doors
      .filter(({ isolate }) => !isolate.isOver && isolate.isIdle && isolate.release === "today")
      .map(({ isolate }) => ({
        door: isolate.name,
        counts: COUNTED_BY_DOORS.map((name) => [name, isolate.code!.valueOf(name)] as const),
      }));
  }

  #namespaces(at: Moment): Sample<NamespaceFigures>[] {
    return this.#run.namespaces.map((subject) => ({
      subject,
      at,
      figures: this.#objects(subject),
    }));
  }

  #objects(namespace: string): NamespaceFigures {
    const objects = [...this.#run.cluster.objects].filter(({ name }) =>
      isOfNamespace(name, namespace),
    );
    const of = (className: string): number =>
      objects.filter((object) => object.className === className).length;
    // The witness has no records, nor has what an attempt at a split leaves that was given up.
    const isEmpty = ({ disk }: SimulatedObject): boolean => !disk.database.hasTable("shard");
    const without = objects.filter(
      (object) =>
        object.className === "Shard" &&
        (object.name.endsWith("/witness") || (SPLIT_NAME.test(object.name) && isEmpty(object))),
    );
    return {
      shards: of("Shard") - without.length,
      groups: of("Channel"),
      hubs: of("Hub"),
      locations: 1,
      directories: of("Directory"),
    };
  }
}

/** The highest attempt at a split that a shard has begun, or was born with. */
function attemptOf({ disk: { database } }: SimulatedObject): number {
  if (!database.hasTable("shard")) return 0;
  const [row] = database.ownRows("SELECT attempt FROM shard");
  return Number(row?.[0] ?? 0);
}

/** The first generation of a shard that a split has made begins with the rows that it was sent. */
function hasAdopted({ name, disk: { database } }: SimulatedObject): boolean {
  if (!SPLIT_NAME.test(name) || !database.hasTable("shard")) return false;
  const [row] = database.ownRows("SELECT generation FROM shard");
  return row?.[0] === 0;
}
