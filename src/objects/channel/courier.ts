/**
 * Courier: the way from a group of channels to one Hub, for the messages of all channels.
 *
 * One call is under way at a time, which keeps the order of each channel's messages. A Hub that has not answered within
 * 2 s is slow: publishers get their answer without it from then on, until it answers, and what does not fit the queue
 * meanwhile is lost to it. Otherwise one Hub that hangs would stop every publisher of the group.
 */
import type { Environment } from "../../base/environment.ts";
import { binaryBytes, ByteWriter, joinBytes } from "../../wire/bytes.ts";
import { beginDelivery, endDelivery, forEachDelivery } from "../../wire/channel-batch.ts";
import type { DeliveredAll, HubCalls } from "../../base/calls/hub.ts";
import { resolveDeliveries, type Delivery } from "../../dispatch/delivery.ts";
import { Lane, type Carry } from "../../dispatch/lane.ts";
import { logWarning } from "../../base/log.ts";
import { hubStub } from "../../base/stubs.ts";
import { inTime, withTimeout } from "../../base/in-time.ts";
import { orIfUnknown } from "../../base/unknown-method.ts";
import {
  HUB_QUEUE_BYTES_MAX,
  JOINS_VERIFIED_AT_ONCE,
  SINGLE_CALLS_MAX,
  SLOW_HUB_QUEUE_BYTES_MAX,
  WAITING_DELIVERY_BYTES,
} from "../../engine/sizes.ts";

/** A Hub that takes longer is not waited for until it has answered. */
const HUB_TIMEOUT_MS = 2000;

/** That a Hub has subscribers of a name. */
export interface Member {
  readonly courier: Courier;
  /** Goes up whenever the Hub joins: a denial that was under way meanwhile is out of date. */
  joins: number;
  /** The life of the Hub that has joined; null when it is not known, or when several have. */
  life: string | null;
}

/** A name that a Hub has joined. */
export interface Join {
  readonly channel: string;
  readonly member: Member;
}

/** The messages of one name in one publication. */
export interface Consignment extends Join {
  /** Format: a delivery of `wire/channel-batch.ts`. */
  readonly bytes: Uint8Array;
  readonly count: number;
}

/** What one publication gives to the Hub: goes in one call, maybe with others. */
interface GroupDelivery extends Delivery {
  readonly consignments: readonly Consignment[];
}

/** What a courier needs of its group. */
export interface CourierHost {
  /** Name of the group's object, for the log. */
  readonly name: string;
  readonly env: Environment;
  /** Keeps the object awake until a promise is settled. */
  waitUntil(work: Promise<unknown>): void;
  /** The Hub has no subscriber of a name that it had joined. */
  onDenied(channel: string, member: Member): void;
  /** Nothing is under way to the Hub any more. */
  onIdle(courier: Courier): void;
}

/**
 * Kept as long as the Hub has joined any name, or anything is under way: one that leaves and joins again must not get a second
 * lane, whose messages would overtake those of the first.
 */
export class Courier {
  /** Name of the Hub's object. */
  readonly hub: string;
  /** Names that the Hub has joined. */
  names = 0;
  readonly #host: CourierHost;
  /** One call under way at a time: what is published meanwhile goes with the next one. */
  readonly #lane: Lane<GroupDelivery>;
  /** The Hub has not answered in time, and not since: publishers do not wait for it. */
  #isSlow = false;
  /** What the object stays awake for; null while no publisher has gone without the Hub. */
  #rest: PromiseWithResolvers<void> | null = null;

