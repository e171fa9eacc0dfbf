/** The channels that a connection is subscribed to, and the listeners of each. */
import { binaryString } from "../../wire/bytes.ts";
import type { Operation } from "../../wire/edge/operation.ts";
import { RequestType, STATUS_SUCCESS } from "../../wire/throttr/request-types.ts";
import type { Expected } from "../calls/reply-stream.ts";
import type { Listener } from "./subscription.ts";

/** A channel with listeners: they share one subscription. */
export class Channel {
  readonly name: Uint8Array;
  readonly listeners = new Set<Listener>();
  /** The server has confirmed the subscription on the current connection. */
  isConfirmed = false;

  constructor(name: Uint8Array) {
    this.name = name;
  }

  confirm(): void {
    this.isConfirmed = true;
    for (const listener of this.listeners) listener.confirm();
  }
}

export class Channels {
  readonly #channels = new Map<string, Channel>();

  get size(): number {
    return this.#channels.size;
  }

  /** Adds a listener to its channel. */
  join(listener: Listener): Channel {
    const key = keyOf(listener.name);
    let channel = this.#channels.get(key);
    if (channel === undefined) {
      channel = new Channel(listener.name);
      this.#channels.set(key, channel);
    }
    channel.listeners.add(listener);
    return channel;
  }

  /** Removes a listener. True if it was the last one of its channel. */
  leave(listener: Listener): boolean {
    const key = keyOf(listener.name);
    const channel = this.#channels.get(key);
    if (channel?.listeners.delete(listener) !== true || channel.listeners.size > 0) return false;
    return this.#channels.delete(key);
  }

  /** Passes a message to the listeners of its channel, if it has any. */
  push(name: Uint8Array, payload: Uint8Array): void {
    const channel = this.#channels.get(keyOf(name));
    if (channel === undefined) return;
    for (const listener of channel.listeners) listener.deliver(payload);
  }

  *listeners(): Generator<Listener> {
    for (const { listeners } of this.#channels.values()) yield* listeners;
  }

  [Symbol.iterator](): IterableIterator<Channel> {
    return this.#channels.values();
  }
}

function keyOf(name: Uint8Array): string {
  return binaryString(name, 0, name.length);
}

/** SUBSCRIBE or UNSUBSCRIBE on its way. */
export class Control implements Expected {
  readonly operation: Operation<boolean>;
  readonly #onReply: (isDone: boolean) => void;

  constructor(
    name: "subscribe" | "unsubscribe",
    channel: Uint8Array,
    onReply: (isDone: boolean) => void = () => {},
  ) {
    const type = RequestType[name];
    const frame = new Uint8Array(2 + channel.length);
    frame[0] = type;
    frame[1] = channel.length;
    frame.set(channel, 2);
    this.operation = { type, isRepeatable: true, frame, read: isSuccess };
    this.#onReply = onReply;
  }

  reply(bytes: Uint8Array): void {
    this.#onReply(this.operation.read(bytes));
  }
}

const isSuccess = (reply: Uint8Array): boolean => reply[0] === STATUS_SUCCESS;
