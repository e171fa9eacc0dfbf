/**
 * Connection: a socket of the Hub as the host of a session, and as a subscriber.
 *
 * What it needs to come back after hibernation is in the socket's attachment: the id, the subscriptions
 * and the bytes of an unfinished frame at once, tallies within a second.
 */
import {
  BRIDGE_END,
  BRIDGE_GONE,
  BRIDGE_HEADER_BYTES,
  BRIDGE_WINDOW_BYTES,
  bridgeMessage,
  parseDrained,
} from "../../wire/bridge.ts";
import { beginsWithAny, binaryBytes, ByteWriter } from "../../wire/bytes.ts";
import { eventRecords, startRecord } from "../../wire/events.ts";
import { forEachMessage, pushesOf, type Batch, type Pushes } from "../../wire/messages.ts";
import { ConnectionKind, type ConnectionRow } from "../../wire/throttr/connection-row.ts";
import type { Protocol } from "../../wire/throttr/protocol.ts";
import { anyProtocolByCode, type AnyProtocol } from "../../wire/protocols.ts";
import {
  channelOfFrame,
  layoutsOf,
  REQUEST_TYPES_END,
  RequestType,
  Scope,
  STATUS_FAILURE,
  STATUS_SUCCESS,
  Target,
  type Layout,
} from "../../wire/throttr/requests.ts";
import { frameEnd } from "../../wire/throttr/scanner.ts";
import { missingRightOfFrame, type Access } from "../../base/access.ts";
import type { Listened } from "../../base/calls/channel.ts";
import type { ConnectionParameters } from "../../base/calls/open-request.ts";
import { GroupFull } from "./memberships.ts";
import { ownChannel } from "../../base/connection-id.ts";
import type { Dispatch } from "../../dispatch/dispatch.ts";
import { Holder } from "../../dispatch/holder.ts";
import { logWarning } from "../../base/log.ts";
import { EVERYBODY } from "../../base/names.ts";
import type { Roster } from "./roster.ts";
import { Session, type Ending, type SessionHost } from "./session.ts";
import type { Settings } from "../../base/settings.ts";
import { isThrottr, type AnyFrames, type Frames, type Sink } from "../../dispatch/sink.ts";
import { Unread, type HubUnread } from "./unread.ts";
import {
  addSubscription,
  packSubscriptions,
  unpackSubscriptions,
  type Subscriber,
  type Subscriptions,
} from "./subscription.ts";

/** What outlives hibernation: at most 16 KiB. */
export interface Attachment extends ConnectionParameters {
  readonly id: Uint8Array;
  readonly connectedAtMs: number;
  /** Requests by type, then bytes: see `Place`. */
  readonly counts: Float64Array;
  /** Format: `subscription.ts`. */
  readonly subscriptions: Uint8Array;
  /** True when groups of channels know of the subscriptions; not there in what release 0.4 has stored. */
  readonly hasJoinedGroups?: boolean;
  /** Bytes on their way to a bridge's peer, and push bytes since a WebSocket peer was heard of. */
  readonly undrainedBytes: number;
  readonly unheardBytes: number;
  /** Bytes of an unfinished frame; null when they are too many and kept in memory only. */
  readonly unfinished: Uint8Array | null;
  /** Of the yrmcds protocol: shards that may have it hold something, see `Holder`. */
  readonly shards: Uint8Array;
}

/** Places of tallies behind those of request types. */
const Place = {
  readBytes: REQUEST_TYPES_END,
  writeBytes: REQUEST_TYPES_END + 1,
  publishedBytes: REQUEST_TYPES_END + 2,
  receivedBytes: REQUEST_TYPES_END + 3,
} as const;
const PLACES = REQUEST_TYPES_END + 4;

