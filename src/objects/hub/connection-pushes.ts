/**
 * The pushes of one connection: encoded in its form, held back where they have to wait, and refused where it can't take them.
 *
 * They share the stream of bytes with replies (`HeldPushes` says when they wait). A listener of Server-Sent Events gets each
 * message once, in the order of numbers (`EventListener`).
 */
import { BRIDGE_HEADER_BYTES } from "../../wire/bridge.ts";
import { pushesOf, type Batch, type Pushes } from "../../wire/messages.ts";
import type { Protocol } from "../../wire/throttr/protocol.ts";
import type { Listened } from "../../base/calls/channel.ts";
import { CountAt, type Attachment } from "./attachment.ts";
import type { Ending } from "./ending.ts";
import { EventListener } from "./event-listener.ts";
import type { Flow } from "./flow.ts";
import { HeldPushes } from "./held-pushes.ts";

/** The connection's part. */
export interface PushesHost {
  readonly isClosed: boolean;
  readonly hasReader: boolean;
  close(ending: Ending): void;
  /** Stores tallies before long. */
  storeSoon(): void;
  /** Sends bytes to the peer. */
  transmit(bytes: Uint8Array): void;
}

/** What pushes are made with. */
export interface PushesParts {
  /** Null for the yrmcds protocol, which has no channels. */
  readonly protocol: Protocol | null;
  readonly isBridge: boolean;
  readonly flow: Flow;
  /** Requests and bytes of the connection: `CountAt`. */
  readonly counts: Float64Array;
}

export class ConnectionPushes {
  readonly #host: PushesHost;
  readonly #parts: PushesParts;
  /** For connections that listen to Server-Sent Events; null for others. */
  readonly #listener: EventListener | null;
  readonly #held = new HeldPushes();

  constructor(host: PushesHost, parts: PushesParts, attachment: Attachment) {
    this.#host = host;
    this.#parts = parts;
    const isListener = attachment.transport === "events";
    this.#listener = isListener ? new EventListener(attachment.lastNumber ?? null) : null;
  }

  /** What outlives hibernation. */
  stored(): Pick<Attachment, "lastNumber"> {
    return this.#listener === null ? {} : { lastNumber: this.#listener.lastNumber };
  }

  /** From now on pushes wait: until `release`, or `start` of a listener. */
  hold(): void {
    this.#held.hold();
  }

  /** Pushes need not wait any more. */
  release(): void {
    for (const { pushes, sequence } of this.#held.release()) {
      if (!this.#host.isClosed && !this.#isKnown(sequence)) this.#send(pushes, sequence);
    }
  }

  /** The listener's stream begins: pushes that were held back follow the messages that it had missed. */
  start(listened: Listened): void {
    if (this.#host.isClosed) return;
    for (const pushes of this.#listener!.start(listened)) this.#send(pushes, null);
    this.release();
  }

  pushesOf(channel: Uint8Array, batch: Batch): Pushes {
    if (this.#listener !== null) return this.#listener.pushesOf(batch);
    const pushes = pushesOf(this.#parts.protocol!, channel, batch.messages);
    if (pushes.bytes.length === 0) return pushes;
    return { ...pushes, bytes: this.#parts.flow.wrap(pushes.bytes) };
  }

  /**
   * Counts a push as received even while it is held back: the peer gets it, unless the connection ends before.
   *
   * @returns false for what the connection can't take, or a listener has already
   */
  push(pushes: Pushes, sequence: number | null): boolean {
    const host = this.#host;
    if (host.isClosed || !host.hasReader || this.#isKnown(sequence)) return false;
    const { flow, counts } = this.#parts;
    const ending = flow.refusePushes(pushes.bytes.length, this.#held.bytes);
    if (ending !== null) {
      host.close(ending);
      return false;
    }
    host.storeSoon();
    counts[CountAt.receivedBytes]! += pushes.payloadBytes;
    if (!this.#held.add({ pushes, sequence })) this.#send(pushes, sequence);
    return true;
  }

  #isKnown(sequence: number | null): boolean {
    return this.#listener?.isKnown(sequence) ?? false;
  }

  #send(pushes: Pushes, sequence: number | null): void {
    const { flow, counts, isBridge } = this.#parts;
    if (sequence !== null) this.#listener?.note(sequence, pushes.isPushed.length);
    const bytes = pushes.bytes.length - (isBridge ? BRIDGE_HEADER_BYTES : 0);
    flow.sendPushes(bytes);
    counts[CountAt.writeBytes]! += bytes;
    this.#host.transmit(pushes.bytes);
  }
}