  constructor(host: CourierHost, hub: string) {
    this.#host = host;
    this.hub = hub;
    this.#lane = new Lane<GroupDelivery>(
      () => this.#carry(),
      () => this.#onIdle(),
    );
  }

  /** The Hub has left all names, and nothing is under way to it. */
  get isDone(): boolean {
    return this.names === 0 && !this.#lane.isBusy;
  }

  /**
   * Gives messages to the Hub. Returns for each, in order, how many subscriptions took it; null when that
   * is not known in time.
   */
  async send(consignments: readonly Consignment[]): Promise<Uint32Array | null> {
    const count = consignments.reduce((sum, consignment) => sum + consignment.count, 0);
    const bytes = consignments.reduce(
      (sum, consignment) => sum + consignment.bytes.length,
      WAITING_DELIVERY_BYTES,
    );
    if (this.#lane.queuedBytes > (this.#isSlow ? SLOW_HUB_QUEUE_BYTES_MAX : HUB_QUEUE_BYTES_MAX)) {
      logWarning("hub_slow", { channel: this.#host.name, hub: this.hub, lost: count });
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
        logWarning("hub_failed", {
          channel: this.#host.name,
          hub: this.hub,
          error: String(error),
        });
        resolve(null);
      },
    });
    if (!isWaitedFor) return null;
    try {
      return await withTimeout(promise, HUB_TIMEOUT_MS);
    } catch {
      this.#isSlow = true;
      this.#stayAwake();
      return null;
    }
  }

  /**
   * Asks the Hub which of some names have no subscribers there. By a stub of its own for each call: another one may lead to
   * an old copy of the Hub, which a partition of the network has cut off and which has lost its sockets.
   */
  async ask(joins: readonly Join[]): Promise<void> {
    for (let from = 0; from < joins.length; from += JOINS_VERIFIED_AT_ONCE) {
      const asked = joins.slice(from, from + JOINS_VERIFIED_AT_ONCE);
      const counts = asked.map(({ member }) => member.joins);
      const questions = joinBytes(asked.map(({ channel }) => questionOf(channel)));
      const call = deliverAll(hubStub(this.#host.env, this.hub), questions);
      const answer = await inTime(call, this.hub);
      for (const index of answer?.denied ?? []) {
        const { channel, member } = asked[index]!;
        // It has joined again while the call was under way.
        if (member.joins === counts[index]) this.#host.onDenied(channel, member);
      }
    }
  }

  /** Asks about names that the Hub has denied. Where that fails, as on a full disk, the next message to them is denied again. */
  async #doubt(joins: readonly Join[]): Promise<void> {
    try {
      await this.ask(joins);
    } catch (error) {
      logWarning("leave_failed", { channel: this.#host.name, error: String(error) });
    }
  }

  /** Keeps the object awake until the lane is empty: messages wait in memory, and publishers have their answers already. */
  #stayAwake(): void {
    if (this.#rest !== null) return;
    this.#rest = Promise.withResolvers<void>();
    this.#host.waitUntil(this.#rest.promise);
  }

  #onIdle(): void {
    this.#rest?.resolve();
    this.#rest = null;
    this.#host.onIdle(this);
  }

  /** Makes one call of all deliveries that wait, and tells each how many subscriptions took it. */
  #carry(): Carry<GroupDelivery> {
    // A stub for each stretch of work: one to an object that was reset meanwhile fails for good.
    const stub = hubStub(this.#host.env, this.hub);
    return async (deliveries) => {
      const all = deliveries.flatMap(({ consignments }) => consignments);
      const bytes = all.length === 1 ? all[0]!.bytes : joinBytes(all.map((one) => one.bytes));
      const { delivered, denied } = await deliverAll(stub, bytes);
      this.#isSlow = false;
      resolveDeliveries(deliveries, delivered);
      // Whether to drop the Hub is another question: the stub may be older than the Hub's last join.
      if (denied.length > 0) void this.#doubt(Array.from(denied, (index) => all[index]!));
    };
  }
}

async function deliverAll(
  stub: DurableObjectStub<HubCalls>,
  deliveries: Uint8Array,
): Promise<DeliveredAll> {
  return await orIfUnknown(stub.deliverAll(deliveries), () => sendOneByOne(stub, deliveries));
}

/** A delivery of no messages: the Hub says whether it has subscribers. */
function questionOf(channel: string): Uint8Array {
  const name = binaryBytes(channel);
  const out = new ByteWriter(name.length + 16);
  beginDelivery(out, name);
  endDelivery(out, name.length, null);
  return out.take();
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
