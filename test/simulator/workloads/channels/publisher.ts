/** Publishes over HTTP. */
import type { ChannelOutcome } from "../../checks/channel-calls.ts";
import { exchange } from "../../platform/net/exchange.ts";
import { SimRequest } from "../../platform/net/messages.ts";
import { pause, type Client } from "../client.ts";
import { payloadOf } from "./frames.ts";
import type { Shared } from "./shared.ts";

/** Codes of answers that don't say whether a message was published. */
const OPEN_CODES = ["outcome_unknown", "internal_error"];

export class Publisher {
  readonly #client: Client;
  readonly #shared: Shared;

  constructor(client: Client, shared: Shared) {
    this.#client = client;
    this.#shared = shared;
  }

  async work(): Promise<void> {
    const { most } = this.#client;
    for (let i = 0; i < most && !this.#shared.world.isClosing; i++) {
      await pause(this.#client);
      await this.#publish();
    }
  }

  async #publish(): Promise<void> {
    const { random, number } = this.#client;
    const message = this.#shared.newMessage();
    const channel = this.#shared.pickChannel(random);
    const payload = payloadOf(message, random);
    const operation = { type: "publish", channel, message, payloadBytes: payload.length } as const;
    const call = this.#shared.begin(number, "http", null, operation);
    this.#shared.end(call, await this.#post(channel, payload));
  }

  async #post(
    channel: string,
    payload: Uint8Array,
  ): Promise<ChannelOutcome | "unknown" | "refused"> {
    const { life, random } = this.#client;
    const { world } = this.#shared;
    const url = `https://edge.example/channels/${encodeURIComponent(channel)}`;
    const request = new SimRequest(url, { method: "POST", body: payload });
    const door = { enter: (event: never) => world.door(random).enter(event) };
    try {
      const response = await exchange(world.cluster.site.network, life, door, request);
      const answer = (await response.json()) as {
        delivered: number;
        sequence: number | null;
        code?: string;
      };
      if (response.status === 200) {
        return { delivered: answer.delivered, sequence: answer.sequence };
      }
      return OPEN_CODES.includes(answer.code ?? OPEN_CODES[0]!) ? "unknown" : "refused";
    } catch {
      return "unknown";
    }
  }
}
