/** Who talks to a gateway: TCP clients, and servers that behave as a test needs them. */
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { WebSocketServer, type WebSocket } from "ws";
import {
  BRIDGE_END,
  bridgeMessage,
  BRIDGE_SUBPROTOCOL,
  parseDrained,
} from "../../../src/wire/bridge.ts";
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

/**
 * @param serve is given each WebSocket that opens
 * @param subprotocol confirmed whatever was asked for; null confirms none, as servers of release 0.4 do
 */
export async function fakeServer(
  serve: (socket: WebSocket) => void,
  subprotocol: string | null = BRIDGE_SUBPROTOCOL,
): Promise<FakeServer> {
  const server = new WebSocketServer({
    port: 0,
    host: "127.0.0.1",
    perMessageDeflate: false,
    handleProtocols: () => subprotocol ?? false,
  });
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

/** What a server does with what a gateway sends; `ping` it answers in any case. */
export interface HubSide {
  /** Bytes of the client. */
  readonly onFrames?: (bytes: Buffer) => void;
  /** The client has ended its half. Unless given, the connection is closed. */
  readonly onEnd?: () => void;
  /** So many bytes of replies were written to the client. */
  readonly onDrained?: (bytes: number) => void;
}

/** Speaks the server's half of `wire/bridge.ts`. */
export function speakBridge(
  socket: WebSocket,
  { onFrames, onEnd = () => socket.close(1000), onDrained }: HubSide,
): void {
  socket.on("message", (data: Buffer, isBinary) => {
    const text = isBinary ? "" : data.toString();
    if (isBinary) onFrames?.(data);
    else if (text === "ping") socket.send("pong");
    else if (text === BRIDGE_END) onEnd();
    else onDrained?.(parseDrained(text) ?? NaN);
  });
}

/** Sends replies, or pushes where nothing is consumed. */
export function sendReplies(socket: WebSocket, replies: Uint8Array, consumedBytes: number): void {
  socket.send(bridgeMessage(consumedBytes, replies));
}

/** Answers each byte as a request without anything else, after a while, and closes when all is answered. */
export function answerBytes(socket: WebSocket, delayMs = 0): void {
  let waiting = 0;
  let isEnding = false;
  const close = (): void => {
    if (isEnding && waiting === 0) socket.close(1000);
  };
  const answer = (bytes: number): void => {
    sendReplies(socket, new Uint8Array(bytes), bytes);
    waiting--;
    close();
  };
  speakBridge(socket, {
    onFrames: ({ length }) => {
      waiting++;
      if (delayMs === 0) answer(length);
      else setTimeout(() => answer(length), delayMs);
    },
    onEnd: () => {
      isEnding = true;
      close();
    },
  });
}
