/** The platform's limit for fan-out: a Durable Object that sends every message to all of its sockets. */
import { DurableObject } from "cloudflare:workers";

interface BroadcastEnv {
  readonly BROADCAST: DurableObjectNamespace<Broadcast>;
}

/** Told to a client when it is among those who hear: like the status of a SUBSCRIBE. */
const JOINED = Uint8Array.of(1);

export class Broadcast extends DurableObject {
  override fetch(): Response {
    const { 0: client, 1: server } = new WebSocketPair();
    this.ctx.acceptWebSocket(server);
    server.send(JOINED);
    return new Response(null, { status: 101, webSocket: client });
  }

  override webSocketMessage(_: WebSocket, message: string | ArrayBuffer): void {
    for (const socket of this.ctx.getWebSockets()) socket.send(message);
  }

  override webSocketClose(socket: WebSocket): void {
    socket.close(1000);
  }
}

export default {
  fetch: async (request, env) =>
    request.headers.get("upgrade") === null
      ? new Response("ok")
      : await env.BROADCAST.getByName("broadcast").fetch(request),
} satisfies ExportedHandler<BroadcastEnv>;
