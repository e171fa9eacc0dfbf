/**
 * Hub: the object where connections live, as hibernatable WebSockets.
 *
 * A WebSocket client is connected directly; a TCP client, and a listener of Server-Sent Events, through a bridge, which
 * speaks `wire/bridge.ts`. An idle Hub hibernates: the runtime drops the object, keeps the sockets, and makes the object
 * again for the next event. So all that must outlive hibernation is in the sockets' attachments, and the rest of this
 * class is built from them. Requests leave it through `dispatch`; what comes from other objects goes to the `roster`.
 */
import { DurableObject } from "cloudflare:workers";
import { presentMs } from "../../base/clock.ts";
import type { Environment } from "../../base/environment.ts";
import { TALLY_YRMCDS_CONNECTIONS } from "../../engine/tally.ts";
import { BRIDGE_SUBPROTOCOL } from "../../wire/bridge.ts";
import { anyProtocolByCode, type AnyProtocol } from "../../wire/protocols.ts";
import { CONNECTION_ROW_BYTES, writeConnectionRow } from "../../wire/throttr/connection-row.ts";
import { ByteWriter, joinBytes } from "../../wire/bytes.ts";
import { forEachDelivery, forEachPublication } from "../../wire/channel-batch.ts";
import { writeMessage, type Batch } from "../../wire/messages.ts";
import { AlarmClock } from "../../base/alarm-clock.ts";
import { noteConnections } from "./connection-count.ts";
import { makeConnectionId, ownChannel, splitIds } from "../../base/connection-id.ts";
import type { Attachment } from "./attachment.ts";
import { HubBacklog } from "./bridge-flow.ts";
import { HubCounts } from "./hub-counts.ts";
import { HubListing } from "./hub-listing.ts";
import { Connection, type ConnectionHub } from "./connection.ts";
import { FINISHED } from "./ending.ts";
import { listen, type ListeningHub } from "./listening.ts";
import { Dispatch } from "../../dispatch/dispatch.ts";
import type {
  Delivered,
  DeliveredAll,
  HubCalls,
  HubFigures,
  SubscriberFigures,
} from "../../base/calls/hub.ts";
import {
  CONNECTION_HEADER,
  decodeOpenRequest,
  type OpenRequest,
} from "../../base/calls/open-request.ts";
import { logWarning } from "../../base/log.ts";
import { Memberships } from "./memberships.ts";
import { EVERYBODY, hubName, type HubAddress } from "../../base/names.ts";
import { StoredMap } from "./stored-map.ts";
import { Roster } from "./roster.ts";
import { endRevoked } from "./revoked-connections.ts";
import { channelsPage, connectionsPage, subscribersOf } from "./roster-pages.ts";
import { readSettings, type Settings } from "../../base/settings.ts";
import { timersOf } from "../../base/timers.ts";
import { directoryStub } from "../../base/stubs.ts";
import { endUnused } from "../../base/unused-socket.ts";
import { HubUnread } from "./socket-flow.ts";
import { UnfinishedFrames } from "./unfinished-frame.ts";
import { TALLIES_STORE_DELAY_MS } from "../../engine/sizes.ts";

