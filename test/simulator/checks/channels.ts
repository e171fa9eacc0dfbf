/**
 * Channels: each subscription gets each message at most once, in order per publisher and channel, and every subscriber that stays
 * gets it. Written from docs/guarantees.md, docs/channels.md and docs/protocol.md.
 *
 * A connection that is closed, cut, or whose Hub is reset is a subscriber until then. Where calls overlap, a subscriber may take
 * a message or not. Numbers and replay are in `replay.ts`.
 */
import {
  CHANNELS,
  type ChannelCall,
  type ChannelRun,
  type Publication,
  type Receipt,
  type Subscriber,
} from "./channel-calls.ts";
import { describeCall, type Violation } from "./history.ts";
import { describeMoment, isBefore } from "./order.ts";
import { Numbers } from "./replay.ts";
import { Delivery } from "./delivery.ts";
import { Subscriptions } from "./subscriptions.ts";
import type { Facts } from "./facts.ts";

/** A publication, with its place among all calls. */
export interface Published {
  readonly call: Publication;
  readonly order: number;
  /** Its publisher and channel: messages of one lane keep their order. */
  readonly lane: number;
}

/** How often each connection has received a message. */
type Receivers = Map<number, number>;

/**
 * All channels of a run. Calls are in the order in which they began; those of a connection in which they were sent.
 *
 * @param run null where nothing goes wrong, and no client listens over HTTP
 */
export function checkChannels(
  calls: readonly ChannelCall[],
  subscribers: ReadonlyMap<number, Subscriber>,
  facts: Facts,
  run: ChannelRun | null,
): Violation[] {
  return new ChannelsCheck(calls, subscribers, facts, run).check();
}

class ChannelsCheck {
  readonly #calls: readonly ChannelCall[];
  readonly #subscribers: ReadonlyMap<number, Subscriber>;
  readonly #facts: Facts;
  readonly #run: ChannelRun | null;
  readonly #published = new Map<number, Published>();
  readonly #lanes = new Map<string, number>();
  readonly #receivers = new Map<number, Receivers>();
  /** By connection of a listener: up to which number it was given what it had missed. */
  readonly #starts = new Map<number, number>();
  readonly #delivery: Delivery;
  readonly #subscriptions: Subscriptions;
  readonly #violations: Violation[] = [];

  constructor(
    calls: readonly ChannelCall[],
    subscribers: ReadonlyMap<number, Subscriber>,
    facts: Facts,
    run: ChannelRun | null,
  ) {
    this.#calls = calls;
    this.#subscribers = subscribers;
    this.#facts = facts;
    this.#run = run;
    this.#delivery = new Delivery(facts, run);
    this.#subscriptions = new Subscriptions(calls, subscribers, this.#delivery);
    for (const [order, call] of calls.entries()) {
      if (call.operation.type === "listen") this.#starts.set(call.connection!, startOf(call));
      if (!isPublication(call)) continue;
      this.#published.set(call.operation.message, { call, order, lane: this.#laneOf(call) });
      this.#receivers.set(call.operation.message, new Map());
    }
  }

