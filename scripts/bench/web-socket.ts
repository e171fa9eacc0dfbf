/**
 * A WebSocket client that costs next to nothing: no masks but zeros, no compression, and what arrives is
 * handed over where it lies.
 *
 * It knows what the servers here send: binary messages in one frame each, of less than 64 KiB or of
 * less than 4 GiB.
 */
import { connect, type Socket } from "node:net";

const READ_BYTES = 64 << 10;
const HEAD_END = "\r\n\r\n";
const BINARY_FRAME = 0x82;
const MASKED = 0x80;
/** Lengths of the header and of the mask of a sent frame. */
const LENGTH_16_BITS = 126;
const LENGTH_64_BITS = 127;
const MASK_BYTES = 4;

/** All sockets of a process are read one after the other. */
const shared = Buffer.alloc(READ_BYTES);

/** Gets bytes of messages, in order, in a buffer that is used again; a message may come in pieces. */
type OnBytes = (bytes: Buffer) => void;

export class WebSocketClient {
  readonly #socket: Socket;

  private constructor(socket: Socket) {
    this.#socket = socket;
  }

  /** Resolves when the server has agreed to speak WebSocket. */
  static async open(port: number, path: string, onBytes: OnBytes): Promise<WebSocketClient> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const frames = new FrameReader(onBytes);
    let isOpen = false;
    const receive = (bytes: Buffer): void => {
      if (isOpen) return frames.read(bytes);
      // The head of a response comes in one piece; a first message may be right behind it.
      const end = bytes.indexOf(HEAD_END);
      if (!bytes.toString("latin1", 0, 12).endsWith("101") || end < 0) {
        return reject(new Error(`no WebSocket: ${bytes.toString("latin1")}`));
      }
      isOpen = true;
      resolve();
      frames.read(bytes.subarray(end + HEAD_END.length));
    };
    const socket = connect({
      host: "127.0.0.1",
      port,
      noDelay: true,
      onread: {
        buffer: shared,
        callback: (length) => {
          receive(shared.subarray(0, length));
          return true;
        },
      },
    });
    socket.on("error", (error) => {
      throw error;
    });
    socket.on("close", () => {
      throw new Error("the server closed a connection");
    });
    socket.write(
      [
        `GET ${path} HTTP/1.1`,
        `Host: 127.0.0.1:${port}`,
        "Connection: Upgrade",
        "Upgrade: websocket",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==",
      ].join("\r\n") + HEAD_END,
    );
    await promise;
    return new WebSocketClient(socket);
  }

  /** Sends a binary message of less than 64 KiB. */
  send(bytes: Buffer): void {
    const isShort = bytes.length < LENGTH_16_BITS;
    const header = Buffer.alloc((isShort ? 2 : 4) + MASK_BYTES);
    header[0] = BINARY_FRAME;
    header[1] = MASKED | (isShort ? bytes.length : LENGTH_16_BITS);
    if (!isShort) header.writeUInt16BE(bytes.length, 2);
    this.#socket.write(Buffer.concat([header, bytes]));
  }
}

/** Takes the headers of frames out of a stream of them. */
class FrameReader {
  readonly #onBytes: OnBytes;
  /** Bytes of the message at hand that are still to come. */
  #missing = 0;
  /** The part of a header that has come; null where there is none. */
  #head: Buffer | null = null;

  constructor(onBytes: OnBytes) {
    this.#onBytes = onBytes;
  }

  read(chunk: Buffer): void {
    let bytes = chunk;
    if (this.#head !== null) {
      bytes = Buffer.concat([this.#head, chunk]);
      this.#head = null;
    }
    for (let at = 0; at < bytes.length;) {
      if (this.#missing === 0) {
        const headerBytes = headerLength(bytes, at);
        if (at + headerBytes > bytes.length) {
          this.#head = Buffer.from(bytes.subarray(at));
          return;
        }
        this.#missing = messageLength(bytes, at);
        at += headerBytes;
      }
      const some = Math.min(this.#missing, bytes.length - at);
      this.#missing -= some;
      if (some > 0) this.#onBytes(bytes.subarray(at, at + some));
      at += some;
    }
  }
}

function headerLength(bytes: Buffer, at: number): number {
  const length = bytes[at + 1] ?? 0;
  return length === LENGTH_16_BITS ? 4 : length === LENGTH_64_BITS ? 10 : 2;
}

/** @throws Error when it is no binary message: then the server says something else */
function messageLength(bytes: Buffer, at: number): number {
  if (bytes[at] !== BINARY_FRAME) throw new Error(`a frame of type ${bytes[at]} arrived`);
  const length = bytes[at + 1]!;
  if (length === LENGTH_16_BITS) return bytes.readUInt16BE(at + 2);
  return length === LENGTH_64_BITS ? bytes.readUInt32BE(at + 6) : length;
}
