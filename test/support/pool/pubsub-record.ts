/** What peers of the model tests did and received at the same time, as the checker of channels reads it. */
import {
  payloadBytesMax,
  type ChannelCall,
  type ChannelOperation,
  type ChannelOutcome,
  type Subscriber,
} from "../../simulator/checks/channel-calls.ts";
import { checkChannels } from "../../simulator/checks/channels.ts";
import type { Moment, Violation } from "../../simulator/checks/history.ts";
import { NEVER } from "../../simulator/checks/order.ts";
import { Facts, type Connection } from "../../simulator/checks/facts.ts";
import { tick, type Message, type Peer } from "./peers.ts";

/** Ticks alone order what happens here: clocks play no part. */
const momentAt = (tick: number): Moment => ({ tick, ms: 0 });
const now = (): Moment => momentAt(tick());

export class PubSubRecord {
  readonly #calls: ChannelCall[] = [];
  readonly #facts = new Facts();
  readonly #peers = new Map<Connection, Peer>();
  /** Of connections, and of bodies of several frames. */
  #numbers = 0;

  /** A number for requests that keep an order among each other. */
  takeNumber(): number {
    return this.#numbers++;
  }

  /** @param begun when it began to open */
  noteOpened(peer: Peer, begun: number): Connection {
    const connection: Connection = {
      number: this.takeNumber(),
      id: peer.id,
      hub: peer.kind.location,
      begun: momentAt(begun),
      opened: now(),
      ending: null,
    };
    this.#facts.addConnection(connection);
    this.#peers.set(connection, peer);
    return connection;
  }

  /** A connection begins to close. Returns what to call when it has. */
  noteClosing(connection: Connection): () => void {
    const ending = { begun: now(), ended: null as Moment | null };
    connection.ending = ending;
    return () => (ending.ended = now());
  }

  /**
   * A request is about to be sent. It is unknown until it is answered.
   *
   * @param number of the connection or body that it travels in
   */
  begin(operation: ChannelOperation, client: number, number: number | null): ChannelCall {
    const door = this.#facts.connections.has(number!) ? "websocket" : "http";
    const call: ChannelCall = {
      client,
      door,
      connection: number,
      operation,
      begun: now(),
      ended: null,
      outcome: "unknown",
      settled: null,
    };
    this.#calls.push(call);
    return call;
  }

  beginPublications(
    sent: readonly Message[],
    client: number,
    number: number | null,
  ): ChannelCall[] {
    return sent.map(({ number: message, channel, payload }) =>
      this.begin(
        { type: "publish", channel, message, payloadBytes: payload.length },
        client,
        number,
      ),
    );
  }

  end(call: ChannelCall, outcome: ChannelOutcome, at = tick()): void {
    call.ended = momentAt(at);
    call.outcome = outcome;
  }

  check(): Violation[] {
    const subscribers = new Map<number, Subscriber>();
    for (const [connection, { kind, received }] of this.#peers) {
      subscribers.set(connection.number, {
        connection,
        hasDefaults: true,
        payloadBytesMax: payloadBytesMax(kind.valueSize),
        receipts: received.map(({ number, channel, at }) => ({
          message: number,
          channel,
          number: null,
          at: momentAt(at),
        })),
        // A push is with its peer before its publisher has the answer: all objects are in one process.
        heardUntil: NEVER,
      });
    }
    return checkChannels(this.#calls, subscribers, this.#facts, null);
  }
}
