/** Subscriptions: the messages of a channel as an async iterator with a bounded queue. */
/// <reference lib="esnext.disposable" preserve="true" />
import { invalid, signalOption, type FieldNames } from "../../wire/edge/argument.ts";
import { ThrottrError } from "../../wire/edge/error.ts";
import { Fifo } from "../calls/fifo.ts";
import { CALL } from "../known-options.ts";
import { checkFunction, wholeOption } from "../options.ts";
import { platform, type Signal } from "../platform.ts";

/**
 * A message of a channel.
 *
 * @example
 * for await (const message of throttr.subscribe("news")) console.log(message.text());
 */
export interface Message {
  readonly channel: string;
  readonly payload: Uint8Array<ArrayBuffer>;
  /** Messages dropped before this one, with `overflow: "drop_oldest"`. */
  readonly missed: number;
  /** The payload as UTF-8 text. */
  text(): string;
}

/**
 * Options of a subscription.
 *
 * @example
 * const news = throttr.subscribe("news", {
 *   overflow: "drop_oldest",
 *   queueMax: 10,
 *   onReconnect: () => reloadEverything(),
 * });
 */
export interface SubscribeOptions {
  /** Ends the subscription, like `return()`. */
  readonly signal?: Signal | undefined;
  /** How long the server may take to confirm, in ms: 1 to 2^31 - 1; the client's `timeoutMs` unless given. */
  readonly timeoutMs?: number | undefined;
  /** Messages that may wait to be read: from 1; 1,000 unless given. */
  readonly queueMax?: number | undefined;
  /** Bytes of the waiting messages: from 1; 16 MiB unless given. A single message may have more. */
  readonly queueBytesMax?: number | undefined;
  /**
   * What happens when the queue is full: `error` ends the subscription with `queue_full`, `drop_oldest` drops the oldest
   * messages. `error` unless given.
   */
  readonly overflow?: "error" | "drop_oldest" | undefined;
  /** Called when the subscription is confirmed again after a lost connection: messages may have been missed. */
  readonly onReconnect?: (() => void) | undefined;
}

export const SUBSCRIPTION: FieldNames<SubscribeOptions> = {
  ...CALL,
  queueMax: true,
  queueBytesMax: true,
  overflow: true,
  onReconnect: true,
};

/**
 * The messages of a channel from now on. It ends with `return()`, which leaving a `for await` loop calls, with its signal, and
 * with the client. After an error the waiting messages are read first, and then the error is thrown.
 *
 * @example
 * const news = throttr.subscribe("news");
 * await news.ready;
 * for await (const message of news) {
 *   if (message.text() === "enough") break;
 * }
 */
export interface Subscription extends AsyncIterable<Message, void, undefined> {
  readonly channel: string;
  /**
   * Resolves when the server has confirmed: messages published after that will come. Rejects when the subscription ends
   * before: `subscribe_refused`, `timeout`, `connection_failed`, …
   */
  readonly ready: Promise<void>;
  next(): Promise<IteratorResult<Message, void>>;
  return(): Promise<IteratorResult<Message, void>>;
  [Symbol.asyncIterator](): Subscription;
  /** Like `return()`. */
  [Symbol.asyncDispose](): Promise<void>;
}

interface Waiter {
  readonly resolve: (result: IteratorResult<Message, void>) => void;
  readonly reject: (error: ThrottrError) => void;
}

const QUEUE_MAX = 1000;
const QUEUE_BYTES_MAX = 16 << 20;
const DONE: IteratorResult<Message, void> = { done: true, value: undefined };

/** A byte order mark at the beginning of a text stays. */
const decoder = new TextDecoder("utf-8", { fatal: false, ignoreBOM: true });

class ReceivedMessage implements Message {
  readonly channel: string;
  readonly payload: Uint8Array<ArrayBuffer>;
  missed = 0;

  constructor(channel: string, payload: Uint8Array<ArrayBuffer>) {
    this.channel = channel;
    this.payload = payload;
  }

  text(): string {
    return decoder.decode(this.payload);
  }
}

/** A subscription, as the connection sees it. */
export class Listener implements Subscription {
  readonly channel: string;
  readonly name: Uint8Array;
  readonly ready: Promise<void>;
  readonly deadlineMs: number;
  /** It is confirmed, or has ended: its deadline no longer matters. */
  isSettled = false;
  isEnded = false;
  readonly #timeoutMs: number;
  readonly #queueMax: number;
  readonly #queueBytesMax: number;
  readonly #isDropping: boolean;
  readonly #signal: Signal | null;
  readonly #onReconnect: (() => void) | null;
  readonly #onEnd: (listener: Listener) => void;
  readonly #queue = new Fifo<ReceivedMessage>();
  #queueBytes = 0;
  readonly #waiters = new Fifo<Waiter>();
  /** The error that `next` throws once. */
  #error: ThrottrError | null = null;
  #confirm!: () => void;
  #refuse!: (error: ThrottrError) => void;

