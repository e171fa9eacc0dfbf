/**
 * Own channels: the way to connections whose id is the name of a channel.
 *
 * An id says which Hub has its connection, so a message goes there without asking a directory of connections. But ids
 * can be made up, and an object exists, with files of its own, from its first call on: so only Hubs are called that the
 * Directory knows.
 */
import type { Environment } from "../base/environment.ts";
import { binaryBytes, ByteWriter } from "../wire/bytes.ts";
import { forEachPublication, writePublication } from "../wire/channel-batch.ts";
import { writeMessage } from "../wire/messages.ts";
import { hubOfChannel } from "../base/connection-id.ts";
import type { HubCalls } from "../base/calls/hub.ts";
import { inTime } from "../base/in-time.ts";
import { hubName } from "../base/names.ts";
import { directoryStub, hubStub } from "../base/stubs.ts";
import { orIfUnknown } from "../base/unknown-method.ts";
import { OWN_NAMESPACES_MAX } from "../engine/sizes.ts";

/** Bytes of an own channel's name. */
export const OWN_NAME_BYTES = 32;

/**
 * Hubs that have had connections, by namespace. The isolate keeps them, as a door lives for one request only and
 * isolates live long. One that is out of date does no harm: a Hub that has become empty is called for nothing, and a
 * name of a Hub that is not in it makes `#hubsFor` ask again.
 */
const known = new Map<string, Set<string>>();

/** Messages that go to one Hub, in one call. */
interface ToHub {
  readonly out: ByteWriter;
  readonly indexes: number[];
}

/** Of one door; what Hubs there are is known to the whole isolate. */
export class OwnChannels {
  readonly #env: Environment;
  readonly #namespace: string;

  constructor(env: Environment, namespace: string) {
    this.#env = env;
    this.#namespace = namespace;
  }

  /**
   * Publishes messages to the connections whose ids are the names.
   *
   * @param publications format: `wire/channel-batch.ts`
   * @returns per message: how many took it
   */
  async publish(publications: Uint8Array, count: number): Promise<Uint32Array> {
    const delivered = new Uint32Array(count);
    await Promise.all(
      Array.from(await this.#byHub(publications), async ([hub, { out, indexes }]) => {
        const stub = hubStub(this.#env, hub);
        const bytes = out.take();
        const sent = orIfUnknown(stub.deliverToOwners(bytes), () => sendOneByOne(stub, bytes));
        const answer = await inTime(sent, hub);
        indexes.forEach((index, i) => (delivered[index] = answer?.[i] ?? 0));
      }),
    );
    return delivered;
  }

  /** Messages by Hub; those of Hubs that don't exist are left out. */
  async #byHub(publications: Uint8Array): Promise<Map<string, ToHub>> {
    const byHub = new Map<string, ToHub>();
    const hubs = await this.#hubsFor(publications);
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

  /** Hubs that exist; asks the Directory when messages are for one that is not known yet. */
  async #hubsFor(publications: Uint8Array): Promise<ReadonlySet<string>> {
    const hubs = known.get(this.#namespace) ?? new Set();
    let isKnown = true;
    forEachPublication(publications, (channel) => {
      const hub = this.#hubOf(channel);
      isKnown &&= hub === null || hubs.has(hub);
    });
    if (isKnown) return hubs;
    const listed = new Set(await directoryStub(this.#env, this.#namespace).hubs());
    if (known.size >= OWN_NAMESPACES_MAX) known.clear();
    known.set(this.#namespace, listed);
    return listed;
  }

  /** Name of the Hub that a channel named like a connection's id would be in; null for any other name. */
  #hubOf(channel: string): string | null {
    const address = hubOfChannel(channel);
    return address === null ? null : hubName.format(this.#namespace, address);
  }
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
