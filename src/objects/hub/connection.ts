/**
 * Connection: one socket of the Hub, and what belongs to it.
 *
 * Requests go down: socket, `Session` (finds the frames), `ConnectionRequests` (gives runs to what answers them).
 * Replies come back up: `Session` (counts what is answered), the connection, socket. Beside that a connection is a
 * `Subscriber`, whose pushes take the last step. How it ends: docs/architecture.md, "Connections".
 *
 * What it needs to come back after hibernation is in the socket's attachment: the id, the subscriptions and the bytes
 * of an unfinished frame at once, tallies within a second.
 */
import { BRIDGE_END, BRIDGE_GONE, parseDrained } from "../../wire/bridge.ts";
import type { Batch, Pushes } from "../../wire/messages.ts";
import { anyProtocolByCode, type AnyProtocol } from "../../wire/protocols.ts";
import { ConnectionKind, type ConnectionRow } from "../../wire/throttr/connection-row.ts";
import type { Protocol } from "../../wire/throttr/protocol.ts";
import type { Access } from "../../base/access.ts";
import { presentMs, stopwatchMs } from "../../base/clock.ts";
import type { Listened } from "../../base/calls/channel.ts";
import type { ConnectionParameters } from "../../base/calls/open-request.ts";
import { ownChannel } from "../../base/connection-id.ts";
import { logWarning } from "../../base/log.ts";
import type { Settings } from "../../base/settings.ts";
import { timersOf } from "../../base/timers.ts";
import type { Holder } from "../../dispatch/holder.ts";
import {
  newAttachment,
  newCounts,
  CountAt,
  holderOf,
  subscriptionBytesMax,
  type Attachment,
} from "./attachment.ts";
import type { HubBacklog } from "./bridge-flow.ts";
import { ConnectionExpiry } from "./connection-expiry.ts";
import { ConnectionPushes, type PushesHost } from "./connection-pushes.ts";
import { ConnectionRequests, type RequestsHub } from "./connection-requests.ts";
import { addDefaultSubscriptions } from "./default-subscriptions.ts";
import {
  BRIDGE_INVALID,
  FRAME_LOST,
  frameTimeout,
  pendingBytes,
  TEXT_MESSAGE,
  TOKEN_EXPIRED,
  type Ending,
} from "./ending.ts";
import { Flow } from "./flow.ts";
import { Session, type SessionHost } from "./session.ts";
import {
  packSubscriptions,
  unpackSubscriptions,
  type Subscriber,
  type Subscriptions,
} from "./subscription.ts";
import { UnfinishedFrame, type UnfinishedFrames } from "./unfinished-frame.ts";
import type { HubUnread } from "./socket-flow.ts";
import {
  HUB_PENDING_BYTES_LITTLE,
  HUB_PENDING_BYTES_MAX,
  UNFINISHED_STORED_BYTES_MAX,
} from "../../engine/sizes.ts";

/** A close frame has 125 bytes, two of which are the code; all reasons of ours are ASCII. */
const REASON_BYTES_MAX = 123;

const NOTHING = new Uint8Array(0);

/** What a connection needs of its Hub. */
export interface ConnectionHub extends RequestsHub {
  readonly state: DurableObjectState;
  readonly settings: Settings;
  /** What clients behind bridges have not read, of all connections. */
  readonly backlog: HubBacklog;
  /** What peers may have left unread that are known from themselves alone. */
  readonly unread: HubUnread;
  /** Large frames that are not finished yet, of all connections. */
  readonly frames: UnfinishedFrames;
  /** Bytes of requests that are not answered, of all connections. */
  pendingBytes: number;
  /** Stores a connection whose tallies have changed, before long. */
  storeSoon(connection: Connection): void;
  /** Forgets a connection that is closed. */
  remove(connection: Connection): void;
}

export class Connection implements SessionHost, Subscriber, PushesHost {
  readonly id: Uint8Array;
  readonly ownChannel: string;
  readonly subscriptions: Subscriptions;
  readonly subscriptionBytesMax: number;
  readonly connectedAtMs: number;
  readonly access: Access;
  /** False only in what release 0.4 has stored: its subscriptions were made at an object for each channel. */
  hasJoinedGroups: boolean;
  /** Protocol and transport in one number: connections with the same one take the same bytes as pushes. */
  readonly pushForm: number;

