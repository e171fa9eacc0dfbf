/**
 * Memberships: how a Hub tells the groups of channels which of their names have subscribers here.
 *
 * Changes to names of one group go in one call at a time, in their order; those that come meanwhile go with
 * the next one. So a connection that subscribes to many names costs at most a call to each group.
 */
import { binaryBytes, ByteWriter } from "../wire/bytes.ts";
import { writeChange } from "../wire/channel-batch.ts";
import { Lane, type Carry, type Piece } from "./lane.ts";
import { GroupMap } from "./placement.ts";
import { readSettings } from "./settings.ts";
import { groupStub } from "./stubs.ts";

/** Bytes of a change without its name. */
const CHANGE_BYTES = 2;

/** The group of a channel has no room for another join. */
export class GroupFull extends Error {
  override readonly name = "GroupFull";

  constructor() {
    super("subscriptions_max: the group of the channel has no room for another subscriber's Hub");
  }
}

interface Change extends Piece {
  readonly channel: string;
  readonly isJoin: boolean;
  done(isRefused: boolean): void;
}

export class Memberships {
  readonly #env: Env;
  readonly #namespace: string;
  readonly #hub: string;
  readonly #map: GroupMap;
  /** By index of the group. */
  readonly #lanes: (Lane<Change> | undefined)[] = [];

  /** @param hub name of the Hub's object */
  constructor(env: Env, namespace: string, hub: string) {
    this.#env = env;
    this.#namespace = namespace;
    this.#hub = hub;
    this.#map = new GroupMap(namespace, readSettings(env).SHARD_SECRET);
  }

  /** @throws GroupFull */
  async join(channel: string): Promise<void> {
    if (await this.#change(channel, true)) throw new GroupFull();
  }

  async leave(channel: string): Promise<void> {
    await this.#change(channel, false);
  }

  async #change(channel: string, isJoin: boolean): Promise<boolean> {
    const { promise, resolve, reject } = Promise.withResolvers<boolean>();
    const bytes = CHANGE_BYTES + channel.length;
    this.#laneOf(channel).submit({ bytes, channel, isJoin, done: resolve, failed: reject });
    return await promise;
  }

  #laneOf(channel: string): Lane<Change> {
    const group = this.#map.groupOf(channel);
    return (this.#lanes[group] ??= new Lane<Change>(() => this.#carryTo(group)));
  }

  #carryTo(group: number): Carry<Change> {
    const stub = groupStub(this.#env, this.#namespace, group);
    return async (changes) => {
      const out = new ByteWriter(changes.reduce((sum, { bytes }) => sum + bytes, 0));
      for (const { channel, isJoin } of changes) writeChange(out, isJoin, binaryBytes(channel));
      const refused = new Set(await stub.change(this.#hub, out.take()));
      changes.forEach((change, i) => change.done(refused.has(i)));
    };
  }
}
