/**
 * Channel: the object of one channel of a namespace. It knows the Hubs that have subscribers, and gives
 * each message to each of them once.
 *
 * A Hub joins with its first subscriber and leaves with its last one; one that has died is dropped when
 * it says, the next time it is asked, that it has nobody. Messages are numbered once somebody has
 * listened over HTTP, who can then see what was missed.
 */
import { DurableObject } from "cloudflare:workers";
import { forEachMessage, writeMessage } from "../wire/messages.ts";
import { ByteWriter } from "../wire/bytes.ts";
import type { Delivered } from "./hub.ts";
import { Lane, type Piece } from "./lane.ts";
import { logWarning } from "./log.ts";
import { channelName } from "./names.ts";
import { readSettings } from "./settings.ts";
import { hubStub } from "./stubs.ts";

/** A Hub that takes longer is not waited for until it has answered. */
const HUB_TIMEOUT_MS = 2000;
/** Messages that wait for a Hub that is slow; more are lost to it. */
const SLOW_QUEUE_BYTES_MAX = 8 << 20;
/** As many wait for any Hub: their publishers wait, too. */
const QUEUE_BYTES_MAX = 48 << 20;
/** How far the stored sequence number runs ahead of the one in use. */
const SEQUENCES_RESERVED = 10_000;
/** The exact sequence number is stored when nothing has been published for so long. */
const SETTLE_MS = 500;
/** How long the sequence number of a channel is kept that nobody uses. */
const KEPT_MS = 86_400_000;
/** Replayed at once, at most: of more messages the latest are given. */
const REPLAY_BYTES_MAX = 4 << 20;

/** What came of messages. */
export interface Published {
  /** Per message: how many subscriptions took it. */
  readonly delivered: readonly number[];
  /** Number of the first message; null in a channel whose messages are not numbered. */
  readonly sequence: number | null;
}

/** Where a listener begins: the number of the last message so far, and those that it is given again. */
export interface Listened {
  readonly sequence: number;
  readonly replayFrom: number;
  /** Format: `wire/messages.ts`. */
  readonly replay: Uint8Array;
}

/** What is stored of a channel whose messages are numbered. */
interface Numbering {
  /** No number above this one has been used. */
  readonly sequence: number;
  readonly usedAtMs: number;
}

interface Member {
  readonly lane: Lane<Delivery>;
  /** Goes up whenever the Hub joins: what it said before that is out of date. */
  joins: number;
  isSlow: boolean;
}

interface Delivery extends Piece {
  readonly sequence: number | null;
  readonly messages: Uint8Array;
  done(delivered: readonly number[]): void;
}