  /**
   * @param name bytes of the channel's name
   * @param onEnd called once, when it needs no further messages
   * @throws ThrottrError `option_invalid`
   */
  constructor(
    name: Uint8Array,
    options: SubscribeOptions,
    nowMs: number,
    timeoutMs: number,
    onEnd: (listener: Listener) => void,
  ) {
    this.name = name;
    this.channel = decoder.decode(name);
    this.#queueMax = wholeOption("queueMax", options.queueMax, QUEUE_MAX);
    this.#queueBytesMax = wholeOption("queueBytesMax", options.queueBytesMax, QUEUE_BYTES_MAX);
    this.#isDropping = isDropping(options.overflow);
    checkFunction("onReconnect", options.onReconnect ?? undefined);
    this.#onReconnect = options.onReconnect ?? null;
    this.#onEnd = onEnd;
    this.#timeoutMs = timeoutMs;
    this.deadlineMs = nowMs + timeoutMs;
    this.ready = new Promise((resolve, reject) => {
      this.#confirm = resolve;
      this.#refuse = reject;
    });
    // A caller need not await `ready`: its rejection must not count as unhandled.
    this.ready.catch(() => {});
    this.#signal = signalOption(options.signal);
    if (this.#signal?.aborted === true) this.#abort();
    else this.#signal?.addEventListener("abort", this.#abort);
  }

  /** The server has confirmed the subscription, for the first time or on a new connection. */
  confirm(): void {
    if (!this.isSettled) {
      this.isSettled = true;
      this.#confirm();
    } else if (this.#onReconnect !== null) {
      // An error of the caller's function is the caller's affair.
      platform.queueMicrotask(this.#onReconnect);
    }
  }

  deliver(payload: Uint8Array): void {
    const message = new ReceivedMessage(this.channel, payload.slice());
    const waiter = this.#waiters.shift();
    if (waiter !== undefined) {
      waiter.resolve({ done: false, value: message });
      return;
    }
    if (!this.#hasRoomFor(payload.length)) {
      if (!this.#isDropping) {
        const detail = `${this.#queue.length} messages of channel ${this.channel} are already waiting to be read`;
        return this.fail(new ThrottrError("queue_full", detail));
      }
      this.#makeRoomFor(message);
    }
    this.#queue.push(message);
    this.#queueBytes += payload.length;
  }

  /** Ends it with an error, which comes behind the waiting messages. */
  fail(error: ThrottrError): void {
    if (this.isEnded) return;
    const waiter = this.#waiters.shift();
    if (waiter === undefined) this.#error = error;
    else waiter.reject(error);
    this.#leave(error);
  }

  /** Ends it at once without an error. */
  end(code: string, detail: string): void {
    this.#queue.clear();
    this.#queueBytes = 0;
    this.#error = null;
    if (!this.isEnded) this.#leave(new ThrottrError(code, detail));
  }

  /** Fails it when the time to be confirmed is over. */
  expire(nowMs: number): void {
    if (nowMs < this.deadlineMs) return;
    this.fail(new ThrottrError("timeout", `not subscribed within ${this.#timeoutMs} ms`));
  }

  next(): Promise<IteratorResult<Message, void>> {
    const message = this.#take();
    if (message !== undefined) return Promise.resolve({ done: false, value: message });
    const error = this.#error;
    this.#error = null;
    if (error !== null) return Promise.reject(error);
    if (this.isEnded) return Promise.resolve(DONE);
    return new Promise((resolve, reject) => this.#waiters.push({ resolve, reject }));
  }

  return(): Promise<IteratorResult<Message, void>> {
    this.end("closed", "the subscription was ended");
    return Promise.resolve(DONE);
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.return();
  }

  readonly #abort = (): void => {
    this.end("aborted", "the signal of the subscription was aborted");
  };

  #leave(error: ThrottrError): void {
    this.isEnded = true;
    this.isSettled = true;
    this.#refuse(error);
    for (const { resolve } of this.#waiters) resolve(DONE);
    this.#waiters.clear();
    this.#signal?.removeEventListener("abort", this.#abort);
    this.#onEnd(this);
  }

  #hasRoomFor(bytes: number): boolean {
    const { length } = this.#queue;
    const fits = this.#queueBytes + bytes <= this.#queueBytesMax || length === 0;
    return fits && length < this.#queueMax;
  }

  #makeRoomFor(message: ReceivedMessage): void {
    let missed = 0;
    while (!this.#hasRoomFor(message.payload.length)) missed += this.#take()!.missed + 1;
    (this.#queue.peek() ?? message).missed += missed;
  }

  #take(): ReceivedMessage | undefined {
    const message = this.#queue.shift();
    this.#queueBytes -= message?.payload.length ?? 0;
    return message;
  }
}

function isDropping(overflow: SubscribeOptions["overflow"] = "error"): boolean {
  if (overflow === "error" || overflow === "drop_oldest") return overflow === "drop_oldest";
  throw invalid("overflow", "error or drop_oldest", overflow, "option_invalid");
}
