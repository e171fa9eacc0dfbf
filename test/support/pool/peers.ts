/** Peers of publish and subscribe: connections that tell pushes from replies, and publishers over HTTP. */
import { exports } from "cloudflare:workers";
import {
  CHANNELS,
  bytesOf,
  concat,
  hex,
  parseFragments,
  subscribe,
  subscribersOf,
  ThrottrFrames,
  unsubscribe,
  WHOAMI,
} from "../frames/index.ts";
import { connectTcp, post } from "./doors.ts";

const server = exports.default as unknown as Fetcher;

const EVENT = 0x19;
const PUSH_7_1 = 0x03;

const ID_BYTES = 16;
const CHANNELS_ROW_BYTES = 25;
const SUBSCRIBER_ROW_BYTES = 40;
const REPLY_TIMEOUT_MS = 5000;

export interface PeerKind {
  readonly transport: "websocket" | "tcp";
  readonly dialect: "7.3" | "7.1";
  readonly valueSize: 1 | 2 | 4 | 8;
  /** Where its requests say that they come from; nothing of TCP is known. */
  readonly location: string;
}

/** A clock that tells what was seen first. */
let clock = 0;
export const tick = (): number => ++clock;

/** A payload of its own for each message: it begins with the message's number. */
let messages = 0;
const payloads = new Map<number, Uint8Array>();
export const PAYLOAD_BYTES_MIN = 12;

export interface Message {
  readonly number: number;
  readonly channel: string;
  readonly payload: Uint8Array;
}

export function newMessage(channel: string, payloadBytes: number): Message {
  const number = messages++;
  const payload = new Uint8Array(Math.max(PAYLOAD_BYTES_MIN, payloadBytes)).fill(number);
  payload.set(bytesOf(`m:${number}:`));
  payloads.set(number, payload);
  return { number, channel, payload };
}

/** The number of the message that has a payload; null when none has. */
export function numberOf(payload: Uint8Array): number | null {
  const start = String.fromCharCode(...payload.subarray(0, PAYLOAD_BYTES_MIN));
  const number = Number(/^m:(\d+):/.exec(start)?.[1] ?? NaN);
  const sent = payloads.get(number);
  if (sent?.length !== payload.length) return null;
  return sent.every((byte, i) => byte === payload[i]) ? number : null;
}

/** Requests to publish messages. */
function messageFrames(valueSize: number, sent: readonly Message[]): Uint8Array[] {
  const frames = new ThrottrFrames(valueSize);
  return sent.map(({ channel, payload }) => frames.publish(channel, payload));
}

/** What a peer was pushed. */
export interface Received {
  readonly number: number;
  /** Null in 7.1, whose pushes do not say. */
  readonly channel: string | null;
  readonly at: number;
}

/** A reply, and when it had come. */
export interface Reply {
  readonly bytes: Uint8Array;
  readonly at: number;
}

interface Expected {
  readonly bytes: number;
  readonly resolve: (reply: Reply) => void;
  readonly reject: (error: Error) => void;
}

/** A push at the beginning of some bytes: its length, or 0 when it is none, or not whole yet. */
interface PushFound {
  readonly length: number;
  readonly isWhole: boolean;
  readonly channel: string | null;
  readonly payload: Uint8Array;
}

/** The server has ended the connection, or it was closed here, before a reply. */
export class ConnectionEnded extends Error {
  override readonly name = "ConnectionEnded";
}

export class Peer {
  readonly kind: PeerKind;
  /** In hex: its own channel. */
  id = "";
  readonly received: Received[] = [];
  /** As they were read, in TCP. */
  readonly chunks: Uint8Array[] = [];
  /** Resolves when the server has ended the connection, too. */
  readonly closed: Promise<void>;
  readonly #send: (bytes: Uint8Array) => void;
  readonly #close: () => void;
  readonly #expected: Expected[] = [];
  #unread: Uint8Array = new Uint8Array(0);
  #ending: string | null = null;

