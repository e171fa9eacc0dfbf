/** Clients over every transport, to the doors of the Worker under test. */
import { exports } from "cloudflare:workers";
import {
  http,
  serviceBinding,
  ThrottrClient,
  webSocket,
  type Fetch,
  type Transport,
} from "../../../src/client/index.ts";
import { socketClassOver } from "../client/door-socket.ts";

const URL = "http://localhost";
const server = exports.default as unknown as Fetcher;
const fetch: Fetch = (url, init) => server.fetch(url, init);
const WebSocket = socketClassOver((url, init) => server.fetch(url, init));

export const TRANSPORTS: Readonly<Record<string, () => Transport>> = {
  HTTP: () => http(URL, { fetch, WebSocket }),
  WebSocket: () => webSocket(URL, { WebSocket }),
  "service binding": () => serviceBinding(exports.Throttr as unknown as Fetcher),
};

const clients: ThrottrClient[] = [];

/** Opens a client; `closeClients` closes it. */
export function open(transport: Transport): ThrottrClient {
  const client = new ThrottrClient(transport, { timeoutMs: 30_000 });
  clients.push(client);
  return client;
}

/** Closes all clients that were opened. */
export async function closeClients(): Promise<void> {
  for (const client of clients.splice(0)) await client.close();
}
