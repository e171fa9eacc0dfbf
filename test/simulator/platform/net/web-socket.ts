/**
 * `WebSocket` of Workers and objects, as workerd has it: test/process/simulator-twins.test.ts shows what it does. The
 * object that code holds belongs to one life; the `SocketEnd` behind it may outlive that.
 */
import { Deserializer, Serializer } from "node:v8";
import { clone } from "../clone.ts";
import { LifeOver, type Life } from "../life.ts";
import { whenOver } from "./endings.ts";
import { Listeners, type Listener, type SocketEvent } from "./listeners.ts";
import {
  GONE,
  NO_CODE,
  type CloseFrame,
  type EndUser,
  type Frame,
  type SocketEnd,
} from "./socket-end.ts";

const REASON_BYTES_MAX = 123;
const ATTACHMENT_BYTES_MAX = 16_384;
/** More than V8 writes for a number, or for a string or an object beside its content. */
const VALUE_BYTES = 32;
/** Codes from 1000 to 4999 that only the runtime may report. */
const RESERVED_CODES = [1004, NO_CODE, GONE.code, 1015];

const ends = new WeakMap<SimWebSocket, SocketEnd>();

/** What the runtime keeps behind a socket. */
export function endOf(socket: SimWebSocket): SocketEnd {
  return ends.get(socket)!;
}

export class SimWebSocket {
  static readonly CONNECTING = 0;
  static readonly OPEN = 1;
  static readonly CLOSING = 2;
  static readonly CLOSED = 3;
  static readonly READY_STATE_CONNECTING = 0;
  static readonly READY_STATE_OPEN = 1;
  static readonly READY_STATE_CLOSING = 2;
  static readonly READY_STATE_CLOSED = 3;

  binaryType: "blob" | "arraybuffer" = "blob";
  readonly url = null;
  readonly protocol = "";
  readonly extensions = "";
  readonly #life: Life;
  readonly #end: SocketEnd;
  readonly #makeBlob: (bytes: ArrayBuffer) => unknown;
  readonly #listeners = new Listeners();
  /** An event listener has thrown, or the other end is gone: nothing works any more, and nothing complains. */
  #isDead = false;
  #forget: () => void = () => {};

  constructor(life: Life, end: SocketEnd, makeBlob: (bytes: ArrayBuffer) => unknown) {
    this.#life = life;
    this.#end = end;
    this.#makeBlob = makeBlob;
    ends.set(this, end);
    if (!end.isAccepted) end.holdFor(life);
  }

  get readyState(): number {
    return this.#isDead ? SimWebSocket.CLOSED : this.#end.readyState;
  }

  addEventListener(type: string, listener: Listener, options?: boolean | { once?: boolean }): void {
    this.#listeners.add(type, listener, options);
  }

  removeEventListener(type: string, listener: Listener): void {
    this.#listeners.remove(type, listener);
  }

