/** A TCP connection that speaks one protocol: requests out, replies back to whoever asked, in order. */
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { encodeRequest, type Request } from "../../src/wire/throttr/encode.ts";
import type { Protocol } from "../../src/wire/throttr/protocol.ts";
import { REPLY_INCOMPLETE, replyLength } from "../../src/wire/throttr/replies.ts";

/** Takes a whole reply. The bytes are valid until it returns. */
export type OnReply = (reply: Uint8Array) => void;

interface Expected {
  readonly type: number;
  readonly onReply: OnReply;
}

export class Client {
  readonly protocol: Protocol;
  /** Resolves when the connection has ended, whoever ended it and however. */
  readonly ended: Promise<void>;
  /** The server sent a reply that nobody had asked for: the connection was given up. */
  hasUnasked = false;
  /** Called when all replies of a chunk have been taken. */
  onReplies: () => void = () => {};
  readonly #socket: Socket;
  readonly #expected: Expected[] = [];
  #unsent: Uint8Array[] = [];
  #unread: Uint8Array = new Uint8Array(0);

  static async connect(port: number, protocol: Protocol): Promise<Client> {
    const socket = connect(port, "127.0.0.1").setNoDelay(true);
    await once(socket, "connect");
    return new Client(socket, protocol);
  }

  private constructor(socket: Socket, protocol: Protocol) {
    this.#socket = socket;
    this.protocol = protocol;
    socket.on("data", (chunk: Buffer) => this.#receive(chunk));
    // The reason does not matter: "close" follows.
    socket.on("error", () => {});
    this.ended = new Promise((resolve) => socket.once("close", () => resolve()));
  }

  /** Requests that are not answered. */
  get inFlight(): number {
    return this.#expected.length;
  }

  /** Adds a request to what the next `flush` sends. */
  request(request: Request, onReply: OnReply): void {
    const frame = encodeRequest(this.protocol, request);
    this.#unsent.push(frame);
    this.#expected.push({ type: frame[0]!, onReply });
  }

  /** Sends what was added, in one write. */
  flush(): void {
    if (this.#unsent.length === 0) return;
    this.#socket.write(Buffer.concat(this.#unsent));
    this.#unsent = [];
  }

  close(): void {
    this.#socket.destroy();
  }

  #receive(chunk: Uint8Array): void {
    const bytes = this.#unread.length === 0 ? chunk : Buffer.concat([this.#unread, chunk]);
    let at = 0;
    while (at < bytes.length) {
      const expected = this.#expected[0];
      if (expected === undefined) {
        this.hasUnasked = true;
        this.close();
        return;
      }
      const length = replyLength(this.protocol, expected.type, bytes, at, bytes.length);
      if (length === REPLY_INCOMPLETE) break;
      this.#expected.shift();
      expected.onReply(bytes.subarray(at, at + length));
      at += length;
    }
    this.#unread = bytes.subarray(at);
    this.onReplies();
  }
}
