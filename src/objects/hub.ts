/**
 * Hub: the object where connections live, as hibernatable WebSockets.
 *
 * A WebSocket client is connected directly; a TCP client through the Worker's bridge, which speaks
 * `wire/bridge.ts`. All that must outlive hibernation is in the socket's attachment; the rest is made
 * again from it with the next message.
 */
import { DurableObject } from "cloudflare:workers";
import { BRIDGE_END, BRIDGE_WINDOW_BYTES, bridgeMessage, parseDrained } from "../wire/bridge.ts";
import { protocolByCode } from "../wire/throttr/protocol.ts";
import type { Access } from "./access.ts";
import { alarmTime } from "./alarm.ts";
import { Dispatch } from "./dispatch.ts";
import type { Frames, Sink } from "./exchange.ts";
import { logWarning } from "./log.ts";
import { Session, type Ending, type SessionHost } from "./session.ts";
import { readSettings, type Settings } from "./settings.ts";

/** What the Worker says of a connection when it opens one, as JSON in a header of the upgrade request. */
export interface ConnectionParameters {
  readonly protocolCode: number;
  readonly transport: "websocket" | "tcp";
  readonly access: Access;
  /** WebSocket subprotocol to confirm, if the client asked for it. */
  readonly subprotocol: string | null;
}

export const CONNECTION_HEADER = "x-throttr-connection";

/** Prefixes are bytes: JSON carries them as arrays of numbers. */
export function encodeParameters(parameters: ConnectionParameters): string {
  return JSON.stringify(parameters, (_, value: unknown) =>
    value instanceof Uint8Array ? [...value] : value,
  );
}

function decodeParameters(text: string): ConnectionParameters {
  const parameters = JSON.parse(text) as ConnectionParameters;
  const keyPrefixes = parameters.access.keyPrefixes.map((prefix) => Uint8Array.from(prefix));
  return { ...parameters, access: { ...parameters.access, keyPrefixes } };
}

/** What outlives hibernation: at most 16 KiB. */
interface Attachment extends ConnectionParameters {
  /** Bytes of an unfinished frame; null when they are too many and kept in memory only. */
  readonly unfinished: Uint8Array | null;
}

/** More bytes of an unfinished frame than these keep the object awake instead. */
const UNFINISHED_STORED_BYTES_MAX = 4096;
/** Reply bytes per shard and call. */
const REPLY_BYTES_MAX = 256 << 10;
/** Replies that a WebSocket client may call forth without sending anything more. */
const REPLY_BYTES_UNASKED_MAX = 32 << 20;

export class Hub extends DurableObject<Env> {
  readonly #settings: Settings;
  readonly #connections = new Map<WebSocket, Connection>();
  #dispatch: Dispatch | null = null;

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    this.#settings = readSettings(env);
    ctx.setWebSocketAutoResponse(new WebSocketRequestResponsePair("ping", "pong"));
  }

  override async fetch(request: Request): Promise<Response> {
    const parameters = decodeParameters(request.headers.get(CONNECTION_HEADER)!);
    if (this.#openSockets() >= this.#settings.HUB_CONNECTIONS_MAX) {
      return new Response("connections_max", { status: 503 });
    }
    const { 0: client, 1: server } = new WebSocketPair();
    this.ctx.acceptWebSocket(server);
    const attachment: Attachment = { ...parameters, unfinished: new Uint8Array(0) };
    server.serializeAttachment(attachment);
    await this.#watchExpiry(parameters.access.expiresAtMs);
    const headers = new Headers();
    if (parameters.subprotocol !== null)
      headers.set("sec-websocket-protocol", parameters.subprotocol);
    return new Response(null, { status: 101, webSocket: client, headers });
  }

  override webSocketMessage(socket: WebSocket, message: string | ArrayBuffer): void {
    const connection = this.#connectionOf(socket);
    if (typeof message === "string") connection.receiveText(message);
    else connection.receive(new Uint8Array(message));
  }

  override webSocketClose(socket: WebSocket, code: number): void {
    this.#forget(socket);
    // Not every code that can be received may be sent.
    socket.close(code >= 3000 && code <= 4999 ? code : 1000);
  }

  override webSocketError(socket: WebSocket): void {
    this.#forget(socket);
  }

  /** Ends the connections whose token has expired. */
  override async alarm(): Promise<void> {
    const nowMs = Date.now();
    let nextMs = Infinity;
    for (const socket of this.ctx.getWebSockets()) {
      const { expiresAtMs } = (socket.deserializeAttachment() as Attachment).access;
      if (expiresAtMs === null) continue;
      if (expiresAtMs > nowMs) nextMs = Math.min(nextMs, expiresAtMs);
      else this.#connectionOf(socket).expire();
    }
    if (nextMs < Infinity) await this.#watchExpiry(nextMs);
  }

  async #watchExpiry(expiresAtMs: number | null): Promise<void> {
    if (expiresAtMs === null) return;
    const alarmAtMs = await this.ctx.storage.getAlarm();
    if (alarmAtMs !== null && alarmAtMs <= expiresAtMs) return;
    await this.ctx.storage.setAlarm(alarmTime(expiresAtMs, Date.now()));
  }

  /** Sockets that the server has closed stay until the peer has gone: they don't count. */
  #openSockets(): number {
    const isOpen = ({ readyState }: WebSocket): boolean => readyState === WebSocket.OPEN;
    return this.ctx.getWebSockets().filter(isOpen).length;
  }

  #forget(socket: WebSocket): void {
    this.#connections.get(socket)?.abandon();
    this.#connections.delete(socket);
  }

  #connectionOf(socket: WebSocket): Connection {
    let connection = this.#connections.get(socket);
    if (connection === undefined) {
      const attachment = socket.deserializeAttachment() as Attachment;
      this.#dispatch ??= new Dispatch(this.env, attachment.access.namespace);
      connection = new Connection(socket, attachment, this.#dispatch, this.#settings, this.ctx);
      this.#connections.set(socket, connection);
    }
    return connection;
  }
}

/** A socket of the Hub as the host of a session. */
class Connection implements SessionHost {
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