/** More bytes of an unfinished frame than these keep the object awake instead. */
const UNFINISHED_STORED_BYTES_MAX = 1024;
/** Of the attachment, what subscriptions and the prefixes of the access may take together. */
const VARIABLE_BYTES_MAX = 14_000;
/** What a prefix takes beside its bytes. */
const PREFIX_OVERHEAD_BYTES = 16;
/** Reply bytes per shard and call. */
const REPLY_BYTES_MAX = 256 << 10;
/** Changes of subscriptions that are waited for together. */
const PENDING_MAX = 1000;
/** Replies of the connection itself that are sent at once. */
const OWN_REPLY_BYTES = 64 << 10;
/** Unread bytes of all clients behind bridges in a Hub; beyond it, each may leave one window. */
const BACKLOG_BYTES_MAX = 32 << 20;
/** Bytes of unfinished frames, and of frames that wait, of all clients in a Hub; beyond it, each may have little. */
const PENDING_BYTES_MAX = 32 << 20;
const PENDING_BYTES_LITTLE = 64 << 10;
/** A frame may take so many times `STALL_TIMEOUT_MS` in all. */
const FRAME_STALLS_MAX = 4;

/** What a connection needs of its Hub. */
export interface ConnectionHub {
  readonly state: DurableObjectState;
  readonly settings: Settings;
  readonly dispatch: Dispatch;
  readonly roster: Roster;
  /** Bytes that clients behind bridges have not read, of all connections. */
  backlogBytes: number;
  /** What WebSocket clients may have left unread. */
  readonly unread: HubUnread;
  /** Bytes of requests that wait, of all connections. */
  pendingBytes: number;
  /** Its tallies have changed, and must be stored before long. */
  touched(connection: Connection): void;
  /** It has ended. */
  left(connection: Connection): void;
}

export class Connection implements SessionHost, Subscriber {
  readonly id: Uint8Array;
  readonly ownChannel: string;
  readonly subscriptions: Subscriptions;
  readonly subscriptionBytesMax: number;
  readonly connectedAtMs: number;
  hasJoinedGroups: boolean;
  readonly pushForm: number;

  readonly #hub: ConnectionHub;
  readonly #socket: WebSocket;
  readonly #session: Session;
  readonly #protocol: AnyProtocol;
  /** The protocol, if it is one of Throttr's. */
  readonly #throttr: Protocol | null;
  /** What a connection of the yrmcds protocol is to shards; null for others. */
  readonly #holder: Holder | null;
  readonly #isBridge: boolean;
  /** What the peer has read is known from itself alone: it gets the limits of `Unread`, a gateway in addition to its credits. */
  readonly #isOutside: boolean;
  readonly #unread: Unread;
  readonly #counts: Float64Array;
  #attachment: Attachment;
  /** Bytes that the bridge has not written to its peer. */
  #undrainedBytes = 0;
  /** Push bytes that a client was sent since it was last heard of. */
  #unheardBytes = 0;
  #pingSeenMs = 0;
  /** Pushes that wait for the end of a reply, or for a listener's start; null when none have to. */
  #held: { pushes: Pushes; sequence: number | null }[] | null = null;
  #heldBytes = 0;
  /** Number of the last message before a listener's start. */
  #startSequence: number | null = null;
  /** What further calls wait for; null while there is room. */
  #drained: PromiseWithResolvers<void> | null = null;
  /** Ends with the run under way: while it lasts the object must not hibernate. */
  #busy: PromiseWithResolvers<void> | null = null;
  #isInNamespaceRun = false;
  /** Who waits for answers about the connection itself; null when nobody does. */
  #answering: Sink | null = null;
  /** Counts what may end an unfinished frame: more bytes, or a reply. */
  #progress = 0;
  /** What it adds to `pendingBytes` of the Hub. */
  #pendingBytes = 0;
  /** When the large frame that is not finished was first waited for; null when there is none. */
  #unfinishedSinceMs: number | null = null;
  /** What the peer is sent may reach it. */
  hasReader = true;
  #isClosed = false;
  #hasExpired = false;

