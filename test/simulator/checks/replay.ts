/**
 * Numbers of messages and their replay: numbers never go back and name one message each; a listener that comes back after number n
 * gets what was kept from n + 1 on without a gap, and then all that is published. Written from docs/channels.md.
 */
import { CHANNELS, type ChannelCall, type ReplayRules, type Subscriber } from "./channel-calls.ts";
import type { Published } from "./channels.ts";
import { describeCall, type Moment, type Violation } from "./history.ts";
import { describeMoment, isBefore, later } from "./order.ts";
import type { Delivery } from "./delivery.ts";
import type { Facts } from "./facts.ts";

/** What a kept message may take beside its payload, with its share of the row that it is in. */
const KEPT_OVERHEAD_BYTES = 256;

interface NumberedMessage {
  readonly number: number;
  readonly published: Published;
}

export class Numbers {
  readonly #published: ReadonlyMap<number, Published>;
  readonly #subscribers: ReadonlyMap<number, Subscriber>;
  readonly #facts: Facts;
  readonly #delivery: Delivery;
  readonly #rules: ReplayRules;
  /** By channel and number. */
  readonly #messages = new Map<string, Map<number, NumberedMessage>>();
  /** The same in the order of numbers. */
  readonly #ordered = new Map<string, NumberedMessage[]>();
  /** Numbers by message. */
  readonly #numbers = new Map<number, number>();
  readonly #violations: Violation[] = [];

  constructor(
    published: ReadonlyMap<number, Published>,
    subscribers: ReadonlyMap<number, Subscriber>,
    facts: Facts,
    delivery: Delivery,
    rules: ReplayRules,
  ) {
    this.#published = published;
    this.#subscribers = subscribers;
    this.#facts = facts;
    this.#delivery = delivery;
    this.#rules = rules;
  }

  check(calls: readonly ChannelCall[]): Violation[] {
    this.#collect();
    for (const [channel, messages] of this.#messages) {
      const ordered = [...messages.values()].toSorted((a, b) => a.number - b.number);
      this.#ordered.set(channel, ordered);
      this.#checkOrder(channel, ordered);
    }
    for (const call of calls) {
      if (call.operation.type === "listen" && call.outcome !== "refused") this.#checkListener(call);
    }
    return this.#violations;
  }

