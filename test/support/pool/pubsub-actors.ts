/** Publish and subscribe with everything under way at once: what peers do, and what they remember of it. */
import fc from "fast-check";
import { expect } from "vitest";
import type { Connection } from "../../simulator/checks/facts.ts";
import {
  askChannel,
  askChannels,
  ConnectionEnded,
  newMessage,
  publishBody,
  publishPlain,
  tick,
  type Peer,
  type PeerKind,
} from "./peers.ts";
import type { PubSubRecord } from "./pubsub-record.ts";
import {
  channelChoice,
  evict,
  expectSame,
  HTTP_VALUE_SIZE,
  kind,
  sending,
  type ChannelChoice,
  type Evicted,
  type Sending,
  type Slots,
} from "./pubsub-slots.ts";

/** What one peer does next; it waits for the replies so far, or goes on at once. */
export type Step =
  | { isWaiting: boolean; do: "subscribe" | "unsubscribe"; channel: ChannelChoice }
  | { isWaiting: boolean; do: "publish"; sendings: Sending[] }
  | { isWaiting: boolean; do: "pause" | "replace" | "drop" };
/** What a publisher over HTTP does next. */
export interface Post {
  isWaiting: boolean;
  isPage: boolean;
  sendings: Sending[];
}

const isWaiting = fc.boolean();
const step = fc.oneof(
  {
    weight: 5,
    arbitrary: fc.record({
      isWaiting,
      do: fc.constantFrom("subscribe", "unsubscribe"),
      channel: channelChoice,
    }),
  },
  {
    weight: 5,
    arbitrary: fc.record({ isWaiting, do: fc.constant("publish"), sendings: sending }),
  },
  { weight: 1, arbitrary: fc.record({ isWaiting, do: fc.constant("pause") }) },
  { weight: 1, arbitrary: fc.record({ isWaiting, do: fc.constantFrom("replace", "drop") }) },
) as fc.Arbitrary<Step>;
export const script = fc.record({ kind, steps: fc.array(step, { maxLength: 15 }) });
export const posts: fc.Arbitrary<Post[]> = fc.array(
  fc.record({ isWaiting, isPage: fc.boolean(), sendings: sending }),
  { maxLength: 8 },
);
const PAUSE_MS = 2;

/** One peer after the other in a slot, doing what a script says. */
export class Actor {
  readonly #slots: Slots;
  readonly #slot: number;
  readonly #record: PubSubRecord;
  #peer!: Peer;
  #connection!: Connection;
  #subscribed = new Set<string>();
  /** Of the peer at hand; they do not fail when it was dropped. */
  #underWay: Promise<void>[] = [];
  #isDropped = false;

  constructor(slots: Slots, slot: number, record: PubSubRecord) {
    this.#slots = slots;
    this.#slot = slot;
    this.#record = record;
  }

  get peer(): Peer {
    return this.#peer;
  }

  get subscribed(): ReadonlySet<string> {
    return this.#subscribed;
  }

  async open(kind: PeerKind): Promise<void> {
    const begun = tick();
    const peer = await this.#slots.open(this.#slot, kind);
    this.#connection = this.#record.noteOpened(peer, begun);
    this.#peer = peer;
    this.#isDropped = false;
    this.#subscribed = new Set(["*", peer.id]);
  }

  async run(steps: readonly Step[]): Promise<void> {
    for (const step of steps) {
      if (step.isWaiting) await this.settle();
      if ("sendings" in step) this.#go(this.#publish(step.sendings));
      else if ("channel" in step) this.#go(this.#change(step.do, this.#slots.nameOf(step.channel)));
      else if (step.do === "pause") await scheduler.wait(PAUSE_MS);
      else await this.#replace(step.do);
    }
    await this.settle();
  }

  async settle(): Promise<void> {
    await Promise.all(this.#underWay.splice(0));
  }

  #go(work: Promise<void>): void {
    const isAllowed = (error: unknown): boolean =>
      error instanceof ConnectionEnded && this.#isDropped;
    const settled = work.catch((error: unknown) => {
      if (!isAllowed(error)) throw error;
    });
    settled.catch(() => {});
    this.#underWay.push(settled);
  }