export class Channel extends DurableObject<Env> {
  readonly #channel: string;
  readonly #members = new Map<string, Member>();
  readonly #replayMax: number;
  #isNumbered: boolean;
  /** Number of the last message. */
  #sequence: number;
  /** Stored: numbers up to this one may have been used. */
  #reserved: number;
  #isSettling = false;
  /** When the channel was last used by somebody who counts on its numbers. */
  #usedAtMs: number;

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    this.#channel = channelName.parse(ctx.id.name!).channel;
    this.#replayMax = readSettings(env).REPLAY_MESSAGES_MAX;
    const { kv } = ctx.storage;
    const numbering = kv.get<Numbering>("numbering");
    this.#isNumbered = numbering !== undefined || this.#replayMax > 0;
    this.#sequence = this.#reserved = numbering?.sequence ?? 0;
    this.#usedAtMs = numbering?.usedAtMs ?? 0;
    for (const [key] of kv.list({ prefix: "hub:" })) this.#add(key.slice("hub:".length));
  }

  /** A Hub has a subscriber from now on. */
  join(hub: string): void {
    const member = this.#members.get(hub);
    if (member !== undefined) {
      member.joins++;
      return;
    }
    this.ctx.storage.kv.put(`hub:${hub}`, 1);
    this.#add(hub);
    this.ctx.waitUntil(this.#lookAfter());
  }

  /** A Hub has no subscriber any more. */
  leave(hub: string): void {
    if (this.#members.delete(hub)) this.ctx.storage.kv.delete(`hub:${hub}`);
  }

  /** Names of the Hubs that have subscribers. */
  hubs(): string[] {
    return [...this.#members.keys()];
  }

  /**
   * A Hub has somebody who wants numbered messages: numbers them from now on.
   *
   * @param after number of the last message that the listener has; null when it has none
   */
  listen(hub: string, after: number | null): Listened {
    this.join(hub);
    this.#usedAtMs = Date.now();
    if (!this.#isNumbered || this.#reserved === 0) {
      this.#isNumbered = true;
      this.#reserve();
    }
    this.#settle();
    return { sequence: this.#sequence, ...this.#replay(after) };
  }

  /**
   * Gives messages to all subscribers. Returns when every Hub has them that is not slow.
   *
   * @param messages format: `wire/messages.ts`
   */
  async publish(messages: Uint8Array, count: number): Promise<Published> {
    const sequence = this.#number(messages, count);
    const all = [...this.#members].map(([hub, member]) =>
      this.#deliver(hub, member, sequence, messages, count),
    );
    const delivered = Array.from({ length: count }, () => 0);
    for (const some of await Promise.all(all)) {
      some.forEach((subscriptions, i) => (delivered[i]! += subscriptions));
    }
    return { delivered, sequence };
  }

  /** Looks whether anybody is left of those who have joined, and forgets a channel that nobody uses. */
  override async alarm(): Promise<void> {
    await this.verify(this.hubs());
    const nowMs = Date.now();
    if (this.#members.size > 0 || nowMs - this.#usedAtMs < KEPT_MS) {
      await this.ctx.storage.setAlarm(nowMs + KEPT_MS);
      return;
    }
    this.#isNumbered = this.#replayMax > 0;
    this.#sequence = this.#reserved = 0;
    await this.ctx.storage.deleteAll();
  }

  /** Asks Hubs that seem to have nobody, and drops those that say so. */
  protected async verify(hubs: readonly string[]): Promise<void> {
    await Promise.all(
      hubs.map(async (hub) => {
        const member = this.#members.get(hub);
        if (member !== undefined) await this.#deliver(hub, member, null, new Uint8Array(0), 0);
      }),
    );
  }

  #add(hub: string): void {
    const member: Member = {
      lane: new Lane<Delivery>(() => this.#carryTo(hub, member)),
      joins: 0,
      isSlow: false,
    };
    this.#members.set(hub, member);
  }

  /** Messages that a Hub takes; zeros when that is not known in time. */
  async #deliver(
    hub: string,
    member: Member,
    sequence: number | null,
    messages: Uint8Array,
    count: number,
  ): Promise<readonly number[]> {
    const nobody = Array.from({ length: count }, () => 0);
    const queueBytesMax = member.isSlow ? SLOW_QUEUE_BYTES_MAX : QUEUE_BYTES_MAX;
    if (member.lane.queuedBytes > queueBytesMax) {
      logWarning("hub_slow", { channel: this.ctx.id.name, hub, lost: count });
      return nobody;
    }
    const { promise, resolve } = Promise.withResolvers<readonly number[]>();
    const delivery: Delivery = {
      bytes: messages.length,
      sequence,
      messages,
      done: resolve,
      failed: (error) => {
        member.isSlow = false;
        logWarning("hub_failed", { channel: this.ctx.id.name, hub, error: String(error) });
        resolve(nobody);
      },
    };
    const isWaitedFor = !member.isSlow;
    member.lane.submit(delivery);
    if (!isWaitedFor) return nobody;
    const timer = setTimeout(() => {
      member.isSlow = true;
      resolve(nobody);
    }, HUB_TIMEOUT_MS);
    const delivered = await promise;
    clearTimeout(timer);
    return delivered;
  }

  #carryTo(hub: string, member: Member): (deliveries: readonly Delivery[]) => Promise<void> {
    const stub = hubStub(this.env, hub);
    return async (deliveries) => {
      const { joins } = member;
      const batches = deliveries.map(({ sequence, messages }) => ({ sequence, messages }));
      const answer: Delivered = await stub.deliver(this.#channel, batches);
      member.isSlow = false;
      deliveries.forEach((delivery, i) => delivery.done(answer.delivered[i]!));
      const isGone = !answer.isJoined && member.joins === joins;
      if (isGone && this.#members.get(hub) === member) this.leave(hub);
    };
  }

  #number(messages: Uint8Array, count: number): number | null {
    if (!this.#isNumbered) return null;
    this.#usedAtMs = Date.now();
    const first = this.#sequence + 1;
    this.#sequence += count;
    if (this.#replayMax > 0) this.#keep(messages, first);
    else if (this.#sequence > this.#reserved) this.#reserve();
    this.#settle();
    return first;
  }

  /** Numbers that are used before the next ones are reserved are not used twice, whatever happens. */
  #reserve(): void {
    this.#reserved = this.#sequence + (this.#replayMax > 0 ? 0 : SEQUENCES_RESERVED);
    this.#storeNumbering(this.#reserved);
  }

  #storeNumbering(sequence: number): void {
    const numbering: Numbering = { sequence, usedAtMs: this.#usedAtMs };
    this.ctx.storage.kv.put("numbering", numbering);
  }

  /** Stores the exact number once it is quiet, so that an object that comes back leaves no gap. */
  #settle(): void {
    if (this.#isSettling) return;
    this.#isSettling = true;
    this.ctx.waitUntil(this.#settleLater());
  }

  async #settleLater(): Promise<void> {
    let settled = -1;
    while (settled !== this.#sequence) {
      settled = this.#sequence;
      await scheduler.wait(SETTLE_MS);
    }
    this.#isSettling = false;
    this.#reserved = this.#sequence;
    this.#storeNumbering(this.#sequence);
    await this.#lookAfter();
    await this.ctx.storage.sync();
  }

  /** What is stored is looked after once a day. */
  async #lookAfter(): Promise<void> {
    if ((await this.ctx.storage.getAlarm()) !== null) return;
    await this.ctx.storage.setAlarm(Date.now() + KEPT_MS);
  }

  /** Stores messages, and the number of the last one, over those that are no longer among the last. */
  #keep(messages: Uint8Array, first: number): void {
    this.#storeNumbering(this.#sequence);
    let sequence = first;
    forEachMessage(messages, (at, length) => {
      const kept = { sequence, payload: messages.slice(at, at + length) };
      this.ctx.storage.kv.put(`message:${sequence % this.#replayMax}`, kept);
      sequence++;
    });
  }

  #replay(after: number | null): { replayFrom: number; replay: Uint8Array } {
    const payloads: Uint8Array[] = [];
    let bytes = 0;
    let sequence = this.#sequence;
    const first = Math.max((after ?? sequence) + 1, sequence - this.#replayMax + 1);
    for (; sequence >= first; sequence--) {
      const kept = this.ctx.storage.kv.get<{ sequence: number; payload: Uint8Array }>(
        `message:${sequence % this.#replayMax}`,
      );
      if (kept?.sequence !== sequence) break;
      bytes += kept.payload.length;
      if (bytes > REPLAY_BYTES_MAX && payloads.length > 0) break;
      payloads.push(kept.payload);
    }
    const out = new ByteWriter(bytes + 64);
    for (const payload of payloads.toReversed()) writeMessage(out, payload, 0, payload.length);
    return { replayFrom: sequence + 1, replay: out.take() };
  }
}