  constructor(socket: WebSocket, attachment: Attachment, hub: ConnectionHub) {
    this.#socket = socket;
    this.#attachment = attachment;
    this.#hub = hub;
    this.id = attachment.id;
    this.ownChannel = ownChannel(attachment.id);
    this.connectedAtMs = attachment.connectedAtMs;
    this.subscriptions = unpackSubscriptions(attachment.subscriptions);
    this.hasJoinedGroups = attachment.hasJoinedGroups ?? false;
    this.#isBridge = attachment.transport !== "websocket";
    this.#isOutside = !this.#isBridge || attachment.isGateway === true;
    this.#unread = new Unread(hub.unread);
    this.#protocol = anyProtocolByCode(attachment.protocolCode)!;
    this.#throttr = this.#protocol.dialect === "yrmcds" ? null : this.#protocol;
    this.#holder = this.isYrmcds
      ? new Holder(attachment.id, attachment.shards, (shards) => this.#storeShards(shards))
      : null;
    this.pushForm = attachment.protocolCode | (ConnectionKind[attachment.transport] << 8);
    this.#counts = attachment.counts;
    if (this.#isBridge) this.#undrain(-attachment.undrainedBytes);
    if (this.#isOutside) this.#unread.sent(attachment.undrainedBytes, Date.now());
    this.#unheardBytes = attachment.unheardBytes;
    const { access } = attachment;
    this.subscriptionBytesMax = VARIABLE_BYTES_MAX - prefixBytes(access);
    const limits = {
      frameBytesMax: hub.settings.FRAME_BYTES_MAX,
      unansweredBytesMax: hub.settings.UNANSWERED_BYTES_MAX,
    };
    const unfinished = attachment.unfinished ?? undefined;
    this.#session = new Session(this, this.#protocol, access, limits, this.#counts, unfinished);
    if (attachment.unfinished === null) {
      this.#session.close({
        code: 1011,
        reason: "frame_lost: the server restarted within a frame",
      });
    }
  }

  /** A new connection: subscribes it to what every connection hears, and stores it. */
  static open(
    socket: WebSocket,
    parameters: ConnectionParameters,
    id: Uint8Array,
    hub: ConnectionHub,
  ): Connection {
    const connection = new Connection(
      socket,
      {
        ...parameters,
        id,
        connectedAtMs: Date.now(),
        counts: new Float64Array(PLACES),
        subscriptions: new Uint8Array(0),
        hasJoinedGroups: true,
        undrainedBytes: 0,
        unheardBytes: 0,
        unfinished: new Uint8Array(0),
        shards: new Uint8Array(0),
      },
      hub,
    );
    const { access, transport } = parameters;
    // Older dialects have no pushes, and their clients could not read one.
    const throttr = connection.#throttr;
    const canSubscribe =
      throttr !== null && layoutsOf(throttr)[RequestType.subscribe] !== undefined;
    if (transport !== "events" && canSubscribe && (access.scopes & Scope.subscribe) !== 0) {
      const isHeard = beginsWithAny(access.channelPrefixes, EVERYBODY_BYTES, 0, 1);
      const { roster } = hub;
      const { connectedAtMs, ownChannel } = connection;
      if (isHeard) addSubscription(connection, EVERYBODY, roster.sinceMs(connectedAtMs));
      addSubscription(connection, ownChannel, roster.sinceMs(connectedAtMs));
    }
    connection.store();
    return connection;
  }

  /** It speaks the yrmcds protocol. */
  get isYrmcds(): boolean {
    return this.#throttr === null;
  }

  get transport(): ConnectionParameters["transport"] {
    return this.#attachment.transport;
  }

  /** When its access ends, in ms since the epoch; Infinity for never, and after `expire`. */
  get expiresAtMs(): number {
    return this.#hasExpired ? Infinity : (this.#attachment.access.expiresAtMs ?? Infinity);
  }

  get isClosed(): boolean {
    return this.#isClosed;
  }

  receive(chunk: Uint8Array): void {
    this.#progress++;
    if (this.#isOutside) this.#hear();
    this.#counts[Place.readBytes]! += chunk.length;
    this.#hub.touched(this);
    this.#session.receive(chunk);
    this.#countPending();
  }

  receiveText(text: string): void {
    if (!this.#isBridge) {
      this.#session.close({
        code: 1003,
        reason: "text_message: frames are binary messages; the only text is ping",
      });
    } else if (text === BRIDGE_END) {
      this.#session.end();
    } else if (text === BRIDGE_GONE && !this.#isOutside) {
      this.#loseReader();
    } else {
      this.#readDrained(parseDrained(text));
    }
  }

