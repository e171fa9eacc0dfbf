/**
 * TCP: a client's connection, and the `Socket` that a Worker's `connect` handler gets. Bytes arrive in pieces that end anywhere,
 * sometimes several at once, and a side that does not read stops the other one.
 */
import type { Life } from "../life.ts";
import { ByteStream, bytesOf } from "./byte-stream.ts";
import { whenOver } from "./endings.ts";
import type { Latency, Link, Port, Side } from "./link.ts";
import { INTERNET, type Network } from "./network.ts";

const CLIENT: Side = 0;
const SERVER: Side = 1;
/** Bytes that one side may have sent and the other not read. */
const WINDOW_BYTES = 64 << 10;
/** A reader reports what it has read in portions: each report is an event. */
const REPORT_BYTES = WINDOW_BYTES / 4;
/** How often a write is cut in two, and how often the system gives the reader several pieces at once. */
const CUT_SHARE = 0.3;
const JOIN_SHARE = 0.2;
/** The end of a direction takes a byte, so that the link shows whether it has arrived. */
const END_BYTES = 1;
/** How long the system may gather what arrives. */
const JOIN_MS_MAX = 5;

type Segment =
  | { readonly kind: "open" }
  | { readonly kind: "bytes"; readonly bytes: Uint8Array }
  | { readonly kind: "end" }
  | { readonly kind: "read"; readonly bytes: number };

interface Write {
  readonly bytes: Uint8Array;
  at: number;
  readonly done: PromiseWithResolvers<void>;
}

/** What both sides do. */
class TcpSide implements Port<Segment> {
  readonly incoming: ByteStream;
  readonly #network: Network;
  readonly #link: Link<Segment>;
  readonly #side: Side;
  readonly #life: Life;
  readonly #onLost: () => void;
  readonly #forget: () => void;
  readonly #writes: Write[] = [];
  #unreadBytes = 0;
  #unreportedBytes = 0;
  /** What has arrived, and waits for the event in which the reader gets it. */
  #arrived: Segment[] = [];
  #hasEnded = false;
  #peerHasEnded = false;
  #isLost = false;
  /** Nobody reads any more: bytes that still come reset the connection. */
  #isDropped = false;

