/**
 * Own channels: the way to connections whose id is the name of a channel.
 *
 * An id says which Hub has its connection, so a message goes there without asking a directory of connections. But ids
 * can be made up, and an object exists, with files of its own, from its first call on: so only Hubs are called that the
 * Directory knows. Messages to one Hub go in one call at a time: two calls could overtake each other.
 */
import type { Environment } from "../base/environment.ts";
import { binaryBytes, ByteWriter, joinBytes } from "../wire/bytes.ts";
import { forEachPublication, writePublication } from "../wire/channel-batch.ts";
import { writeMessage } from "../wire/messages.ts";
import { hubOfChannel } from "../base/connection-id.ts";
import type { HubCalls } from "../base/calls/hub.ts";
import { inTime } from "../base/in-time.ts";
import { hubName } from "../base/names.ts";
import { directoryStub, hubStub } from "../base/stubs.ts";
import { orIfUnknown } from "../base/unknown-method.ts";
import {
  OWN_NAMESPACES_MAX,
  SLOW_HUB_QUEUE_BYTES_MAX,
  WAITING_DELIVERY_BYTES,
} from "../engine/sizes.ts";
import { resolveDeliveries, type Delivery } from "./delivery.ts";
import { Lane, type Carry } from "./lane.ts";
import { logWarning } from "../base/log.ts";

const nothing = (): void => {};

/** Bytes of an own channel's name. */
export const OWN_NAME_BYTES = 32;

/**
 * Hubs that have had connections, by namespace. The isolate keeps them, as a door lives for one request only and
 * isolates live long. One that is out of date does no harm: a Hub that has become empty is called for nothing, and a
 * name of a Hub that is not in it makes `#hubsFor` ask again.
 */
const known = new Map<string, Set<string>>();

/** Messages of one publication that go to one Hub. */
interface ToHub {
  readonly out: ByteWriter;
  readonly indexes: number[];
}

/** The same, on its way. */
interface OwnDelivery extends Delivery {
  readonly publications: Uint8Array;
}

/** Messages to connections, on their way. */
interface OwnPublication {
  /** All are on their way, or none can be sent. */
  readonly sent: Promise<void>;
  /** Per message: how many took it. */
  readonly delivered: Promise<Uint32Array>;
}

/** How many took each message that went to a Hub; undefined when that is not known in time. */
interface Sent {
  readonly indexes: readonly number[];
  readonly answer: Promise<Uint32Array | undefined>;
}

/** Of one door; what Hubs there are is known to the whole isolate. */
export class OwnChannels {
  readonly #env: Environment;
  readonly #namespace: string;
  /** By name of the Hub; those that have something to carry. */
  readonly #lanes = new Map<string, Lane<OwnDelivery>>();
  /** Publications to Hubs that are not known yet, one after the other. */
  #lookups: Promise<void> = Promise.resolve();

  constructor(env: Environment, namespace: string) {
    this.#env = env;
    this.#namespace = namespace;
  }

