/** A TCP connection of the system, whose replies are taken in the pieces that one waits for. */
import { connect, type Socket } from "node:net";
import { concat } from "../frames/index.ts";
import type { ExchangeConnection } from "../engine/vectors.ts";

const REPLY_TIMEOUT_MS = 10_000;
/** How long silence is listened to where no reply is expected. */
const SILENCE_MS = 30;

export class SocketClient implements ExchangeConnection {
  readonly socket: Socket;
  #chunks: Uint8Array[] = [];
  #bytes = 0;
  #wake: () => void = () => {};
  isClosed = false;

  private constructor(socket: Socket) {
    this.socket = socket;
    socket.on("data", (chunk: Buffer) => {
      this.#chunks.push(chunk);
      this.#bytes += chunk.length;
      this.#wake();
    });
    socket.on("close", () => {
      this.isClosed = true;
      this.#wake();
    });
    socket.on("error", () => {});
  }

  static async open(port: number, host = "127.0.0.1"): Promise<SocketClient> {
    const socket = connect({ port, host, noDelay: true });
    await new Promise((resolve, reject) => socket.once("connect", resolve).once("error", reject));
    return new SocketClient(socket);
  }

  async exchange(request: Uint8Array, replyBytes: number): Promise<Uint8Array> {
    if (request.length > 0) this.socket.write(request);
    return await this.take(replyBytes);
  }

  /** Waits for so many bytes; fewer when the connection ends or time is up. */
  async take(count: number): Promise<Uint8Array> {
    const timeout = AbortSignal.timeout(count === 0 ? SILENCE_MS : REPLY_TIMEOUT_MS);
    timeout.addEventListener("abort", () => this.#wake());
    while (this.#isWaiting(count) && !timeout.aborted) {
      await new Promise<void>((resolve) => (this.#wake = resolve));
    }
    const received = concat(this.#chunks);
    const taken = received.slice(0, count === 0 ? undefined : count);
    this.#chunks = [received.subarray(taken.length)];
    this.#bytes = received.length - taken.length;
    return taken;
  }

  #isWaiting(count: number): boolean {
    return !this.isClosed && (count === 0 || this.#bytes < count);
  }

  async close(): Promise<void> {
    if (this.isClosed) return;
    const closed = new Promise((resolve) => this.socket.once("close", resolve));
    this.socket.end();
    await closed;
  }
}
