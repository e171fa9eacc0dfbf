/** A client of the yrmcds protocol, over anything that carries bytes. It takes the time of every reply. */
import { isContinued, ReplyReader, type YrmcdsReply } from "../frames/yrmcds.ts";
import { concat, hex } from "../frames/index.ts";

/** What carries the bytes of a connection. */
export interface YrmcdsWire {
  write(bytes: Uint8Array): void;
  /** Ends the sending half; where there are no halves, closes. */
  end(bytes: Uint8Array): void;
  close(): void;
  /** Ends the connection without a goodbye, as far as that can be done. */
  reset(): void;
  /**
   * @param read takes the bytes that come
   * @param ended is called once, when no more can come
   */
  listen(read: (bytes: Uint8Array) => void, ended: () => void): void;
}

/** A reply, and when it had come whole. */
export interface TimedReply extends YrmcdsReply {
  atMs: number;
}

const ANSWER_TIMEOUT_MS = 10_000;

/** The server has ended the connection before an answer. */
export class YrmcdsEnded extends Error {
  override readonly name = "YrmcdsEnded";
}

export class YrmcdsClient {
  readonly #wire: YrmcdsWire;
  readonly #reader = new ReplyReader();
  readonly #replies: TimedReply[] = [];
  #wake: () => void = () => {};
  /** No more replies come. */
  isEnded = false;

  constructor(wire: YrmcdsWire) {
    this.#wire = wire;
    wire.listen(
      (bytes) => {
        const atMs = performance.now();
        for (const reply of this.#reader.push(bytes)) this.#replies.push({ ...reply, atMs });
        this.#wake();
      },
      () => {
        this.isEnded = true;
        this.#wake();
      },
    );
  }

  /** Sends frames in one piece. */
  write(...frames: readonly Uint8Array[]): void {
    this.#wire.write(concat(frames));
  }

  /** Ends the sending half, with frames right before the end. */
  end(...frames: readonly Uint8Array[]): void {
    this.#wire.end(concat(frames));
  }

  close(): void {
    this.#wire.close();
  }

  reset(): void {
    this.#wire.reset();
  }

  /** The next reply; null when the server has ended the connection before it. */
  async next(): Promise<TimedReply | null> {
    const deadlineMs = performance.now() + ANSWER_TIMEOUT_MS;
    while (this.#replies.length === 0) {
      if (this.isEnded) return null;
      const leftMs = deadlineMs - performance.now();
      if (leftMs <= 0) throw new Error(`no answer within ${ANSWER_TIMEOUT_MS} ms`);
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, leftMs);
        this.#wake = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    }
    return this.#replies.shift()!;
  }

  /**
   * The next replies, so many.
   *
   * @throws YrmcdsEnded when the server ends the connection before
   */
  async take(count: number): Promise<TimedReply[]> {
    const replies: TimedReply[] = [];
    while (replies.length < count) {
      const reply = await this.next();
      if (reply === null) throw new YrmcdsEnded(`ended before reply ${replies.length + 1}`);
      replies.push(reply);
    }
    return replies;
  }

  /** The replies to each of so many requests: to a Dump, several; as `take`. */
  async answers(count: number): Promise<TimedReply[][]> {
    const answers: TimedReply[][] = [];
    while (answers.length < count) {
      const replies = await this.take(1);
      while (isContinued(replies.at(-1)!)) replies.push(...(await this.take(1)));
      answers.push(replies);
    }
    return answers;
  }

  /** The replies to frames that are sent in one piece, one each; as `take`. */
  async ask(...frames: readonly Uint8Array[]): Promise<TimedReply[]> {
    this.write(...frames);
    return await this.take(frames.length);
  }

  /** The reply to a frame; as `take`. */
  async askOne(frame: Uint8Array): Promise<TimedReply> {
    const [reply] = await this.ask(frame);
    return reply!;
  }

  /** The whole answer to a Dump; as `take`. */
  async askDump(frame: Uint8Array): Promise<TimedReply[]> {
    this.write(frame);
    const [replies] = await this.answers(1);
    return replies!;
  }

  /** All replies until the server has ended the connection. */
  async rest(): Promise<TimedReply[]> {
    const replies: TimedReply[] = [];
    for (let reply = await this.next(); reply !== null; reply = await this.next()) {
      replies.push(reply);
    }
    if (this.#reader.unreadBytes > 0) throw new Error("the server ended within a reply");
    return replies;
  }

  /** Replies that have come and that nobody has taken. */
  get unasked(): string[] {
    return this.#replies.map(({ bytes }) => hex(bytes));
  }
}
