/** Who was subscribed to a channel, from when to when, as far as the calls of each connection say. */
import type { ChannelCall, Publication, Subscriber } from "./channel-calls.ts";
import { describeCall, type Moment } from "./history.ts";
import { earlier, isBefore, NEVER } from "./order.ts";
import type { Delivery } from "./delivery.ts";

/** One subscription of a connection to a channel. */
export interface Span {
  /** Place of the request among all calls; those of one connection are applied in their order. */
  readonly order: number;
  readonly begun: Moment;
  /** NEVER for one that was not confirmed. */
  readonly confirmed: Moment;
  endOrder: number;
  /** The unsubscription began, and was over. */
  endBegun: Moment;
  endEnded: Moment;
}

/** What a subscriber has to do with a message. */
export type Part = "takes it" | "may take it" | "must not have it";

/** The subscriptions of one connection to one channel. */
export interface Member {
  readonly subscriber: Subscriber;
  readonly spans: Span[];
}

export class Subscriptions {
  readonly #delivery: Delivery;
  readonly #byChannel = new Map<string, Map<number, Member>>();
  /** Answers to SUBSCRIBE and UNSUBSCRIBE that can't be. */
  readonly faults: { readonly channel: string; readonly message: string }[] = [];

  constructor(
    calls: readonly ChannelCall[],
    subscribers: ReadonlyMap<number, Subscriber>,
    delivery: Delivery,
  ) {
    this.#delivery = delivery;
    for (const subscriber of subscribers.values()) {
      if (!subscriber.hasDefaults) continue;
      const { id, begun, opened } = subscriber.connection;
      for (const channel of ["*", id]) {
        this.#spansOf(channel, subscriber).push(newSpan(-1, begun, opened ?? NEVER));
      }
    }
    for (const [order, call] of calls.entries()) {
      const { operation, connection } = call;
      if (operation.type === "publish" || connection === null || call.outcome === "refused")
        continue;
      const subscriber = subscribers.get(connection);
      if (subscriber === undefined) {
        throw new Error(
          `connection ${connection} subscribes, and the run has no subscriber for it`,
        );
      }
      const spans = this.#spansOf(operation.channel, subscriber);
      if (operation.type === "unsubscribe") this.#end(call, order, spans, operation.channel);
      else begin(call, order, spans);
    }
  }

  channels(): Iterable<string> {
    return this.#byChannel.keys();
  }

  membersOf(channel: string): Iterable<Member> {
    return this.#byChannel.get(channel)?.values() ?? [];
  }

  memberOf(channel: string, connection: number): Member | undefined {
    return this.#byChannel.get(channel)?.get(connection);
  }

  /** @param order the publication's place among all calls */
  partOf({ subscriber, spans }: Member, publication: Publication, order: number): Part {
    const { connection, payloadBytesMax, heardUntil } = subscriber;
    const { begun, ended, outcome, operation, settled } = publication;
    if (outcome === "refused" || operation.payloadBytes > payloadBytesMax)
      return "must not have it";
    const gone = connection.ending === null ? NEVER : (connection.ending.ended ?? NEVER);
    const isOwn = connection.number === publication.connection;
    // Most connections that ever subscribed are gone long since: nothing else is to be asked of them.
    const isOver = ({ endEnded }: Span): boolean => !isBefore(begun, endEnded);
    if (!isOwn && (!isBefore(begun, gone) || spans.every(isOver))) return "must not have it";
    const isAnswered = outcome !== "unknown" && ended !== null;
    const mayMiss = this.#delivery.mayMiss(connection, publication);
    const isSure = isAnswered && !mayMiss;
    const isWaitedFor = !this.#delivery.wasLeftOut(connection, publication);
    // A connection that has ended before it had the status gets nothing more, of its own messages either.
    const hasStatus = typeof outcome === "object" && !("isExecuted" in outcome);
    if (isOwn && isSure && isWaitedFor && hasStatus) {
      // Its own requests are applied in their order, and its push comes before its status.
      const isSubscribed = spans.some((span) => span.order < order && order < span.endOrder);
      return isSubscribed ? "takes it" : "must not have it";
    }
    const goneBegun = connection.ending?.begun ?? NEVER;
    const arrived = this.#delivery.arrived(connection, publication);
    if (isSure && heardUntil !== null) {
      const until = earlier(goneBegun, heardUntil);
      if (isBefore(arrived, until)) {
        for (const { confirmed, endBegun } of spans) {
          if (isBefore(confirmed, begun) && isBefore(arrived, endBegun)) return "takes it";
        }
      }
    }
    const latest = isAnswered ? arrived : (settled ?? NEVER);
    if (!isBefore(begun, gone)) return "must not have it";
    for (const span of spans) {
      if (isBefore(span.begun, latest) && isBefore(begun, span.endEnded)) return "may take it";
    }
    return "must not have it";
  }

  /** A subscription was asked for before the message had arrived, and confirmed when it was under way already. */
  mayBegin({ subscriber, spans }: Member, publication: Publication): boolean {
    const arrived = this.#delivery.arrived(subscriber.connection, publication);
    return spans.some(
      ({ begun, confirmed }) => isBefore(begun, arrived) && isBefore(publication.begun, confirmed),
    );
  }

  #spansOf(channel: string, subscriber: Subscriber): Span[] {
    let members = this.#byChannel.get(channel);
    if (members === undefined) this.#byChannel.set(channel, (members = new Map<number, Member>()));
    const { number } = subscriber.connection;
    let member = members.get(number);
    if (member === undefined) members.set(number, (member = { subscriber, spans: [] }));
    return member.spans;
  }

  #end(call: ChannelCall, order: number, spans: readonly Span[], channel: string): void {
    const span = spans.at(-1);
    const isOpen = span !== undefined && span.endOrder === Infinity;
    if (call.outcome === "unknown" || call.ended === null) {
      if (isOpen) [span.endOrder, span.endBegun] = [order, call.begun];
      return;
    }
    const status = statusOf(call);
    if (status === 0 && isOpen && span.confirmed !== NEVER) {
      this.#fault(channel, call, "UNSUBSCRIBE answered 00, but the connection was subscribed");
    }
    if (status === 1 && !isOpen) {
      this.#fault(channel, call, "UNSUBSCRIBE answered 01, but the connection was not subscribed");
    }
    if (!isOpen) return;
    [span.endOrder, span.endBegun, span.endEnded] = [order, call.begun, call.ended];
  }

  #fault(channel: string, call: ChannelCall, fault: string): void {
    this.faults.push({ channel, message: `${describeCall(call)}: ${fault}` });
  }
}

/** SUBSCRIBE twice changes nothing; a listener has one subscription, which its stream confirms. */
function begin(call: ChannelCall, order: number, spans: Span[]): void {
  if (spans.at(-1)?.endOrder === Infinity || statusOf(call) === 0) return;
  const confirmed = call.outcome === "unknown" ? null : call.ended;
  spans.push(newSpan(order, call.begun, confirmed ?? NEVER));
}

function newSpan(order: number, begun: Moment, confirmed: Moment): Span {
  return { order, begun, confirmed, endOrder: Infinity, endBegun: NEVER, endEnded: NEVER };
}

function statusOf({ outcome }: ChannelCall): number | null {
  return typeof outcome === "object" && "status" in outcome ? outcome.status : null;
}
