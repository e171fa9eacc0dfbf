/**
 * Roster: the subscribers of a Hub, by channel.
 *
 * It knows every connection of the Hub, delivers messages to those that have subscribed, and makes each channel's group
 * know that there are subscribers (`Audience`). A connection's own channel has no group: its name is the connection's id,
 * which says in which Hub it is, so publishers call that Hub directly.
 */
import { hashBytes } from "../../engine/hash.ts";
import { binaryBytes } from "../../wire/bytes.ts";
import { forEachMessage, type Batch, type Pushes } from "../../wire/messages.ts";
import type { Transport } from "../../wire/overview.ts";
import { Audience } from "./audience.ts";
import type { Memberships } from "./memberships.ts";
import { EVERYBODY } from "../../base/names.ts";
import { addSubscription, type Subscriber, type Subscription } from "./subscription.ts";

/**
 * The outcome of a SUBSCRIBE or UNSUBSCRIBE: done, refused, or a promise that it is done once the channel's group knows.
 * No promise is made where no group has to be called: a connection may subscribe to thousands of names at once.
 */
export type SubscriptionChange = "done" | "refused" | Promise<void>;

/** Row of CHANNELS, before a dialect gives it its form. */
export interface ChannelFigures {
  readBytes: number;
  writeBytes: number;
  subscriptions: number;
}

/**
 * Later than another time by the least that CHANNEL can tell apart: about a microsecond, so that a number
 * of 53 bits holds it beside the milliseconds since the epoch.
 */
const SINCE_STEP_MS = 2 ** -10;

/** Of one Hub, in memory: rebuilt from the sockets' attachments at each wake-up. */
export class Roster {
  /** Tells groups of channels that gain their first subscriber here, or lose their last one. */
  readonly #memberships: Memberships;
  /** `HUB_SUBSCRIPTIONS_MAX`: subscriptions are memory that strangers take. */
  readonly #subscriptionsMax: number;
  /** By channel; no entry where nothing is to be remembered. */
  readonly #audiences = new Map<string, Audience>();
  /** Every open connection, by the name of its own channel. */
  readonly #byOwnChannel = new Map<string, Subscriber>();
  /** Of the names of own channels: a Hub has too many names to hash them all for each INFO. */
  readonly #ownHashes = new WeakMap<Subscriber, number>();
  /** Names of all channels with subscribers, in order; null when that has changed since. Sorting is left to who asks. */
  #names: readonly string[] | null = null;
  /** All connections by connected at and id; null when that has changed since. */
  #ordered: readonly Subscriber[] | null = null;
  /** Subscriptions beside those that every connection begins with. */
  #subscriptions = 0;
  /** When the last subscription was made. */
  #lastSinceMs = 0;

  constructor(memberships: Memberships, subscriptionsMax: number) {
    this.#memberships = memberships;
    this.#subscriptionsMax = subscriptionsMax;
  }

  /** Open connections. */
  get size(): number {
    return this.#byOwnChannel.size;
  }