  async #change(what: "subscribe" | "unsubscribe", channel: string): Promise<void> {
    const peer = this.#peer;
    const had = this.#subscribed.has(channel);
    if (what === "subscribe") this.#subscribed.add(channel);
    else this.#subscribed.delete(channel);
    const { number } = this.#connection;
    const call = this.#record.begin({ type: what, channel }, number, number);
    const { bytes, at } = await peer[what](channel);
    expectSame(bytes[0], what === "subscribe" || had ? 1 : 0, what);
    this.#record.end(call, { status: bytes[0]! }, at);
  }

  async #publish(sendings: readonly Sending[]): Promise<void> {
    const peer = this.#peer;
    const sent = this.#slots.messagesOf(sendings, peer.kind.valueSize);
    const { number } = this.#connection;
    const calls = this.#record.beginPublications(sent, number, number);
    const replies = await peer.publish(sent);
    for (const [i, call] of calls.entries()) {
      const { bytes, at } = replies[i]!;
      this.#record.end(call, { status: bytes[0]! }, at);
    }
  }

  async #replace(how: "replace" | "drop"): Promise<void> {
    this.#isDropped = how === "drop";
    if (how === "replace") await this.settle();
    const noteClosed = this.#record.noteClosing(this.#connection);
    await this.#peer.close();
    noteClosed();
    await this.settle();
    await this.open(this.#peer.kind);
  }
}

/** One client that publishes over HTTP. What is under way at once has no order. */
export async function runPosts(
  all: readonly Post[],
  slots: Slots,
  record: PubSubRecord,
): Promise<void> {
  const client = record.takeNumber();
  const underWay: Promise<void>[] = [];
  for (const { isWaiting, isPage, sendings } of all) {
    if (isWaiting) await Promise.all(underWay.splice(0));
    const count = isPage ? 1 : sendings.length;
    const sent = slots
      .messagesOf(sendings.slice(0, count), HTTP_VALUE_SIZE)
      .filter(({ channel }) => !isPage || channel !== "");
    if (sent.length === 0) continue;
    const calls = record.beginPublications(sent, client, isPage ? null : record.takeNumber());
    const answered = isPage
      ? publishPlain(sent[0]!).then((delivered) => [{ delivered, sequence: null }])
      : publishBody(sent).then((statuses) => statuses.map((status) => ({ status })));
    underWay.push(
      answered.then((answers) => {
        const at = tick();
        for (const [i, call] of calls.entries()) record.end(call, answers[i]!, at);
      }),
    );
    underWay.at(-1)!.catch(() => {});
  }
  await Promise.all(underWay);
}

export async function runEvictions(all: readonly Evicted[], slots: Slots): Promise<void> {
  for (const what of all) {
    await evict(what, slots.nameOf);
    await scheduler.wait(PAUSE_MS);
  }
}

/** What is left is as if all had come one after the other. */
export async function expectSettled(slots: Slots, actors: readonly Actor[]): Promise<void> {
  const expected = new Map<string, string[]>();
  for (const { peer, subscribed } of actors) {
    for (const channel of subscribed)
      expected.set(channel, [...(expected.get(channel) ?? []), peer.id]);
  }
  // A connection whose peer has gone ends when what it has sent is executed, which may be after the test has gone on.
  const known = async (): Promise<Set<string>> => new Set((await askChannels()).keys());
  await expect.poll(known, { timeout: 2000, interval: 5 }).toEqual(new Set(expected.keys()));
  for (const channel of new Set([...slots.used, "*"])) {
    const subscribers = await askChannel(channel);
    expect(new Set(subscribers?.keys() ?? [])).toEqual(new Set(expected.get(channel) ?? []));
    const message = newMessage(channel, 12);
    expect(await publishBody([message])).toEqual([expected.has(channel) ? 1 : 0]);
    for (const { peer, subscribed } of actors) {
      await peer.catchUp();
      const got = peer.received.filter(({ number }) => number === message.number);
      expect(got.length, `last message to ${channel}`).toBe(subscribed.has(channel) ? 1 : 0);
    }
  }
}
