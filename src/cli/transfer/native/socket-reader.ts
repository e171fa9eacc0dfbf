/** Reads from a socket as the parser asks for bytes; between its requests the peer has to wait. */
import type { Socket } from "node:net";
import { ThrottrError } from "../../../wire/edge/error.ts";

const NO_BYTES: Uint8Array = new Uint8Array(0);

export class SocketReader {
  readonly #socket: Socket;
  readonly #timeoutMs: number;
  readonly #chunks: AsyncIterator<Uint8Array>;
  /** Bytes that were received, of which those before `#at` were read. */
  #bytes = NO_BYTES;
  /** Offset of the next byte in `#bytes`. */
  #at = 0;

  /** @param timeoutMs how long the peer may say nothing while it is listened to */
  constructor(socket: Socket, timeoutMs: number) {
    this.#socket = socket;
    this.#timeoutMs = timeoutMs;
    // The iterator stops reading the socket while no chunk is asked for, so TCP slows the server
    // down.
    this.#chunks = socket[Symbol.asyncIterator]() as AsyncIterator<Uint8Array>;
    socket.on("timeout", () => {
      socket.destroy(new ThrottrError("timeout", `no answer within ${timeoutMs} ms`));
    });
  }

  /**
   * The next bytes, which are valid until the next call.
   *
   * @throws ThrottrError `connection_failed` when the stream ends before
   */
  async read(count: number): Promise<Uint8Array> {
    while (this.#bytes.length - this.#at < count) await this.#more(count);
    const from = this.#at;
    this.#at += count;
    return this.#bytes.subarray(from, this.#at);
  }

  /** The next byte, which stays. */
  async peek(): Promise<number> {
    while (this.#bytes.length === this.#at) await this.#more(1);
    return this.#bytes[this.#at]!;
  }

  async u8(): Promise<number> {
    return (await this.read(1))[0]!;
  }

  /** A little-endian integer of 1, 2, 4 or 8 bytes. */
  async uint(bytes: number): Promise<bigint> {
    return uintAt(await this.read(bytes), 0, bytes);
  }

  /**
   * Receives until `count` bytes are there. @throws ThrottrError `connection_failed` at the end of
   * the stream
   */
  async #more(count: number): Promise<void> {
    const { value, done } = await this.#next();
    if (done === true)
      throw new ThrottrError("connection_failed", "the server closed the connection");
    const rest = this.#bytes.subarray(this.#at);
    this.#at = 0;
    if (rest.length === 0) {
      this.#bytes = value;
      return;
    }
    // Much is asked for at once: it is not copied again with each piece that comes.
    const pieces = [rest, value];
    let length = rest.length + value.length;
    while (length < count) {
      const next = await this.#next();
      if (next.done === true) break;
      pieces.push(next.value);
      length += next.value.length;
    }
    this.#bytes = Buffer.concat(pieces, length);
  }

  /**
   * The next chunk. The timeout runs only while we wait for it: between two requests the server
   * owes nothing.
   */
  async #next(): Promise<IteratorResult<Uint8Array, unknown>> {
    this.#socket.setTimeout(this.#timeoutMs);
    try {
      return await this.#chunks.next();
    } catch (cause) {
      throw failureOf(cause);
    } finally {
      this.#socket.setTimeout(0);
    }
  }
}

/** What the error of a socket stands for. */
export function failureOf(cause: unknown): ThrottrError {
  if (cause instanceof ThrottrError) return cause;
  const isAborted = cause instanceof Error && cause.name === "AbortError";
  const detail = cause instanceof Error ? cause.message : String(cause);
  return new ThrottrError(isAborted ? "aborted" : "connection_failed", detail, { cause });
}

/** A little-endian integer of 1, 2, 4 or 8 bytes. */
export function uintAt(bytes: Uint8Array, at: number, count: number): bigint {
  let value = 0n;
  for (let i = count - 1; i >= 0; i--) value = (value << 8n) | BigInt(bytes[at + i]!);
  return value;
}
