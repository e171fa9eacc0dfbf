/** Publishes over HTTP, and lists connections now and then. */
import type { ChannelOutcome } from "../../checks/channel-calls.ts";
import { exchange } from "../../platform/net/exchange.ts";
import { SimRequest } from "../../platform/net/messages.ts";
import { pause, type Client } from "../client.ts";
import { doorTo, SERVER } from "../ports.ts";
import { payloadOf } from "./frames.ts";
import type { Shared } from "./shared.ts";

/** Codes of answers that don't say whether a message was published. */
const OPEN_CODES = ["outcome_unknown", "internal_error"];
/** How often a publisher lists connections instead. */
const LIST_SHARE = 0.05;
const PAGE_ROWS_MOST = 50;

/** An answer of `GET /v1/connections`. */
interface Page {
  readonly connections: readonly { readonly id: string }[];
  readonly cursor: string | null;
}

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
      if (this.#client.random.chance(LIST_SHARE)) await this.#listConnections();
      else await this.#publish();
    }
  }

  /** Page by page: each connection that stays is on one of them. */
  async #listConnections(): Promise<void> {
    const { life, random } = this.#client;
    const { world, listed } = this.#shared;
    const limit = 1 + random.int(PAGE_ROWS_MOST);
    const begun = world.moments.now();
    const rows: string[] = [];
    let cursor = "";
    try {
      do {
        const url = `${SERVER}/v1/connections?limit=${limit}${cursor}`;
        const request = new SimRequest(url, { method: "GET" });
        const { network } = world.cluster.site;
        const asked = exchange(network, life, doorTo(world, random), request);
        const response = await world.times.of("http", "GET /v1/connections", asked);
        const page = (await response.json()) as Page & { readonly code?: string };
        if (response.status !== 200) {
          world.failures.noteCode(page.code!, "GET /v1/connections", "connections");
          return;
        }
        rows.push(...page.connections.map(({ id }) => id));
        cursor = page.cursor === null ? "" : `&cursor=${encodeURIComponent(page.cursor)}`;
      } while (cursor !== "");
    } catch (error) {
      world.failures.noteError("GET /v1/connections", error);
      return;
    }
    const ended = world.moments.now();
    listed.push({ kind: "connections", begun, ended, rows, figures: new Map() });
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
    const url = `${SERVER}/channels/${encodeURIComponent(channel)}`;
    const request = new SimRequest(url, { method: "POST", body: payload });
    const end = world.times.begin("http", "POST /channels");
    try {
      const { network } = world.cluster.site;
      const response = await exchange(network, life, doorTo(world, random), request);
      const answer = (await response.json()) as {
        delivered: number;
        sequence: number | null;
        code?: string;
      };
      if (response.status === 200) {
        return { delivered: answer.delivered, sequence: answer.sequence };
      }
      world.failures.noteCode(answer.code!, "POST /channels", "publish");
      return OPEN_CODES.includes(answer.code ?? OPEN_CODES[0]!) ? "unknown" : "refused";
    } catch (error) {
      world.failures.noteError("POST /channels", error);
      return "unknown";
    } finally {
      end();
    }
  }
}
