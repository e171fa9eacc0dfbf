/**
 * OldChannel: what release 0.4 has left, which had an object for each channel.
 *
 * Doors and Hubs of that release go on calling the object of a channel for some minutes after a deployment. It passes the
 * calls on to the channel's group, so that subscribers and publishers of both releases meet there. What it has stored
 * moves to the group at its next call, or at its alarm. Then it is empty, and is never called again.
 */
import { presentMs } from "../../base/clock.ts";
import type { Environment } from "../../base/environment.ts";
import { binaryBytes, ByteWriter } from "../../wire/bytes.ts";
import { writeChange } from "../../wire/channel-batch.ts";
import type { ChannelCalls, Listened, Published } from "../../base/calls/channel.ts";
import { publicationsOf, publishedOf } from "./one-channel.ts";
import { KEPT_MS } from "./group-numbers.ts";
import type { Group } from "./group.ts";
import { EVERYBODY } from "../../base/names.ts";
import { groupStubOf } from "../../dispatch/groups.ts";
import { ThrottrError } from "../../wire/edge/error.ts";

// Keys of release 0.4: a row for each Hub, one for each message, and the numbering.
const HUB = "hub:";
const MESSAGE = "message:";
const NUMBERING = "numbering";

/** Stored of a channel whose messages were numbered. */
interface Numbering {
  readonly sequence: number;
  readonly usedAtMs: number;
}

/** In an object that release 0.4 made for one channel. To be removed with the release after 0.5. */
export class OldChannel {
  readonly #storage: DurableObjectStorage;
  readonly #channel: string;
  /** A new stub for each call: one whose object was reset fails for good. */
  readonly #stub: () => DurableObjectStub<ChannelCalls>;
  /** The move, begun by the first call; null again when it has failed. */
  #moving: Promise<void> | null = null;

  constructor(
    storage: DurableObjectStorage,
    env: Environment,
    { namespace, channel }: { readonly namespace: string; readonly channel: string },
  ) {
    this.#storage = storage;
    this.#channel = channel;
    this.#stub = () => groupStubOf(env, namespace, channel);
  }

  /**
   * A Hub has a subscriber from now on, or has none any more.
   *
   * @throws ThrottrError `subscriptions_max`
   */
  async change(hub: string, isJoin: boolean): Promise<void> {
    const refused = await changeOne(await this.#group(), hub, this.#channel, isJoin);
    if (refused.length > 0)
      throw new ThrottrError("subscriptions_max", "the channel's group is full");
  }

  async hubs(): Promise<string[]> {
    return await (await this.#group()).hubsOf(this.#channel);
  }

  async listen(hub: string, after: number | null): Promise<Listened | null> {
    return await (await this.#group()).listenTo(this.#channel, hub, after);
  }

  async publish(messages: Uint8Array, count: number): Promise<Published> {
    const group = await this.#group();
    return publishedOf(await group.publishAll(publicationsOf(this.#channel, messages)), count);
  }

  /** Empties the object. */
  async lookThrough(): Promise<void> {
    await this.#group();
  }

  /** The group, once it has all that is stored here. A move that fails is tried again with the next call. */
  async #group(): Promise<DurableObjectStub<ChannelCalls>> {
    this.#moving ??= this.#move().catch((error: unknown) => {
      this.#moving = null;
      throw error;
    });
    await this.#moving;
    return this.#stub();
  }

  /** Joins the Hubs at the group, then empties this object. */
  async #move(): Promise<void> {
    const group = this.#stub();
    await Promise.all(
      storedHubs(this.#storage).map((hub) => changeOne(group, hub, this.#channel, true)),
    );
    // Behind the joins: a crash before this repeats them, which changes nothing.
    await this.#storage.deleteAll();
    await this.#storage.deleteAlarm();
  }
}

/** Takes over what a Directory of release 0.4 has stored. */
export function moveToGroup({ kv }: DurableObjectStorage, group: Group): void {
  const numbering = kv.get<Numbering>(NUMBERING);
  const hubs = storedHubs({ kv });
  if (numbering === undefined && hubs.length === 0) return;
  for (const hub of hubs) group.join(EVERYBODY, hub);
  const isInUse = numbering !== undefined && presentMs() - numbering.usedAtMs < KEPT_MS;
  if (isInUse) group.numbers.listen(EVERYBODY, presentMs());
  // Its messages have numbers that a listener would take for those of long ago.
  for (const prefix of [HUB, MESSAGE, NUMBERING]) {
    for (const key of [...kv.list({ prefix })].map(([key]) => key)) kv.delete(key);
  }
}

/** Names of the Hubs that joined this object under release 0.4. */
function storedHubs({ kv }: Pick<DurableObjectStorage, "kv">): string[] {
  return Array.from(kv.list({ prefix: HUB }), ([key]) => key.slice(HUB.length));
}

/** Tells a group about one name; returns the indexes that it refused: none, or the first. */
async function changeOne(
  group: DurableObjectStub<ChannelCalls>,
  hub: string,
  channel: string,
  isJoin: boolean,
): Promise<number[]> {
  const out = new ByteWriter(channel.length + 2);
  writeChange(out, isJoin, binaryBytes(channel));
  return await group.change(hub, out.take());
}
