/** Who talks to a gateway: TCP clients, and servers that behave as a test needs them. */
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { WebSocketServer, type WebSocket } from "ws";
import { concat } from "../frames/index.ts";

const TIMEOUT_MS = 10_000;
/** After which nothing more is expected. */
const SILENCE_MS = 100;

/** A client on a TCP socket, or on one that was made for it, which keeps what it gets. */
export class TcpClient {
  readonly socket: Socket;
  #bytes: Uint8Array = new Uint8Array(0);
  /** Whether what comes is kept, for `exchange`, or only counted. */
  keepsBytes = true;
  #wake: () => void = () => {};
  receivedBytes = 0;
  /** The other side has ended its half. */
  isEnded = false;
  isClosed = false;
  isReset = false;

  constructor(socket: Socket) {
    this.socket = socket;
    socket.on("data", (chunk: Buffer) => {
      this.receivedBytes += chunk.length;
      if (this.keepsBytes) this.#bytes = concat([this.#bytes, chunk]);
      this.#wake();
    });
    socket.on("end", () => {
      this.isEnded = true;
      this.#wake();
    });
    socket.on("error", () => (this.isReset = true));
    socket.on("close", () => {
      this.isClosed = true;
      this.#wake();
    });
  }

  static async open(port: number): Promise<TcpClient> {
    const client = new TcpClient(
      connect({ port, host: "127.0.0.1", allowHalfOpen: true, noDelay: true }),
    );
    await once(client.socket, "connect");
    return client;
  }

  /** Sends, and takes the next bytes: so many, or, of 0, what comes within a moment. */
  async exchange(request: Uint8Array, replyBytes: number): Promise<Uint8Array> {
    if (request.length > 0) this.socket.write(request);
    const timeoutMs = replyBytes === 0 ? SILENCE_MS : TIMEOUT_MS;
    const deadlineMs = performance.now() + timeoutMs;
    for (;;) {
      const leftMs = deadlineMs - performance.now();
      const isDone = replyBytes > 0 && this.#bytes.length >= replyBytes;
      if (isDone || this.isEnded || this.isClosed || leftMs <= 0) break;
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, leftMs);
        this.#wake = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    }
    const taken = replyBytes === 0 ? this.#bytes.length : replyBytes;
    const reply = this.#bytes.slice(0, taken);
    this.#bytes = this.#bytes.slice(taken);
    return reply;
  }
}

/** A server with WebSockets only. */
export interface FakeServer {
  readonly port: number;
  /** Those that are open, in the order that they came. */
  readonly sockets: WebSocket[];
  /** Requests for WebSockets: path and token. */
  readonly requests: { path: string; authorization: string | undefined }[];
  close(): Promise<void>;
}

/** @param serve is given each WebSocket that opens */
export async function fakeServer(
  serve: (socket: WebSocket) => void,
  port = 0,
): Promise<FakeServer> {
  const server = new WebSocketServer({ port, host: "127.0.0.1", perMessageDeflate: false });
  const sockets: WebSocket[] = [];
  const requests: FakeServer["requests"] = [];
  server.on("connection", (socket, { url = "", headers: { authorization } }) => {
    requests.push({ path: url, authorization });
    sockets.push(socket);
    socket.on("error", () => {});
    socket.on("close", () => sockets.splice(sockets.indexOf(socket), 1));
    serve(socket);
  });
  await once(server, "listening");
  const address = server.address();
  return {
    port: typeof address === "object" && address !== null ? address.port : 0,
    sockets,
    requests,
    close: async () => {
      for (const socket of sockets) socket.terminate();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

/** Answers the text `ping`, as the platform does, and gives binary messages to the test. */
export function onFrames(socket: WebSocket, take: (bytes: Buffer) => void): void {
  socket.on("message", (data: Buffer, isBinary) => {
    if (isBinary) take(data);
    else socket.send("pong");
  });
}