/** What the Hub can be asked for is described in `HubCalls`. */
export class Hub extends DurableObject<Environment> implements HubCalls, ConnectionHub {
  readonly state: DurableObjectState;
  readonly settings: Settings;
  readonly dispatch: Dispatch;
  /** Every open connection, and the subscribers of each channel. */
  readonly roster: Roster;
  readonly #name: string;
  readonly #address: HubAddress;
  /** Requests that no shard counts. */
  readonly #counts: HubCounts;
  /** By socket, until the peer has closed it too: the roster forgets a connection as soon as it is closed here. */
  readonly #connections = new Map<WebSocket, Connection>();
  /** What bridges have not written to their clients yet, of all connections: memory of this isolate. */
  readonly backlog = new HubBacklog();
  /** What silent peers were sent, of all connections. */
  readonly unread = new HubUnread();
  /** Large frames that are not finished yet, of all connections. */
  readonly frames: UnfinishedFrames;
  /** Bytes of requests that are not answered, of all connections. */
  pendingBytes = 0;
  /** Sockets that have closed, or were closed here, before the object woke up, and whose events have not come yet. */
  readonly #closing = new Set<WebSocket>();
  /** Connections whose sockets are gone, and whose requests are still executed: they take memory as others do. */
  readonly #ending = new Set<Connection>();
  /** Connections that are being opened, and not in the roster yet. */
  #opening = 0;
  /** Connections of the yrmcds protocol. */
  #yrmcdsConnections = 0;
  /** What the Directory knows of this Hub. */
  readonly #listing: HubListing;
  /** Connections whose tallies are not in their attachment yet. */
  #unstored = new Set<Connection>();
  /** They wait to be stored. Also where all of them have ended since: each wait is a timer, and an object has 10,000. */
  #isStoring = false;
  readonly #storedMap: StoredMap;
  /** What listeners of Server-Sent Events need of the Hub. */
  readonly #forListeners: ListeningHub;
  /** Rings when a token expires. */
  readonly #alarm: AlarmClock;

