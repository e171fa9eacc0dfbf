/**
 * Publisher: the way from one place to the channels of a namespace.
 *
 * Messages to one channel go in one call at a time; what is published meanwhile, by whomever, goes with
 * the next one.
 */
import { ByteWriter } from "../wire/bytes.ts";
import type { Published } from "./channel.ts";
import { channelStub, hubStub } from "./stubs.ts";
import { placeOfChannel } from "./connection-id.ts";
import { inTime } from "./in-time.ts";
import { Lane, type Carry, type Piece } from "./lane.ts";
import { hubName } from "./names.ts";

interface Publication extends Piece {
  readonly messages: Uint8Array;
  readonly count: number;
  published(published: Published): void;
}

/** Publishes some messages to one channel. */
type Call = (messages: Uint8Array, count: number) => Promise<Published>;

/** Calls to channels that may be under way from one place. */
const CALLS_MAX = 128;

export class Publisher {
  readonly #env: Env;
  readonly #namespace: string;
  readonly #lanes = new Map<string, Lane<Publication>>();
  #calls = 0;
  /** Those who wait for one of the calls to end. */
  readonly #waiting: (() => void)[] = [];

  constructor(env: Env, namespace: string) {
    this.#env = env;
    this.#namespace = namespace;
  }

  /**
   * Publishes messages to a channel, in order. Rejected when the channel can't be reached: then it is
   * not known who got them.
   *
   * @param channel as a binary string
   * @param messages format: `wire/messages.ts`
   */
  async publish(channel: string, messages: Uint8Array, count: number): Promise<Published> {
    if (this.#calls === CALLS_MAX)
      await new Promise<void>((resolve) => this.#waiting.push(resolve));
    else this.#calls++;
    try {
      return await this.#submit(channel, messages, count);
    } finally {
      const next = this.#waiting.shift();
      if (next === undefined) this.#calls--;
      else next();
    }
  }

  async #submit(channel: string, messages: Uint8Array, count: number): Promise<Published> {
    const { promise, resolve, reject } = Promise.withResolvers<Published>();
    this.#laneOf(channel).submit({
      bytes: messages.length,
      messages,
      count,
      published: resolve,
      failed: reject,
    });
    return await promise;
  }

  #laneOf(channel: string): Lane<Publication> {
    let lane = this.#lanes.get(channel);
    if (lane === undefined) {
      const forget = (): void => void this.#lanes.delete(channel);
      lane = new Lane<Publication>(() => this.#carryTo(channel), forget);
      this.#lanes.set(channel, lane);
    }
    return lane;
  }

  #carryTo(channel: string): Carry<Publication> {
    const call = this.#callOf(channel);
    return async (publications) => {
      const count = publications.reduce((sum, publication) => sum + publication.count, 0);
      const { delivered, sequence } = await call(messagesOf(publications), count);
      let at = 0;
      for (const publication of publications) {
        publication.published({
          delivered: delivered.slice(at, at + publication.count),
          sequence: sequence === null ? null : sequence + at,
        });
        at += publication.count;
      }
    };
  }

  #callOf(channel: string): Call {
    const stub = channelStub(this.#env, this.#namespace, channel);
    const toChannel: Call = async (messages, count) => await stub.publish(messages, count);
    const place = placeOfChannel(channel);
    if (place === null) return toChannel;
    const hub = hubStub(this.#env, hubName.format(this.#namespace, place));
    return async (messages, count) => {
      const [owner, published] = await Promise.all([
        inTime(hub.deliverToOwner(channel, messages), channel),
        toChannel(messages, count),
      ]);
      return {
        delivered: published.delivered.map((others, i) => others + (owner?.[i] ?? 0)),
        sequence: published.sequence,
      };
    };
  }
}

function messagesOf(publications: readonly Publication[]): Uint8Array {
  if (publications.length === 1) return publications[0]!.messages;
  const out = new ByteWriter(publications.reduce((sum, { bytes }) => sum + bytes, 0));
  for (const { messages } of publications) out.copy(messages);
  return out.bytes.subarray(0, out.length);
}
