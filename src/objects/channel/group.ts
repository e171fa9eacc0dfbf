/**
 * Group: all that the channels of one group need of an object: who has subscribers, numbers, kept messages, and the way to
 * the Hubs.
 *
 * A namespace spreads its channels over `CHANNEL_GROUPS` groups by a hash of their names. So a publication to any number of
 * names is one call to each group at most, and strangers who make up names make no objects, which would be billed and
 * never go away. A channel without subscribers and listeners leaves nothing here.
 */
import { presentMs } from "../../base/clock.ts";
import { logWarning } from "../../base/log.ts";
import type { Environment } from "../../base/environment.ts";
import { binaryBytes, ByteWriter } from "../../wire/bytes.ts";
import {
  beginDelivery,
  endDelivery,
  forEachChange,
  forEachPublication,
  messagesAt,
} from "../../wire/channel-batch.ts";
import { writeMessage } from "../../wire/messages.ts";
import type { Consignment, Courier, Member } from "./courier.ts";
import { GroupJoins } from "./group-joins.ts";
import { GroupNumbers, KEPT_MS, type Numbered } from "./group-numbers.ts";
import { GroupReplay } from "./group-replay.ts";
import { GroupStore } from "./group-store.ts";
import type { Listened, PublishedAll, RefusedMessages } from "../../base/calls/channel.ts";
import { readSettings } from "../../base/settings.ts";
import { NUMBERS_SETTLE_MS } from "../../engine/sizes.ts";

/** The messages of one channel in a publication. */
interface Bundle {
  readonly channel: string;
  readonly members: readonly Member[];
  readonly numbered: Numbered | undefined;
  /** A delivery of `wire/channel-batch.ts`. */
  readonly out: ByteWriter;
  /** Which messages of the publication these are. */
  readonly indexes: number[];
}

/** What one Hub is given of a publication. */
interface ToHub {
  readonly consignments: Consignment[];
  readonly bundles: Bundle[];
}

const NO_MEMBERS: readonly Member[] = [];

/** The work of one object of the class Channel. */
export class Group {
  /** For storage, `waitUntil` and the alarm. */
  readonly #state: DurableObjectState;
  /** Shared by joins, numbers and kept messages: one of them makes the tables for all. */
  readonly #store: GroupStore;
  /** Which Hubs have subscribers of which channels. */
  readonly joins: GroupJoins;
  /** Numbers of channels that were listened to over HTTP. */
  readonly numbers: GroupNumbers;
  /** Messages that are kept for listeners that come back. */
  readonly #replay: GroupReplay;
  /** A wait for a quiet moment is under way: exact numbers are stored at its end. */
  #isSettling = false;

