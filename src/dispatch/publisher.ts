/**
 * Publisher: the way from one place to the channels of a namespace.
 *
 * Messages to a group of channels go in one call at a time, whatever their names; those that any caller here publishes
 * meanwhile go with the next one. So a name without subscribers costs its bytes, and no object, call or promise of its
 * own. The group carries on to the Hubs over lanes of its own: docs/architecture.md says why there are two.
 *
 * A name of 32 bytes may be the id of a connection: such a message goes to the group of the name, and to that connection
 * too (`OwnChannels`).
 */
import type { Environment } from "../base/environment.ts";
import { ByteWriter } from "../wire/bytes.ts";
import { PUBLICATION_BYTES, writePublication, type NameAt } from "../wire/channel-batch.ts";
import { assertTaken, type PublishedAll } from "../base/calls/channel.ts";
import { Lane, type Carry, type Piece } from "./lane.ts";
import { EVERYBODY } from "../base/names.ts";
import { publishToOldDirectory } from "./old-directory.ts";
import { OWN_NAME_BYTES, OwnChannels } from "./own-channels.ts";
import { groupMapOf } from "./groups.ts";
import { CHANNEL_GROUPS, type GroupMap } from "./placement.ts";
import { directoryStub, groupStub } from "../base/stubs.ts";
import { orIfUnknown } from "../base/unknown-method.ts";
import { PUBLISH_CALL_BYTES_MAX } from "../engine/sizes.ts";

/** In place of the index of a group: the Directory, which has the channel `*`, as it knows all Hubs. */
const DIRECTORY = CHANNEL_GROUPS;

/** What came of messages that a group has taken. */
type Taken = Omit<PublishedAll, "refused">;

/** Messages of one caller to one group. */
interface Publication extends Piece {
  /** Format: `wire/channel-batch.ts`. */
  readonly publications: Uint8Array;
  readonly count: number;
  resolve(published: Taken): void;
}

/** Messages of a run that go the same way. */
interface Gathered {
  readonly out: ByteWriter;
  /** Which messages of the run these are. */
  readonly indexes: number[];
}

/** Of one door or Hub, which keeps it: the lanes give the messages of all its callers their order. */
export class Publisher {
  /** To connections by their ids. */
  readonly ownChannels: OwnChannels;
  readonly #env: Environment;
  readonly #namespace: string;
  /** Which group has a channel; the same in every door and object of the deployment. */
  readonly #map: GroupMap;
  /** By index of the group. */
  readonly #lanes: (Lane<Publication> | undefined)[] = [];

  constructor(env: Environment, namespace: string) {
    this.#env = env;
    this.#namespace = namespace;
    this.#map = groupMapOf(env, namespace);
    this.ownChannels = new OwnChannels(env, namespace);
  }

  /** Begins a run of messages. */
  begin(): PublicationRun {
    return new PublicationRun(this);
  }

  /** Which group has a channel. */
  groupAt(bytes: Uint8Array, at: number, length: number): number {
    if (length === 1 && bytes[at] === EVERYBODY_BYTE) return DIRECTORY;
    return this.#map.groupAt(bytes, at, length);
  }

  /**
   * Publishes messages to channels of one group. Rejected when it is not known who got them, and when the group has refused one of
   * them; other callers' messages of the same call are not concerned.
   */
  async publish(group: number, publications: Uint8Array, count: number): Promise<Taken> {
    const { promise, resolve, reject } = Promise.withResolvers<Taken>();
    this.#laneOf(group).submit({
      bytes: publications.length,
      publications,
      count,
      resolve,
      fail: reject,
    });
    return await promise;
  }

  /** Made with the first message for the group, so that a door pays for the groups that it publishes to. */
  #laneOf(group: number): Lane<Publication> {
    return (this.#lanes[group] ??= new Lane<Publication>(() => this.#carryTo(group)));
  }

  /** Joins what several callers publish into one call, and gives each its part of the answer. */
  #carryTo(group: number): Carry<Publication> {
    const call = this.#callOf(group);
    return async (pieces) => {
      const published = await call(publicationsOf(pieces));
      let at = 0;
      for (const piece of pieces) {
        answer(piece, published, at);
        at += piece.count;
      }
    };
  }

  /** A stub for a stretch of calls; the Directory of release 0.4 is asked in the old way. */
  #callOf(group: number): (publications: Uint8Array) => Promise<PublishedAll> {
    if (group !== DIRECTORY) {
      const stub = groupStub(this.#env, this.#namespace, group);
      return async (publications) => await stub.publishAll(publications);
    }
    const stub = directoryStub(this.#env, this.#namespace);
    return async (publications) =>
      await orIfUnknown(stub.publishAll(publications), () =>
        publishToOldDirectory(stub, publications),
      );
  }
}

