/**
 * Channel: the object of one group of channels; the Directory, its subclass, is that of the channel `*`.
 *
 * A Hub joins a channel with its first subscriber and leaves with its last one. The work is done by `Group`; this class is
 * what other objects can call. Release 0.4 had an object of this class for each channel: such an object passes calls on to
 * the channel's group (`OldChannel`), and empties itself.
 */
import { DurableObject } from "cloudflare:workers";
import type { Environment } from "../../base/environment.ts";
import type { ChannelCalls, Listened, Published, PublishedAll } from "../../base/calls/channel.ts";
import { Group } from "./group.ts";
import { EVERYBODY, parseChannelObject } from "../../base/names.ts";
import { moveToGroup, OldChannel } from "./old-channel.ts";
import { publicationsOf, publishedOf } from "./one-channel.ts";
import { ThrottrError } from "../../wire/edge/error.ts";

/** The class is exported by the Worker, and named in its migrations: it can't be renamed without losing the data. */
export class Channel extends DurableObject<Environment> implements ChannelCalls {
  /** Null in the Directory of the deployment, and in an object of release 0.4. */
  protected readonly group: Group | null = null;
  /** Null in all objects of this release. */
  readonly #old: OldChannel | null = null;

  constructor(ctx: DurableObjectState, env: Environment) {
    super(ctx, env);
    const object = parseChannelObject(ctx.id.name!);
    if (object.kind === "deployment") return;
    if (object.kind === "single") {
      this.#old = new OldChannel(ctx.storage, env, object);
      return;
    }
    this.group = new Group(ctx, env);
    if (object.kind === "everybody") moveToGroup(ctx.storage, this.group);
  }

  /** Gives messages of any channels of the group to their subscribers. */
  async publishAll(publications: Uint8Array): Promise<PublishedAll> {
    return await this.group!.publish(publications);
  }

  /** Not async, as nothing is awaited: the output gate holds the answer until the rows are on disk. */
  change(hub: string, changes: Uint8Array, life: string | null = null): number[] {
    return this.group!.change(hub, changes, life);
  }

  /** Null when the group has no room for the Hub. */
  listenTo(...asked: Parameters<ChannelCalls["listenTo"]>): Listened | null {
    return this.group!.listen(...asked);
  }

  hubsOf(channel: string): string[] {
    return this.group!.joins.hubsOf(channel);
  }

  // The calls from here on are about one channel: `*`, or the one that an object of release 0.4 is for. Doors and Hubs of
  // that release know no other calls, and meet this release for minutes after a deployment.

  /** @throws ThrottrError `subscriptions_max` when the group has no room for the Hub */
  async join(hub: string): Promise<void> {
    if (this.#old !== null) await this.#old.change(hub, true);
    else if (!this.group!.join(EVERYBODY, hub)) throw full();
  }

  async leave(hub: string): Promise<void> {
    if (this.#old !== null) await this.#old.change(hub, false);
    else await this.group!.joins.verifyNames(hub, [EVERYBODY]);
  }

  async hubs(): Promise<string[]> {
    return this.#old === null ? this.group!.joins.hubsOf(EVERYBODY) : await this.#old.hubs();
  }

  /** @throws ThrottrError `subscriptions_max`, as `join` */
  async listen(hub: string, after: number | null): Promise<Listened> {
    const listened =
      this.#old === null
        ? this.group!.listen(EVERYBODY, hub, after)
        : await this.#old.listen(hub, after);
    if (listened === null) throw full();
    return listened;
  }

  /** @param count messages in `messages`: the answer has a number for each */
  async publish(messages: Uint8Array, count: number): Promise<Published> {
    if (this.#old !== null) return await this.#old.publish(messages, count);
    const publications = publicationsOf(EVERYBODY, messages);
    return publishedOf(await this.group!.publish(publications), count);
  }

  /** Once a day, while anything is stored. */
  override async alarm(): Promise<void> {
    await (this.#old ?? this.group!).lookThrough();
  }
}

function full(): Error {
  return new ThrottrError("subscriptions_max", "the group of the channel is full");
}
