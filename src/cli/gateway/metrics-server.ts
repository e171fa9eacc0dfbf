/**
 * The HTTP server for `/metrics` and `/health` of a gateway.
 *
 * It listens on loopback only, as it has neither tokens nor TLS: a collector runs beside the gateway, or comes through a
 * proxy that the operator chooses.
 */
import { createServer, type Server } from "node:http";
import { METRICS_TYPE } from "./metrics.ts";

/** Where the answers come from. Both are called for each request, and never fail. */
export interface Figures {
  /** The text for Prometheus. */
  metrics(): string;
  health(): { readonly isReady: boolean; readonly body: Readonly<Record<string, unknown>> };
}

/** Enough for some collectors; the file descriptors are for clients. */
const CONNECTIONS_MAX = 64;

/** Creates the server; the caller makes it listen, and closes it. */
export function metricsServer(figures: Figures): Server {
  const server = createServer((request, response) => {
    // Collectors may add a query; it does not change the answer.
    const path = (request.url ?? "").split("?")[0];
    // A body is read and dropped: an unread one would keep its connection from being used again.
    request.resume();
    if (request.method !== "GET" && request.method !== "HEAD") {
      response.writeHead(405, { allow: "GET, HEAD" }).end();
    } else if (path === "/metrics") {
      response.writeHead(200, { "content-type": METRICS_TYPE }).end(figures.metrics());
    } else if (path === "/health") {
      const { isReady, body } = figures.health();
      response
        .writeHead(isReady ? 200 : 503, { "content-type": "application/json" })
        .end(`${JSON.stringify(body)}\n`);
    } else {
      response.writeHead(404, { "content-type": "text/plain" }).end("/metrics, /health\n");
    }
  });
  server.maxConnections = CONNECTIONS_MAX;
  return server;
}
