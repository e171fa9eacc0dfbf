/** `Request`, `Response` and `Blob` of Workers: with WebSockets, and without Node's, some of whose promises need its event loop. */
import { bytesOf, ByteStream } from "./byte-stream.ts";
import { SimWebSocket } from "./web-socket.ts";

const encoder = new TextEncoder();
const decoder = new TextDecoder();
/** Statuses whose responses may have no body. */
const NULL_BODY_STATUSES = [101, 204, 205, 304];

/** What is read by chunks: a stream of ours, or one that code has made. */
export interface Readable {
  readonly locked: boolean;
  getReader(): {
    read(): Promise<{ readonly done: boolean; readonly value?: unknown }>;
    cancel(reason?: unknown): Promise<void>;
  };
  cancel(reason?: unknown): Promise<void>;
  tee(): [Readable, Readable];
}

export type BodySource =
  string | ArrayBuffer | ArrayBufferView | SimBlob | URLSearchParams | Readable | null;

export class SimBlob {
  readonly type: string;
  readonly #bytes: Uint8Array;

  constructor(
    parts: Iterable<string | ArrayBuffer | ArrayBufferView | SimBlob> = [],
    options: { type?: string } = {},
  ) {
    this.#bytes = joined([...parts].map(partBytes));
    this.type = options.type ?? "";
  }

  get size(): number {
    return this.#bytes.length;
  }

  async arrayBuffer(): Promise<ArrayBuffer> {
    return this.#bytes.slice().buffer as ArrayBuffer;
  }

  async bytes(): Promise<Uint8Array> {
    return this.#bytes.slice();
  }