  /**
   * Publishes messages to the connections whose ids are the names.
   *
   * @param publications format: `wire/channel-batch.ts`
   * @param before what of the same run has to be on its way first; null for nothing
   */
  publish(publications: Uint8Array, count: number, before: Promise<void> | null): OwnPublication {
    const sent =
      before === null
        ? this.#route(publications)
        : before.then(async () => await this.#route(publications));
    return { sent: sent.then(nothing, nothing), delivered: deliveredOf(sent, count) };
  }

  /** Sends messages on their way, behind all that were given before for the same Hub. */
  async #route(publications: Uint8Array): Promise<Sent[]> {
    const hubs = known.get(this.#namespace);
    if (hubs !== undefined && this.#isKnown(publications, hubs))
      return this.#send(publications, hubs);
    const sent = this.#lookups.then(async () => {
      let listed = known.get(this.#namespace);
      // The one before may have asked for the same Hub.
      if (listed === undefined || !this.#isKnown(publications, listed)) listed = await this.#list();
      return this.#send(publications, listed);
    });
    this.#lookups = sent.then(nothing, nothing);
    return await sent;
  }

  #isKnown(publications: Uint8Array, hubs: ReadonlySet<string>): boolean {
    let isKnown = true;
    forEachPublication(publications, (channel) => {
      // One that is not known decides it: of made-up names, the first.
      if (!isKnown) return;
      const hub = this.#hubOf(channel);
      isKnown = hub === null || hubs.has(hub);
    });
    return isKnown;
  }

  /** Asks the Directory what Hubs there are. */
  async #list(): Promise<Set<string>> {
    const listed = new Set(await directoryStub(this.#env, this.#namespace).hubs());
    if (known.size >= OWN_NAMESPACES_MAX) known.clear();
    known.set(this.#namespace, listed);
    return listed;
  }

  #send(publications: Uint8Array, hubs: ReadonlySet<string>): Sent[] {
    return Array.from(this.#byHub(publications, hubs), ([hub, { out, indexes }]) => {
      const answer = this.#sendTo(hub, out.take(), indexes.length);
      return { indexes, answer: inTime(answer, hub) };
    });
  }

  /** Behind a Hub that does not answer, messages wait; what is too much is lost to it. */
  async #sendTo(hub: string, publications: Uint8Array, count: number): Promise<Uint32Array> {
    const lane = this.#laneOf(hub);
    if (lane.queuedBytes > SLOW_HUB_QUEUE_BYTES_MAX) {
      logWarning("hub_slow", { channel: "own channels", hub, lost: count });
      return new Uint32Array(count);
    }
    const { promise, resolve, reject } = Promise.withResolvers<Uint32Array>();
    const bytes = publications.length + WAITING_DELIVERY_BYTES;
    lane.submit({ bytes, publications, count, resolve, fail: reject });
    return await promise;
  }

  #laneOf(hub: string): Lane<OwnDelivery> {
    let lane = this.#lanes.get(hub);
    if (lane === undefined) {
      lane = new Lane<OwnDelivery>(
        () => this.#carryTo(hub),
        () => void this.#lanes.delete(hub),
      );
      this.#lanes.set(hub, lane);
    }
    return lane;
  }

  #carryTo(hub: string): Carry<OwnDelivery> {
    const stub = hubStub(this.#env, hub);
    return async (deliveries) => {
      const bytes = joinBytes(deliveries.map(({ publications }) => publications));
      const call = stub.deliverToOwners(bytes);
      const delivered = await orIfUnknown(call, () => sendOneByOne(stub, bytes));
      resolveDeliveries(deliveries, delivered);
    };
  }

  /** Messages by Hub; those of Hubs that don't exist are left out. */
  #byHub(publications: Uint8Array, hubs: ReadonlySet<string>): Map<string, ToHub> {
    const byHub = new Map<string, ToHub>();
    let index = -1;
    forEachPublication(publications, (channel, at, length) => {
      index++;
      const hub = this.#hubOf(channel);
      if (hub === null || !hubs.has(hub)) return;
      let to = byHub.get(hub);
      if (to === undefined) {
        to = { out: new ByteWriter(256), indexes: [] };
        byHub.set(hub, to);
      }
      const name = { bytes: binaryBytes(channel), at: 0, length: channel.length };
      writePublication(to.out, name, publications, at, length);
      to.indexes.push(index);
    });
    return byHub;
  }

  /** Name of the Hub that a channel named like a connection's id would be in; null for any other name. */
  #hubOf(channel: string): string | null {
    const address = hubOfChannel(channel);
    return address === null ? null : hubName.format(this.#namespace, address);
  }
}

async function deliveredOf(sent: Promise<Sent[]>, count: number): Promise<Uint32Array> {
  const delivered = new Uint32Array(count);
  for (const { indexes, answer } of await sent) {
    const counts = await answer;
    indexes.forEach((index, i) => (delivered[index] = counts?.[i] ?? 0));
  }
  return delivered;
}

/** A Hub of release 0.4 takes messages of one channel in a call; it is met for some minutes after a deployment. */
async function sendOneByOne(
  stub: DurableObjectStub<HubCalls>,
  publications: Uint8Array,
): Promise<Uint32Array> {
  const calls: Promise<number[]>[] = [];
  forEachPublication(publications, (channel, at, length) => {
    const out = new ByteWriter(length + 4);
    writeMessage(out, publications, at, length);
    calls.push(stub.deliverToOwner(channel, out.take()));
  });
  return Uint32Array.from((await Promise.all(calls)).flat());
}
