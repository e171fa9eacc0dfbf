/**
 * A client of another namespace: it subscribes and publishes to channels of the same names, and to the own channels of connections
 * of the first namespace. Each of the two hears and lists what is its own alone.
 */
import { pause, type Client } from "../client.ts";
import { NEIGHBOUR } from "../namespaces.ts";
import { Pipe, type Sent } from "../pipe.ts";
import type { Answer } from "../port.ts";
import { EDGE, protocolIn } from "../wire.ts";
import {
  idOfReply,
  publishFrame,
  readPush,
  subscriptionFrame,
  whoamiFrame,
  WIRES,
} from "./frames.ts";
import { listFrame, readList } from "./lists.ts";
import type { Shared } from "./shared.ts";

const encoder = new TextEncoder();
const decoder = new TextDecoder();

const MARK = "of a neighbour";
const END_SHARE = 0.05;

export class Neighbour {
  readonly #client: Client;
  readonly #shared: Shared;
  #pipe: Pipe | null = null;

  constructor(client: Client, shared: Shared) {
    this.#client = client;
    this.#shared = shared;
  }

  async work(): Promise<void> {
    const { world, random, most } = this.#client;
    for (let made = 0; made < most && !world.isClosing; made++) {
      await pause(this.#client);
      const pipe = this.#open();
      if (!pipe.isClosed) await this.#ask(pipe);
      if (random.chance(END_SHARE)) pipe.end();
    }
    this.#pipe?.end();
  }

  #open(): Pipe {
    const { world, life, random } = this.#client;
    if (this.#pipe?.isOver === false) return this.#pipe;
    const options = {
      kind: random.pick(WIRES),
      protocol: protocolIn(NEIGHBOUR, EDGE),
      connection: world.newConnection(),
    };
    return (this.#pipe = new Pipe(world, life, random, options, {
      readPush: (bytes, at) => {
        const push = readPush(bytes, at);
        if (push === null) return null;
        if (push === "partial") return 0;
        this.#hear(push.channel, decoder.decode(push.payload));
        return push.length;
      },
    }));
  }

  #hear(channel: string, payload: string): void {
    if (payload !== MARK)
      this.#shared.noteLeak(channel, `a neighbour heard ${payload.slice(0, 80)}`);
  }

  async #ask(pipe: Pipe): Promise<void> {
    const { random } = this.#client;
    const channel = this.#shared.pickChannel(random);
    const at = random.next();
    if (at < 0.4) await this.#send(pipe, subscriptionFrame("subscribe", channel));
    else if (at < 0.85) await this.#send(pipe, publishFrame(channel, encoder.encode(MARK)));
    else if (at < 0.93) await this.#learnId(pipe);
    else await this.#listConnections(pipe);
  }

  /** Clients of the first namespace publish to the own channels of neighbours, too. */
  async #learnId(pipe: Pipe): Promise<void> {
    const answer = await this.#send(pipe, whoamiFrame());
    if (answer.kind === "reply") this.#shared.ids.push(idOfReply(answer.reply));
  }

  async #listConnections(pipe: Pipe): Promise<void> {
    const answer = await this.#send(pipe, listFrame("connections"));
    if (answer.kind !== "reply") return;
    const { rows } = readList("connections", answer.reply)!;
    for (const id of rows) this.#shared.listedByNeighbours.add(id);
  }

  async #send(pipe: Pipe, frame: Sent): Promise<Answer> {
    this.#client.world.operations++;
    return await pipe.send([frame])[0]!;
  }
}
