/** Connections to servers: clients, and single frames for what clients have no call for. */
import { WebSocket } from "ws";
import { ThrottrClient } from "../client/client.ts";
import { http } from "../client/http-transport.ts";
import type { PlatformSocketConstructor } from "../client/platform.ts";
import type { Transport } from "../client/transport.ts";
import { webSocket } from "../client/web-socket-transport.ts";
import type { ConnectionSettings } from "./settings.ts";

/** Node 20 has no WebSocket of its own. */
const transportOptions = ({ token }: ConnectionSettings) => ({
  ...(token === null ? {} : { token }),
  WebSocket: WebSocket as unknown as PlatformSocketConstructor,
});

/** A transport over HTTP, or over a WebSocket where the address begins with `ws`. */
export function transportOf(settings: ConnectionSettings): Transport {
  return /^wss?:/i.test(settings.url) ? socketTransportOf(settings) : httpTransportOf(settings);
}

export function httpTransportOf(settings: ConnectionSettings): Transport {
  return http(settings.url, transportOptions(settings));
}

export function socketTransportOf(settings: ConnectionSettings): Transport {
  return webSocket(settings.url, transportOptions(settings));
}

/** Clients that are shared by the commands of one run, and closed at its end. */
export class Clients {
  readonly #clients = new Map<string, ThrottrClient>();

  clientOf(settings: ConnectionSettings): ThrottrClient {
    const { url, token, timeoutMs } = settings;
    const name = JSON.stringify([url, token, timeoutMs]);
    let client = this.#clients.get(name);
    if (client === undefined) {
      client = new ThrottrClient(transportOf(settings), { timeoutMs });
      this.#clients.set(name, client);
    }
    return client;
  }

  async close(): Promise<void> {
    const clients = [...this.#clients.values()];
    this.#clients.clear();
    await Promise.all(clients.map((client) => client.close()));
  }
}