  /**
   * Takes the bridge's word that its peer has read so many bytes, as far as it can be true. A message that comes after
   * the end of the connection changes nothing: what was counted for it has been given back already.
   */
  #readDrained(bytes: number | null): void {
    if (this.#isClosed) return;
    if (this.#isOutside) {
      if (bytes === null || bytes > this.#undrainedBytes) {
        this.#session.close({
          code: 1008,
          reason:
            "bridge_invalid: a gateway says end, or drained and how many bytes it was sent and has written",
        });
        return;
      }
      this.#hear();
    }
    this.#undrain(Math.min(bytes ?? 0, this.#undrainedBytes));
    // Otherwise hibernation would bring back bytes that were drained, and the window would shrink each time.
    this.#hub.touched(this);
    if (this.#undrainedBytes <= BRIDGE_WINDOW_BYTES) this.#goOn();
  }

  expire(): void {
    this.#hasExpired = true;
    this.#session.expire();
  }

  /** The peer has gone: of what it sent before, writes are executed, then the connection ends. */
  hangUp(): void {
    this.#unread.release();
    this.#loseReader();
    this.#session.end();
  }

  /**
   * The listener of Server-Sent Events begins: what was pushed meanwhile follows what it is given again.
   */
  start({ sequence, replayFrom, replay }: Listened): void {
    if (this.#isClosed) return;
    this.#startSequence = sequence;
    if (replay.length > 0)
      this.#sendPush(this.#eventsOf({ sequence: replayFrom, messages: replay }));
    this.#sendPush(bridged(startRecord(sequence)));
    this.#releaseHeld();
  }

  /** Holds pushes back until `start`. */
  prepare(): void {
    this.#held = [];
  }

  pushesOf(channel: Uint8Array, batch: Batch): Pushes {
    if (this.#attachment.transport === "events") return this.#eventsOf(batch);
    const pushes = pushesOf(this.#throttr!, channel, batch.messages);
    if (!this.#isBridge || pushes.bytes.length === 0) return pushes;
    return { ...pushes, bytes: bridgeMessage(0, pushes.bytes) };
  }

  push(pushes: Pushes, sequence: number | null): boolean {
    if (this.#isClosed || !this.hasReader || this.#isKnown(sequence) || !this.#hasRoomFor(pushes))
      return false;
    this.#hub.touched(this);
    this.#counts[Place.receivedBytes]! += pushes.payloadBytes;
    if (this.#held === null) {
      this.#sendPush(pushes);
    } else {
      this.#held.push({ pushes, sequence });
      this.#heldBytes += pushes.bytes.length;
    }
    return true;
  }

  row(): ConnectionRow {
    const { ip, port, transport } = this.#attachment;
    const counts = this.#hub.settings.METRICS === "on" ? this.#counts : new Float64Array(PLACES);
    return {
      id: this.id,
      kind: ConnectionKind[transport],
      ip,
      port,
      connectedAtMs: this.connectedAtMs,
      readBytes: counts[Place.readBytes]!,
      writeBytes: counts[Place.writeBytes]!,
      publishedBytes: counts[Place.publishedBytes]!,
      receivedBytes: counts[Place.receivedBytes]!,
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
    if (this.#isClosed) return;
    this.#attachment = {
      ...this.#attachment,
      subscriptions: packSubscriptions(this.subscriptions),
      hasJoinedGroups: this.hasJoinedGroups,
      undrainedBytes: this.#isBridge ? this.#undrainedBytes : this.#unread.silentBytes,
      unheardBytes: this.#unheardBytes,
    };
    if (this.hasReader) this.#socket.serializeAttachment(this.#attachment);
  }

  nowMs(): number {
    return Date.now();
  }

  dispatch(frames: AnyFrames, access: Access, sink: Sink): void {
    if (this.#busy === null) {
      this.#busy = Promise.withResolvers<void>();
      this.#hub.state.waitUntil(this.#busy.promise);
    }
    this.#isInNamespaceRun = frames.target === Target.namespace;
    if (!isThrottr(frames)) {
      const held = { ...frames, holder: this.#holder! };
      this.#hub.dispatch.send(held, access, sink, REPLY_BYTES_MAX);
    } else if (frames.target === Target.connection) {
      if (this.hasReader) void this.#answer(frames, access, sink);
      else sink.reply(NOTHING, true);
    } else {
      this.#hub.dispatch.send(frames, access, sink, REPLY_BYTES_MAX);
    }
  }

  send(replies: Uint8Array, consumedBytes: number): void {
    if (this.#isClosed) return;
    if (!this.hasReader) {
      this.#acknowledge(consumedBytes);
      return;
    }
    if (this.#isBridge) this.#undrain(-replies.length);
    const message = this.#isBridge ? bridgeMessage(consumedBytes, replies) : replies;
    if (this.#isOutside) this.#unread.sent(message.length, Date.now());
    this.#counts[Place.writeBytes]! += replies.length;
    this.#hub.touched(this);
    this.#transmit(message);
    if (!this.#isInNamespaceRun) return;
    // Such a reply comes in pieces, and no push may come between them.
    if (consumedBytes === 0) this.#held ??= [];
    else this.#releaseHeld();
  }

  room(): Promise<void> | null {
    // What is under way must not go on behind the connection's end, which gives back what it holds.
    if (this.#isClosed) return Promise.reject(new Error("closed"));
    if (!this.hasReader) return null;
    const pace = this.#isOutside ? this.#roomOfSocket(Date.now()) : null;
    if (!this.#isBridge || this.#undrainedBytes <= BRIDGE_WINDOW_BYTES) return pace;
    this.#drained ??= Promise.withResolvers<void>();
    // A gateway that calls drained what it has not read must not get ahead of its pace with that.
    return pace === null
      ? this.#drained.promise
      : Promise.all([this.#drained.promise, pace]).then(() => {});
  }

  #roomOfSocket(nowMs: number): Promise<void> | null {
    const bytesMax = this.#hub.unread.silentBytesMax;
    if (this.#unread.silentBytes > bytesMax && !this.#isHeard()) {
      this.#session.close({
        code: 1013,
        reason: `reply_bytes: more than ${bytesMax} bytes of replies to what was sent at once`,
      });
      return Promise.reject(new Error("closed"));
    }
    const waitMs = this.#unread.waitMs(nowMs);
    return waitMs === 0 ? null : this.#pause(waitMs);
  }

  async #pause(ms: number): Promise<void> {
    await scheduler.wait(ms);
    if (this.#isClosed) throw new Error("closed");
  }

  published(channel: string, payloadBytes: number): void {
    this.#counts[Place.publishedBytes]! += payloadBytes;
    const subscription = this.subscriptions.get(channel);
    if (subscription !== undefined) subscription.readBytes += payloadBytes;
  }

  close({ code, reason }: Ending): void {
    if (this.#isClosed) return;
    if (code !== 1000) logWarning("connection_closed", { code, reason });
    // A reason has at most 123 bytes; all of ours are ASCII.
    try {
      this.#socket.close(code, reason.slice(0, 123));
    } catch {
      // The peer has closed it before.
    }
    this.#leave();
  }

  settled(unfinished: Uint8Array): void {
    this.#idle();
    this.#countPending();
    const stored = this.#attachment.unfinished;
    if (unfinished.length === 0 && stored?.length === 0) return;
    if (unfinished.length <= UNFINISHED_STORED_BYTES_MAX) {
      this.#unfinishedSinceMs = null;
      this.#storeUnfinished(unfinished.slice());
    } else {
      if (stored !== null) this.#storeUnfinished(null);
      this.#stayAwake();
    }
  }

  /** Answers requests about the connection itself: WHOAMI, SUBSCRIBE, UNSUBSCRIBE. */
  async #answer(frames: Frames, access: Access, sink: Sink): Promise<void> {
    const { bytes, count, protocol } = frames;
    const layouts = layoutsOf(protocol);
    const out = new ByteWriter(Math.min(count, OWN_REPLY_BYTES));
    const pending = new Set<Promise<void>>();
    const { dispatch } = this.#hub;
    this.#answering = sink;
    dispatch.countRequests(frames);
    try {
      for (let frame = 0, at = 0; frame < count; frame++) {
        const layout = layouts[bytes[at]!]!;
        if (bytes[at] === RequestType.whoami) {
          if (layout.hasStatus) out.u8(STATUS_SUCCESS);
          out.copy(this.id);
        } else {
          const done = this.#changeSubscription(access, layout, bytes, at);
          if (done !== null && done !== false) pending.add(orRefusal(done, out, out.length));
          out.u8(done === false ? STATUS_FAILURE : STATUS_SUCCESS);
        }
        at = frameEnd(layouts, bytes, at);
        const isLast = frame === count - 1;
        if (!isLast && out.length < OWN_REPLY_BYTES && pending.size < PENDING_MAX) continue;
        await Promise.all(pending);
        pending.clear();
        if (this.#isClosed || this.#answering !== sink) return;
        if (isLast) {
          this.#answering = null;
          this.store();
        }
        dispatch.countReplies(out.length);
        sink.reply(out.take(), isLast);
        out.reset();
        if (!isLast) await sink.room();
        if (this.#isClosed || this.#answering !== sink) return;
      }
    } catch (error) {
      if (this.#answering === sink) sink.failed(error);
    }
  }

  /** Executes the SUBSCRIBE or UNSUBSCRIBE at `at`. Returns as `Roster.subscribe`. */
  #changeSubscription(
    access: Access,
    layout: Layout,
    bytes: Uint8Array,
    at: number,
  ): Promise<void> | null | false {
    const { roster } = this.#hub;
    const channel = channelOfFrame(layout, bytes, at);
    const missing = missingRightOfFrame(access, layout, bytes, at);
    // No prefix keeps a connection from its own channel.
    const isAllowed =
      missing === null || (missing === "prefix_missing" && channel === this.ownChannel);
    if (!isAllowed) return false;
    return bytes[at] === RequestType.subscribe
      ? roster.subscribe(this, channel, Date.now())
      : roster.unsubscribe(this, channel);
  }

  #eventsOf({ sequence, messages }: Batch): Pushes {
    return bridged(eventRecords(sequence, messages), messages);
  }

  /** False, and the connection ended, when it leaves too much unread. */
  #hasRoomFor({ bytes }: Pushes): boolean {
    const isTight = this.#isBridge && this.#hub.backlogBytes > BACKLOG_BYTES_MAX;
    const bytesMax = isTight ? BRIDGE_WINDOW_BYTES : this.#hub.settings.PUSH_BYTES_MAX;
    const unread = (this.#isBridge ? this.#undrainedBytes : this.#unheardBytes) + this.#heldBytes;
    if (unread + bytes.length <= bytesMax || this.#isHeard()) return true;
    this.#session.close({
      code: 1013,
      reason: `push_bytes: more than ${bytesMax} bytes of pushes were left unread`,
    });
    return false;
  }

  /** A bridge's peer has read so many bytes, or is to read them when negative. */
  #undrain(bytes: number): void {
    this.#undrainedBytes -= bytes;
    this.#hub.backlogBytes -= bytes;
  }

  /** True when a WebSocket client has sent the text ping, which the runtime answers, since it was asked last. */
  #isHeard(): boolean {
    if (this.#isBridge) return false;
    const pingMs = this.#hub.state.getWebSocketAutoResponseTimestamp(this.#socket)?.getTime() ?? 0;
    if (pingMs <= this.#pingSeenMs) return false;
    this.#pingSeenMs = pingMs;
    this.#hear();
    return true;
  }

  #hear(): void {
    this.#unread.heard();
    this.#unheardBytes = 0;
  }

  /** Nothing that is sent reaches the peer any more: its reads are not executed, and nothing waits for it. */
  #loseReader(): void {
    this.hasReader = false;
    this.#goOn();
    // Subscriptions end with the connection: they need not be changed before.
    const answering = this.#answering;
    this.#answering = null;
    answering?.reply(NOTHING, true);
  }

  /** Lets further calls go on. */
  #goOn(): void {
    this.#drained?.resolve();
    this.#drained = null;
  }

  #releaseHeld(): void {
    const held = this.#held ?? [];
    this.#held = null;
    this.#heldBytes = 0;
    for (const { pushes, sequence } of held) {
      if (!this.#isClosed && !this.#isKnown(sequence)) this.#sendPush(pushes);
    }
  }

  /** A listener has these messages already, or they were published before it came. */
  #isKnown(sequence: number | null): boolean {
    if (this.#attachment.transport !== "events" || this.#startSequence === null) return false;
    return sequence === null || sequence <= this.#startSequence;
  }

  /** Lets the bridge pass on more of what a peer had sent before it was gone. */
  #acknowledge(consumedBytes: number): void {
    if (!this.#isBridge || consumedBytes === 0) return;
    try {
      this.#socket.send(bridgeMessage(consumedBytes, NOTHING));
    } catch {
      // The bridge has passed on everything already.
    }
  }

  #sendPush(pushes: Pushes): void {
    const bytes = pushes.bytes.length - (this.#isBridge ? BRIDGE_HEADER_BYTES : 0);
    if (this.#isBridge) this.#undrain(-bytes);
    if (this.#isOutside) this.#unheardBytes += bytes;
    this.#counts[Place.writeBytes]! += bytes;
    this.#transmit(pushes.bytes);
  }

  #transmit(message: Uint8Array): void {
    try {
      this.#socket.send(message);
    } catch {
      // The peer has gone since; its close event is on the way.
      this.hangUp();
    }
  }

  /** The connection has ended: nobody waits any more. */
  #leave(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    if (this.#isBridge) this.#undrain(this.#undrainedBytes);
    this.#unread.close(this.#unheardBytes);
    this.#hub.pendingBytes -= this.#pendingBytes;
    this.#pendingBytes = 0;
    this.#drained?.promise.catch(() => {});
    this.#drained?.reject(new Error("closed"));
    this.#idle();
    this.#hub.left(this);
    if (this.#holder !== null) {
      this.#hub.state.waitUntil(this.#hub.dispatch.release(this.#holder, this.#protocol));
    }
  }

  #idle(): void {
    this.#busy?.resolve();
    this.#busy = null;
  }

  #storeShards(shards: Uint8Array): void {
    this.#attachment = { ...this.#attachment, shards };
    this.store();
  }

  #storeUnfinished(unfinished: Uint8Array | null): void {
    this.#attachment = { ...this.#attachment, unfinished };
    this.store();
  }

  /** Keeps the object in memory until the frame goes on, or refuses it. */
  #stayAwake(): void {
    const progress = this.#progress;
    const timeoutMs = this.#hub.settings.STALL_TIMEOUT_MS;
    const nowMs = Date.now();
    this.#unfinishedSinceMs ??= nowMs;
    if (nowMs - this.#unfinishedSinceMs >= FRAME_STALLS_MAX * timeoutMs) {
      this.#timeOut(FRAME_STALLS_MAX * timeoutMs);
      return;
    }
    const timeout = scheduler.wait(timeoutMs).then(() => {
      if (this.#progress === progress) this.#timeOut(timeoutMs);
    });
    this.#hub.state.waitUntil(timeout);
  }

  #timeOut(timeoutMs: number): void {
    this.#session.close({
      code: 1008,
      reason: `frame_timeout: a frame was not completed within ${timeoutMs} ms`,
    });
  }

  /** Counts what waits; ends the connection when its Hub has too much of it. */
  #countPending(): void {
    const reserved = this.#session.reservedBytes;
    this.#hub.pendingBytes += reserved - this.#pendingBytes;
    this.#pendingBytes = reserved;
    if (reserved <= PENDING_BYTES_LITTLE || this.#hub.pendingBytes <= PENDING_BYTES_MAX) return;
    this.#session.close({
      code: 1013,
      reason: `pending_bytes: more than ${PENDING_BYTES_MAX} bytes of requests wait here, of all connections`,
    });
  }
}

const NOTHING = new Uint8Array(0);

/** A join that its group has no room for is answered as at any other limit. */
async function orRefusal(done: Promise<void>, out: ByteWriter, statusAt: number): Promise<void> {
  try {
    await done;
  } catch (error) {
    if (!(error instanceof GroupFull)) throw error;
    out.bytes[statusAt] = STATUS_FAILURE;
  }
}

const EVERYBODY_BYTES = binaryBytes(EVERYBODY);

function bridged(records: Uint8Array, messages: Uint8Array = NOTHING): Pushes {
  const isPushed: boolean[] = [];
  let payloadBytes = 0;
  forEachMessage(messages, (_, length) => {
    isPushed.push(true);
    payloadBytes += length;
  });
  return { bytes: bridgeMessage(0, records), payloadBytes, isPushed };
}

function prefixBytes({ keyPrefixes, channelPrefixes }: Access): number {
  return [...keyPrefixes, ...channelPrefixes].reduce(
    (sum, prefix) => sum + prefix.length + PREFIX_OVERHEAD_BYTES,
    0,
  );
}