  #collect(): void {
    for (const published of this.#published.values()) {
      const { outcome } = published.call;
      if (typeof outcome !== "object" || !("sequence" in outcome)) continue;
      if (outcome.sequence !== null) this.#note(outcome.sequence, published);
    }
    for (const { receipts } of this.#subscribers.values()) {
      for (const { number, message } of receipts) {
        const published = this.#published.get(message);
        if (number !== null && published !== undefined) this.#note(number, published);
      }
    }
  }

  #note(number: number, published: Published): void {
    const { channel, message } = published.call.operation;
    const known = this.#numbers.get(message);
    if (known === number) return;
    if (known !== undefined) {
      this.#violate(channel, `message ${message} has the numbers ${known} and ${number}`);
      return;
    }
    this.#numbers.set(message, number);
    let messages = this.#messages.get(channel);
    if (messages === undefined) this.#messages.set(channel, (messages = new Map()));
    const other = messages.get(number);
    if (other === undefined) {
      messages.set(number, { number, published });
      return;
    }
    const { message: first } = other.published.call.operation;
    this.#violate(channel, `number ${number} names the messages ${first} and ${message}`);
  }

  /** A message that was published after another was answered has the higher number. */
  #checkOrder(channel: string, ordered: readonly NumberedMessage[]): void {
    let latest: NumberedMessage | null = null;
    for (const next of ordered) {
      const { call } = next.published;
      const before = latest?.published.call;
      if (before !== undefined && call.ended !== null && call.outcome !== "unknown") {
        if (isBefore(call.ended, before.begun)) {
          this.#violate(
            channel,
            `numbers went back: message ${before.operation.message} has ${latest!.number} and began at ${describeMoment(before.begun)}, when message ${call.operation.message} had ${next.number} already`,
          );
          return;
        }
      }
      if (before === undefined || isBefore(before.begun, call.begun)) latest = next;
    }
  }

  #checkListener(call: ChannelCall): void {
    const { operation, outcome, connection } = call;
    if (operation.type !== "listen") return;
    const { channel, after } = operation;
    const subscriber = this.#subscribers.get(connection!)!;
    const start = typeof outcome === "object" && "start" in outcome ? outcome.start : null;
    const who = `connection ${connection} (${describeCall(call)})`;
    const numbers: number[] = [];
    for (const { number, at } of subscriber.receipts) {
      if (number === null) continue;
      const last = numbers.at(-1);
      if (last !== undefined && number <= last) {
        this.#violate(
          channel,
          `${who} got number ${number} behind ${last}, at ${describeMoment(at)}`,
        );
      }
      numbers.push(number);
    }
    const first = numbers[0];
    const before = after ?? start;
    if (before !== null && first !== undefined && first <= before) {
      this.#violate(
        channel,
        `${who} got number ${first}, but asked for what comes after ${before}`,
      );
    }
    const received = new Set(numbers);
    const oldest = first ?? Infinity;
    const newest = numbers.at(-1) ?? -Infinity;
    const end = Math.max(newest, start ?? -Infinity);
    for (const message of this.#ordered.get(channel) ?? []) {
      const { number } = message;
      if (number <= (before ?? oldest) || number > end || received.has(number)) continue;
      const fault = this.#gapFault(message, call, start, oldest);
      if (fault === null) continue;
      const { call: publication } = message.published;
      this.#violate(
        channel,
        `${who} never got number ${number}, message ${publication.operation.message}, ${fault}`,
      );
      return;
    }
  }

  /** Why a message must not be missing; null where it may. */
  #gapFault(
    message: NumberedMessage,
    call: ChannelCall,
    start: number | null,
    oldest: number,
  ): string | null {
    const { number, published } = message;
    const isReplay = start === null || number <= start;
    if (number > oldest && isReplay) return `but it got ${oldest}`;
    if (isReplay) {
      return start !== null && this.#isKept(message, call, start)
        ? `which was kept: its stream begins at ${start}`
        : null;
    }
    const publication = published.call;
    const { connection, receipts } = this.#subscribers.get(call.connection!)!;
    if (this.#delivery.mayMiss(connection, publication)) return null;
    // One that is overtaken by a later number is left out.
    const next = receipts.find((receipt) => receipt.number !== null && receipt.number > number)!;
    const overtaking = this.#published.get(next.message)?.call;
    const mayBe =
      overtaking !== undefined &&
      this.#delivery.mayBeOvertaken(connection, publication, overtaking);
    return mayBe ? null : "but it got later ones";
  }

  /** Whether the group certainly had a message when a listener came back. */
  #isKept({ number, published }: NumberedMessage, call: ChannelCall, start: number): boolean {
    const rules = this.#rules;
    const { messagesMax, keptMs, channelBytesMax, groupBytesMax } = rules;
    if (number <= start - messagesMax || call.ended === null) return false;
    const { channel } = published.call.operation;
    const group = rules.groupOf(channel);
    const { clocks } = this.#facts;
    const nowMs = clocks.spanOf(group, call.begun.ms, call.ended.ms).toMs;
    const isOld = (moment: Moment): boolean =>
      nowMs - clocks.spanOf(group, moment.ms, moment.ms).fromMs >= keptMs;
    if (isOld(published.call.begun) || isOld(this.#lastUse(channel, call))) return false;
    let [ofChannel, ofGroup, longest] = [0, 0, 0];
    for (const { call: other } of this.#published.values()) {
      const { channel: name, payloadBytes, message } = other.operation;
      if (rules.groupOf(name) !== group) continue;
      ofGroup += payloadBytes + KEPT_OVERHEAD_BYTES;
      if (name !== channel) continue;
      longest = Math.max(longest, payloadBytes + KEPT_OVERHEAD_BYTES);
      if ((this.#numbers.get(message) ?? -1) >= number)
        ofChannel += payloadBytes + KEPT_OVERHEAD_BYTES;
    }
    const unknown = start - number + 1;
    return Math.max(ofChannel, longest * unknown) <= channelBytesMax && ofGroup <= groupBytesMax;
  }

  /** When the channel was last listened to before a call: a day after its last subscriber left it is forgotten. */
  #lastUse(channel: string, call: ChannelCall): Moment {
    let last: Moment = { tick: -Infinity, ms: -Infinity };
    for (const { connection, receipts } of this.#subscribers.values()) {
      const { ending } = connection;
      const until = ending === null ? call.begun : ending.begun;
      const listens = receipts.some(
        (receipt) =>
          receipt.number !== null &&
          this.#published.get(receipt.message)?.call.operation.channel === channel,
      );
      if (listens && isBefore(connection.begun, call.begun)) {
        last = later(last, isBefore(call.begun, until) ? call.begun : until);
      }
    }
    return last;
  }

  #violate(channel: string, message: string): void {
    const subject = `channel ${JSON.stringify(channel.slice(0, 40))}`;
    this.#violations.push({ promise: CHANNELS, subject, message });
  }
}
