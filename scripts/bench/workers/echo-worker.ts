/**
 * The platform's limit: a Durable Object that sends every message back, behind the same kind of TCP
 * door as the server's (`src/worker/tcp.ts`).
 */
import { DurableObject } from "cloudflare:workers";
import { firstBuffer, nextBuffer } from "../../../src/worker/read-buffer.ts";

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

async function serve(socket: Socket, env: EchoEnv): Promise<void> {
  const echo = env.ECHO.getByName("echo");
  const response = await echo.fetch("https://echo/", { headers: { upgrade: "websocket" } });
  const webSocket = response.webSocket!;
  const writer = (socket.writable as WritableStream<Uint8Array>).getWriter();
  webSocket.binaryType = "arraybuffer";
  webSocket.addEventListener("message", ({ data }) => {
    writer.write(new Uint8Array(data as ArrayBuffer)).catch(() => {});
  });
  webSocket.accept();
  await pump(socket, webSocket);
  webSocket.close(1000);
}

/** Client to object, until the client is gone. */
async function pump(socket: Socket, webSocket: WebSocket): Promise<void> {
  const reader = (socket.readable as ReadableStream<Uint8Array>).getReader({ mode: "byob" });
  let buffer = firstBuffer();
  try {
    for (;;) {
      const { value, done } = await reader.read(new Uint8Array(buffer));
      if (done) return;
      webSocket.send(value);
      buffer = nextBuffer(value);
    }
  } catch {
    // The client has reset the connection.
  }
}

export default {
  fetch: () => new Response("ok"),
  connect: serve,
} satisfies ExportedHandler<EchoEnv> & { connect(socket: Socket, env: EchoEnv): Promise<void> };