/** Gives a piece its part of an answer. */
function answer(piece: Publication, published: PublishedAll, at: number): void {
  const end = at + piece.count;
  const { delivered, sequences } = published;
  try {
    assertTaken(published, at, end);
  } catch (error) {
    piece.fail(error);
    return;
  }
  piece.resolve({
    delivered: delivered?.subarray(at, end) ?? null,
    sequences: sequences?.subarray(at, end) ?? null,
  });
}

const EVERYBODY_BYTE = EVERYBODY.charCodeAt(0);

/** Messages of one caller that are published together: gathered by group, then sent. */
export class PublicationRun {
  readonly #publisher: Publisher;
  /** By index of the group. */
  readonly #groups: (Gathered | undefined)[] = [];
  /** Those whose channel may be the id of a connection: they go to its Hub, too. */
  #own: Gathered | null = null;
  /** Resolved when the last batch of these is on its way; null before the first one. */
  #ownSent: Promise<void> | null = null;
  readonly #sent: Promise<void>[] = [];
  /** By index of the message. */
  readonly #delivered: number[] = [];
  #sequence: number | null = null;

  constructor(publisher: Publisher) {
    this.#publisher = publisher;
  }

  /** Adds a message: copied, as the caller's buffer is reused. A batch that has grown large goes at once. */
  add(name: NameAt, payload: Uint8Array, payloadAt: number, payloadLength: number): void {
    const index = this.#delivered.push(0) - 1;
    const group = this.#publisher.groupAt(name.bytes, name.at, name.length);
    const bytes = PUBLICATION_BYTES + name.length + payloadLength;
    const to = (this.#groups[group] ??= gather(bytes));
    writePublication(to.out, name, payload, payloadAt, payloadLength);
    to.indexes.push(index);
    if (to.out.length >= PUBLISH_CALL_BYTES_MAX) this.#sendTo(group, to);
    if (name.length !== OWN_NAME_BYTES) return;
    this.#own ??= gather(bytes);
    writePublication(this.#own.out, name, payload, payloadAt, payloadLength);
    this.#own.indexes.push(index);
    if (this.#own.out.length >= PUBLISH_CALL_BYTES_MAX) this.#sendToOwners(this.#own);
  }

  /**
   * Sends all messages, to all groups at once. Rejected when it is not known who got them: a call to a group failed,
   * and others may have succeeded.
   *
   * @returns per message: how many subscriptions took it; and the number of the first one, null where the
   * channel has none
   */
  async send(): Promise<{ delivered: readonly number[]; sequence: number | null }> {
    for (const [group, to] of this.#groups.entries()) if (to !== undefined) this.#sendTo(group, to);
    if (this.#own !== null) this.#sendToOwners(this.#own);
    await Promise.all(this.#sent);
    return { delivered: this.#delivered, sequence: this.#sequence };
  }

  /**
   * Sends what has gathered for a group. The number is known of the first message of the run alone, as only a single
   * publication asks for it.
   */
  #sendTo(group: number, { out, indexes }: Gathered): void {
    this.#groups[group] = undefined;
    const published = this.#publisher.publish(group, out.take(), indexes.length);
    this.#wait(
      published.then(({ delivered, sequences }) => {
        if (delivered !== null) this.#add(indexes, delivered);
        const first = indexes[0] === 0 ? (sequences?.[0] ?? Number.NaN) : Number.NaN;
        if (!Number.isNaN(first)) this.#sequence = first;
      }),
    );
  }

  /** Sends what has gathered for connections by their ids, behind what went before: that may wait for a Hub to be known. */
  #sendToOwners({ out, indexes }: Gathered): void {
    this.#own = null;
    const { ownChannels } = this.#publisher;
    const { sent, delivered } = ownChannels.publish(out.take(), indexes.length, this.#ownSent);
    this.#ownSent = sent;
    this.#wait(delivered.then((counts) => this.#add(indexes, counts)));
  }

  /** A message that goes two ways counts what both have delivered. */
  #add(indexes: readonly number[], delivered: Uint32Array): void {
    indexes.forEach((index, i) => (this.#delivered[index]! += delivered[i]!));
  }

  #wait(sent: Promise<void>): void {
    // A call may fail before `send` awaits it: the runtime would report a rejection that nothing handles.
    sent.catch(() => {});
    this.#sent.push(sent);
  }
}

/** @param bytes of the first message: a run of one needs no more */
function gather(bytes: number): Gathered {
  return { out: new ByteWriter(bytes), indexes: [] };
}

/** One publication goes as it is; several are joined, in their order. */
function publicationsOf(pieces: readonly Publication[]): Uint8Array {
  if (pieces.length === 1) return pieces[0]!.publications;
  const out = new ByteWriter(pieces.reduce((sum, { bytes }) => sum + bytes, 0));
  for (const { publications } of pieces) out.copy(publications);
  return out.bytes;
}
