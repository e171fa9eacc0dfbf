/**
 * Makes a response of replies: whole when all come with the first calls and at once, else streamed as it is read.
 *
 * Whole is better while it lasts: a failure can still become a status code, and a short body needs no stream. But the
 * runtime sees that a client has closed its connection only when it writes to it, so a reply that takes long is begun
 * rather than kept. A client that has gone, or does not read, ends the response; of its requests only those that write
 * are executed from then on.
 *
 * An isolate serves many requests in 128 MB, and one client that does not read holds what was replied to it: hence the
 * three limits below, for one response, for all, and for how long.
 */
import { reportFailure } from "../base/failure.ts";
import { logWarning } from "../base/log.ts";
import type { ThrottrError } from "../wire/edge/error.ts";
import type { RunSink } from "./run-sequence.ts";

export const REPLY_HEADERS = {
  "content-type": "application/octet-stream",
  "cache-control": "no-store",
};

/** More held bytes than these are streamed: a client reads the first while a shard makes the next. */
const HELD_BYTES_MAX = 2 << 20;
/** A body whose runs take longer than this is streamed. */
const HELD_MS_MAX = 1000;
/** What is given to the runtime at once. It does not tell how much of it the client has taken, only when all is. */
const WRITE_BYTES = 64 << 10;
/** Bytes that all responses of the isolate may hold; beyond it, clients must read more than a little each second. */
const ISOLATE_BYTES_MAX = 32 << 20;
const ISOLATE_BYTES_LITTLE = 256 << 10;
const WATCH_MS = 1000;

/** Responses that wait for their clients. */
const waiting = new Set<ResponseSink>();

export interface ResponseSinkOptions {
  /** Aborts when the client has gone. */
  readonly signal: AbortSignal;
  /** How long a client may leave its replies unread. */
  readonly stallTimeoutMs: number;
}

export class ResponseSink implements RunSink {
  readonly response: Promise<Response>;
  /** Resolves when nothing is under way any more. */
  readonly ended: Promise<void>;
  readonly #resolve: (response: Response) => void;
  readonly #reject: (error: ThrottrError) => void;
  readonly #end: () => void;
  readonly #signal: AbortSignal;
  readonly #stallTimeoutMs: number;
  readonly #startedAtMs = Date.now();
  /** Bytes of replies that are held in memory. */
  heldBytes = 0;
  #held: Uint8Array[] = [];
  #drained: Promise<void> = Promise.resolve();
  #writer: WritableStreamDefaultWriter<Uint8Array> | null = null;
  /** Bytes that the client has taken, and when that was last seen to change. */
  #writtenBytes = 0;
  #seenBytes = 0;
  #seenAtMs = 0;
  #timer: ReturnType<typeof setInterval> | null = null;
  #isLost = false;

  constructor({ signal, stallTimeoutMs }: ResponseSinkOptions) {
    const { promise, resolve, reject } = Promise.withResolvers<Response>();
    const ended = Promise.withResolvers<void>();
    this.response = promise;
    this.ended = ended.promise;
    this.#resolve = resolve;
    this.#reject = reject;
    this.#end = ended.resolve;
    this.#signal = signal;
    this.#stallTimeoutMs = stallTimeoutMs;
  }

  get hasReader(): boolean {
    return !this.#isLost && !this.#signal.aborted;
  }

  get isFull(): boolean {
    return this.heldBytes > HELD_BYTES_MAX || Date.now() - this.#startedAtMs > HELD_MS_MAX;
  }

  reply(replies: Uint8Array, isLast: boolean): void {
    if (this.hasReader) {
      this.#held.push(replies);
      this.heldBytes += replies.length;
    }
    if (isLast) void this.#finish();
  }

  /** Resolves when the client has taken what is held, or has gone. */
  room(): Promise<void> {
    if (this.#writer === null) this.#stream(new IdentityTransformStream());
    return this.#drain();
  }

  fail(error: unknown): void {
    const failure = reportFailure(error);
    if (this.#writer === null) this.#reject(failure);
    else {
      void this.#writer.abort(error).catch(() => {});
    }
    this.#leave();
    this.#end();
  }

  async #finish(): Promise<void> {
    if (this.#writer === null) {
      if (this.heldBytes <= WRITE_BYTES) {
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

  #stream({ readable, writable }: IdentityTransformStream): void {
    this.#writer = writable.getWriter();
    this.#resolve(new Response(readable, { headers: REPLY_HEADERS }));
    this.#seenAtMs = Date.now();
    this.#timer = setInterval(() => this.#watch(), WATCH_MS);
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
        for (let at = 0; at < replies.length && this.hasReader; at += WRITE_BYTES) {
          const bytes = replies.subarray(at, at + WRITE_BYTES);
          await this.#writer!.write(bytes);
          this.#writtenBytes += bytes.length;
          this.heldBytes -= bytes.length;
        }
      }
    } catch {
      this.#isLost = true;
    }
    if (!this.hasReader) this.#lose();
  }

  /** Gives up a client that has taken nothing for too long, or too little while others leave much unread. */
  #watch(): void {
    const nowMs = Date.now();
    if (this.#writtenBytes !== this.#seenBytes || this.heldBytes === 0) this.#seenAtMs = nowMs;
    const isStalled = nowMs - this.#seenAtMs >= this.#stallTimeoutMs;
    const isSlow = this.#writtenBytes - this.#seenBytes < ISOLATE_BYTES_LITTLE;
    const isLarge = this.heldBytes > ISOLATE_BYTES_LITTLE;
    this.#seenBytes = this.#writtenBytes;
    if (!isStalled && !(isSlow && isLarge && waitingBytes() > ISOLATE_BYTES_MAX)) return;
    logWarning("http_stalled", { unwrittenBytes: this.heldBytes });
    this.#isLost = true;
    void this.#writer!.abort(new Error("stalled")).catch(() => {});
    this.#lose();
  }

  #lose(): void {
    this.heldBytes = 0;
    this.#held = [];
    this.#leave();
  }

  #leave(): void {
    if (this.#timer !== null) clearInterval(this.#timer);
    waiting.delete(this);
  }
}

function waitingBytes(): number {
  let bytes = 0;
  for (const { heldBytes } of waiting) bytes += heldBytes;
  return bytes;
}