  /** Over HTTP a client that waits for each answer publishes in order, too. */
  #laneOf({ connection, client, operation }: Publication): number {
    const publisher = connection === null ? `client ${client}` : `connection ${connection}`;
    const name = `${publisher} ${operation.channel}`;
    const lane = this.#lanes.get(name) ?? this.#lanes.size;
    this.#lanes.set(name, lane);
    return lane;
  }

  check(): Violation[] {
    for (const { channel, message } of this.#subscriptions.faults) this.#violate(channel, message);
    for (const subscriber of this.#subscribers.values()) this.#checkReceipts(subscriber);
    for (const [message, published] of this.#published) this.#checkPublication(message, published);
    if (this.#run !== null) {
      const numbers = new Numbers(
        this.#published,
        this.#subscribers,
        this.#facts,
        this.#delivery,
        this.#run.rules,
      );
      this.#violations.push(...numbers.check(this.#calls));
    }
    return this.#violations;
  }

  /** Once, in order, and nothing that a subscriber must not have. */
  #checkReceipts(subscriber: Subscriber): void {
    const { connection } = subscriber;
    const { number } = connection;
    /** Of each lane, the message that was published last. */
    const last = new Map<number, Published>();
    for (const receipt of subscriber.receipts) {
      const published = this.#published.get(receipt.message);
      if (published === undefined) {
        const channel = receipt.channel ?? "?";
        this.#violate(
          channel,
          `connection ${number} got message ${receipt.message} at ${describeMoment(receipt.at)}, which was never published`,
        );
        continue;
      }
      const { channel } = published.call.operation;
      this.#checkReceipt(receipt, published, subscriber);
      const { lane } = published;
      const before = last.get(lane);
      if (before === undefined || !isOutOfOrder(before, published)) {
        last.set(lane, published);
        continue;
      }
      if (this.#delivery.mayBeOvertaken(connection, published.call, before.call)) continue;
      this.#violate(
        channel,
        `connection ${number} got ${describe(published)} behind ${describe(before)}, which was published later`,
      );
    }
  }

  #checkReceipt(receipt: Receipt, published: Published, subscriber: Subscriber): void {
    const { call } = published;
    const { channel } = call.operation;
    const { number } = subscriber.connection;
    const violate = (fault: string): void => {
      const what = `connection ${number} got ${describe(published)} at ${describeMoment(receipt.at)}`;
      this.#violate(channel, `${what}${fault}`);
    };
    if (receipt.channel !== null && receipt.channel !== channel) {
      violate(` as one of ${JSON.stringify(receipt.channel)}`);
    }
    if (isBefore(receipt.at, call.begun)) violate(", before it was published");
    const isOwn = call.connection === number;
    // A publisher is answered without a Hub that is slow, also its own.
    const isLeftOut = this.#delivery.wasLeftOut(subscriber.connection, call);
    if (isOwn && !isLeftOut && call.ended !== null && isBefore(call.ended, receipt.at)) {
      violate(", behind the status of its own PUBLISH");
    }
    // What a listener had missed comes by its number, not by its subscription.
    if (receipt.number !== null && receipt.number <= this.#starts.get(number)!) return;
    if (this.#subscriptions.memberOf(channel, number) === undefined) {
      violate(", but it was not subscribed");
      return;
    }
    const receivers = this.#receivers.get(receipt.message)!;
    receivers.set(number, (receivers.get(number) ?? 0) + 1);
  }

  /** To everybody who was subscribed all the while; and what its publisher was told. */
  #checkPublication(message: number, published: Published): void {
    const { call, order } = published;
    const { channel } = call.operation;
    const receivers = this.#receivers.get(message)!;
    const ended = call.ended;
    let least = 0;
    let most = 0;
    /** That certainly had it while it travelled. */
    let received = 0;
    /** That may have had it though they don't tell. */
    let silent = 0;
    let isVague = false;
    const early = new Set<string>();
    for (const member of this.#subscriptions.membersOf(channel)) {
      const { connection, heardUntil } = member.subscriber;
      const count = receivers.get(connection.number) ?? 0;
      const part = this.#subscriptions.partOf(member, call, order);
      if (count > 1) {
        this.#violate(
          channel,
          `connection ${connection.number} got ${describe(published)} ${count} times`,
        );
      }
      if (part === "must not have it") {
        if (count === 0) continue;
        const why =
          call.outcome === "refused" ? "although it was refused" : "but it was not subscribed";
        this.#violate(
          channel,
          `connection ${connection.number} got ${describe(published)}, ${why}`,
        );
        continue;
      }
      most++;
      if (this.#delivery.wasAnsweredEarly(connection, call)) early.add(connection.hub);
      isVague ||= this.#delivery.wasLeftOut(connection, call);
      isVague ||= this.#delivery.mayMiss(connection, call);
      if (part === "takes it") {
        least++;
        if (count === 0) {
          this.#violate(
            channel,
            `connection ${connection.number} never got ${describe(published)}, but it was subscribed all the while`,
          );
        }
      }
      const stayed =
        ended !== null && (connection.ending === null || isBefore(ended, connection.ending.begun));
      if (count > 0 && stayed) received++;
      const hasHeard = ended !== null && heardUntil !== null && isBefore(ended, heardUntil);
      // A listener that begins may be counted for a message that comes before the start of its stream.
      const isBeginning =
        this.#starts.has(connection.number) && this.#subscriptions.mayBegin(member, call);
      if (count > 0 ? !stayed : !(stayed && hasHeard) || isBeginning) silent++;
    }
    if (typeof call.outcome !== "object" || "isExecuted" in call.outcome) return;
    for (const hub of early) {
      this.#violate(
        channel,
        `${describe(published)} was answered before ${hub} had answered, which it was asked less than 2 s before`,
      );
    }
    if (isVague) return;
    const { outcome } = call;
    const told = "delivered" in outcome ? outcome.delivered : outcome.status;
    const [from, to] = [Math.max(least, received), Math.min(most, received + silent)];
    const isPlausible =
      "delivered" in outcome ? told >= from && told <= to : told === 0 ? from === 0 : to > 0;
    if (isPlausible) return;
    const what = "delivered" in outcome ? `delivered ${told}` : `status 0${told}`;
    const takers = from === to ? `${from}` : `${from} to ${to}`;
    this.#violate(
      channel,
      `${describe(published)} was answered with ${what}, but ${takers} took it`,
    );
  }

  #violate(channel: string, message: string): void {
    const subject = `channel ${JSON.stringify(channel.slice(0, 40))}`;
    this.#violations.push({ promise: CHANNELS, subject, message });
  }
}

export function isPublication(call: ChannelCall): call is Publication {
  return call.operation.type === "publish";
}

/** Infinity for a listener that was never told: all that it got may be what it had missed. */
function startOf({ outcome }: ChannelCall): number {
  return typeof outcome === "object" && "start" in outcome ? outcome.start : Infinity;
}

/** `next` came later, though its publisher sent it before. */
function isOutOfOrder(before: Published, next: Published): boolean {
  if (next.order > before.order) return false;
  if (next.call.connection !== null) return next.order < before.order;
  // A call over HTTP whose outcome is unknown may still be on its way.
  return (
    next.call.outcome !== "unknown" &&
    next.call.ended !== null &&
    isBefore(next.call.ended, before.call.begun)
  );
}

function describe({ call }: Published): string {
  return `message ${call.operation.message} (${describeCall(call)})`;
}
