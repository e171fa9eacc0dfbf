/**
 * One exchange of HTTP: a request of a client, and the answer of the isolate that takes it, over a link of their own. Bodies
 * stream in pieces, each at the pace of its reader; either side may be gone at any moment.
 */
import type { Life } from "../life.ts";
import { ByteStream, bytesOf } from "./byte-stream.ts";
import { whenOver } from "./endings.ts";
import type { Latency, Link, Port, Side } from "./link.ts";
import { SimRequest, SimResponse, wholeBodyOf, type Readable } from "./messages.ts";
import { INTERNET, makeBlob, type Network } from "./network.ts";
import type { SocketEnd } from "./socket-end.ts";
import { endOf, SimWebSocket } from "./web-socket.ts";

/** The `fetch` handler of a Worker. */
export type Serve = (request: SimRequest) => Promise<SimResponse>;
/** @returns whether the code of the request still runs */
export type LetGo = (isGone: boolean) => boolean;

/** What serves: it chooses the isolate only when a request arrives. */
export interface Door {
  /**
   * Runs an event of the isolate that takes the request. The life is that of the request; `letGo` is called when its answer has
   * left, or its client has gone.
   */
  enter(event: (life: Life, serve: Serve, letGo: LetGo) => void): void;
}

const CLIENT: Side = 0;
const SERVER: Side = 1;
/** Bytes of a body that may be on their way, or wait for a reader. */
const WINDOW_BYTES = 64 << 10;
/** How often a body travels by itself, behind the head of its message, and in pieces. */
const PIECES_SHARE = 0.3;

type Part =
  | { readonly kind: "request"; readonly request: SimRequest; readonly body: Uint8Array | null }
  | {
      readonly kind: "response";
      readonly response: SimResponse;
      readonly body: Uint8Array | null;
      readonly end: SocketEnd | null;
    }
  | { readonly kind: "bytes"; readonly bytes: Uint8Array }
  | { readonly kind: "end" }
  | { readonly kind: "fail" }
  | { readonly kind: "taken"; readonly bytes: number }
  | { readonly kind: "cancel" };

const END: Part = { kind: "end" };
const FAIL: Part = { kind: "fail" };
const CANCEL: Part = { kind: "cancel" };

/** One side's bodies: the one that it sends, and the one that it receives. */
class Bodies {
  readonly incoming: ByteStream;
  hasReceivedAll = false;
  hasSentAll = false;
  readonly #link: Link<Part>;
  readonly #side: Side;
  readonly #life: Life;
  readonly #network: Network;
  readonly #onChange: () => void;
  #unreadBytes = 0;
  #room: (() => void) | null = null;
  #cancel: (() => void) | null = null;
  #isStopped = false;

  constructor(network: Network, link: Link<Part>, side: Side, life: Life, onChange: () => void) {
    this.#network = network;
    this.#link = link;
    this.#side = side;
    this.#life = life;
    this.#onChange = onChange;
    this.incoming = new ByteStream({
      onTaken: (bytes) => this.#send({ kind: "taken", bytes }, 0),
      onCancel: () => {
        this.hasReceivedAll = true;
        this.#send(CANCEL, 0);
        this.#onChange();
      },
    });
  }

  /** The body that came with the head of its message, or follows it. */
  begin(body: Uint8Array | null): void {
    if (body === null) return;
    if (body.length > 0) this.incoming.enqueue(body);
    this.finish();
  }

  finish(): void {
    this.hasReceivedAll = true;
    this.incoming.end();
    this.#onChange();
  }

  /** The whole body goes with the head, where chance or its size allows. */
  isSentWithHead(body: Uint8Array | null): body is Uint8Array {
    if (body === null) return false;
    return (
      body.length <= 1 ||
      (body.length < WINDOW_BYTES && !this.#network.world.random.chance(PIECES_SHARE))
    );
  }

  async sendStream(source: Readable): Promise<void> {
    const reader = source.getReader();
    let isCancelled = false;
    this.#cancel = () => {
      isCancelled = true;
      void reader.cancel(new Error("Network connection lost.")).catch(() => {});
    };
    // A body that is answered to a client that has gone.
    if (this.#isStopped) this.#cancel();
    try {
      for (;;) {
        const { done, value } = await reader.read();
        if (done || isCancelled) break;
        await this.#sendBytes(bytesOf(value));
      }
      this.#send(END, 0);
    } catch {
      this.#send(FAIL, 0);
    }
    this.#cancel = null;
    this.hasSentAll = true;
    this.#onChange();
  }

  async sendWhole(bytes: Uint8Array): Promise<void> {
    await this.sendStream(ByteStream.of(bytes));
  }

  /** What the other side has said of a body. */
  take(part: Part): void {
    if (part.kind === "bytes") this.incoming.enqueue(part.bytes);
    else if (part.kind === "end") this.finish();
    else if (part.kind === "fail") this.lose();
    else if (part.kind === "cancel") this.#stop();
    else if (part.kind === "taken") {
      this.#unreadBytes -= part.bytes;
      if (this.#unreadBytes < WINDOW_BYTES) this.#goOn();
    }
  }

  /**
   * The other side is gone.
   *
   * @param isHeard whether a reader hears of it: code that ends with its client does not
   */
  lose(isHeard = true): void {
    this.hasReceivedAll = true;
    if (isHeard) this.incoming.fail(new Error("Network connection lost."));
    this.#stop();
    this.#onChange();
  }

  #stop(): void {
    this.#isStopped = true;
    this.#cancel?.();
    this.#goOn();
  }

  #goOn(): void {
    this.#room?.();
    this.#room = null;
  }