  constructor(state: DurableObjectState, env: Environment) {
    this.#state = state;
    this.#store = new GroupStore(state.storage);
    const host = {
      name: state.id.name!,
      env,
      waitUntil: (work: Promise<unknown>) => state.waitUntil(work),
    };
    this.joins = new GroupJoins(this.#store, host, (channel) => {
      // A listener whose connection was lost may come back within a day, and ask what it has missed.
      const numbered = this.numbers.get(channel);
      if (numbered !== undefined) this.numbers.use(numbered, presentMs());
    });
    this.#replay = new GroupReplay(this.#store, readSettings(env).REPLAY_MESSAGES_MAX);
    this.numbers = new GroupNumbers(this.#store, {
      isJoined: (channel) => this.joins.has(channel),
      lastKept: (channel) => this.#replay.lastOf(channel),
      onForget: (channel) => this.#replay.forget(channel),
    });
  }

  /** A Hub has a subscriber from now on. False when there is no room for it. */
  join(channel: string, hub: string, life: string | null = null): boolean {
    const isJoined = this.joins.join(channel, hub, life);
    if (isJoined) this.#state.waitUntil(this.#lookAfter());
    return isJoined;
  }

  /**
   * A Hub has its first subscribers of some channels, or has lost its last ones.
   *
   * @param changes format: `wire/channel-batch.ts`
   * @param life ID of the Hub's life; null from a release that sends none
   * @returns which of the changes are joins that there is no room for
   */
  change(hub: string, changes: Uint8Array, life: string | null): number[] {
    const refused: number[] = [];
    const doubtful: string[] = [];
    let index = 0;
    forEachChange(changes, (channel, isJoin) => {
      if (isJoin) {
        if (!this.joins.join(channel, hub, life)) refused.push(index);
      } else if (!this.joins.leave(channel, hub, life)) {
        doubtful.push(channel);
      }
      index++;
    });
    if (doubtful.length > 0) this.#state.waitUntil(this.joins.verifyNames(hub, doubtful));
    if (this.joins.size > 0) this.#state.waitUntil(this.#lookAfter());
    return refused;
  }

  /**
   * A Hub has a client that wants numbered messages: numbers them from now on. Null when there is no room
   * for the Hub.
   *
   * @param after number of the last message that the listener has; null when it has none
   * @param life ID of the Hub's life; null from a release that sends none
   */
  listen(
    channel: string,
    hub: string,
    after: number | null,
    life: string | null = null,
  ): Listened | null {
    // No `await` up to the return: a message is either in what is given again, or published after the join.
    if (!this.join(channel, hub, life)) return null;
    const nowMs = presentMs();
    const numbered = this.numbers.listen(channel, nowMs);
    return { sequence: numbered.sequence, ...this.#replay.replay(numbered, after, nowMs) };
  }

  /**
   * Gives messages to the subscribers of their channels. Returns when every Hub has them that is not slow.
   *
   * @param publications format: `wire/channel-batch.ts`
   */
  async publish(publications: Uint8Array): Promise<PublishedAll> {
    // The usual case for a namespace without subscribers: nothing is read.
    if (this.joins.size === 0 && this.numbers.size === 0) return NOTHING;
    const { count, bundles } = this.#bundle(publications);
    if (bundles.size === 0) return NOTHING;
    const { sequences, refused } = this.#number(bundles, count);
    // One call to each Hub with all its channels, not one for each channel.
    const toHubs = new Map<Courier, ToHub>();
    for (const bundle of bundles.values()) address(bundle, toHubs);
    if (toHubs.size === 0) return { delivered: null, sequences, refused };
    const delivered = new Uint32Array(count);
    await Promise.all(
      Array.from(toHubs, async ([courier, { consignments, bundles: sent }]) => {
        const answer = await courier.send(consignments);
        if (answer !== null) add(answer, sent, delivered);
      }),
    );
    return { delivered, sequences, refused };
  }

  /**
   * Looks which Hubs still have subscribers, and drops what is out of date.
   *
   * @param hasOtherData whether the object stores something beside the group: asked at the end, as it may change meanwhile
   */
  async lookThrough(hasOtherData = (): boolean => false): Promise<void> {
    await this.#dropOutdated();
    const nowMs = presentMs();
    // New numbers begin above the time and above all old ones. Where old ones are ahead of the clock, the head that says
    // so has to stay, or numbers would come again that listeners remember.
    const isForgotten = this.joins.size === 0 && this.numbers.size === 0;
    if (isForgotten && this.numbers.high < nowMs) await this.#store.clear(!hasOtherData());
    else await this.#state.storage.setAlarm(nowMs + KEPT_MS);
  }

  /** A full disk may refuse it: what is left of it waits for the next look. */
  async #dropOutdated(): Promise<void> {
    try {
      await this.joins.verify();
      const nowMs = presentMs();
      this.numbers.forgetUnused(nowMs);
      this.#replay.dropOld(nowMs);
    } catch (error) {
      logWarning("look_failed", { channel: this.#state.id.name, error: String(error) });
    }
  }

  /** Sorts messages by channel, and drops those of channels without subscribers and numbers. */
  #bundle(publications: Uint8Array): { count: number; bundles: Map<string, Bundle> } {
    const bundles = new Map<string, Bundle>();
    let count = 0;
    forEachPublication(publications, (channel, at, length) => {
      const index = count++;
      let bundle = bundles.get(channel);
      if (bundle === undefined) {
        const members = this.joins.membersOf(channel) ?? NO_MEMBERS;
        const numbered = this.numbers.get(channel);
        if (members.length === 0 && numbered === undefined) return;
        const out = new ByteWriter(messagesAt(channel.length) + 4 + length);
        beginDelivery(out, binaryBytes(channel));
        bundle = { channel, members, numbered, out, indexes: [] };
        bundles.set(channel, bundle);
      }
      // A payload is copied once here, and the bytes are shared by the calls to all Hubs.
      writeMessage(bundle.out, publications, at, length);
      bundle.indexes.push(index);
    });
    return { count, bundles };
  }

  /**
   * Numbers messages, keeps them, and ends their deliveries. A full disk refuses channels one by one: their bundles are removed, since
   * a message without a number would be missing in what listeners get again, and the others are published.
   */
  #number(bundles: Map<string, Bundle>, count: number): Omit<PublishedAll, "delivered"> {
    let sequences: Float64Array | null = null;
    let refused: RefusedMessages | null = null;
    for (const [channel, bundle] of bundles) {
      const { numbered, out, indexes } = bundle;
      if (numbered === undefined) {
        endDelivery(out, channel.length, null);
        continue;
      }
      try {
        const first = this.#numberBundle(bundle, numbered);
        sequences ??= new Float64Array(count).fill(Number.NaN);
        for (const [i, index] of indexes.entries()) sequences[index] = first + i;
      } catch (error) {
        refused ??= { flags: new Uint8Array(count), error: String(error) };
        for (const index of indexes) refused.flags[index] = 1;
        bundles.delete(channel);
      }
    }
    return { sequences, refused };
  }

  /** @throws Error when the disk is full: no number was taken */
  #numberBundle({ channel, out, indexes }: Bundle, numbered: Numbered): number {
    const first = this.numbers.reserve(numbered, indexes.length);
    endDelivery(out, channel.length, first);
    this.#settle();
    const messages = out.bytes.subarray(messagesAt(channel.length), out.length);
    this.#replay.keep(channel, first, messages, indexes.length, presentMs());
    // Only now: a full disk refuses the row, and a number without a message ends what listeners get again.
    this.numbers.take(numbered, indexes.length);
    return first;
  }

  /** Stores exact numbers once it is quiet. */
  #settle(): void {
    if (this.#isSettling) return;
    this.#isSettling = true;
    this.#state.waitUntil(this.#settleLater());
  }

  /** One wait for all channels, however many messages come meanwhile. */
  async #settleLater(): Promise<void> {
    // Until no message has been numbered for a while: a row for each message would be billed, and slow.
    let settled = -1;
    while (settled !== this.numbers.uses) {
      settled = this.numbers.uses;
      await scheduler.wait(NUMBERS_SETTLE_MS);
    }
    this.#isSettling = false;
    this.numbers.settle();
    // Keeps the object awake until the numbers are on disk.
    await this.#state.storage.sync();
  }

  /** Sees to it that what is stored is looked through once a day: Hubs that have died say nothing. */
  async #lookAfter(): Promise<void> {
    if ((await this.#state.storage.getAlarm()) !== null) return;
    await this.#state.storage.setAlarm(presentMs() + KEPT_MS);
  }
}

// The answer where nothing has subscribers or numbers: one object for all, as it is never changed.
const NOTHING: PublishedAll = { delivered: null, sequences: null, refused: null };

/** Adds the messages of a channel to what each of its Hubs is given. */
function address(bundle: Bundle, toHubs: Map<Courier, ToHub>): void {
  const { channel, members, out, indexes } = bundle;
  const bytes = out.bytes.subarray(0, out.length);
  for (const member of members) {
    let toHub = toHubs.get(member.courier);
    if (toHub === undefined) {
      toHub = { consignments: [], bundles: [] };
      toHubs.set(member.courier, toHub);
    }
    toHub.consignments.push({ channel, member, bytes, count: indexes.length });
    toHub.bundles.push(bundle);
  }
}

/** Adds what a Hub has delivered, message by message of the bundles in their order. */
function add(answer: Uint32Array, bundles: readonly Bundle[], delivered: Uint32Array): void {
  let at = 0;
  for (const { indexes } of bundles) {
    for (const index of indexes) delivered[index]! += answer[at++]!;
  }
}
