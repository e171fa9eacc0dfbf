/**
 * Publish and subscribe as plain maps, written from the protocol's tables: exact where requests come
 * one after the other, and what may and must be where they overlap.
 */

/** Payload bytes that a subscriber has published to its channel, and was sent from it. */
export interface Figures {
  readBytes: number;
  writeBytes: number;
}

interface ModelConnection {
  readonly payloadBytesMax: number;
  readonly channels: Map<string, Figures>;
}

const EVERYBODY = "*";

/** The longest payload that a push can carry to a subscriber of a value size. */
export function payloadBytesMax(valueSize: number): number {
  return 2 ** (8 * valueSize) - 1;
}

/** What holds when requests come one after the other. Connections go by their id in hex. */
export class PubSubModel {
  readonly #connections = new Map<string, ModelConnection>();

  connect(id: string, valueSize: number): void {
    const channels = new Map<string, Figures>();
    for (const channel of [EVERYBODY, id]) channels.set(channel, { readBytes: 0, writeBytes: 0 });
    this.#connections.set(id, { payloadBytesMax: payloadBytesMax(valueSize), channels });
  }

  disconnect(id: string): void {
    this.#connections.delete(id);
  }

  /** The status of SUBSCRIBE. */
  subscribe(id: string, channel: string): number {
    const { channels } = this.#connections.get(id)!;
    if (!channels.has(channel)) channels.set(channel, { readBytes: 0, writeBytes: 0 });
    return 1;
  }

  /** The status of UNSUBSCRIBE. */
  unsubscribe(id: string, channel: string): number {
    return this.#connections.get(id)!.channels.delete(channel) ? 1 : 0;
  }

  /** The connections that take a message. */
  publish(publisher: string | null, channel: string, payloadBytes: number): string[] {
    const takers: string[] = [];
    for (const [id, connection] of this.#connections) {
      const figures = connection.channels.get(channel);
      if (figures === undefined) continue;
      if (id === publisher) figures.readBytes += payloadBytes;
      if (payloadBytes > connection.payloadBytesMax) continue;
      figures.writeBytes += payloadBytes;
      takers.push(id);
    }
    return takers;
  }

  /** Channels that have subscribers, and the figures of each subscriber. */
  channels(): Map<string, Map<string, Figures>> {
    const all = new Map<string, Map<string, Figures>>();
    for (const [id, { channels }] of this.#connections) {
      for (const [channel, figures] of channels) {
        if (!all.has(channel)) all.set(channel, new Map());
        all.get(channel)!.set(id, figures);
      }
    }
    return all;
  }
}

/** A message, as its publisher saw it. Times are of a clock that all peers of a test share. */
export interface Publication {
  readonly number: number;
  readonly channel: string;
  readonly payloadBytes: number;
  /** Messages of one publisher to one channel keep the order of their numbers. */
  readonly publisher: string;
  /** Place among the publisher's requests. */
  readonly order: number;
  readonly sentAt: number;
  /** Infinity when the publisher went away before. */
  answeredAt: number;
  /** Over HTTP the count of subscriptions is known, elsewhere whether there was any. */
  answer: { status: number } | { delivered: number } | null;
}

interface Span {
  readonly connection: string;
  readonly channel: string;
  readonly payloadBytesMax: number;
  readonly order: number;
  readonly askedAt: number;
  confirmedAt: number;
  endOrder: number;
  endAskedAt: number;
  endConfirmedAt: number;
}

interface Receipt {
  readonly number: number;
  readonly at: number;
}

/** What a connection has to do with a message. */
type Part = "takes it" | "may take it" | "must not have it";

/** What peers did at the same time, and what must hold of what they received. */
export class History {
  readonly #publications = new Map<number, Publication>();
  readonly #spans: Span[] = [];
  /** When connections began to close. */
  readonly #closingAt = new Map<string, number>();

  published(publication: Publication): void {
    this.#publications.set(publication.number, publication);
  }

  /** A connection asks to be subscribed. Returns what to call when it is. */
  subscribing(
    connection: string,
    channel: string,
    valueSize: number,
    order: number,
    askedAt: number,
  ): (confirmedAt: number) => void {
    const span: Span = {
      connection,
      channel,
      payloadBytesMax: payloadBytesMax(valueSize),
      order,
      askedAt,
      confirmedAt: Infinity,
      endOrder: Infinity,
      endAskedAt: Infinity,
      endConfirmedAt: Infinity,
    };
    this.#spans.push(span);
    return (confirmedAt) => (span.confirmedAt = confirmedAt);
  }

