/**
 * Makes a response of replies: whole when all come with the first calls and at once, else streamed as it is read.
 *
 * Whole is better while it lasts: a failure can still become a status code, and a short body needs no stream. But the
 * runtime sees that a client has closed its connection only when it writes to it, so a reply that takes long is begun
 * rather than kept. A client that has gone, or does not read, ends the response; of its requests only those that write
 * are executed from then on.
 *
 * An isolate serves many requests in 128 MB, and one client that does not read holds what was replied to it, and the body
 * of its request, whose other runs wait for room. So there are three limits below: for one response, for all, and for how long.
 */
import { stopwatchMs } from "../base/clock.ts";
import { reportFailure } from "../base/failure.ts";
import { logWarning } from "../base/log.ts";
import type { ThrottrError } from "../wire/edge/error.ts";
import type { RunSink } from "./run-sequence.ts";
import {
  RESPONSES_BYTES_LITTLE,
  RESPONSES_BYTES_MAX,
  RESPONSE_HELD_BYTES_MAX,
  RESPONSE_HELD_MS_MAX,
  RESPONSE_WATCH_MS,
  RESPONSE_WRITE_BYTES,
} from "../engine/sizes.ts";

export const REPLY_HEADERS = {
  "content-type": "application/octet-stream",
  "cache-control": "no-store",
};

/** Responses that wait for their clients. */
const waiting = new Set<ResponseSink>();

export interface ResponseSinkOptions {
  /** Aborts when the client has gone. */
  readonly signal: AbortSignal;
  /** Bytes of the request, which are in memory until all of it is executed. */
  readonly bodyBytes: number;
  /** How long a client may leave its replies unread. */
  readonly stallTimeoutMs: number;
  /** Rejects once the caller may do nothing any more: its client decides how long a response takes. */
  readonly assertAccess: () => Promise<void>;
}

export class ResponseSink implements RunSink {
  /** Resolves with the first bytes, or when all replies are there; rejects if a run fails before. */
  readonly response: Promise<Response>;
  /** Resolves when nothing is under way any more. */
  readonly ended: Promise<void>;
  readonly #resolve: (response: Response) => void;
  readonly #reject: (error: ThrottrError) => void;
  readonly #end: () => void;
  readonly #signal: AbortSignal;
  readonly #stallTimeoutMs: number;
  readonly #assertAccess: () => Promise<void>;
  readonly #startedAtMs = stopwatchMs();
  /** Bytes of replies that are held in memory. */
  heldBytes = 0;
  /** The same of the request. */
  #bodyBytes: number;
  /** Replies that no write has taken yet. */
  #held: Uint8Array[] = [];
  /**
   * Resolves when all that was given to the writer was written, or dropped. Writes are chained to it, so replies keep
   * their order.
   */
  #drained: Promise<void> = Promise.resolve();
  /** Null while the response is whole: no status has been sent, and a failure can still become one. */
  #writer: WritableStreamDefaultWriter<Uint8Array> | null = null;
  /** Bytes that the client has taken, and when that was last seen to change. */
  #writtenBytes = 0;
  #seenBytes = 0;
  #seenAtMs = 0;
  /** Looks at the client while the response is streamed; null before. */
  #timer: ReturnType<typeof setInterval> | null = null;
  /**
   * A write failed, or the client was given up. `#signal` alone is late: the runtime sees a close only when it writes.
   */
  #isLost = false;

  constructor({ signal, bodyBytes, stallTimeoutMs, assertAccess }: ResponseSinkOptions) {
    const { promise, resolve, reject } = Promise.withResolvers<Response>();
    const ended = Promise.withResolvers<void>();
    this.response = promise;
    this.ended = ended.promise;
    this.#resolve = resolve;
    this.#reject = reject;
    this.#end = ended.resolve;
    this.#signal = signal;
    this.#bodyBytes = bodyBytes;
    this.#stallTimeoutMs = stallTimeoutMs;
    this.#assertAccess = assertAccess;
  }

  /** Whether replies are still of use. Without a reader requests that only read are not executed. */
  get hasReader(): boolean {
    return !this.#isLost && !this.#signal.aborted;
  }

  /** Full by bytes or by time. A client that waits in silence could close, and the runtime would not see it. */
  get isFull(): boolean {
    return (
      this.heldBytes > RESPONSE_HELD_BYTES_MAX ||
      stopwatchMs() - this.#startedAtMs > RESPONSE_HELD_MS_MAX
    );
  }

