/**
 * How commands reach a server: transports and clients made from connection settings.
 *
 * A command asks for a client by its settings and never closes it. All commands of one run share clients, because
 * the prompt runs many command lines in one process and would otherwise open a connection for each.
 */
import { WebSocket } from "ws";
import { ThrottrClient } from "../client/client.ts";
import { http } from "../client/transport/http.ts";
import type { PlatformSocketConstructor } from "../client/platform.ts";
import type { Transport } from "../client/transport/transport.ts";
import { webSocket } from "../client/transport/web-socket.ts";
import type { ConnectionSettings } from "./settings.ts";

/**
 * Node 20 has no global `WebSocket`, so the command line brings the one of `ws`. Its class fits the platform's
 * interface as far as the client uses it; the types differ in events that the client does not read.
 */
const transportOptions = ({ token }: ConnectionSettings) => ({
  ...(token === null ? {} : { token }),
  WebSocket: WebSocket as unknown as PlatformSocketConstructor,
});

/** The transport that an address asks for: a WebSocket if it begins with `ws`, otherwise HTTP. */
export function transportOf(settings: ConnectionSettings): Transport {
  return /^wss?:/i.test(settings.url) ? socketTransportOf(settings) : httpTransportOf(settings);
}

/** HTTP, whatever the address begins with: for single requests that keep no connection. */
export function httpTransportOf(settings: ConnectionSettings): Transport {
  return http(settings.url, transportOptions(settings));
}

/** A WebSocket, whatever the address begins with: for subscriptions and loads. */
export function socketTransportOf(settings: ConnectionSettings): Transport {
  return webSocket(settings.url, transportOptions(settings));
}

/** The clients of one run: one for each address, token and timeout, all closed together at the end. */
export class Clients {
  /** By address, token and timeout. */
  readonly #clients = new Map<string, ThrottrClient>();

  /** The client for these settings; opened lazily, by its first call. */
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

  /** Closes all clients. The process could not exit while one still has an open socket. */
  async close(): Promise<void> {
    const clients = [...this.#clients.values()];
    this.#clients.clear();
    await Promise.all(clients.map((client) => client.close()));
  }
}