  private constructor(kind: PeerKind, wire: Wire) {
    this.kind = kind;
    this.#send = wire.send;
    this.#close = wire.close;
    this.closed = wire.closed.then((ending) => this.#end(ending));
    wire.listen((bytes) => this.#read(bytes));
  }

  static async open(kind: PeerKind): Promise<Peer> {
    const wire = kind.transport === "tcp" ? openTcpWire(kind) : await openWebSocketWire(kind);
    const peer = new Peer(kind, wire);
    peer.id = await peer.whoami();
    return peer;
  }

  get isOpen(): boolean {
    return this.#ending === null;
  }

  /** Sends frames in one piece; resolves with a reply for each of the lengths. */
  async request(frames: Uint8Array, replyBytes: readonly number[]): Promise<Reply[]> {
    if (this.#ending !== null) throw new ConnectionEnded(this.#ending);
    const replies = replyBytes.map((bytes) => {
      const { promise, resolve, reject } = Promise.withResolvers<Reply>();
      this.#expected.push({ bytes, resolve, reject });
      return promise;
    });
    const late = Promise.withResolvers<never>();
    const timer = setTimeout(
      () => late.reject(new Error(`no reply to ${hex(frames.subarray(0, 20))}`)),
      REPLY_TIMEOUT_MS,
    );
    try {
      this.#send(frames);
      return await Promise.race([Promise.all(replies), late.promise]);
    } finally {
      clearTimeout(timer);
    }
  }

  async subscribe(channel: string): Promise<Reply> {
    return await this.#requestOne(subscribe(channel), 1);
  }

  async unsubscribe(channel: string): Promise<Reply> {
    return await this.#requestOne(unsubscribe(channel), 1);
  }

  /** Publishes messages in one piece; one status each. */
  async publish(sent: readonly Message[]): Promise<Reply[]> {
    const frames = messageFrames(this.kind.valueSize, sent);
    return await this.request(
      concat(frames),
      frames.map(() => 1),
    );
  }

  async whoami(): Promise<string> {
    const hasStatus = this.kind.dialect !== "7.1";
    const { bytes } = await this.#requestOne(WHOAMI, ID_BYTES + (hasStatus ? 1 : 0));
    return hex(bytes.subarray(hasStatus ? 1 : 0));
  }

  /** Waits until all that the server has sent before now has come. */
  async catchUp(): Promise<void> {
    const { bytes } = await this.unsubscribe("\0nobody");
    if (bytes[0] !== 0)
      throw new Error("UNSUBSCRIBE of a channel without a subscription succeeded");
  }

  /** Closes the connection, with the replies that are still to come. */
  async close(): Promise<void> {
    this.#close();
    await this.closed;
  }

  async #requestOne(frame: Uint8Array, replyBytes: number): Promise<Reply> {
    const [reply] = await this.request(frame, [replyBytes]);
    return reply!;
  }

  #read(bytes: Uint8Array): void {
    if (this.kind.transport === "tcp") this.chunks.push(bytes);
    this.#unread = concat([this.#unread, bytes]);
    while (this.#unread.length > 0) {
      const push = findPush(this.kind, this.#unread);
      if (push === null ? !this.#readReply() : !this.#readPush(push)) return;
    }
  }

  #readReply(): boolean {
    const [expected] = this.#expected;
    if (expected === undefined) {
      this.#end(`unasked: ${hex(this.#unread.subarray(0, 40))}`);
      this.#close();
      return false;
    }
    if (this.#unread.length < expected.bytes) return false;
    this.#expected.shift();
    const bytes = this.#unread.subarray(0, expected.bytes);
    this.#unread = this.#unread.subarray(expected.bytes);
    expected.resolve({ bytes, at: tick() });
    return true;
  }

  #readPush({ length, isWhole, channel, payload }: PushFound): boolean {
    if (!isWhole) return false;
    const number = numberOf(payload);
    if (number === null) {
      this.#end(`a push of what nobody published: ${hex(payload.subarray(0, 40))}`);
      this.#close();
      return false;
    }
    this.received.push({ number, channel, at: tick() });
    this.#unread = this.#unread.subarray(length);
    return true;
  }

  #end(ending: string): void {
    this.#ending ??= ending;
    for (const { reject } of this.#expected.splice(0)) reject(new ConnectionEnded(this.#ending));
  }
}

/** The push that some bytes begin with; null when they begin with a reply. */
export function findPush(
  { dialect, valueSize }: Pick<PeerKind, "dialect" | "valueSize">,
  bytes: Uint8Array,
): PushFound | null {
  const isShort = dialect === "7.1";
  if (bytes[0] !== (isShort ? PUSH_7_1 : EVENT)) return null;
  const sizeAt = isShort ? 1 : 2;
  const header = sizeAt + valueSize;
  const channelBytes = isShort ? 0 : (bytes[1] ?? 0);
  let payloadBytes = 0;
  for (let i = 0; i < valueSize; i++) payloadBytes += (bytes[sizeAt + i] ?? 0) * 256 ** i;
  const payloadAt = header + channelBytes;
  const length = payloadAt + payloadBytes;
  const payload = bytes.subarray(payloadAt, length);
  // An id that 7.1 gives without a status may begin like a push.
  if (isShort && bytes.length >= payloadAt + 2 && !(payload[0] === 0x6d && payload[1] === 0x3a))
    return null;
  return {
    length,
    isWhole: bytes.length >= header && bytes.length >= length,
    channel: isShort ? null : String.fromCharCode(...bytes.subarray(header, payloadAt)),
    payload,
  };
}

/** What carries a peer's bytes. */
interface Wire {
  readonly send: (bytes: Uint8Array) => void;
  readonly close: () => void;
  listen(read: (bytes: Uint8Array) => void): void;
  /** How it ended. */
  readonly closed: Promise<string>;
}

async function openWebSocketWire({ dialect, valueSize, location }: PeerKind): Promise<Wire> {
  const url = `http://localhost/throttr/${dialect}/uint${8 * valueSize}`;
  const headers = { upgrade: "websocket" };
  const response = await server.fetch(
    new Request(url, { headers, cf: { colo: location } } as RequestInit),
  );
  const socket = response.webSocket;
  if (socket === null) throw new Error(`${response.status}: ${await response.text()}`);
  const closed = Promise.withResolvers<string>();
  socket.binaryType = "arraybuffer";
  socket.addEventListener("close", ({ code, reason }) => closed.resolve(`${code} ${reason}`));
  return {
    send: (bytes) => socket.send(bytes),
    close: () => socket.close(1000),
    listen(read) {
      socket.addEventListener("message", ({ data }) => read(new Uint8Array(data as ArrayBuffer)));
      socket.accept();
    },
    closed: closed.promise,
  };
}

function openTcpWire({ valueSize }: PeerKind): Wire {
  const socket = connectTcp(9000 + valueSize);
  const writer = (socket.writable as WritableStream<Uint8Array>).getWriter();
  const closed = Promise.withResolvers<string>();
  return {
    send: (bytes) => void writer.write(bytes).catch(() => {}),
    close: () => void writer.close().catch(() => {}),
    listen(read) {
      void (async () => {
        try {
          for await (const chunk of socket.readable as ReadableStream<Uint8Array>) read(chunk);
        } catch {
          // A reset is an end, too.
        }
        closed.resolve("closed");
      })();
    },
    closed: closed.promise,
  };
}

/** Publishes messages in one HTTP body of 7.3; one status each. */
export async function publishBody(sent: readonly Message[]): Promise<number[]> {
  const frames = messageFrames(4, sent);
  return [...(await ask(concat(frames), "uint32"))];
}

/** Publishes a message as a web page does; returns how many subscriptions took it. */
export async function publishPlain({ channel, payload }: Message): Promise<number> {
  const path = Array.from(bytesOf(channel), (byte) => `%${hex([byte])}`).join("");
  const response = await server.fetch(`http://localhost/channels/${path}`, {
    method: "POST",
    body: payload,
  });
  if (!response.ok) throw new Error(await response.text());
  return ((await response.json()) as { delivered: number }).delivered;
}

export interface Subscribers {
  readonly readBytes: number;
  readonly writeBytes: number;
  readonly subscriptions: number;
}

/** What CHANNELS says, by name. */
export async function askChannels(): Promise<Map<string, Subscribers>> {
  const shape = { hasStatus: true, rowBytes: CHANNELS_ROW_BYTES, hasNames: true };
  const fragments = parseFragments(await ask(CHANNELS, "uint64"), shape);
  const rows = fragments.flatMap(({ rows }) => rows);
  return new Map(
    rows.map(({ row, name }) => {
      const view = new DataView(row.buffer, row.byteOffset, row.byteLength);
      const [readBytes, writeBytes, subscriptions] = [0, 8, 16].map((at) =>
        Number(view.getBigUint64(at, true)),
      );
      return [
        name,
        { readBytes: readBytes!, writeBytes: writeBytes!, subscriptions: subscriptions! },
      ];
    }),
  );
}

/** What CHANNEL says, by id in hex; null when there is no subscriber. */
export async function askChannel(
  channel: string,
): Promise<Map<string, { sinceMs: number; readBytes: number; writeBytes: number }> | null> {
  const answer = await ask(subscribersOf(channel), "uint64");
  if (answer[0] === 0) return null;
  const view = new DataView(answer.buffer, answer.byteOffset, answer.byteLength);
  const u64 = (at: number): number => Number(view.getBigUint64(at, true));
  const count = u64(1);
  if (answer.length !== 9 + count * SUBSCRIBER_ROW_BYTES) throw new Error("length of CHANNEL");
  return new Map(
    Array.from({ length: count }, (_, i) => {
      const at = 9 + i * SUBSCRIBER_ROW_BYTES;
      const id = hex(answer.subarray(at, at + ID_BYTES));
      return [
        id,
        {
          sinceMs: Number(view.getBigUint64(at + 16, true) / 1_000_000n),
          readBytes: u64(at + 24),
          writeBytes: u64(at + 32),
        },
      ];
    }),
  );
}

async function ask(body: BodyInit, size: string): Promise<Uint8Array> {
  const response = await post("7.3", size, body);
  if (!response.ok) throw new Error(await response.text());
  return new Uint8Array(await response.arrayBuffer());
}