  constructor(network: Network, link: Link<Segment>, side: Side, life: Life, onLost: () => void) {
    this.#network = network;
    this.#link = link;
    this.#side = side;
    this.#life = life;
    this.#onLost = onLost;
    this.#forget = whenOver(life, () => link.abandon(side, true));
    this.incoming = new ByteStream({ onTaken: (bytes) => this.#report(bytes) });
  }

  /** Resolves when the system has taken the bytes, which the other side's window allows. */
  write(bytes: Uint8Array): Promise<void> {
    if (this.#isLost || this.#hasEnded) return Promise.reject(lost());
    const write: Write = { bytes, at: 0, done: Promise.withResolvers<void>() };
    this.#writes.push(write);
    this.#transmit();
    return write.done.promise;
  }

  /** No more bytes are written; those before go first. */
  async end(): Promise<void> {
    if (this.#hasEnded || this.#isLost) return;
    await this.#writes.at(-1)?.done.promise;
    if (this.#hasEnded || this.#isLost) return;
    this.#hasEnded = true;
    this.#link.send(this.#side, { kind: "end" }, END_BYTES);
    this.#closeIfOver();
  }

  /** Gives the connection up: the other side learns of it as of an error, and may lose what it was sent last. */
  reset(): void {
    if (this.#isLost) return;
    this.#link.abandon(this.#side, true);
    this.#lose();
  }

  /** The socket is closed: bytes that nobody has read reset the connection, as systems do. */
  drop(): void {
    if (this.#isLost || this.#isDropped) return;
    this.#isDropped = true;
    if (this.incoming.queuedBytes > 0) this.reset();
    else void this.end().catch(() => {});
  }

  receive(segment: Segment): void {
    this.#arrived.push(segment);
    if (this.#arrived.length > 1) return;
    const { random } = this.#network.world;
    const delayMs = random.chance(JOIN_SHARE) ? random.next() * JOIN_MS_MAX : 0;
    this.#life.later(delayMs, "tcp.receive", () => this.#take());
  }

  lose(): void {
    this.#life.later(0, "tcp.lost", () => {
      // What has arrived before, and waits to be joined with more.
      this.#take();
      this.#lose();
    });
  }

  #take(): void {
    const parts: Uint8Array[] = [];
    for (const segment of this.#arrived.splice(0)) {
      if (segment.kind === "bytes") parts.push(segment.bytes);
      else if (segment.kind === "read") this.#unreadBytes -= segment.bytes;
      else if (segment.kind === "end") this.#peerHasEnded = true;
    }
    if (parts.length > 0 && this.#isDropped) {
      this.reset();
      return;
    }
    if (parts.length > 0)
      this.incoming.enqueue(parts.length === 1 ? parts[0]! : Buffer.concat(parts));
    if (this.#peerHasEnded) this.incoming.end();
    this.#transmit();
    this.#closeIfOver();
  }

  #transmit(): void {
    const { random } = this.#network.world;
    while (this.#writes.length > 0 && this.#unreadBytes < WINDOW_BYTES) {
      const write = this.#writes[0]!;
      const most = Math.min(write.bytes.length - write.at, WINDOW_BYTES - this.#unreadBytes);
      const length = most > 1 && random.chance(CUT_SHARE) ? 1 + random.int(most - 1) : most;
      const bytes = write.bytes.slice(write.at, write.at + length);
      write.at += length;
      this.#unreadBytes += length;
      this.#link.send(this.#side, { kind: "bytes", bytes }, length);
      if (write.at < write.bytes.length) continue;
      this.#writes.shift();
      write.done.resolve();
    }
  }

  #report(bytes: number): void {
    this.#unreportedBytes += bytes;
    if (this.#unreportedBytes < REPORT_BYTES || this.#life.isOver) return;
    this.#link.send(this.#side, { kind: "read", bytes: this.#unreportedBytes }, 0);
    this.#unreportedBytes = 0;
  }

  #lose(): void {
    if (this.#isLost) return;
    this.#isLost = true;
    this.#forget();
    this.incoming.fail(lost());
    for (const { done } of this.#writes.splice(0)) done.reject(lost());
    this.#onLost();
  }

  #closeIfOver(): void {
    if (!this.#hasEnded || !this.#peerHasEnded || this.#isLost) return;
    this.#forget();
    // Else the last word of this side is still under way, and the other side will close the link.
    if (this.#link.unreceivedBytes(this.#side) === 0) this.#link.close();
  }
}

const lost = (): Error => new Error("Network connection lost.");

/** What a Worker's `connect` handler gets. */
export class SimSocket {
  readonly opened: Promise<{ readonly localAddress: string; readonly remoteAddress: string }>;
  readonly closed: Promise<void>;
  readonly readable: ByteStream;
  readonly writable: WritableStream<Uint8Array>;
  readonly upgraded = false;
  readonly secureTransport = "off";
  readonly #side: TcpSide;
  readonly #closed = Promise.withResolvers<void>();

  constructor(side: TcpSide, addresses: TcpAddresses, gone: AbortSignal) {
    this.#side = side;
    this.opened = Promise.resolve(addresses);
    this.closed = this.#closed.promise;
    this.closed.catch(() => {});
    this.readable = side.incoming;
    this.writable = new WritableStream<Uint8Array>({
      start: (controller) => {
        // `abort` itself waits for a write under way, which may wait for its reader for ever. The runtime's does not.
        controller.signal.addEventListener("abort", () => side.reset());
        gone.addEventListener("abort", () => {
          controller.error(gone.reason);
          this.#closed.reject(gone.reason);
        });
      },
      write: (chunk) => side.write(bytesOf(chunk)),
      close: () => side.end(),
    });
  }

  /** Ends both directions. */
  async close(): Promise<void> {
    this.#side.drop();
    this.#closed.resolve();
    await this.closed;
  }
}

export interface TcpAddresses {
  /** Such as `127.0.0.1:9000`. */
  readonly localAddress: string;
  readonly remoteAddress: string;
}

/** What serves: it chooses the isolate only when a connection arrives. */
export interface TcpDoor {
  /** Runs an event of the isolate that takes the connection. `serve` is its `connect` handler. */
  enter(event: (life: Life, serve: (socket: SimSocket) => Promise<void>) => void): void;
}

/** What a client of TCP hears. */
export interface TcpEvents {
  onBytes(bytes: Uint8Array): void;
  /** The server has sent its last byte. */
  onEnd?(): void;
  /** The connection has failed. */
  onLost?(): void;
}

/** A client's end of a connection. Bytes can be written at once. */
export class TcpClient {
  readonly link: Pick<Link<never>, "cut" | "stall" | "resume" | "isOver" | "name" | "whenOver">;
  readonly #side: TcpSide;
  readonly #events: TcpEvents;
  /** Ends the pause of the reader; null while it reads. */
  #paused: PromiseWithResolvers<void> | null = null;

  constructor(network: Network, link: Link<Segment>, life: Life, events: TcpEvents) {
    this.link = link;
    this.#events = events;
    this.#side = new TcpSide(network, link, CLIENT, life, () => events.onLost?.());
    link.attach(CLIENT, this.#side);
    link.send(CLIENT, { kind: "open" }, 0);
    void this.#read();
  }

  write(bytes: Uint8Array): void {
    this.#side.write(bytes.slice()).catch(() => {});
  }

  /** Sends no more; the server's replies still come. */
  end(): void {
    this.#side.end().catch(() => {});
  }

  /** Resets the connection. */
  destroy(): void {
    this.#side.reset();
  }

  /** Reads no more, until `resume`: what the server writes fills the window. */
  pause(): void {
    this.#paused ??= Promise.withResolvers<void>();
  }

  resume(): void {
    this.#paused?.resolve();
    this.#paused = null;
  }

  async #read(): Promise<void> {
    const reader = this.#side.incoming.getReader();
    try {
      for (;;) {
        await this.#paused?.promise;
        const { done, value } = await reader.read();
        await this.#paused?.promise;
        if (done) break;
        this.#events.onBytes(value!);
      }
    } catch {
      // `onLost` has told.
      return;
    }
    this.#events.onEnd?.();
  }
}

/** Connects a client to a door. */
export function connectTcp(
  network: Network,
  client: Life,
  door: TcpDoor,
  events: TcpEvents,
  options: TcpAddresses & { readonly latencyMs?: Latency },
): TcpClient {
  const { latencyMs = INTERNET } = options;
  const link = network.link<Segment>({ name: `tcp of ${client.name}`, latencyMs, prefixOf });
  link.attach(SERVER, new Listening(network, link, door, options));
  return new TcpClient(network, link, client, events);
}

/** The server's end until an isolate has taken the connection. */
class Listening implements Port<Segment> {
  readonly #network: Network;
  readonly #link: Link<Segment>;
  readonly #door: TcpDoor;
  readonly #addresses: TcpAddresses;
  #side: TcpSide | null = null;
  /** What comes before an isolate has taken the connection; null for its loss. */
  readonly #early: (Segment | null)[] = [];

  constructor(network: Network, link: Link<Segment>, door: TcpDoor, addresses: TcpAddresses) {
    this.#network = network;
    this.#link = link;
    this.#door = door;
    this.#addresses = addresses;
  }

  receive(segment: Segment): void {
    if (segment.kind !== "open") {
      this.#pass(segment);
      return;
    }
    this.#door.enter((life, serve) => this.#accept(life, serve));
    // The isolate has crashed before it could take the connection.
    if (this.#side === null) this.#link.abandon(SERVER, true);
  }

  lose(): void {
    this.#pass(null);
  }

  #pass(segment: Segment | null): void {
    if (this.#side === null) this.#early.push(segment);
    else if (segment === null) this.#side.lose();
    else this.#side.receive(segment);
  }

  #accept(life: Life, serve: (socket: SimSocket) => Promise<void>): void {
    const gone = new AbortController();
    const side = new TcpSide(this.#network, this.#link, SERVER, life, () => gone.abort(lost()));
    this.#side = side;
    for (const segment of this.#early.splice(0)) this.#pass(segment);
    const { localAddress, remoteAddress } = this.#addresses;
    const socket = new SimSocket(side, { localAddress, remoteAddress }, gone.signal);
    // The runtime drops the socket when its handler has returned.
    const drop = (): void => side.drop();
    serve(socket).then(drop, drop);
  }
}

/** A link that is cut leaves the first bytes of a piece. */
function prefixOf(segment: Segment, random: { int(below: number): number }): Segment | null {
  if (segment.kind !== "bytes" || segment.bytes.length < 2) return null;
  return {
    kind: "bytes",
    bytes: segment.bytes.subarray(0, 1 + random.int(segment.bytes.length - 1)),
  };
}
