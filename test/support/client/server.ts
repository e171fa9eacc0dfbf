/**
 * A server that the client's tests play: connections on which they decide what arrives, what is
 * executed, what is answered, in which pieces, and how it ends.
 */
import type {
  Ending,
  Socket,
  SocketEvents,
  Transport,
} from "../../../src/client/transport/transport.ts";
import { ByteWriter } from "../../../src/wire/bytes.ts";
import { Command, STATUS_ERROR } from "../../../src/wire/edge/command.ts";
import { ThrottrError } from "../../../src/wire/edge/error.ts";
import { EDGE } from "../../../src/wire/edge/protocol.ts";
import { layoutsOf, RequestType, STATUS_SUCCESS } from "../../../src/wire/throttr/requests.ts";
import { frameLength } from "../../../src/wire/throttr/scanner.ts";

const LAYOUTS = layoutsOf(EDGE);
const decoder = new TextDecoder();
const encoder = new TextEncoder();

/** A frame that was received. */
export interface ReceivedFrame {
  readonly type: number;
  /** Key or channel. */
  readonly name: string;
  readonly bytes: Uint8Array;
}

/** The frames of a message. */
export function framesOf(message: Uint8Array): ReceivedFrame[] {
  const frames: ReceivedFrame[] = [];
  for (let at = 0; at < message.length;) {
    const layout = LAYOUTS[message[at]!]!;
    const length = frameLength(LAYOUTS, message, at, message.length, Infinity);
    const nameAt = at + layout.keyAt;
    const nameBytes = layout.keySizeAt === 0 ? 0 : message[at + layout.keySizeAt]!;
    frames.push({
      type: message[at]!,
      name: decoder.decode(message.subarray(nameAt, nameAt + nameBytes)),
      bytes: message.slice(at, at + length),
    });
    at += length;
  }
  return frames;
}

/** A quota that is the key's own. */
export function quotaOf(key: string): bigint {
  let quota = 7n;
  for (const byte of encoder.encode(key)) quota = (quota * 31n + BigInt(byte)) % 2n ** 64n;
  return quota;
}

/** Keys that begin with it are refused. */
export const REFUSED_PREFIX = "refused:";

/** The reply to a frame: the quota of its key for a command, success for anything else. */
export function replyTo({ type, name }: ReceivedFrame): Uint8Array<ArrayBuffer> {
  if (type < Command.read) return Uint8Array.of(STATUS_SUCCESS);
  if (name.startsWith(REFUSED_PREFIX))
    return commandReply(STATUS_ERROR, encoder.encode(`kind_mismatch: ${name}`));
  const body = new ByteWriter();
  body.u8(1); // applied
  body.u8(1); // a counter
  body.u8(3); // in ms
  body.u64(2_000_000_000);
  body.u64(1_000_000_000);
  const at = body.reserve(8);
  body.view.setBigUint64(at, quotaOf(name), true);
  return commandReply(STATUS_SUCCESS, body.take());
}

export function commandReply(status: number, body: Uint8Array): Uint8Array<ArrayBuffer> {
  const out = new ByteWriter();
  out.u8(status);
  out.u32(body.length);
  out.copy(body);
  return out.take();
}

export function pushOf(channel: string, payload: Uint8Array): Uint8Array<ArrayBuffer> {
  const name = encoder.encode(channel);
  const out = new ByteWriter();
  out.u8(RequestType.event);
  out.u8(name.length);
  out.u64(payload.length);
  out.copy(name);
  out.copy(payload);
  return out.take();
}

/** Bytes on their way to the client. */
interface Segment {
  readonly bytes: Uint8Array;
  /** They have arrived, all of them. */
  readonly onArrived: () => void;
}

/** A connection that the client has asked for. */
export class FakeConnection implements Socket {
  readonly #events: SocketEvents;
  /** Messages, as they came. */
  readonly messages: Uint8Array[] = [];
  /** Frames that were not answered. */
  readonly frames: ReceivedFrame[] = [];
  readonly subscribed = new Set<string>();
  pings = 0;
  state: "opening" | "open" | "closed" = "opening";
  /** The next `send` or `ping` throws. */
  isBroken = false;
  #segments: Segment[] = [];
  /** Of the first segment, bytes that have arrived. */
  #arrivedBytes = 0;

  constructor(events: SocketEvents) {
    this.#events = events;
  }

  send(message: Uint8Array): void {
    this.#assertOpen();
    this.messages.push(message);
    this.frames.push(...framesOf(message));
  }

  ping(): void {
    this.#assertOpen();
    this.pings++;
  }

  close(): void {
    this.state = "closed";
  }

  open(): void {
    this.state = "open";
    this.#events.opened();
  }

  pong(): void {
    this.#events.ponged();
  }

  /** Executes frames that came first, and sends their replies on their way. */
  answer(count = this.frames.length, onExecuted: (frame: ReceivedFrame) => void = () => {}): void {
    for (const frame of this.frames.splice(0, count)) {
      onExecuted(frame);
      if (frame.type === RequestType.subscribe) this.subscribed.add(frame.name);
      if (frame.type === RequestType.unsubscribe) this.subscribed.delete(frame.name);
      this.queue(replyTo(frame));
    }
  }

  push(channel: string, payload: string | Uint8Array, onArrived?: () => void): void {
    const bytes = typeof payload === "string" ? encoder.encode(payload) : payload;
    this.queue(pushOf(channel, bytes), onArrived);
  }

  queue(bytes: Uint8Array, onArrived: () => void = () => {}): void {
    this.#segments.push({ bytes, onArrived });
  }

  /** Lets bytes arrive, in one piece. */
  deliver(bytesMax = Infinity): void {
    const chunk = new ByteWriter();
    const arrived: Segment[] = [];
    while (this.#segments.length > 0 && chunk.length < bytesMax) {
      const segment = this.#segments[0]!;
      const from = this.#arrivedBytes;
      const to = Math.min(segment.bytes.length, from + bytesMax - chunk.length);
      chunk.copy(segment.bytes, from, to);
      this.#arrivedBytes = to;
      if (to < segment.bytes.length) break;
      arrived.push(this.#segments.shift()!);
      this.#arrivedBytes = 0;
    }
    if (chunk.length === 0) return;
    for (const { onArrived } of arrived) onArrived();
    this.#events.received(chunk.take());
  }

  /** Answers everything at once. */
  serve(): void {
    this.answer();
    this.deliver();
  }

  /** Ends it. */
  end(code = "connection_failed", isFinal = false): void {
    this.state = "closed";
    const ending: Ending = { error: new ThrottrError(code, "the test ends it"), isFinal };
    this.#events.closed(ending);
  }

  #assertOpen(): void {
    if (this.state !== "open" || this.isBroken) throw new Error("not open");
  }
}

/** All connections that a client has asked for. */
export class FakeServer implements Transport {
  readonly connections: FakeConnection[] = [];

  /** The newest one. */
  get connection(): FakeConnection {
    const connection = this.connections.at(-1);
    if (connection === undefined) throw new Error("the client has not connected");
    return connection;
  }

  connect(events: SocketEvents): Socket {
    const connection = new FakeConnection(events);
    this.connections.push(connection);
    return connection;
  }
}