  /** In pieces that end anywhere. */
  async #sendBytes(bytes: Uint8Array): Promise<void> {
    const { random } = this.#network.world;
    for (let at = 0; at < bytes.length;) {
      if (this.#unreadBytes >= WINDOW_BYTES)
        await new Promise<void>((resolve) => (this.#room = resolve));
      const most = Math.min(bytes.length - at, WINDOW_BYTES);
      const length = random.chance(PIECES_SHARE) ? 1 + random.int(most) : most;
      const piece = bytes.subarray(at, at + length);
      at += length;
      this.#unreadBytes += length;
      this.#send({ kind: "bytes", bytes: piece }, length);
    }
  }

  #send(part: Part, bytes: number): void {
    if (!this.#life.isOver) this.#link.send(this.#side, part, bytes);
  }
}

export interface ExchangeOptions {
  readonly latencyMs?: Latency;
  /** Hears when the link is cut or closed, which both sides learn later. */
  readonly onOver?: () => void;
}

/**
 * Sends a request, and returns the promise of its response. It rejects as `fetch` does, with a TypeError when the connection
 * fails, or with the reason of the request's signal.
 */
export function exchange(
  network: Network,
  client: Life,
  door: Door,
  request: SimRequest,
  { latencyMs = INTERNET, onOver }: ExchangeOptions = {},
): Promise<SimResponse> {
  const link = network.link<Part>({
    name: `exchange of ${client.name}`,
    latencyMs,
    prefixOf: prefixOfPart,
  });
  if (onOver !== undefined) link.whenOver(onOver);
  link.attach(SERVER, new ServerSide(network, link, door));
  const { time, faults } = network.world;
  const stayMs = faults?.clientStaysMs() ?? Infinity;
  // Both sides notice soon: the client has reset the connection.
  if (stayMs < Infinity) time.after(stayMs, () => link.cut([0, latencyMs(network.world.random)]));
  return new ClientSide(network, link, client).send(request);
}

class ClientSide {
  readonly #link: Link<Part>;
  readonly #life: Life;
  readonly #bodies: Bodies;
  readonly #answer = Promise.withResolvers<SimResponse>();
  readonly #forget: () => void;
  #hasAnswer = false;

  constructor(network: Network, link: Link<Part>, life: Life) {
    this.#link = link;
    this.#life = life;
    this.#forget = whenOver(life, () => link.abandon(CLIENT));
    this.#bodies = new Bodies(network, link, CLIENT, life, () => this.#closeIfDone());
    link.attach(CLIENT, {
      receive: (part) => life.later(0, "fetch.receive", () => this.#take(part)),
      lose: () => life.later(0, "fetch.lost", () => this.#lose(new TypeError("fetch failed"))),
    });
  }

  send(request: SimRequest): Promise<SimResponse> {
    const { signal } = request;
    if (signal.aborted) {
      this.#link.abandon(CLIENT);
      this.#forget();
      return Promise.reject(signal.reason as Error);
    }
    signal.addEventListener("abort", () => {
      if (this.#bodies.hasReceivedAll || this.#link.isOver) return;
      this.#link.abandon(CLIENT);
      this.#lose(signal.reason);
    });
    const body = wholeBodyOf(request);
    if (body !== null && body.length > 0)
      request.headers.set("content-length", String(body.length));
    const isWithHead = this.#bodies.isSentWithHead(body);
    this.#link.send(
      CLIENT,
      { kind: "request", request, body: isWithHead ? body.slice() : null },
      200,
    );
    if (isWithHead) this.#bodies.hasSentAll = true;
    else void this.#bodies.sendStream(request.body!);
    return this.#answer.promise;
  }

  #take(part: Part): void {
    if (part.kind !== "response") {
      this.#bodies.take(part);
      return;
    }
    const { status, statusText, headers } = part.response;
    this.#hasAnswer = true;
    this.#bodies.begin(part.body);
    const webSocket = part.end === null ? null : new SimWebSocket(this.#life, part.end, makeBlob);
    const hasBody = part.body === null || part.body.length > 0;
    const body = hasBody ? this.#bodies.incoming : null;
    this.#answer.resolve(
      new SimResponse(body, { status, statusText, headers: new Headers(headers), webSocket }),
    );
    this.#closeIfDone();
  }

  #lose(reason: unknown): void {
    this.#forget();
    if (!this.#hasAnswer) this.#answer.reject(reason as Error);
    this.#hasAnswer = true;
    this.#bodies.incoming.fail(reason);
    this.#bodies.lose();
  }

  /** The connection is not kept: each exchange has one of its own. */
  #closeIfDone(): void {
    if (!this.#hasAnswer || !this.#bodies.hasReceivedAll) return;
    this.#forget();
    // The server may be reading the request still, which it has answered already.
    if (this.#bodies.hasSentAll) this.#link.close();
  }
}

class ServerSide implements Port<Part> {
  readonly #network: Network;
  readonly #link: Link<Part>;
  #life: Life | null = null;
  #bodies: Bodies | null = null;
  /** Aborts the request's signal. */
  readonly #gone = new AbortController();
  #isLost = false;
  /** The WebSocket that was the answer. */
  #end: SocketEnd | null = null;
  #forget: () => void = () => {};
  #letGo: LetGo = () => true;

  readonly #door: Door;

  constructor(network: Network, link: Link<Part>, door: Door) {
    this.#network = network;
    this.#link = link;
    this.#door = door;
  }

  receive(part: Part): void {
    if (part.kind === "request") {
      this.#door.enter((life, serve, letGo) => {
        this.#letGo = letGo;
        this.#begin(life, part.request, part.body, serve);
      });
      // The isolate has crashed before it could take the request.
      if (this.#life === null) this.#link.abandon(SERVER);
    } else this.#life?.later(0, "request.receive", () => this.#bodies!.take(part));
  }

  lose(): void {
    this.#isLost = true;
    if (this.#life?.isOver === true) this.#loseEnd();
    else this.#life?.later(0, "request.lost", () => this.#lose());
  }

  #begin(life: Life, sent: SimRequest, body: Uint8Array | null, serve: Serve): void {
    this.#life = life;
    this.#forget = whenOver(life, () => this.#link.abandon(SERVER));
    const bodies = new Bodies(this.#network, this.#link, SERVER, life, () => {});
    this.#bodies = bodies;
    bodies.begin(body);
    const { url, method, cf } = sent;
    const hasBody = body === null || body.length > 0;
    const request = new SimRequest(url, {
      method,
      headers: new Headers(sent.headers),
      signal: this.#gone.signal,
      body: hasBody ? bodies.incoming : null,
      ...(cf === undefined ? {} : { cf }),
    });
    if (this.#isLost) life.later(0, "request.lost", () => this.#lose());
    serve(request).then(
      (response) => this.#answer(life, response),
      () => this.#answer(life, new SimResponse("Internal Server Error", { status: 500 })),
    );
  }

  #answer(life: Life, response: SimResponse): void {
    if (life.isOver) return;
    const { webSocket } = response;
    const end = webSocket === null ? null : endOf(webSocket);
    if (end !== null) {
      // From here on it is the client's, which holds it when the answer arrives.
      this.#network.carry(end, this.#link.latencyMs);
      end.passOn();
      this.#end = end;
      if (this.#isLost) this.#loseEnd();
    }
    const whole = wholeBodyOf(response);
    const bodies = this.#bodies!;
    const isWithHead = bodies.isSentWithHead(whole);
    this.#link.send(
      SERVER,
      { kind: "response", response, body: isWithHead ? whole.slice() : null, end },
      200,
    );
    if (isWithHead) this.#endAnswer();
    else void bodies.sendStream(response.body!).then(() => this.#endAnswer());
  }

  /** A request whose body has not come to its end is given up with its life. */
  #endAnswer(): void {
    if (this.#bodies!.hasReceivedAll) this.#forget();
    this.#letGo(false);
  }

  #lose(): void {
    this.#forget();
    this.#gone.abort(new DOMException("The client has disconnected.", "AbortError"));
    const goesOn = this.#letGo(true);
    this.#bodies!.lose(goesOn);
    this.#loseEnd();
  }

  /** A WebSocket that never reached its client. */
  #loseEnd(): void {
    if (this.#end?.isAccepted === false) this.#end.abandon();
  }
}

/** A link that is cut leaves the first bytes of a piece; nothing else can be halved. */
function prefixOfPart(part: Part, random: { int(below: number): number }): Part | null {
  if (part.kind !== "bytes" || part.bytes.length < 2) return null;
  return { kind: "bytes", bytes: part.bytes.subarray(0, 1 + random.int(part.bytes.length - 1)) };
}