  readonly #hub: ConnectionHub;
  readonly #socket: WebSocket;
  readonly #protocol: AnyProtocol;
  /** The protocol, if it is one of Throttr's. */
  readonly #throttr: Protocol | null;
  /** What a connection of the yrmcds protocol is to shards; null for others. */
  readonly #holder: Holder | null;
  readonly #isBridge: boolean;
  /** The other end is the Worker's own bridge. */
  readonly #isTrusted: boolean;
  readonly #flow: Flow;
  readonly #expiry: ConnectionExpiry;
  readonly #requests: ConnectionRequests;
  readonly #session: Session;
  readonly #unfinished: UnfinishedFrame;
  readonly #pushes: ConnectionPushes;
  /** Requests by type, then bytes (`CountAt`). One array with the attachment: counting writes no field of its own. */
  readonly #counts: Float64Array;
  /** What was stored last, but for counts and flow, which go on changing. */
  #attachment: Attachment;
  /** What it adds to `pendingBytes` of the Hub. */
  #pendingBytes = 0;
  /** What the peer is sent may reach it. */
  hasReader = true;
  /** Closed by the server. The socket may live on until its peer has closed it, too. */
  isClosed = false;

  constructor(socket: WebSocket, attachment: Attachment, hub: ConnectionHub) {
    this.#socket = socket;
    this.#attachment = attachment;
    this.#hub = hub;
    this.id = attachment.id;
    this.ownChannel = ownChannel(attachment.id);
    this.connectedAtMs = attachment.connectedAtMs;
    this.subscriptions = unpackSubscriptions(attachment.subscriptions);
    this.hasJoinedGroups = attachment.hasJoinedGroups ?? false;
    this.pushForm = attachment.protocolCode | (ConnectionKind[attachment.transport] << 8);
    this.#protocol = anyProtocolByCode(attachment.protocolCode)!;
    this.#throttr = this.#protocol.dialect === "yrmcds" ? null : this.#protocol;
    this.#holder = this.isYrmcds ? holderOf(attachment, (ranges) => this.#store({ ranges })) : null;
    this.#counts = attachment.counts;
    this.access = attachment.access;
    this.subscriptionBytesMax = subscriptionBytesMax(this.access);
    const { state, settings } = hub;
    const timers = timersOf(state, scheduler, stopwatchMs);
    this.#isBridge = attachment.transport !== "websocket";
    this.#isTrusted = this.#isBridge && attachment.isGateway !== true;
    // Credits of a bridge outlive hibernation in the attachment: the bridge goes on counting from where it was.
    this.#flow = new Flow(this.#isBridge, this.#isTrusted, attachment, {
      backlog: hub.backlog,
      unread: hub.unread,
      pushBytesMax: settings.PUSH_BYTES_MAX,
      lastPingMs: () => state.getWebSocketAutoResponseTimestamp(socket)?.getTime() ?? 0,
      ...timers,
    });
    this.#expiry = new ConnectionExpiry(this.access.expiresAtMs, {
      isClosed: () => this.isClosed,
      onExpired: () => this.#session.expire(),
      close: (ending) => this.close(ending),
      ...timers,
    });
    const pushing = {
      protocol: this.#throttr,
      isBridge: this.#isBridge,
      flow: this.#flow,
      counts: this.#counts,
    };
    this.#pushes = new ConnectionPushes(this, pushing, attachment);
    this.#unfinished = new UnfinishedFrame(hub.frames, (ms) => this.close(frameTimeout(ms)));
    this.#requests = new ConnectionRequests(hub, this, this.#holder, () => this.store());
    const parts = {
      host: this,
      requests: this.#requests,
      protocol: this.#protocol,
      access: this.access,
      limits: settings,
      counts: this.#counts,
    };
    this.#session = new Session(parts, attachment.unfinished ?? undefined);
    if (attachment.isClosed === true) {
      this.isClosed = true;
      this.#session.stop();
      this.#flow.close();
    }
  }

  /** A new connection: subscribes it to what every connection is subscribed to, and stores it. */
  static open(
    socket: WebSocket,
    parameters: ConnectionParameters,
    id: Uint8Array,
    hub: ConnectionHub,
  ): Connection {
    const connection = new Connection(socket, newAttachment(parameters, id, presentMs()), hub);
    addDefaultSubscriptions(connection, connection.#throttr, parameters.access, hub.roster);
    connection.store();
    return connection;
  }

  /** It speaks the yrmcds protocol. */
  get isYrmcds(): boolean {
    return this.#throttr === null;
  }

  /** No report of the Hub has counted this connection of the yrmcds protocol: a Hub that wakes up has to count it again. */
  get isUnreported(): boolean {
    return this.isYrmcds && this.#attachment.isReported === false;
  }

  noteReported(): void {
    this.#store({ isReported: true });
  }

  get transport(): ConnectionParameters["transport"] {
    return this.#attachment.transport;
  }

  /** When its access ends, in ms since the epoch; Infinity for never, and after `expire`. */
  get expiresAtMs(): number {
    return this.isClosed ? Infinity : this.#expiry.dueAtMs;
  }

  /** Bytes of the peer; for a bridge, those of its client. A chunk may end anywhere. */
  receive(chunk: Uint8Array): void {
    if (this.isClosed || this.#expiry.check()) return;
    this.#unfinished.noteProgress();
    this.#flow.hear();
    this.#counts[CountAt.readBytes]! += chunk.length;
    this.storeSoon();
    this.#session.receive(chunk);
    this.#countPending();
  }

  /** Text is for bridges alone, which say so what no byte of their client could: its end, and what it has read. */
  receiveText(text: string): void {
    if (!this.#isBridge) this.close(TEXT_MESSAGE);
    else if (text === BRIDGE_END) this.#session.finish();
    else if (text === BRIDGE_GONE && this.#isTrusted) this.#loseReader();
    else this.#drain(parseDrained(text));
  }

  /** After a restore: closes the connection if a large frame was in memory only, as what follows can't be told from a new frame. */
  endLostFrame(): void {
    if (this.#attachment.unfinished === null) this.close(FRAME_LOST);
  }

  /** The token has expired: what is under way is answered, within bounds, then the connection is closed. */
  expire(): void {
    this.#expiry.begin();
  }

  /** The socket is gone: of what the peer has sent before, writes are executed, then the connection is closed. */
  loseSocket(): void {
    this.#flow.loseSocket();
    this.#loseReader();
    this.#session.finish();
  }

  /** Closes the connection at once. What was sent to shards for it may still be applied. */
  close({ code, reason }: Ending): void {
    if (this.isClosed) return;
    this.#storeClosed();
    this.isClosed = true;
    if (code !== 1000) logWarning("connection_closed", { code, reason });
    try {
      this.#socket.close(code, reason.slice(0, REASON_BYTES_MAX));
    } catch {
      // The peer has closed it before.
    }
    // From here on nothing is sent or waited for, and all that the connection counts in the Hub is given back.
    this.#session.stop();
    this.#unfinished.end();
    this.#flow.close();
    this.#requests.close();
    this.#hub.pendingBytes -= this.#pendingBytes;
    this.#pendingBytes = 0;
    this.#hub.remove(this);
    // Lanes keep the order of calls, so the release comes behind all that shards were sent for this holder.
    if (this.#holder !== null) {
      this.#hub.state.waitUntil(this.#hub.dispatch.release(this.#holder, this.#protocol));
    }
  }

  /** A peer may go on sending instead of closing, too: it must not be served when the object has slept. */
  #storeClosed(): void {
    try {
      this.#store({ isClosed: true });
    } catch {
      // The peer has closed it before.
    }
  }

  /** Holds the pushes of a listener of Server-Sent Events back until `startListening`. */
  holdPushes(): void {
    this.#pushes.hold();
  }

  /** The listener's stream begins: pushes that were held back follow the messages that it had missed. */
  startListening(listened: Listened): void {
    this.#pushes.start(listened);
  }

  pushesOf(channel: Uint8Array, batch: Batch): Pushes {
    return this.#pushes.pushesOf(channel, batch);
  }

  push(pushes: Pushes, sequence: number | null): boolean {
    if (this.isClosed || this.#expiry.check()) return false;
    return this.#pushes.push(pushes, sequence);
  }

  storeSoon(): void {
    this.#hub.storeSoon(this);
  }

  row(): ConnectionRow {
    const { ip, port, transport } = this.#attachment;
    const counts = this.#hub.settings.METRICS === "on" ? this.#counts : newCounts();
    return {
      id: this.id,
      kind: ConnectionKind[transport],
      ip,
      port,
      connectedAtMs: this.connectedAtMs,
      readBytes: counts[CountAt.readBytes]!,
      writeBytes: counts[CountAt.writeBytes]!,
      publishedBytes: counts[CountAt.publishedBytes]!,
      receivedBytes: counts[CountAt.receivedBytes]!,
      allocatedBytes: this.#session.reservedBytes,
      consumedBytes: this.#session.pendingBytes,
      counts,
    };
  }

  storeJoinedGroups(): void {
    this.hasJoinedGroups = true;
    this.store();
  }

  /** Writes what outlives hibernation. */
  store(): void {
    if (this.isClosed) return;
    this.#attachment = {
      ...this.#attachment,
      ...this.#flow.stored(),
      ...this.#pushes.stored(),
      subscriptions: packSubscriptions(this.subscriptions),
      hasJoinedGroups: this.hasJoinedGroups,
    };
    // The runtime throws for a socket that is gone, and its attachment is never read again.
    if (this.hasReader) this.#socket.serializeAttachment(this.#attachment);
  }

  /** In a run of a namespace's requests, replies come in pieces, and pushes wait for the last one. */
  send(replies: Uint8Array, consumedBytes: number): void {
    if (this.isClosed) return;
    // A frame behind this one is another one, whatever was unfinished before.
    if (consumedBytes > 0) this.#unfinished.end();
    if (!this.hasReader) {
      this.#acknowledge(consumedBytes);
      return;
    }
    const message = this.#flow.wrap(replies, consumedBytes);
    this.#flow.sendReplies(replies.length, message.length);
    this.#counts[CountAt.writeBytes]! += replies.length;
    this.storeSoon();
    this.transmit(message);
    if (!this.#requests.isInNamespaceRun) return;
    if (consumedBytes === 0) this.#pushes.hold();
    else this.#pushes.release();
  }

  /**
   * Null when further replies may be made; else a promise of it, rejected when the connection ends first. `send` of a
   * WebSocket never waits, so this alone keeps unread replies out of memory.
   */
  room(): Promise<void> | null {
    const ending = this.#refuseReplies();
    if (ending !== null) this.close(ending);
    // What is under way must not go on behind the connection's end, which gives back what it holds.
    if (this.isClosed) return Promise.reject(new Error("closed"));
    if (!this.hasReader) return null;
    const room = this.#flow.room();
    if (room === null) return null;
    this.#requests.stayAwake();
    return this.#expiry.waitFor(room);
  }

  /** Why the connection ends instead of getting further replies; null when it may have them. */
  #refuseReplies(): Ending | null {
    if (this.isClosed) return null;
    if (this.#expiry.check()) return TOKEN_EXPIRED;
    return this.hasReader ? this.#flow.refuseReplies() : null;
  }

  countPublished(channel: string, payloadBytes: number): void {
    this.#counts[CountAt.publishedBytes]! += payloadBytes;
    const subscription = this.subscriptions.get(channel);
    if (subscription !== undefined) subscription.readBytes += payloadBytes;
  }

  /** Nothing is under way: lets the object hibernate, and stores the bytes of an unfinished frame for that. */
  onIdle(unfinished: Uint8Array): void {
    this.#requests.rest();
    this.#countPending();
    const stored = this.#attachment.unfinished;
    if (unfinished.length === 0 && stored?.length === 0) return;
    if (unfinished.length <= UNFINISHED_STORED_BYTES_MAX) {
      this.#unfinished.end();
      this.#store({ unfinished: unfinished.slice() });
    } else {
      if (stored !== null) this.#store({ unfinished: null });
      this.#unfinished.stayAwake();
    }
  }

  /**
   * Takes the bridge's report of bytes that its client has read. One that comes after the end of the connection
   * changes nothing: what was counted for it has been given back already.
   */
  #drain(bytes: number | null): void {
    if (this.isClosed) return;
    if (!this.#flow.drain(bytes)) {
      this.close(BRIDGE_INVALID);
      return;
    }
    // Otherwise hibernation would bring back bytes that were drained, and the window would shrink each time.
    this.storeSoon();
  }

  /** Nothing that is sent reaches the peer any more: its reads are not executed, and nothing waits for it. */
  #loseReader(): void {
    this.hasReader = false;
    this.#flow.loseReader();
    this.#requests.loseReader();
  }

  /** Lets the bridge pass on more of what a peer had sent before it was gone. */
  #acknowledge(consumedBytes: number): void {
    if (!this.#isBridge || consumedBytes === 0) return;
    try {
      this.#socket.send(this.#flow.wrap(NOTHING, consumedBytes));
    } catch {
      // The bridge has passed on everything already.
    }
  }

  transmit(message: Uint8Array): void {
    try {
      this.#socket.send(message);
    } catch {
      // The peer has gone since; its close event is on the way.
      this.loseSocket();
    }
  }

  #store(changes: Partial<Attachment>): void {
    this.#attachment = { ...this.#attachment, ...changes };
    this.store();
  }

  /** Counts what is not answered; ends the connection when its Hub has too much of it. */
  #countPending(): void {
    if (this.isClosed) return;
    const bytes = this.#session.unansweredBytes;
    this.#hub.pendingBytes += bytes - this.#pendingBytes;
    this.#pendingBytes = bytes;
    const isTooMuch = this.#hub.pendingBytes > HUB_PENDING_BYTES_MAX;
    if (isTooMuch && bytes > HUB_PENDING_BYTES_LITTLE)
      this.close(pendingBytes(HUB_PENDING_BYTES_MAX));
  }
}
