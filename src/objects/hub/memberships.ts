/**
 * Memberships: how a Hub tells the groups of channels which of their names have subscribers here.
 *
 * Changes to the names of one group go in one call at a time, in their order: those of one event together, and those that
 * come while a call is under way with the next one. So a connection that subscribes to thousands of names costs one call,
 * and one commit, in each group. Whether a change is needed at all is decided in `Audience`.
 */
import type { Environment } from "../../base/environment.ts";
import { binaryBytes, ByteWriter } from "../../wire/bytes.ts";
import { writeChange } from "../../wire/channel-batch.ts";
import { Lane, type Carry, type Piece } from "../../dispatch/lane.ts";
import { groupMapOf } from "../../dispatch/groups.ts";
import type { GroupMap } from "../../dispatch/placement.ts";
import { groupStub } from "../../base/stubs.ts";
import { ThrottrError } from "../../wire/edge/error.ts";

/** Bytes of a change without its name. */
const CHANGE_BYTES = 2;

/** The group of a channel has no room for another join. */
export class GroupFull extends ThrottrError {
  constructor() {
    super("subscriptions_max", "the group of the channel has no memory left for another Hub");
  }
}

/** One channel that has its first subscriber, or has lost its last one. */
interface Change {
  readonly channel: string;
  readonly isJoin: boolean;
  resolve(isRefused: boolean): void;
  fail(error: unknown): void;
}

/** The changes of one event to names of one group. */
class Changes implements Piece {
  readonly all: Change[] = [];
  /** Bytes that a call carries for these changes: a lane bounds its calls by them. */
  bytes = 0;

  /** Keeps the order: a join and a leave of one name must not change places. */
  add(change: Change): void {
    this.all.push(change);
    this.bytes += CHANGE_BYTES + change.channel.length;
  }

  fail(error: unknown): void {
    for (const change of this.all) change.fail(error);
  }
}

/** Of one Hub: a lane to each group that it has told anything. */
export class Memberships {
  readonly #env: Environment;
  readonly #namespace: string;
  readonly #hub: string;
  readonly #life: string;
  readonly #map: GroupMap;
  /** By index of the group. */
  readonly #lanes: (Lane<Changes> | undefined)[] = [];
  /** By index of the group: changes of the event under way. */
  readonly #changes: (Changes | undefined)[] = [];

  /**
   * @param hub name of the Hub's object
   * @param life ID of the Hub's life, by which groups tell it from an old copy
   */
  constructor(env: Environment, namespace: string, hub: string, life: string) {
    this.#env = env;
    this.#namespace = namespace;
    this.#hub = hub;
    this.#life = life;
    this.#map = groupMapOf(env, namespace);
  }

  /**
   * Tells the group of a channel that it has its first subscriber here, or has lost its last one.
   *
   * @throws GroupFull
   */
  async change(channel: string, isJoin: boolean): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<boolean>();
    const group = this.#map.groupOf(channel);
    this.#gather(group).add({ channel, isJoin, resolve, fail: reject });
    const isRefused = await promise;
    if (isRefused) throw new GroupFull();
  }

  /** The changes of the event under way to a group; the first one of an event sees to it that they are sent. */
  #gather(group: number): Changes {
    let changes = this.#changes[group];
    if (changes === undefined) {
      changes = this.#changes[group] = new Changes();
      // A microtask runs once the event's frames have all been executed, and before anything else is received.
      queueMicrotask(() => this.#submit(group));
    }
    return changes;
  }

  /** Gives the changes of an event to the group's lane, which may join those of several events. */
  #submit(group: number): void {
    const changes = this.#changes[group]!;
    this.#changes[group] = undefined;
    const lane = (this.#lanes[group] ??= new Lane<Changes>(() => this.#carryTo(group)));
    lane.submit(changes);
  }

  /** Makes one call of all changes that wait; the group answers with those that it has no room for. */
  #carryTo(group: number): Carry<Changes> {
    // A stub for each stretch of work: one to an object that was reset meanwhile fails for good.
    const stub = groupStub(this.#env, this.#namespace, group);
    return async (pieces) => {
      const changes = pieces.flatMap(({ all }) => all);
      const out = new ByteWriter(pieces.reduce((sum, { bytes }) => sum + bytes, 0));
      for (const { channel, isJoin } of changes) writeChange(out, isJoin, binaryBytes(channel));
      const refused = new Set(await stub.change(this.#hub, out.take(), this.#life));
      changes.forEach((change, i) => change.resolve(refused.has(i)));
    };
  }
}
