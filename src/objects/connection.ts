/**
 * Connection: a socket of the Hub as the host of a session.
 *
 * What it needs to come back after hibernation is in the socket's attachment.
 */
import { BRIDGE_END, BRIDGE_WINDOW_BYTES, bridgeMessage, parseDrained } from "../wire/bridge.ts";
import { protocolByCode } from "../wire/throttr/protocol.ts";
import type { Access } from "./access.ts";
import type { Dispatch } from "./dispatch.ts";
import type { Frames, Sink } from "./exchange.ts";
import { logWarning } from "./log.ts";
import { Session, type Ending, type SessionHost } from "./session.ts";
import type { Settings } from "./settings.ts";

/** What the Worker says of a connection when it opens one. */
export interface ConnectionParameters {
  readonly protocolCode: number;
  readonly transport: "websocket" | "tcp";
  readonly access: Access;
  /** WebSocket subprotocol to confirm, if the client asked for it. */
  readonly subprotocol: string | null;
}

/** What outlives hibernation: at most 16 KiB. */
export interface Attachment extends ConnectionParameters {
  /** Bytes of an unfinished frame; null when they are too many and kept in memory only. */
  readonly unfinished: Uint8Array | null;
}

/** More bytes of an unfinished frame than these keep the object awake instead. */
const UNFINISHED_STORED_BYTES_MAX = 4096;
/** Reply bytes per shard and call. */
const REPLY_BYTES_MAX = 256 << 10;
/** Replies that a WebSocket client may call forth without sending anything more. */
const REPLY_BYTES_UNASKED_MAX = 32 << 20;

export class Connection implements SessionHost {
  readonly #socket: WebSocket;
  readonly #dispatch: Dispatch;
  readonly #ctx: DurableObjectState;
  readonly #session: Session;
  readonly #isBridge: boolean;
  readonly #stallTimeoutMs: number;
  #attachment: Attachment;
  /** Reply bytes that the bridge has not written to its peer, or that a client has not asked on for. */
  #undrainedBytes = 0;
  /** What further calls wait for; null while there is room. */
  #drained: PromiseWithResolvers<void> | null = null;
  /** Ends with the exchange under way: while it lasts the object must not hibernate. */
  #busy: PromiseWithResolvers<void> | null = null;
  /** Counts what may end an unfinished frame: more bytes, or a reply. */
  #progress = 0;
  #isClosed = false;

  constructor(
    socket: WebSocket,
    attachment: Attachment,
    dispatch: Dispatch,
    settings: Settings,
    ctx: DurableObjectState,
  ) {
    this.#socket = socket;
    this.#attachment = attachment;
    this.#dispatch = dispatch;
    this.#ctx = ctx;
    this.#isBridge = attachment.transport === "tcp";
    this.#stallTimeoutMs = settings.STALL_TIMEOUT_MS;
    const limits = {
      frameBytesMax: settings.FRAME_BYTES_MAX,
      unansweredBytesMax: settings.UNANSWERED_BYTES_MAX,
    };
    const protocol = protocolByCode(attachment.protocolCode)!;
    const unfinished = attachment.unfinished ?? undefined;
    this.#session = new Session(this, protocol, attachment.access, limits, unfinished);
    if (attachment.unfinished === null) {
      this.#session.close({
        code: 1011,
        reason: "frame_lost: the server restarted within a frame",
      });
    }
  }

  receive(chunk: Uint8Array): void {
    this.#progress++;
    if (!this.#isBridge) this.#undrainedBytes = 0;
    this.#session.receive(chunk);
  }

  receiveText(text: string): void {
    if (!this.#isBridge) {
      this.#session.close({
        code: 1003,
        reason: "text_message: frames are binary messages; the only text is ping",
      });
    } else if (text === BRIDGE_END) {
      this.#session.end();
    } else {
      this.#undrainedBytes -= parseDrained(text);
      if (this.#undrainedBytes > BRIDGE_WINDOW_BYTES) return;
      this.#drained?.resolve();
      this.#drained = null;
    }
  }

  expire(): void {
    this.#session.expire();
  }

  abandon(): void {
    this.#isClosed = true;
    this.#session.abandon();
    this.#release();
  }

  nowMs(): number {
    return Date.now();
  }

  dispatch(frames: Frames, access: Access, sink: Sink): void {
    if (this.#busy === null) {
      this.#busy = Promise.withResolvers<void>();
      this.#ctx.waitUntil(this.#busy.promise);
    }
    this.#dispatch.send(frames, access, sink, REPLY_BYTES_MAX);
  }

  send(replies: Uint8Array, consumedBytes: number): void {
    if (this.#isClosed) return;
    this.#undrainedBytes += replies.length;
    const message = this.#isBridge ? bridgeMessage(consumedBytes, replies) : replies;
    try {
      this.#socket.send(message);
    } catch {
      // The peer has gone since; its close event is on the way.
      this.abandon();
    }
  }

  room(): Promise<void> | null {
    if (!this.#isBridge) {
      if (this.#undrainedBytes <= REPLY_BYTES_UNASKED_MAX) return null;
      this.#session.close({
        code: 1013,
        reason: `reply_bytes: more than ${REPLY_BYTES_UNASKED_MAX} bytes of replies to what was sent at once`,
      });
      return Promise.reject(new Error("closed"));
    }
    if (this.#undrainedBytes <= BRIDGE_WINDOW_BYTES) return null;
    this.#drained ??= Promise.withResolvers<void>();
    return this.#drained.promise;
  }

  close({ code, reason }: Ending): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    if (code !== 1000) logWarning("connection_closed", { code, reason });
    // A reason has at most 123 bytes; all of ours are ASCII.
    this.#socket.close(code, reason.slice(0, 123));
    this.#release();
  }

  /** The connection has ended: nobody waits any more. */
  #release(): void {
    this.#drained?.reject(new Error("closed"));
    this.#idle();
  }

  #idle(): void {
    this.#busy?.resolve();
    this.#busy = null;
  }

  settled(unfinished: Uint8Array): void {
    this.#idle();
    const stored = this.#attachment.unfinished;
    if (unfinished.length === 0 && stored?.length === 0) return;
    if (unfinished.length <= UNFINISHED_STORED_BYTES_MAX) {
      this.#store(unfinished.slice());
    } else {
      if (stored !== null) this.#store(null);
      this.#stayAwake();
    }
  }

  #store(unfinished: Uint8Array | null): void {
    this.#attachment = { ...this.#attachment, unfinished };
    this.#socket.serializeAttachment(this.#attachment);
  }

  /** Keeps the object in memory until the frame goes on, or refuses it. */
  #stayAwake(): void {
    const progress = this.#progress;
    const timeout = scheduler.wait(this.#stallTimeoutMs).then(() => {
      if (this.#progress !== progress) return;
      this.#session.close({
        code: 1008,
        reason: `frame_timeout: a frame was not completed within ${this.#stallTimeoutMs} ms`,
      });
    });
    this.#ctx.waitUntil(timeout);
  }
}