  async text(): Promise<string> {
    return decoder.decode(this.#bytes);
  }

  stream(): ByteStream {
    return ByteStream.of(this.#bytes.slice());
  }

  slice(start?: number, end?: number, type?: string): SimBlob {
    return new SimBlob([this.#bytes.slice(start, end)], type === undefined ? {} : { type });
  }

  /** Without a promise, for bodies. */
  static bytesOf(blob: SimBlob): Uint8Array {
    return blob.#bytes;
  }
}

function partBytes(part: string | ArrayBuffer | ArrayBufferView | SimBlob): Uint8Array {
  if (part instanceof SimBlob) return SimBlob.bytesOf(part);
  if (part instanceof ArrayBuffer || ArrayBuffer.isView(part)) return bytesOf(part);
  return encoder.encode(part);
}

function joined(parts: readonly Uint8Array[]): Uint8Array {
  const whole = new Uint8Array(parts.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

/** A body: bytes while nobody asks for its stream. */
class Body {
  #bytes: Uint8Array | null = null;
  #stream: Readable | null = null;
  #isUsed = false;
  /** What the content type is unless a header says so. */
  readonly type: string | null = null;

  constructor(source: BodySource | undefined) {
    if (source === null || source === undefined) return;
    if (typeof source === "string") {
      this.#bytes = encoder.encode(source);
      this.type = "text/plain;charset=UTF-8";
    } else if (source instanceof SimBlob) {
      this.#bytes = SimBlob.bytesOf(source);
      this.type = source.type === "" ? null : source.type;
    } else if (source instanceof URLSearchParams) {
      this.#bytes = encoder.encode(source.toString());
      this.type = "application/x-www-form-urlencoded;charset=UTF-8";
    } else if (source instanceof ArrayBuffer || ArrayBuffer.isView(source)) {
      this.#bytes = bytesOf(source);
    } else {
      if (source.locked)
        throw new TypeError("This ReadableStream is currently locked to a reader.");
      this.#stream = source;
    }
  }

  get isNull(): boolean {
    return this.#bytes === null && this.#stream === null;
  }

  get isUsed(): boolean {
    return this.#isUsed || (this.#stream instanceof ByteStream && this.#stream.isDisturbed);
  }

  /** Bytes of a body that is no stream; null for one that is. */
  get wholeBytes(): Uint8Array | null {
    return this.isNull ? new Uint8Array(0) : this.#stream === null ? this.#bytes : null;
  }

  get stream(): Readable | null {
    if (this.#stream === null && this.#bytes !== null) {
      this.#stream = ByteStream.of(this.#bytes.slice());
      if (this.#isUsed) this.#stream.getReader();
      this.#bytes = null;
    }
    return this.#stream;
  }

  async read(): Promise<Uint8Array> {
    if (this.isUsed || this.#stream?.locked === true) {
      throw new TypeError(
        "Body has already been used. It can only be used once. Use tee() first if you need to read it twice.",
      );
    }
    this.#isUsed = true;
    if (this.#stream === null) return this.#bytes?.slice() ?? new Uint8Array(0);
    const reader = this.#stream.getReader();
    const parts: Uint8Array[] = [];
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return joined(parts);
      parts.push(bytesOf(value));
    }
  }

  /** The body for another message, and none for this one. */
  take(): BodySource {
    if (this.isUsed) throw new TypeError("Body has already been used.");
    if (this.isNull) return null;
    this.#isUsed = true;
    return this.#stream ?? this.#bytes;
  }

  /** The same body once more. */
  split(): BodySource {
    if (this.isUsed) throw new TypeError("Body has already been used.");
    if (this.#stream === null) return this.#bytes;
    const [mine, other] = this.#stream.tee();
    this.#stream = mine;
    return other;
  }
}

/** What requests and responses have in common. */
abstract class Message {
  readonly headers: Headers;
  readonly #body: Body;

  constructor(body: BodySource | undefined, headers: HeadersInit | undefined) {
    this.#body = new Body(body);
    this.headers = new Headers(headers);
    if (this.#body.type !== null && !this.headers.has("content-type")) {
      this.headers.set("content-type", this.#body.type);
    }
  }

  get body(): Readable | null {
    return this.#body.stream;
  }

  get bodyUsed(): boolean {
    return this.#body.isUsed;
  }

  async arrayBuffer(): Promise<ArrayBuffer> {
    return (await this.#body.read()).buffer as ArrayBuffer;
  }

  async bytes(): Promise<Uint8Array> {
    return await this.#body.read();
  }

  async text(): Promise<string> {
    return decoder.decode(await this.#body.read());
  }

  async json(): Promise<unknown> {
    return JSON.parse(await this.text());
  }

  async blob(): Promise<SimBlob> {
    return new SimBlob([await this.#body.read()], { type: this.headers.get("content-type") ?? "" });
  }

  async formData(): Promise<FormData> {
    const form = new FormData();
    for (const [name, value] of new URLSearchParams(await this.text())) form.append(name, value);
    return form;
  }

  /** The body of a message: for who carries it elsewhere. */
  static bodyOf(message: Message): Body {
    return message.#body;
  }
}

/** Bytes of a body that is no stream, else null. */
export const wholeBodyOf = (message: SimRequest | SimResponse): Uint8Array | null =>
  Message.bodyOf(message).wholeBytes;

export interface SimResponseInit {
  readonly status?: number;
  readonly statusText?: string;
  readonly headers?: HeadersInit;
  readonly webSocket?: SimWebSocket | null;
}

export class SimResponse extends Message {
  readonly status: number;
  readonly statusText: string;
  readonly webSocket: SimWebSocket | null;
  readonly url = "";
  readonly redirected = false;
  readonly type = "default";

  constructor(body?: BodySource, init: SimResponseInit = {}) {
    const status = init.status ?? 200;
    const webSocket = init.webSocket ?? null;
    if (webSocket !== null && status !== 101) {
      throw new RangeError("Responses with a WebSocket must have status code 101.");
    }
    if ((status < 200 || status > 599) && webSocket === null) {
      throw new RangeError(
        "Responses may only be constructed with status codes in the range 200 to 599, inclusive.",
      );
    }
    if (body != null && NULL_BODY_STATUSES.includes(status)) {
      throw new TypeError(
        `Response with null body status (101, 204, 205, or 304) cannot have a body.`,
      );
    }
    super(body, init.headers);
    this.status = status;
    this.statusText = init.statusText ?? "";
    this.webSocket = webSocket;
  }

  static json(value: unknown, init: SimResponseInit = {}): SimResponse {
    const headers = new Headers(init.headers);
    if (!headers.has("content-type")) headers.set("content-type", "application/json");
    return new SimResponse(JSON.stringify(value), { ...init, headers });
  }

  static redirect(url: string, status = 302): SimResponse {
    return new SimResponse(null, { status, headers: { location: String(new URL(url)) } });
  }

  static error(): SimResponse {
    return new SimResponse(null, { status: 500 });
  }

  get ok(): boolean {
    return this.status >= 200 && this.status <= 299;
  }

  clone(): SimResponse {
    if (this.webSocket !== null)
      throw new TypeError("Cannot clone a response to a WebSocket handshake.");
    return new SimResponse(Message.bodyOf(this).split(), this);
  }
}

export interface SimRequestInit {
  readonly method?: string;
  readonly headers?: HeadersInit;
  readonly body?: BodySource;
  readonly signal?: AbortSignal | null;
  readonly redirect?: string;
  readonly cf?: object;
}

export class SimRequest extends Message {
  readonly method: string;
  readonly url: string;
  readonly signal: AbortSignal;
  readonly redirect: string;
  readonly cf: object | undefined;

  constructor(input: string | URL | SimRequest, init: SimRequestInit = {}) {
    const from = input instanceof SimRequest ? input : null;
    const method = (init.method ?? from?.method ?? "GET").toUpperCase();
    const body = init.body ?? (from === null ? null : Message.bodyOf(from).take());
    if (body !== null && (method === "GET" || method === "HEAD")) {
      throw new TypeError("Request with a GET or HEAD method cannot have a body.");
    }
    super(body, init.headers ?? from?.headers);
    this.method = method;
    this.url = from === null ? new URL(input as string | URL).href : from.url;
    this.signal = init.signal ?? from?.signal ?? new AbortController().signal;
    this.redirect = init.redirect ?? from?.redirect ?? "follow";
    this.cf = init.cf ?? from?.cf;
  }

  clone(): SimRequest {
    const { method, headers, signal, redirect } = this;
    const cf = this.cf === undefined ? {} : { cf: this.cf };
    return new SimRequest(this.url, {
      method,
      headers,
      signal,
      redirect,
      ...cf,
      body: Message.bodyOf(this).split(),
    });
  }
}
