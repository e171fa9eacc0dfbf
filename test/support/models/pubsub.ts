/**
 * Publish and subscribe as plain maps, written from the protocol's tables: exact, for requests that come one after the other. What
 * may and must be where they overlap is in `test/simulator/checks/channels.ts`.
 */
import { payloadBytesMax } from "../../simulator/checks/channel-calls.ts";

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
