/** A connection of a load: a WebSocket with several requests under way, each of which is timed. */
import { ReplyStream, type Expected } from "../../client/calls/reply-stream.ts";
import type { Socket, Transport } from "../../client/transport/transport.ts";
import { joinBytes } from "../../wire/bytes.ts";
import { ThrottrError } from "../../wire/edge/error.ts";
import type { Operation } from "../../wire/edge/operation.ts";

/** Called with each reply and its latency. */
export type OnReply = (isSuccess: boolean, tookMs: number) => void;

/** Largest message; servers accept much more, but a large one would delay the replies of its first requests. */
const MESSAGE_BYTES_MAX = 64 << 10;

export class LoadConnection {
  /** Matches replies to requests by their order. */
  readonly #replies = new ReplyStream<Expected>(() => {});
  /** Not a client of the library: its retries and its queue would be part of the measurement. */
  readonly #socket: Socket;
  /** Resolves when requests may be sent. */
  readonly opened: Promise<void>;
  /** Rejects when the connection is lost. */
  readonly lost: Promise<never>;
  /** Rejects `lost`. */
  readonly #lose: (error: unknown) => void;
  /** Called once for all replies that came together. */
  onReceived: () => void = () => {};
  /** Payload of messages, without the frames of WebSocket. */
  bytesSent = 0;
  bytesReceived = 0;

  constructor(transport: Transport) {
    const { promise, reject } = Promise.withResolvers<never>();
    const opened = Promise.withResolvers<void>();
    this.opened = opened.promise;
    this.lost = promise;
    this.#lose = reject;
    // A rejection that nothing awaits would end the process.
    this.lost.catch(() => {});
    this.opened.catch(() => {});
    this.#socket = transport.connect({
      opened: () => opened.resolve(),
      received: (bytes) => this.#receive(bytes),
      ponged: () => {},
      closed: ({ error }) => {
        opened.reject(error);
        reject(error);
      },
    });
  }

  /** Sends requests, in as few messages as possible. */
  send(operations: readonly Operation<boolean>[], onReply: OnReply): void {
    // One time for all requests of a call, as they leave together.
    const sentAtMs = performance.now();
    let frames: Uint8Array<ArrayBuffer>[] = [];
    let bytes = 0;
    for (const operation of operations) {
      const { frame } = operation;
      if (bytes + frame.length > MESSAGE_BYTES_MAX && frames.length > 0) {
        this.#sendMessage(frames);
        frames = [];
        bytes = 0;
      }
      const reply = (bytes: Uint8Array): void =>
        onReply(operation.read(bytes), performance.now() - sentAtMs);
      this.#replies.expect({ operation, reply });
      frames.push(frame);
      bytes += frame.length;
    }
    if (frames.length > 0) this.#sendMessage(frames);
  }

  /**
   * Sends requests, `depth` at a time, and resolves when all are answered.
   *
   * @param wait for the answers to those that were sent together
   */
  async sendAll(
    operations: readonly Operation<boolean>[],
    depth: number,
    wait: (answered: Promise<void>) => Promise<void>,
  ): Promise<void> {
    for (let at = 0; at < operations.length; at += depth) {
      const some = operations.slice(at, at + depth);
      let missing = some.length;
      const { promise, resolve } = Promise.withResolvers<void>();
      this.send(some, () => {
        if (--missing === 0) resolve();
      });
      await wait(Promise.race([promise, this.lost]));
    }
  }

  /** Closes the WebSocket. `lost` rejects, which ends the wait for replies. */
  close(): void {
    this.#socket.close();
    this.#lose(new ThrottrError("closed", "the connection was closed"));
  }

  /** Sends some frames as one message. */
  #sendMessage(frames: readonly Uint8Array<ArrayBuffer>[]): void {
    const message = frames.length === 1 ? frames[0]! : joinBytes(frames);
    this.bytesSent += message.length;
    this.#socket.send(message);
  }

  /**
   * Reads replies. A reply that can't be read ends the connection: those behind it can't be found.
   */
  #receive(bytes: Uint8Array): void {
    this.bytesReceived += bytes.length;
    try {
      this.#replies.read(bytes);
    } catch (error) {
      this.#lose(error);
      this.#socket.close();
      return;
    }
    this.onReceived();
  }
}