  /** All connections, by connected at, then id: pages of them go on behind a key, so the order must not change. */
  connections(): readonly Subscriber[] {
    this.#ordered ??= [...this.#byOwnChannel.values()].toSorted(
      (a, b) => a.connectedAtMs - b.connectedAtMs || (a.ownChannel < b.ownChannel ? -1 : 1),
    );
    return this.#ordered;
  }

  /** The connection with an id, by the name of its own channel. */
  byOwnChannel(channel: string): Subscriber | undefined {
    return this.#byOwnChannel.get(channel);
  }

  /**
   * Adds a connection with the subscriptions that it has. Null when their groups know of this Hub; else a promise that
   * they will: release 0.4 had an object for each channel, and its subscriptions were made there.
   */
  add(connection: Subscriber): Promise<void> | null {
    this.#byOwnChannel.set(connection.ownChannel, connection);
    this.#ordered = null;
    this.#names = null;
    for (const [channel, subscription] of connection.subscriptions) {
      this.#lastSinceMs = Math.max(this.#lastSinceMs, subscription.sinceMs);
      if (channel === connection.ownChannel) continue;
      this.#audienceOf(channel).add(connection, subscription, connection.hasJoinedGroups);
      this.#count(channel, 1);
    }
    return connection.hasJoinedGroups ? null : this.#joinAgain(connection);
  }

  /**
   * The time of a new subscription: later than all that were made before. The clock of an object stands still within an
   * event, and CHANNEL lists subscriptions in the order of their times.
   */
  sinceMs(nowMs: number): number {
    this.#lastSinceMs = Math.max(nowMs, this.#lastSinceMs + SINCE_STEP_MS);
    return this.#lastSinceMs;
  }

  /** Removes a connection. Resolves when the groups know of the channels that have lost their last subscriber here. */
  async remove(connection: Subscriber): Promise<void> {
    if (!this.#byOwnChannel.delete(connection.ownChannel)) return;
    this.#ordered = null;
    this.#names = null;
    const leaving = Array.from(connection.subscriptions.keys(), (channel) =>
      this.#removeMember(connection, channel),
    );
    await Promise.all(leaving.filter((left) => left !== null));
  }

  /**
   * Subscribes a connection, unless a limit forbids it. A promise is rejected, and the subscription gone, when the
   * channel's group can't be told, or has no room (`GroupFull`).
   */
  subscribe(connection: Subscriber, channel: string, nowMs: number): SubscriptionChange {
    const isOwn = channel === connection.ownChannel;
    if (connection.subscriptions.has(channel)) {
      return isOwn ? "done" : (this.#audienceOf(channel).settle() ?? "done");
    }
    // A connection that has closed meanwhile is not in the roster any more, and nothing would remove the subscription.
    if (!this.#byOwnChannel.has(connection.ownChannel)) return "refused";
    if (channel !== EVERYBODY && !isOwn && this.isFull) return "refused";
    const subscription = addSubscription(connection, channel, this.sinceMs(nowMs));
    if (subscription === null) return "refused";
    this.#names = null;
    if (isOwn) return "done";
    const audience = this.#audienceOf(channel);
    audience.members.set(connection, subscription);
    this.#count(channel, 1);
    // Answered once the group knows: a message that is published behind the reply reaches the subscriber.
    const telling = audience.settle();
    if (telling === null) return "done";
    return telling.catch(async (error: unknown) => {
      connection.subscriptions.delete(channel);
      await this.#removeMember(connection, channel);
      throw error;
    });
  }

  /** Ends a subscription; refused when there was none. */
  unsubscribe(connection: Subscriber, channel: string): SubscriptionChange {
    if (!connection.subscriptions.delete(channel)) return "refused";
    return this.#removeMember(connection, channel) ?? "done";
  }

  /** Answers the group of a channel: whether this Hub has subscribers of it. */
  confirm(channel: string): boolean {
    return this.#audiences.get(channel)?.confirm() ?? false;
  }

  /** There are as many subscriptions as there may be. */
  get isFull(): boolean {
    return this.#subscriptions >= this.#subscriptionsMax;
  }

  /** Pushes messages to the subscribers of a channel; returns how many took each, by batch. */
  deliver(channel: string, batches: readonly Batch[]): number[][] {
    const audience = this.#audiences.get(channel);
    const name = binaryBytes(channel);
    return batches.map((batch) => {
      const delivered = Array.from({ length: countOf(batch) }, () => 0);
      // Pushes are encoded once for each form that subscribers speak, not for each subscriber.
      const forms = new Map<number, Pushes>();
      for (const [connection, subscription] of audience?.members ?? []) {
        let pushes = forms.get(connection.pushForm);
        if (pushes === undefined) {
          pushes = connection.pushesOf(name, batch);
          forms.set(connection.pushForm, pushes);
        }
        push(connection, subscription, pushes, batch, delivered);
      }
      return delivered;
    });
  }

  /** Pushes messages to the connection that has this own channel, unless it has unsubscribed from it. */
  deliverToOwner(channel: string, batch: Batch): number[] {
    const delivered = Array.from({ length: countOf(batch) }, () => 0);
    const owner = this.#byOwnChannel.get(channel);
    const subscription = owner?.subscriptions.get(channel);
    if (owner !== undefined && subscription !== undefined) {
      const pushes = owner.pushesOf(binaryBytes(channel), batch);
      push(owner, subscription, pushes, batch, delivered);
    }
    return delivered;
  }

  /** The subscriptions to a channel. */
  *subscribers(channel: string): Generator<[Subscriber, Subscription]> {
    yield* this.#audiences.get(channel)?.members ?? [];
    const owner = this.#byOwnChannel.get(channel);
    const subscription = owner?.subscriptions.get(channel);
    if (owner !== undefined && subscription !== undefined) yield [owner, subscription];
  }

  /** Names of all channels with subscribers, in order. */
  channels(): readonly string[] {
    if (this.#names !== null) return this.#names;
    const names = new Set<string>();
    for (const [channel, { members }] of this.#audiences) if (members.size > 0) names.add(channel);
    for (const { ownChannel, subscriptions } of this.#byOwnChannel.values()) {
      if (subscriptions.has(ownChannel)) names.add(ownChannel);
    }
    this.#names = [...names].toSorted((a, b) => (a < b ? -1 : 1));
    return this.#names;
  }

  /** What CHANNELS says of a channel; the row has to be counted at each call, as a connection's end takes its part away. */
  figuresOf(channel: string): ChannelFigures {
    const figures = { readBytes: 0, writeBytes: 0, subscriptions: 0 };
    for (const [, { readBytes, writeBytes }] of this.subscribers(channel)) {
      figures.readBytes += readBytes;
      figures.writeBytes += writeBytes;
      figures.subscriptions++;
    }
    return figures;
  }

  /** Connections, by what carries them. */
  transports(): Record<Transport, number> {
    const transports = { tcp: 0, websocket: 0, events: 0 };
    for (const { transport } of this.#byOwnChannel.values()) transports[transport]++;
    return transports;
  }

  /**
   * Subscriptions of all kinds, and a hash of 53 bits for each channel: a channel that has subscribers in several Hubs must
   * count once, and names would be too large to send. First the named ones, then those called like a connection's id.
   */
  totals(): { subscriptions: number; channelHashes: Float64Array; namedChannels: number } {
    let subscriptions = 0;
    const named: number[] = [];
    const own: number[] = [];
    for (const [channel, audience] of this.#audiences) {
      if (audience.members.size === 0) continue;
      audience.hash ??= channelHash(channel);
      (isLikeId(channel) ? own : named).push(audience.hash);
    }
    for (const connection of this.#byOwnChannel.values()) {
      const { ownChannel } = connection;
      subscriptions += connection.subscriptions.size;
      const hasOthers = (this.#audiences.get(ownChannel)?.members.size ?? 0) > 0;
      if (hasOthers || !connection.subscriptions.has(ownChannel)) continue;
      let hash = this.#ownHashes.get(connection);
      if (hash === undefined) this.#ownHashes.set(connection, (hash = channelHash(ownChannel)));
      own.push(hash);
    }
    return {
      subscriptions,
      channelHashes: Float64Array.from([...named, ...own]),
      namedChannels: named.length,
    };
  }

  /** Tells groups of the subscriptions that release 0.4 has stored. */
  async #joinAgain(connection: Subscriber): Promise<void> {
    const channels = [...connection.subscriptions.keys()].filter(
      (channel) => channel !== connection.ownChannel,
    );
    const telling = channels.map((channel) => this.#audienceOf(channel).settle());
    await Promise.all(telling.filter((call) => call !== null));
    connection.storeJoinedGroups();
  }

  /** `HUB_SUBSCRIPTIONS_MAX` does not count what every connection begins with. */
  #count(channel: string, change: number): void {
    if (channel !== EVERYBODY) this.#subscriptions += change;
  }

  /**
   * The audience of a channel, created on first use. `*` has no group: the Directory knows which Hubs have
   * connections.
   */
  #audienceOf(channel: string): Audience {
    let audience = this.#audiences.get(channel);
    if (audience === undefined) {
      const tellGroup = (isJoin: boolean) => this.#memberships.change(channel, isJoin);
      audience = new Audience(channel === EVERYBODY ? null : tellGroup, () =>
        this.#audiences.delete(channel),
      );
      this.#audiences.set(channel, audience);
    }
    return audience;
  }

  /** Null when no group has to be called; else a promise that never fails, as the subscription is gone either way. */
  #removeMember(connection: Subscriber, channel: string): Promise<void> | null {
    this.#names = null;
    const audience = this.#audiences.get(channel);
    if (audience === undefined || !audience.members.delete(connection)) return null;
    this.#count(channel, -1);
    // The calls under way are for all subscribers: where a join failed, those that wait for it are told.
    return audience.settle()?.catch(() => {}) ?? null;
  }
}

/** Pushes a batch to one subscriber, and counts the messages that it took. Positions instead of an object: it is hot. */
function push(
  connection: Subscriber,
  subscription: Subscription,
  pushes: Pushes,
  { sequence }: Batch,
  delivered: number[],
): void {
  if (pushes.bytes.length === 0 || !connection.push(pushes, sequence)) return;
  subscription.writeBytes += pushes.payloadBytes;
  pushes.isPushed.forEach((isPushed, i) => {
    if (isPushed) delivered[i]!++;
  });
}

/** Messages of a batch, which are length and bytes back to back. */
function countOf({ messages }: Batch): number {
  let count = 0;
  forEachMessage(messages, () => count++);
  return count;
}

/** Named like the own channel of a connection. The dashboard leaves those out. */
function isLikeId(channel: string): boolean {
  return /^[\da-f]{32}$/.test(channel);
}

/** Fixed, as hashes of all Hubs are compared with one another; they need not withstand anyone, but only differ. */
const HASH_KEY = { low: 0x8f1bbcdc, high: 0x5a827999 };

/** 53 bits, as many as a number holds exactly. */
function channelHash(channel: string): number {
  const bytes = binaryBytes(channel);
  const high = hashBytes(HASH_KEY, 0, bytes, 0, bytes.length) & 0x1fffff;
  return high * 2 ** 32 + hashBytes(HASH_KEY, 1, bytes, 0, bytes.length);
}