  /** A connection asks not to be subscribed any more. Returns what to call when it is not. */
  unsubscribing(
    connection: string,
    channel: string,
    order: number,
    askedAt: number,
  ): (confirmedAt: number) => void {
    const span = this.#spans.findLast(
      (candidate) => candidate.connection === connection && candidate.channel === channel,
    )!;
    span.endOrder = order;
    span.endAskedAt = askedAt;
    return (confirmedAt) => (span.endConfirmedAt = confirmedAt);
  }

  /** A connection begins to close. Returns what to call when it has. */
  closing(connection: string, at: number): (closedAt: number) => void {
    this.#closingAt.set(connection, at);
    const open = this.#spans.filter(
      (span) => span.connection === connection && span.endAskedAt === Infinity,
    );
    for (const span of open) span.endAskedAt = at;
    return (closedAt) => open.forEach((span) => (span.endConfirmedAt = closedAt));
  }

  /** What is wrong with what was received, in words. */
  faults(receipts: ReadonlyMap<string, readonly Receipt[]>): string[] {
    return [
      ...Array.from(this.#publications.values(), (publication) =>
        this.#faultsOf(publication, receipts),
      ).flat(),
      ...Array.from(receipts, ([connection, received]) =>
        this.#disorder(connection, received),
      ).flat(),
    ];
  }

  #faultsOf(publication: Publication, receipts: ReadonlyMap<string, readonly Receipt[]>): string[] {
    const { number, publisher, answeredAt, answer } = publication;
    const faults: string[] = [];
    const name = `message ${number} to ${JSON.stringify(publication.channel.slice(0, 40))}`;
    let least = 0;
    let most = 0;
    let received = 0;
    let hasLeaver = false;
    for (const [connection, all] of receipts) {
      const part = this.#partOf(connection, publication);
      const got = all.filter((receipt) => receipt.number === number);
      if (part === "takes it") least++;
      if (part !== "must not have it") {
        most++;
        hasLeaver ||= this.#closingAt.has(connection);
      }
      if (got.length > 0) received++;
      if (got.length > 1) faults.push(`${name}: ${got.length} times to ${connection}`);
      if (part === "takes it" && got.length === 0) faults.push(`${name}: lost to ${connection}`);
      if (part === "must not have it" && got.length > 0)
        faults.push(`${name}: given to ${connection}, which was not subscribed`);
      if (connection === publisher && got.some(({ at }) => at > answeredAt))
        faults.push(`${name}: its publisher had the status before the push`);
    }
    if (answer === null) return faults;
    if ("delivered" in answer) {
      const { delivered } = answer;
      if (delivered < least || delivered > most || delivered < received)
        faults.push(
          `${name}: delivered ${delivered}, expected ${least} to ${most}, ${received} have it`,
        );
      if (!hasLeaver && delivered !== received)
        faults.push(`${name}: delivered ${delivered}, ${received} have it`);
      return faults;
    }
    const { status } = answer;
    if (status === 0 && (least > 0 || received > 0))
      faults.push(`${name}: status 0, but ${least} took it for sure and ${received} have it`);
    if (status === 1 && (most === 0 || (received === 0 && !hasLeaver)))
      faults.push(`${name}: status 1, but nobody took it`);
    return faults;
  }

  #partOf(connection: string, publication: Publication): Part {
    const { channel, payloadBytes, publisher, order, sentAt, answeredAt } = publication;
    const spans = this.#spans.filter(
      (span) =>
        span.connection === connection &&
        span.channel === channel &&
        payloadBytes <= span.payloadBytesMax,
    );
    if (connection === publisher) {
      // Its own requests are applied in their order.
      const isSubscribed = spans.some((span) => span.order < order && order < span.endOrder);
      if (!isSubscribed) return "must not have it";
      return answeredAt < Infinity ? "takes it" : "may take it";
    }
    if (spans.some((span) => span.confirmedAt < sentAt && answeredAt < span.endAskedAt))
      return "takes it";
    if (spans.some((span) => span.askedAt < answeredAt && sentAt < span.endConfirmedAt))
      return "may take it";
    return "must not have it";
  }

  #disorder(connection: string, received: readonly Receipt[]): string[] {
    const faults: string[] = [];
    const last = new Map<string, number>();
    for (const { number } of received) {
      const publication = this.#publications.get(number);
      if (publication === undefined) {
        faults.push(`message ${number}: nobody published it, ${connection} has it`);
        continue;
      }
      const lane = `${publication.publisher} ${publication.channel}`;
      const before = last.get(lane) ?? -1;
      if (number < before) faults.push(`message ${number}: behind ${before} at ${connection}`);
      last.set(lane, Math.max(number, before));
    }
    return faults;
  }
}
