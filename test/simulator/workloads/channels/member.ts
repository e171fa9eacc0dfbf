/** Subscribes and publishes over connections, one after the other. */
import type { ChannelOperation } from "../../checks/channel-calls.ts";
import { pause, type Client } from "../client.ts";
import { Pipe, type Sent } from "../pipe.ts";
import type { Answer } from "../port.ts";
import { EDGE, type WireKind } from "../wire.ts";
import {
  idOfReply,
  payloadOf,
  publishFrame,
  readPush,
  subscriptionFrame,
  whoamiFrame,
  WIRES,
} from "./frames.ts";
import { listFrame, readList, type ListKind } from "./lists.ts";
import { nameOf, type Ear, type Shared } from "./shared.ts";

const PIPELINED_MOST = 5;
/** How often a client ends its connection: with a goodbye, or without one. */
const END_SHARE = 0.02;
const DESTROY_SHARE = 0.02;
/** Where nothing goes wrong, what was sent before a goodbye is judged: so there are more of them. */
const CALM_END_SHARE = 0.1;
/** How often a client publishes to a channel as it subscribes to it. */
const ECHO_SHARE = 0.2;
const KINDS: readonly ListKind[] = ["channels", "connections", "info"];

export class Member {
  readonly #client: Client;
  readonly #shared: Shared;
  readonly #kind: WireKind;
  #pipe: Pipe | null = null;
  #ear!: Ear;
  #made = 0;

  constructor(client: Client, shared: Shared) {
    this.#client = client;
    this.#shared = shared;
    this.#kind = client.random.pick(WIRES);
  }

  async work(): Promise<void> {
    const { random, most } = this.#client;
    const { world } = this.#shared;
    while (this.#made < most && !world.isClosing) {
      await pause(this.#client);
      const isNew = this.#pipe?.isOver !== false;
      const pipe = this.#open();
      // The connection has the same ID at its end, however often its Hub has slept.
      if (isNew) void this.#learnId(pipe);
      const count = Math.floor(random.skewed(1, PIPELINED_MOST + 1));
      const answered = Promise.all(Array.from({ length: count }, () => this.#ask(pipe)));
      if (random.chance(world.isCalm ? CALM_END_SHARE : END_SHARE)) pipe.end();
      else if (random.chance(DESTROY_SHARE)) pipe.destroy();
      if (random.chance(0.7)) await answered;
    }
    // What was sent to it before this is answered has come.
    if (this.#pipe?.isOver === false) {
      void this.#learnId(this.#pipe);
      await this.#subscribe(this.#pipe, "subscribe", nameOf(0));
      this.#pipe.end();
    }
  }

  #open(): Pipe {
    const { life, random } = this.#client;
    const { world } = this.#shared;
    if (this.#pipe?.isOver === false) return this.#pipe;
    const connection = world.newConnection();
    const ear = this.#shared.newEar(connection, true);
    this.#ear = ear;
    const options = { kind: this.#kind, protocol: EDGE, connection };
    return (this.#pipe = new Pipe(world, life, random, options, {
      readPush: (bytes, at) => {
        const push = readPush(bytes, at);
        if (push === null) return null;
        if (push === "partial") return 0;
        this.#shared.receive(ear, push.channel, null, push.payload);
        return push.length;
      },
    }));
  }

  async #ask(pipe: Pipe): Promise<void> {
    const { random } = this.#client;
    this.#made++;
    const at = random.next();
    if (at < 0.25) await this.#join(pipe);
    else if (at < 0.4) await this.#subscribe(pipe, "unsubscribe", this.#shared.pickChannel(random));
    else if (at < 0.9) await this.#publish(pipe, this.#shared.pickChannel(random));
    else if (at < 0.94) await this.#learnId(pipe);
    else await this.#list(pipe, random.pick(KINDS));
  }

  async #subscribe(pipe: Pipe, type: "subscribe" | "unsubscribe", channel: string): Promise<void> {
    await this.#call(pipe, { type, channel }, subscriptionFrame(type, channel));
  }

  /** Perhaps with a message to the same channel right behind, which comes back to its publisher. */
  async #join(pipe: Pipe): Promise<void> {
    const { random } = this.#client;
    const channel = this.#shared.pickChannel(random);
    const joined = this.#subscribe(pipe, "subscribe", channel);
    if (random.chance(ECHO_SHARE)) await this.#publish(pipe, channel);
    await joined;
  }

  async #publish(pipe: Pipe, channel: string): Promise<void> {
    const { random } = this.#client;
    const message = this.#shared.newMessage();
    const payload = payloadOf(message, random);
    const payloadBytes = payload.length;
    const operation = { type: "publish", channel, message, payloadBytes } as const;
    await this.#call(pipe, operation, publishFrame(channel, payload));
  }

  async #call(pipe: Pipe, operation: ChannelOperation, frame: Sent): Promise<void> {
    const ear = this.#ear;
    const { number } = this.#client;
    const call = this.#shared.begin(number, pipe.kind, pipe.connection, operation);
    const answer = await this.#send(pipe, frame);
    if (answer.kind === "reply") ear.heardUntil = call.begun;
    this.#shared.end(call, answer.kind === "reply" ? { status: answer.reply[0]! } : answer.kind);
  }

  async #learnId(pipe: Pipe): Promise<void> {
    const answer = await this.#send(pipe, whoamiFrame());
    if (answer.kind === "reply") this.#shared.learnId(pipe.connection, idOfReply(answer.reply));
  }

  async #list(pipe: Pipe, kind: ListKind): Promise<void> {
    const { moments } = this.#shared.world;
    const begun = moments.now();
    const answer = await this.#send(pipe, listFrame(kind));
    if (answer.kind !== "reply") return;
    const list = readList(kind, answer.reply);
    if (list !== null) this.#shared.listed.push({ ...list, kind, begun, ended: moments.now() });
  }

  async #send(pipe: Pipe, frame: Sent): Promise<Answer> {
    const ear = this.#ear;
    ear.unanswered++;
    const answer = await pipe.send([frame])[0]!;
    if (answer.kind !== "unknown") ear.unanswered--;
    return answer;
  }
}