  /** What its client keeps in memory as long as it does not read. */
  get keptBytes(): number {
    return this.heldBytes + this.#bodyBytes;
  }

  /** Holds replies; the last ones end the response, be there a reader or not. */
  reply(replies: Uint8Array, isLast: boolean): void {
    if (this.hasReader) {
      this.#held.push(replies);
      this.heldBytes += replies.length;
    }
    if (isLast) void this.#finish();
  }

  /** Resolves when the client has taken what is held, or has gone; rejected when the access has ended meanwhile. */
  async room(): Promise<void> {
    if (this.#writer === null) this.#stream(new IdentityTransformStream());
    await this.#drain();
    await this.#assertAccess();
  }

  /** An error response while nothing was sent; afterwards the stream is cut off, which a client tells from its end. */
  fail(error: unknown): void {
    const failure = reportFailure(error);
    if (this.#writer === null) this.#reject(failure);
    else {
      void this.#writer.abort(error).catch(() => {});
    }
    this.#leave();
    this.#end();
  }

  /** Ends the response: short ones whole, which takes no stream; others with their length, which is known by now. */
  async #finish(): Promise<void> {
    this.#bodyBytes = 0;
    if (this.#writer === null) {
      if (this.heldBytes <= RESPONSE_WRITE_BYTES) {
        this.#resolve(new Response(new Blob(this.#held), { headers: REPLY_HEADERS }));
        this.#end();
        return;
      }
      this.#stream(new FixedLengthStream(this.heldBytes));
    }
    await this.#drain();
    // Everything has been applied, so a client that goes now is not a failure.
    if (this.hasReader) await this.#writer!.close().catch(() => {});
    this.#leave();
    this.#end();
  }

  /** Begins to send. From here on a failure cannot be a status code. */
  #stream({ readable, writable }: IdentityTransformStream): void {
    this.#writer = writable.getWriter();
    this.#resolve(new Response(readable, { headers: REPLY_HEADERS }));
    this.#seenAtMs = stopwatchMs();
    this.#timer = setInterval(() => this.#watch(), RESPONSE_WATCH_MS);
    waiting.add(this);
  }

  /** Writes what is held, after all that was held before. */
  #drain(): Promise<void> {
    const held = this.#held;
    this.#held = [];
    this.#drained = this.#drained.then(() => this.#write(held));
    return this.#drained;
  }

  async #write(held: readonly Uint8Array[]): Promise<void> {
    try {
      for (const replies of held) {
        for (let at = 0; at < replies.length && this.hasReader; at += RESPONSE_WRITE_BYTES) {
          const bytes = replies.subarray(at, at + RESPONSE_WRITE_BYTES);
          await this.#writer!.write(bytes);
          this.#writtenBytes += bytes.length;
          this.heldBytes -= bytes.length;
        }
      }
    } catch {
      this.#isLost = true;
    }
    // Also when the loop ended early because the client has gone.
    if (!this.hasReader) this.#lose();
  }

  /** Gives up a client that has taken nothing for too long, or too little while others leave much unread. */
  #watch(): void {
    const nowMs = stopwatchMs();
    // A client that has read everything waits for a shard.
    const hasRead = this.heldBytes === 0;
    if (this.#writtenBytes !== this.#seenBytes || hasRead) this.#seenAtMs = nowMs;
    const isStalled = nowMs - this.#seenAtMs >= this.#stallTimeoutMs;
    const isSlow = !hasRead && this.#writtenBytes - this.#seenBytes < RESPONSES_BYTES_LITTLE;
    const isLarge = this.keptBytes > RESPONSES_BYTES_LITTLE;
    this.#seenBytes = this.#writtenBytes;
    if (!isStalled && !(isSlow && isLarge && waitingBytes() > RESPONSES_BYTES_MAX)) return;
    logWarning("http_stalled", { unwrittenBytes: this.heldBytes });
    this.#isLost = true;
    void this.#writer!.abort(new Error("stalled")).catch(() => {});
    this.#lose();
  }

  /** Drops what is held for a client that will not read it. The runs go on. */
  #lose(): void {
    this.heldBytes = 0;
    this.#held = [];
    this.#leave();
  }

  /** Ends the watch. Called more than once at some ends, which does no harm. */
  #leave(): void {
    if (this.#timer !== null) clearInterval(this.#timer);
    waiting.delete(this);
  }
}

/** Summed when it is needed, once a second for each stream: a sum kept beside the streams could go wrong for good. */
function waitingBytes(): number {
  let bytes = 0;
  for (const { keptBytes } of waiting) bytes += keptBytes;
  return bytes;
}
