/** Publish and subscribe with everything under way at once: what peers do, and what they remember of it. */
import fc from "fast-check";
import { expect } from "vitest";
import type { History, Publication } from "../models/pubsub.ts";
import {
  askChannel,
  askChannels,
  ConnectionEnded,
  newMessage,
  publishBody,
  publishPlain,
  tick,
  type Message,
  type Peer,
  type PeerKind,
} from "./peers.ts";
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
  readonly #history: History;
  #peer!: Peer;
  #order = 0;
  #subscribed = new Set<string>();
  /** Of the peer at hand; they do not fail when it was dropped. */
  #underWay: Promise<void>[] = [];
  #isDropped = false;

  constructor(slots: Slots, slot: number, history: History) {
    this.#slots = slots;
    this.#slot = slot;
    this.#history = history;
  }

  get peer(): Peer {
    return this.#peer;
  }

  get subscribed(): ReadonlySet<string> {
    return this.#subscribed;
  }

  async open(kind: PeerKind): Promise<void> {
    const askedAt = tick();
    const peer = await this.#slots.open(this.#slot, kind);
    const confirmedAt = tick();
    this.#peer = peer;
    this.#isDropped = false;
    this.#subscribed = new Set(["*", peer.id]);
    for (const channel of this.#subscribed)
      this.#history.subscribing(peer.id, channel, kind.valueSize, 0, askedAt)(confirmedAt);
  }

  async run(steps: readonly Step[]): Promise<void> {
    for (const step of steps) {
      if (step.isWaiting) await this.settle();
      this.#order++;
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
    const { id, kind } = peer;
    let confirm: (at: number) => void = () => {};
    if (what === "subscribe") {
      this.#subscribed.add(channel);
      if (!had) {
        confirm = this.#history.subscribing(id, channel, kind.valueSize, this.#order, tick());
      }
    } else if (this.#subscribed.delete(channel)) {
      confirm = this.#history.unsubscribing(id, channel, this.#order, tick());
    }
    const { bytes, at } = await peer[what](channel);
    expectSame(bytes[0], what === "subscribe" || had ? 1 : 0, what);
    confirm(at);
  }

  async #publish(sendings: readonly Sending[]): Promise<void> {
    const peer = this.#peer;
    const sent = this.#slots.messagesOf(sendings, peer.kind.valueSize);
    const publications = publicationsOf(sent, peer.id, this.#order, this.#history);
    const replies = await peer.publish(sent);
    publications.forEach((publication, i) => {
      const { bytes, at } = replies[i]!;
      publication.answeredAt = at;
      publication.answer = { status: bytes[0]! };
    });
  }

  async #replace(how: "replace" | "drop"): Promise<void> {
    this.#isDropped = how === "drop";
    if (how === "replace") await this.settle();
    const closed = this.#history.closing(this.#peer.id, tick());
    await this.#peer.close();
    closed(tick());
    await this.settle();
    await this.open(this.#peer.kind);
  }
}

function publicationsOf(
  sent: readonly Message[],
  publisher: string,
  order: number,
  history: History,
): Publication[] {
  const sentAt = tick();
  return sent.map(({ number, channel, payload }) => {
    const publication: Publication = {
      number,
      channel,
      payloadBytes: payload.length,
      publisher,
      order,
      sentAt,
      answeredAt: Infinity,
      answer: null,
    };
    history.published(publication);
    return publication;
  });
}

/** Publishes over HTTP. What is under way at once has no order: each is a publisher of its own. */
export async function runPosts(
  all: readonly Post[],
  slots: Slots,
  history: History,
): Promise<void> {
  const underWay: Promise<void>[] = [];
  for (const { isWaiting, isPage, sendings } of all) {
    if (isWaiting) await Promise.all(underWay.splice(0));
    const count = isPage ? 1 : sendings.length;
    const sent = slots
      .messagesOf(sendings.slice(0, count), HTTP_VALUE_SIZE)
      .filter(({ channel }) => !isPage || channel !== "");
    if (sent.length === 0) continue;
    // A name that no other call has, either: two calls publish side by side.
    const publications = publicationsOf(sent, `post ${tick()}`, 0, history);
    const answered = isPage
      ? publishPlain(sent[0]!).then((delivered) => [{ delivered }])
      : publishBody(sent).then((statuses) => statuses.map((status) => ({ status })));
    underWay.push(
      answered.then((answers) => {
        const at = tick();
        publications.forEach((publication, j) => {
          publication.answeredAt = at;
          publication.answer = answers[j]!;
        });
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
