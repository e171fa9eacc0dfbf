/** Publish and subscribe one request after the other: what happens must be exactly what the model says. */
import fc from "fast-check";
import { PubSubModel } from "../models/pubsub.ts";
import {
  askChannel,
  askChannels,
  publishBody,
  publishPlain,
  type Message,
  type Peer,
  type PeerKind,
} from "./peers.ts";
import {
  channelChoice,
  evict,
  evicted,
  expectSame,
  HTTP_VALUE_SIZE,
  kind,
  sending,
  SLOTS,
  type ChannelChoice,
  type Evicted,
  type Sending,
  type Slots,
} from "./pubsub-slots.ts";

/** What happens next. */
export type Command =
  | { do: "replace" | "close"; slot: number; kind: PeerKind }
  | { do: "subscribe" | "unsubscribe"; slot: number; channel: ChannelChoice }
  | { do: "publish"; from: number | "body" | "page"; sendings: Sending[] }
  | { do: "evict"; what: Evicted }
  | { do: "look" };

const slot = fc.nat(SLOTS - 1);
export const command: fc.Arbitrary<Command> = fc.oneof(
  {
    weight: 2,
    arbitrary: fc.record({ do: fc.constantFrom("replace", "replace", "close"), slot, kind }),
  },
  {
    weight: 5,
    arbitrary: fc.record({
      do: fc.constantFrom("subscribe", "subscribe", "unsubscribe"),
      slot,
      channel: channelChoice,
    }),
  },
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constant("publish"),
      from: fc.oneof(
        { weight: 3, arbitrary: slot },
        { weight: 1, arbitrary: fc.constantFrom("body" as const, "page" as const) },
      ),
      sendings: sending,
    }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constant("evict"), what: evicted }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("look") }) },
) as fc.Arbitrary<Command>;

/** Commands one after the other, each compared with the model. */
export class Sequence {
  readonly #slots: Slots;
  readonly #model = new PubSubModel();
  /** Numbers that each peer has to have received, in order, by channel. */
  readonly #due = new Map<Peer, Map<string, number[]>>();
  readonly #channelOf = new Map<number, string>();

  constructor(slots: Slots) {
    this.#slots = slots;
  }

  async open(slot: number, kind: PeerKind): Promise<void> {
    const peer = await this.#slots.open(slot, kind);
    this.#model.connect(peer.id, kind.valueSize);
    this.#due.set(peer, new Map());
  }

  async execute(command: Command): Promise<void> {
    const { peers, nameOf } = this.#slots;
    switch (command.do) {
      case "replace":
      case "close": {
        const peer = peers[command.slot]!;
        if (peer !== null) {
          await peer.close();
          this.#model.disconnect(peer.id);
          peers[command.slot] = null;
        }
        if (command.do === "replace") await this.open(command.slot, command.kind);
        break;
      }
      case "subscribe":
      case "unsubscribe": {
        const peer = peers[command.slot]!;
        if (peer === null) break;
        const channel = nameOf(command.channel);
        const { bytes } = await peer[command.do](channel);
        expectSame(bytes[0], this.#model[command.do](peer.id, channel), command.do);
        break;
      }
      case "publish":
        await this.#publish(command.from, command.sendings);
        await this.#check();
        break;
      case "evict":
        await evict(command.what, nameOf);
        break;
      case "look":
        await this.look();
    }
  }

  /** CHANNELS and CHANNEL agree with the model; connections are who they were. */
  async look(): Promise<void> {
    await this.#check();
    const expected = this.#model.channels();
    const channels = await askChannels();
    expectSame(new Set(channels.keys()), new Set(expected.keys()), "names in CHANNELS");
    for (const [name, members] of expected) {
      const rows = (await askChannel(name))!;
      const figures = new Map(
        Array.from(rows, ([id, { readBytes, writeBytes }]) => [id, { readBytes, writeBytes }]),
      );
      expectSame(figures, members, `CHANNEL ${name}`);
      const all = [...members.values()];
      expectSame(
        channels.get(name),
        {
          subscriptions: members.size,
          readBytes: all.reduce((sum, { readBytes }) => sum + readBytes, 0),
          writeBytes: all.reduce((sum, { writeBytes }) => sum + writeBytes, 0),
        },
        `${name} in CHANNELS`,
      );
    }
    for (const name of this.#slots.used) {
      if (!expected.has(name)) expectSame(await askChannel(name), null, `CHANNEL ${name}`);
    }
    for (const peer of this.#slots.present) {
      if (peer.kind.dialect === "7.3") expectSame(await peer.whoami(), peer.id, "WHOAMI");
    }
  }

  async #publish(from: number | "body" | "page", sendings: readonly Sending[]): Promise<void> {
    const peer = typeof from === "number" ? this.#slots.peers[from]! : null;
    if (typeof from === "number" && peer === null) return;
    const valueSize = peer?.kind.valueSize ?? HTTP_VALUE_SIZE;
    let sent = this.#slots.messagesOf(sendings, valueSize);
    // The path of a page has a name.
    if (from === "page") sent = sent.filter(({ channel }) => channel !== "");
    const takers = sent.map((message) => this.#takersOf(peer, message));
    const statuses = takers.map((ids) => (ids.length > 0 ? 1 : 0));
    if (peer !== null) {
      const replies = await peer.publish(sent);
      const got = replies.map(({ bytes }) => bytes[0]);
      expectSame(got, statuses, "statuses");
      for (const [i, { number }] of sent.entries()) {
        if (!takers[i]!.includes(peer.id)) continue;
        const push = peer.received.find((received) => received.number === number);
        const isFirst = push !== undefined && push.at < replies[i]!.at;
        expectSame(isFirst, true, "a publisher's own push comes before its status");
      }
    } else if (from === "body") {
      expectSame(await publishBody(sent), statuses, "statuses of a body");
    } else {
      for (const [i, message] of sent.entries())
        expectSame(await publishPlain(message), takers[i]!.length, "delivered");
    }
  }

  #takersOf(publisher: Peer | null, { number, channel, payload }: Message): string[] {
    const takers = this.#model.publish(publisher?.id ?? null, channel, payload.length);
    this.#channelOf.set(number, channel);
    for (const peer of this.#slots.present) {
      if (!takers.includes(peer.id)) continue;
      const due = this.#due.get(peer)!;
      due.set(channel, [...(due.get(channel) ?? []), number]);
    }
    return takers;
  }

  /** All peers have received what they had to, nothing else. */
  async #check(): Promise<void> {
    for (const peer of this.#slots.present) {
      await peer.catchUp();
      const received = Map.groupBy(peer.received, ({ number }) => this.#channelOf.get(number)!);
      const numbers = new Map(
        Array.from(received, ([channel, all]) => [channel, all.map(({ number }) => number)]),
      );
      expectSame(numbers, this.#due.get(peer)!, `received by ${peer.id}`);
      for (const { number, channel } of peer.received)
        if (channel !== null) expectSame(channel, this.#channelOf.get(number), "channel of a push");
    }
  }
}
