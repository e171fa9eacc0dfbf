/**
 * Hub: the object where connections live, as hibernatable WebSockets.
 *
 * A WebSocket client is connected directly; a TCP client through the Worker's bridge, which speaks
 * `wire/bridge.ts`. All that must outlive hibernation is in the socket's attachment; the rest is made
 * again from it with the next message.
 */
import { DurableObject } from "cloudflare:workers";
import { alarmTime } from "./alarm.ts";
import { Connection, type Attachment, type ConnectionParameters } from "./connection.ts";
import { Dispatch } from "./dispatch.ts";
import { readSettings, type Settings } from "./settings.ts";

/** Carries the parameters of a connection, as JSON, in the upgrade request. */
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