  /** Begins to receive, in the events of this life. */
  accept(): void {
    this.#life.call("socket.accept");
    if (this.#end.isAccepted) return;
    this.#forget = whenOver(this.#life, () => this.#end.abandon());
    const later = (what: string, event: () => void): void => {
      this.#life.later(0, what, event);
    };
    const user: EndUser = {
      onMessage: (message) => later("socket.message", () => this.#receive(message)),
      onClose: (frame) => later("socket.close", () => this.#receiveClose(frame)),
      onLost: () => later("socket.lost", () => this.#lose()),
    };
    this.#end.use(user);
  }

  send(data: string | ArrayBuffer | ArrayBufferView): void {
    this.#life.call("socket.send");
    const end = this.#end;
    this.#assertAccepted();
    if (this.#isDead) return;
    if (end.hasSentClose) throw new TypeError("Can't call WebSocket send() after close().");
    const frame = copyOf(data);
    this.#life.whenDurable(() => end.send(frame));
  }

  close(code?: number, reason?: string): void {
    this.#life.call("socket.close");
    const frame = closeFrame(code, reason);
    this.#assertAccepted();
    this.#sendClose(frame);
  }

  serializeAttachment(value: unknown): void {
    this.#life.call("socket.serializeAttachment");
    if (isSmall(value)) {
      this.#end.attachment = { value: clone(value) };
      return;
    }
    const bytes = serialize(value);
    if (bytes.length > ATTACHMENT_BYTES_MAX) {
      throw new Error(
        `A WebSocket 'attachment' cannot be larger than ${ATTACHMENT_BYTES_MAX} bytes.'attachment' was ${bytes.length} bytes.`,
      );
    }
    this.#end.attachment = { value: deserialize(bytes) };
  }

  /** A new copy for each call; null without an attachment. */
  deserializeAttachment(): unknown {
    this.#life.call("socket.deserializeAttachment");
    return attachmentOf(this.#end);
  }

  #assertAccepted(): void {
    if (this.#end.isAccepted) return;
    throw new TypeError(
      "You must call one of accept() or state.acceptWebSocket() on this WebSocket before sending messages.",
    );
  }

  #sendClose(frame: CloseFrame): void {
    const end = this.#end;
    if (end.hasSentClose || this.#isDead) return;
    end.hasSentClose = true;
    this.#life.whenDurable(() => {
      end.send(frame);
      end.endIfClosed();
    });
  }

  #receive(message: string | ArrayBuffer): void {
    if (this.#isDead) return;
    const isBlob = typeof message !== "string" && this.binaryType === "blob";
    const data = isBlob ? this.#makeBlob(message) : message;
    this.#dispatch({ type: "message", data });
  }

  /** The runtime answers a close by itself. */
  #receiveClose(frame: CloseFrame): void {
    if (this.#isDead) return;
    const isAnswer = this.#end.hasSentClose;
    this.#end.hasReceivedClose = true;
    this.#sendClose(frame);
    this.#end.endIfClosed();
    this.#forget();
    this.#dispatch({ type: "close", ...frame, wasClean: true });
    if (!isAnswer) this.#dispatch(connectionLost());
  }

  #lose(): void {
    if (this.#isDead) return;
    this.#die();
    this.#dispatch(connectionLost());
    this.#dispatch({ type: "close", ...GONE, wasClean: false });
  }

  #die(): void {
    this.#isDead = true;
    this.#end.isLost = true;
    this.#forget();
  }

  #dispatch(event: SocketEvent): void {
    const failure = this.#listeners.dispatch(event);
    if (failure === null) return;
    const { error } = failure;
    if (error instanceof LifeOver) throw error;
    if (event.type === "error") throw error;
    this.#isDead = true;
    this.#forget();
    this.#end.abandon();
    this.#listeners.dispatch({ type: "error", message: `Uncaught ${String(error)}`, error });
    throw error;
  }
}

function connectionLost(): SocketEvent {
  const error = new Error("Network connection lost.");
  return { type: "error", message: `Uncaught ${String(error)}`, error };
}

/**
 * Whether the serialization of a value is certainly within the limit. Hubs store an attachment with most messages, and V8 takes
 * ten times as long as this and `clone`.
 */
const isSmall = (value: unknown): boolean => roomBehind(value, ATTACHMENT_BYTES_MAX) >= 0;

/** @returns what is left of `room` at least, in bytes; negative for what may not fit, or can't be told */
function roomBehind(value: unknown, room: number): number {
  if (room < 0) return room;
  if (typeof value === "string") return room - VALUE_BYTES - 2 * value.length;
  if (
    value === null ||
    value === undefined ||
    typeof value === "number" ||
    typeof value === "boolean"
  ) {
    return room - VALUE_BYTES;
  }
  if (value instanceof Uint8Array) return room - 2 * VALUE_BYTES - value.buffer.byteLength;
  if (typeof value !== "object" || Object.getPrototypeOf(value) !== Object.prototype) return -1;
  let left = room - VALUE_BYTES;
  for (const [key, field] of Object.entries(value)) left = roomBehind(field, roomBehind(key, left));
  return left;
}

/** In the same bytes as workerd, whose limit counts them: `v8.serialize` has a form of its own for typed arrays. */
function serialize(value: unknown): Uint8Array {
  const serializer = new Serializer();
  serializer.writeHeader();
  serializer.writeValue(value);
  return serializer.releaseBuffer();
}

/** What code has left with a socket. */
export function attachmentOf({ attachment }: SocketEnd): unknown {
  return attachment === null ? null : clone(attachment.value);
}

function deserialize(bytes: Uint8Array): unknown {
  const deserializer = new Deserializer(bytes);
  deserializer.readHeader();
  return deserializer.readValue();
}

/** What is sent must not change when the sender writes on in its buffer. */
export function copyOf(data: string | ArrayBuffer | ArrayBufferView): Exclude<Frame, CloseFrame> {
  if (data instanceof ArrayBuffer) return data.slice(0);
  if (!ArrayBuffer.isView(data)) return data;
  const { buffer, byteOffset, byteLength } = data;
  return (buffer as ArrayBuffer).slice(byteOffset, byteOffset + byteLength);
}

/** @throws DOMException for what no close frame can have */
export function closeFrame(code: number | undefined, reason: string | undefined): CloseFrame {
  if (code === undefined) {
    if (reason === undefined) return { code: NO_CODE, reason: "" };
    throw new DOMException(
      "If you specify a WebSocket close reason, you must also specify a code.",
      "InvalidAccessError",
    );
  }
  const number = Math.trunc(code) || 0;
  if (number < 1000 || number > 4999 || RESERVED_CODES.includes(number)) {
    throw new DOMException(`Invalid WebSocket close code: ${number}.`, "InvalidAccessError");
  }
  if (reason !== undefined && new TextEncoder().encode(reason).length > REASON_BYTES_MAX) {
    throw new DOMException(
      `WebSocket close reason must not be longer than ${REASON_BYTES_MAX} bytes when UTF-8 encoded.`,
      "SyntaxError",
    );
  }
  return { code: number, reason: reason ?? "" };
}
