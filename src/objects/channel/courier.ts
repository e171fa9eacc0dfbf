/**
 * Courier: the way from a group of channels to one Hub, for the messages of all channels.
 *
 * One call is under way at a time, which keeps the order of each channel's messages. A Hub that has not answered within
 * 2 s is slow: publishers get their answer without it from then on, until it answers, and what does not fit the queue
 * meanwhile is lost to it. Otherwise one Hub that hangs would stop every publisher of the group.
 */
import type { Environment } from "../../base/environment.ts";
import { joinBytes } from "../../wire/bytes.ts";
import { forEachDelivery } from "../../wire/channel-batch.ts";
import type { DeliveredAll, HubCalls } from "../../base/calls/hub.ts";
import { Lane, type Carry, type Piece } from "../../dispatch/lane.ts";
import { logWarning } from "../../base/log.ts";
import { hubStub } from "../../base/stubs.ts";
import { orIfUnknown } from "../../base/unknown-method.ts";
import {
  HUB_QUEUE_BYTES_MAX,
  SINGLE_CALLS_MAX,
  SLOW_HUB_QUEUE_BYTES_MAX,
} from "../../engine/sizes.ts";

/** A Hub that takes longer is not waited for until it has answered. */
const HUB_TIMEOUT_MS = 2000;

/** That a Hub has subscribers of a name. */
export interface Member {
  readonly courier: Courier;
  /** Goes up whenever the Hub joins: a denial that was under way meanwhile is out of date. */
  joins: number;
}

/** The messages of one name in one publication. */
export interface Consignment {
  readonly channel: string;
  readonly member: Member;
  /** Format: a delivery of `wire/channel-batch.ts`. */
  readonly bytes: Uint8Array;
  readonly count: number;
}

/** What one publication gives to the Hub: goes in one call, maybe with others. */
interface Delivery extends Piece {
  readonly consignments: readonly Consignment[];
  readonly count: number;
  resolve(delivered: Uint32Array): void;
}

/** Kept as long as the Hub has joined any name; one that joins again gets a new one. */
export class Courier {
  /** Name of the Hub's object. */
  readonly hub: string;
  /** Names that the Hub has joined. */
  names = 0;
  readonly #env: Environment;
  readonly #group: string;
  readonly #onDenied: (channel: string, member: Member) => void;
  /** One call under way at a time: what is published meanwhile goes with the next one. */
  readonly #lane: Lane<Delivery>;
  /** The Hub has not answered in time, and not since: publishers do not wait for it. */
  #isSlow = false;

  /**
   * @param group name of the object, for the log
   * @param onDenied is called when the Hub says that it has no subscriber of a name that it had joined
   */
  constructor(
    env: Environment,
    group: string,
    hub: string,
    onDenied: (channel: string, member: Member) => void,
  ) {
    this.#env = env;
    this.#group = group;
    this.hub = hub;
    this.#onDenied = onDenied;
    this.#lane = new Lane<Delivery>(() => this.#carry());
  }

  /**
   * Gives messages to the Hub. Returns for each, in order, how many subscriptions took it; null when that
   * is not known in time.
   */
  async send(consignments: readonly Consignment[]): Promise<Uint32Array | null> {
    const count = consignments.reduce((sum, consignment) => sum + consignment.count, 0);
    const bytes = consignments.reduce((sum, consignment) => sum + consignment.bytes.length, 0);
    if (this.#lane.queuedBytes > (this.#isSlow ? SLOW_HUB_QUEUE_BYTES_MAX : HUB_QUEUE_BYTES_MAX)) {
      logWarning("hub_slow", { channel: this.#group, hub: this.hub, lost: count });
      return null;
    }
    const { promise, resolve } = Promise.withResolvers<Uint32Array | null>();
    const isWaitedFor = !this.#isSlow;
    this.#lane.submit({
      bytes,
      consignments,
      count,
      resolve,
      fail: (error) => {
        this.#isSlow = false;
        logWarning("hub_failed", { channel: this.#group, hub: this.hub, error: String(error) });
        resolve(null);
      },
    });
    if (!isWaitedFor) return null;
    const timer = setTimeout(() => {
      this.#isSlow = true;
      resolve(null);
    }, HUB_TIMEOUT_MS);
    const delivered = await promise;
    clearTimeout(timer);
    return delivered;
  }

  /** Makes one call of all deliveries that wait, and tells each how many subscriptions took it. */
  #carry(): Carry<Delivery> {
    // A stub for each stretch of work: one to an object that was reset meanwhile fails for good.
    const stub = hubStub(this.#env, this.hub);
    return async (deliveries) => {
      const all = deliveries.flatMap(({ consignments }) => consignments);
      const joins = all.map(({ member }) => member.joins);
      const bytes = all.length === 1 ? all[0]!.bytes : joinBytes(all.map((one) => one.bytes));
      const { delivered, denied } = await orIfUnknown(stub.deliverAll(bytes), () =>
        sendOneByOne(stub, bytes),
      );
      this.#isSlow = false;
      let at = 0;
      for (const delivery of deliveries) {
        delivery.resolve(delivered.subarray(at, at + delivery.count));
        at += delivery.count;
      }
      // A Hub without subscribers of a name is dropped. Not where it has joined again while the call was under way.
      for (const index of denied) {
        const { channel, member } = all[index]!;
        if (member.joins === joins[index]) this.#onDenied(channel, member);
      }
    };
  }
}

/** A Hub of release 0.4 takes the messages of one channel in a call. */
async function sendOneByOne(
  stub: DurableObjectStub<HubCalls>,
  bytes: Uint8Array,
): Promise<DeliveredAll> {
  const entries: Parameters<HubCalls["deliver"]>[] = [];
  forEachDelivery(bytes, (channel, sequence, messages) => {
    entries.push([channel, [{ sequence, messages }]]);
  });
  const delivered: number[] = [];
  const denied: number[] = [];
  for (let from = 0; from < entries.length; from += SINGLE_CALLS_MAX) {
    const calls = entries
      .slice(from, from + SINGLE_CALLS_MAX)
      .map(async ([channel, batches]) => await stub.deliver(channel, batches));
    for (const [i, answer] of (await Promise.all(calls)).entries()) {
      for (const count of answer.delivered[0]!) delivered.push(count);
      if (!answer.isJoined) denied.push(from + i);
    }
  }
  return { delivered: Uint32Array.from(delivered), denied: Uint32Array.from(denied) };
}
