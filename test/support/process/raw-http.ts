/** HTTP over a socket of the system: requests that `fetch` would not send, byte by byte. */
import { connect, type Socket } from "node:net";

export class RawHttp {
  readonly socket: Socket;
  /** What has come, as Latin-1. */
  received = "";
  isClosed = false;
  #wake: () => void = () => {};

  private constructor(socket: Socket) {
    this.socket = socket;
    socket.on("data", (chunk: Buffer) => {
      this.received += chunk.toString("latin1");
      this.#wake();
    });
    socket.on("close", () => {
      this.isClosed = true;
      this.#wake();
    });
    socket.on("error", () => {});
  }

  /** @param url where the server is; its path is not used */
  static async open(url: string): Promise<RawHttp> {
    const { hostname, port } = new URL(url);
    const host = hostname.replace(/^\[(.*)\]$/, "$1");
    const socket = connect({ port: Number(port), host, noDelay: true });
    await new Promise((resolve, reject) => socket.once("connect", resolve).once("error", reject));
    return new RawHttp(socket);
  }

  /** Sends the head of a request. */
  send(requestLine: string, headers: Readonly<Record<string, string>>): void {
    const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
    this.socket.write(`${requestLine} HTTP/1.1\r\n${lines.join("")}\r\n`);
  }

  /** The head of the response; what came when the connection has ended before, or time is up. */
  async head(timeoutMs = 20_000): Promise<string> {
    await this.#until(() => this.received.includes("\r\n\r\n"), timeoutMs);
    return this.received.split("\r\n\r\n")[0]!;
  }

  /** Waits for a text among what has come. */
  async text(expected: string, timeoutMs = 20_000): Promise<string> {
    await this.#until(() => this.received.includes(expected), timeoutMs);
    return this.received;
  }

  /** Waits until the server has closed the connection; false when time is up. */
  async closed(timeoutMs = 20_000): Promise<boolean> {
    await this.#until(() => this.isClosed, timeoutMs);
    return this.isClosed;
  }

  async #until(isDone: () => boolean, timeoutMs: number): Promise<void> {
    const timeout = AbortSignal.timeout(timeoutMs);
    timeout.addEventListener("abort", () => this.#wake());
    while (!isDone() && !this.isClosed && !timeout.aborted) {
      await new Promise<void>((resolve) => (this.#wake = resolve));
    }
  }

  [Symbol.dispose](): void {
    this.socket.destroy();
  }
}

/** The headers that ask for a WebSocket, as a browser sends them. */
export const UPGRADE_HEADERS = {
  connection: "Upgrade",
  upgrade: "websocket",
  "sec-websocket-version": "13",
  "sec-websocket-key": "AAAAAAAAAAAAAAAAAAAAAA==",
  "sec-websocket-extensions": "permessage-deflate; client_max_window_bits",
} as const;

/** The head of the response to a request for a WebSocket. */
export async function upgradeHead(
  url: string,
  path: string,
  headers: Readonly<Record<string, string>> = {},
): Promise<string> {
  using http = await RawHttp.open(url);
  http.send(`GET ${path}`, { host: new URL(url).host, ...UPGRADE_HEADERS, ...headers });
  return await http.head();
}
