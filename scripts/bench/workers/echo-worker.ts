/** The platform's limit for requests: a Durable Object that sends every message back. */
import { DurableObject } from "cloudflare:workers";
import { serveThrough } from "./tcp-door.ts";

interface EchoEnv {
  readonly ECHO: DurableObjectNamespace<Echo>;
}

export class Echo extends DurableObject {
  override fetch(): Response {
    const { 0: client, 1: server } = new WebSocketPair();
    this.ctx.acceptWebSocket(server);
    return new Response(null, { status: 101, webSocket: client });
  }

  override webSocketMessage(socket: WebSocket, message: string | ArrayBuffer): void {
    socket.send(message);
  }

  override webSocketClose(socket: WebSocket): void {
    socket.close(1000);
  }
}

export default {
  fetch: () => new Response("ok"),
  connect: async (socket, env) => await serveThrough(socket, env.ECHO.getByName("echo")),
} satisfies ExportedHandler<EchoEnv> & { connect(socket: Socket, env: EchoEnv): Promise<void> };