  constructor(ctx: DurableObjectState, env: Environment) {
    super(ctx, env);
    this.state = ctx;
    this.settings = readSettings(env);
    this.#name = ctx.id.name!;
    const { namespace, address } = hubName.parse(this.#name);
    this.#address = address;
    this.#counts = new HubCounts(env, {
      name: this.#name,
      waitUntil: (work) => ctx.waitUntil(work),
      figures: () => this.figures(),
      onReported: () => this.#noteReported(),
    });
    const { tally } = this.#counts;
    this.dispatch = new Dispatch(env, namespace, { tally, flush: async () => {} });
    this.#storedMap = new StoredMap(this.#name, this.dispatch.map, ctx.storage.kv);
    this.#storedMap.load();
    const timers = timersOf(ctx, scheduler);
    this.frames = new UnfinishedFrames(this.settings.STALL_TIMEOUT_MS, timers);
    this.#alarm = new AlarmClock({
      findDeadlineMs: () => this.#findDeadlineMs(),
      storage: ctx.storage,
      ...timers,
    });
    // ID of this instance of the object: a wake-up is a new life, too.
    const life = crypto.randomUUID();
    const memberships = new Memberships(env, namespace, this.#name, life);
    this.roster = new Roster(memberships, this.settings.HUB_SUBSCRIPTIONS_MAX);
    this.#forListeners = { env, namespace, name: this.#name, life, roster: this.roster };
    this.#listing = new HubListing({
      name: this.#name,
      counts: this.#counts,
      directory: () => directoryStub(env, namespace),
      isInUse: () => this.#isInUse,
    });
    // The runtime answers this ping without waking the object: idle clients keep their connection, and cost nothing.
    ctx.setWebSocketAutoResponse(new WebSocketRequestResponsePair("ping", "pong"));
    // The constructor runs at each wake-up. Sockets that have closed meanwhile are restored when their event comes.
    for (const socket of ctx.getWebSockets()) {
      if (socket.readyState === WebSocket.OPEN) this.#restore(socket);
      else this.#closing.add(socket);
    }
    this.#listing.noteRestored();
    // Only now: before, the Hub would take itself for empty, and tell the Directory.
    for (const connection of this.#connections.values()) connection.endLostFrame();
    // After a reset (a crash, a deployment) the connections of the object before it are gone.
    this.#noteSockets();
  }

  /**
   * Opens a connection, as only `fetch` can return a WebSocket. The answer is 503 when this Hub is full, 507 when the listener's
   * group is full, and 429 when there are as many connections of the yrmcds protocol as there may be.
   *
   * @param request see `open-request.ts`
   */
  override async fetch(request: Request): Promise<Response> {
    const opening = decodeOpenRequest(request.headers.get(CONNECTION_HEADER)!);
    const taken = this.#sockets + this.#ending.size + this.#opening;
    if (taken >= this.settings.HUB_CONNECTIONS_MAX) {
      return new Response(null, { status: 503 });
    }
    this.#opening++;
    let opened: Promise<Response>;
    try {
      await this.#listing.enter();
      // Up to its first `await` it puts the connection into the roster, which counts it from here on.
      opened = this.#open(opening);
    } finally {
      this.#opening--;
      this.ctx.waitUntil(this.#listing.leave());
    }
    return await opened;
  }

  /**
   * The runtime calls this for each message, after the constructor where the object was asleep. Not async: nothing is
   * awaited, so messages are received in their order.
   */
  override webSocketMessage(socket: WebSocket, message: string | ArrayBuffer): void {
    const connection = this.#connections.get(socket) ?? this.#restoreLate(socket);
    if (typeof message === "string") connection?.receiveText(message);
    else connection?.receive(new Uint8Array(message));
    this.#storedMap.note();
  }

  /**
   * The peer has closed the socket, or answered a close of ours. The runtime leaves the other half of the handshake
   * to the object.
   */
  override webSocketClose(socket: WebSocket, code: number): void {
    this.#loseSocket(socket);
    // Some codes are received and must not be sent, such as 1005 and 1006: the runtime would throw.
    socket.close(code >= 3000 && code <= 4999 ? code : 1000);
  }

  override webSocketError(socket: WebSocket): void {
    this.#loseSocket(socket);
  }

  /** Ends the connections whose token has expired. A connection that is silent would not notice it by itself. */
  override async alarm(): Promise<void> {
    const nowMs = presentMs();
    this.#alarm.noteRing();
    for (const connection of this.#connections.values()) {
      if (connection.expiresAtMs <= nowMs) connection.expire();
    }
    await this.#alarm.setForNext();
  }

  /**
   * Channels are delivered one by one within this call, with no `await` between: so a connection sees the messages of
   * a publication in one order.
   */
  deliverAll(deliveries: Uint8Array): DeliveredAll {
    const delivered: number[] = [];
    const denied: number[] = [];
    let index = 0;
    forEachDelivery(deliveries, (channel, sequence, messages) => {
      const one = this.deliver(channel, [{ sequence, messages }]);
      for (const count of one.delivered[0]!) delivered.push(count);
      if (!one.isJoined) denied.push(index);
      index++;
    });
    return { delivered: Uint32Array.from(delivered), denied: Uint32Array.from(denied) };
  }

  /** Delivers to one channel; also what groups of release 0.4 call. */
  deliver(channel: string, batches: readonly Batch[]): Delivered {
    // A connection that is being opened subscribes to `*` in a moment, so the Directory must not drop this Hub.
    const isJoined = channel === EVERYBODY ? this.#isInUse : this.roster.confirm(channel);
    return { delivered: this.roster.deliver(channel, batches), isJoined };
  }

  /** Answers for each message, so that a publisher learns which of the connections are gone. */
  deliverToOwners(publications: Uint8Array): Uint32Array {
    const delivered: number[] = [];
    forEachPublication(publications, (channel, at, length) => {
      const out = new ByteWriter(length + 4);
      writeMessage(out, publications, at, length);
      delivered.push(this.deliverToOwner(channel, out.take())[0]!);
    });
    return Uint32Array.from(delivered);
  }

  /** An own channel has no numbers: no group keeps its messages. */
  deliverToOwner(channel: string, messages: Uint8Array): number[] {
    return this.roster.deliverToOwner(channel, { sequence: null, messages });
  }

  /** It has connections, or one that is being opened. */
  get #isInUse(): boolean {
    return this.roster.size + this.#opening > 0;
  }

  /**
   * Connections that were closed here, and not by their peers yet, count as well: the runtime still has their sockets, and the
   * bytes for them.
   */
  get #sockets(): number {
    return this.#connections.size + this.#closing.size;
  }

  #noteSockets(): void {
    noteConnections(this.#name, this.#sockets);
  }

  figures(): HubFigures {
    return {
      tally: this.#counts.tally.figures(presentMs()),
      countedSinceMs: this.#counts.sinceMs,
      connections: this.roster.size,
      byTransport: this.roster.transports(),
      counterConnections: this.#yrmcdsConnections,
      ...this.roster.totals(),
    };
  }

  /**
   * A shard asks this about connections that hold semaphores there. After a reset the Hub knows none of those before
   * it, so it answers that all have ended: their sockets did.
   */
  gone(ids: Uint8Array): Uint8Array {
    const isGone = (id: Uint8Array): boolean =>
      this.roster.byOwnChannel(ownChannel(id)) === undefined;
    return joinBytes(splitIds(ids).filter(isGone));
  }

  connectionsPage(...asked: Parameters<HubCalls["connectionsPage"]>): Uint8Array {
    return connectionsPage(this.roster, ...asked);
  }

  channelsPage(...asked: Parameters<HubCalls["channelsPage"]>): Uint8Array {
    return channelsPage(this.roster, ...asked);
  }

  connectionRow(id: Uint8Array): Uint8Array | null {
    const connection = this.roster.byOwnChannel(ownChannel(id));
    if (connection === undefined) return null;
    const row = new Uint8Array(CONNECTION_ROW_BYTES);
    writeConnectionRow(row, new DataView(row.buffer), 0, connection.row());
    return row;
  }

  subscribers(channel: string): SubscriberFigures[] {
    return subscribersOf(this.roster, channel);
  }

  endRevoked(...asked: Parameters<HubCalls["endRevoked"]>): number {
    // A peer whose socket is gone may have writes that are not executed yet.
    return endRevoked([...this.#connections.values(), ...this.#ending], ...asked);
  }

  /**
   * Stores a connection within `TALLIES_STORE_DELAY_MS`: to serialize an attachment with each message would cost more than
   * most messages do.
   */
  storeSoon(connection: Connection): void {
    if (!this.#isStoring) this.ctx.waitUntil(this.#storeLater());
    this.#unstored.add(connection);
    this.#counts.note();
  }

  /** Forgets a connection that is closed here. Its socket stays in `#connections` until the peer closes it, too. */
  remove(connection: Connection): void {
    this.#unstored.delete(connection);
    this.#ending.delete(connection);
    if (connection.isYrmcds) this.#yrmcdsConnections--;
    const removed = this.roster.remove(connection);
    // Both at once, before anything is awaited: a connection that is opened meanwhile must find the Hub listed, or see
    // that it has to list it.
    this.ctx.waitUntil(Promise.all([removed, this.#listing.leave()]));
  }

  /**
   * Makes the socket and its connection. Nothing is awaited between `acceptWebSocket` and the roster: so no event
   * finds a socket without its connection.
   */
  async #open(opening: OpenRequest): Promise<Response> {
    const { channel, after, ...asked } = opening;
    const parameters = asked.isGateway
      ? { ...asked, transport: "tcp" as const, subprotocol: BRIDGE_SUBPROTOCOL }
      : asked;
    if (channel !== null && channel !== EVERYBODY && this.roster.isFull) {
      return new Response(null, { status: 503 });
    }
    const protocol = anyProtocolByCode(parameters.protocolCode);
    // The door may be of a later release. Behind `acceptWebSocket` the error would leave a socket without its connection.
    if (protocol === undefined)
      throw new Error(`the Hub does not know protocol ${parameters.protocolCode}`);
    if (this.#isSurplus(protocol)) return new Response(null, { status: 429 });
    const { 0: client, 1: server } = new WebSocketPair();
    // `acceptWebSocket` instead of `accept`: the object may hibernate while the socket stays open.
    this.ctx.acceptWebSocket(server);
    const random = crypto.getRandomValues(new Uint8Array(16));
    const id = makeConnectionId(this.#address, random);
    const connection = Connection.open(server, parameters, id, this);
    this.#connections.set(server, connection);
    this.#join(connection);
    try {
      const refused =
        channel === null ? null : await listen(this.#forListeners, connection, channel, after);
      if (refused !== null) {
        endUnused(client);
        return new Response(null, { status: refused });
      }
      await this.#alarm.setFor(parameters.access.expiresAtMs ?? Infinity);
    } catch (error) {
      connection.close(FINISHED);
      endUnused(client);
      throw error;
    }
    const headers = new Headers();
    if (parameters.subprotocol !== null)
      headers.set("sec-websocket-protocol", parameters.subprotocol);
    return new Response(null, { status: 101, webSocket: client, headers });
  }

  /** Whether there are as many connections of the yrmcds protocol as there may be. */
  #isSurplus({ dialect }: AnyProtocol): boolean {
    const { YRMCDS_CONNECTIONS_MAX } = this.settings;
    return (
      YRMCDS_CONNECTIONS_MAX > 0 &&
      this.#yrmcdsConnections >= YRMCDS_CONNECTIONS_MAX &&
      dialect === "yrmcds"
    );
  }

  /**
   * Makes the connection of a socket that has outlived hibernation, from its attachment. A socket without one, whose connection could
   * not be made, is closed, and does not keep the Hub from starting.
   */
  #restore(socket: WebSocket): Connection | null {
    const attachment = socket.deserializeAttachment() as Attachment | null;
    if (attachment === null) {
      this.#closing.add(socket);
      if (socket.readyState === WebSocket.OPEN) socket.close(1011);
      return null;
    }
    const connection = new Connection(socket, attachment, this);
    this.#closing.delete(socket);
    this.#connections.set(socket, connection);
    if (!connection.isClosed) this.#join(connection);
    return connection;
  }

  /**
   * Makes the connection of a socket that was closing when the object woke up. It ends, and other objects must learn of it: its
   * channels, the shards, and the Directory if it was the last one.
   */
  #restoreLate(socket: WebSocket): Connection | null {
    const connection = this.#restore(socket);
    if (connection === null) return null;
    this.#listing.noteRestoredLate();
    connection.endLostFrame();
    return connection;
  }

  #join(connection: Connection): void {
    const joined = this.roster.add(connection);
    if (joined !== null) this.ctx.waitUntil(this.#joinAgain(joined));
    this.#noteSockets();
    if (!connection.isYrmcds) return;
    this.#yrmcdsConnections++;
    if (connection.isUnreported) this.#countYrmcds();
  }

  /** Counts a connection of the yrmcds protocol, when it is opened, and again after sleep where the count was lost with it. */
  #countYrmcds(): void {
    this.#counts.tally.turn(presentMs());
    this.#counts.tally.totals[TALLY_YRMCDS_CONNECTIONS]!++;
  }

  /** A group that can't be told now is told at the next start: `hasJoinedGroups` is stored only after all know. */
  async #joinAgain(joined: Promise<void>): Promise<void> {
    try {
      await joined;
    } catch (error) {
      logWarning("join_failed", { hub: this.#name, error: String(error) });
    }
  }

  /** Ends the connection of a socket that is gone. */
  #loseSocket(socket: WebSocket): void {
    const connection = this.#connections.get(socket) ?? this.#restoreLate(socket);
    this.#connections.delete(socket);
    this.#closing.delete(socket);
    this.#noteSockets();
    if (connection === null) return;
    if (!connection.isClosed) this.#ending.add(connection);
    connection.loseSocket();
  }

  /** What goes to the Directory has all connections that were opened. */
  #noteReported(): void {
    for (const connection of this.#connections.values())
      if (connection.isUnreported) connection.noteReported();
  }

  /** When the next token of a connection expires. */
  #findDeadlineMs(): number {
    let deadlineMs = Infinity;
    for (const { expiresAtMs } of this.#connections.values())
      deadlineMs = Math.min(deadlineMs, expiresAtMs);
    return deadlineMs;
  }

  /** Attachments are written in one go, a second later: a busy connection would be written for each message otherwise. */
  async #storeLater(): Promise<void> {
    this.#isStoring = true;
    try {
      await scheduler.wait(TALLIES_STORE_DELAY_MS);
    } finally {
      // Also where no timer is left.
      this.#isStoring = false;
      const unstored = this.#unstored;
      this.#unstored = new Set();
      for (const connection of unstored) connection.store();
      this.#counts.report();
    }
  }
}
