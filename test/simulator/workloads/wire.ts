/** Wires: the bytes of one connection, over a WebSocket, over TCP, or over the bridge protocol as a gateway speaks it. */
import {
  BRIDGE_END,
  BRIDGE_SUBPROTOCOL,
  bridgeWindow,
  DRAINED_PORTION_BYTES,
  drainedMessage,
  FRAME_BYTES_LIMIT,
  parseBridgeMessage,
} from "../../../src/wire/bridge.ts";
import type { Random } from "../kernel/random.ts";
import { ClientWebSocket, type Dial } from "../platform/net/client-web-socket.ts";
import { exchange } from "../platform/net/exchange.ts";
import { connectTcp } from "../platform/net/tcp.ts";
import type { RunningLife } from "../platform/running-life.ts";
import type { World } from "../world.ts";
import { DEFAULT, headersOf, NEIGHBOUR } from "./namespaces.ts";

export type WireKind = "websocket" | "tcp" | "gateway";

/** A protocol, by the path where WebSockets and bodies speak it, and by the port of TCP, and whose records it reaches. */
export interface Protocol {
  /** As `TCP_PORTS` of a deployment has it. */
  readonly name: string;
  readonly path: string;
  readonly port: number;
  readonly namespace: string;
  /** Bytes of the size of a push's payload; null where there are no pushes. */
  readonly pushSizeBytes: number | null;
}

export const EDGE: Protocol = {
  name: "edge",
  path: "/throttr/edge",
  port: 9100,
  namespace: DEFAULT,
  pushSizeBytes: 8,
};
export const YRMCDS: Protocol = {
  name: "yrmcds",
  path: "/yrmcds/counter",
  port: 11215,
  namespace: DEFAULT,
  pushSizeBytes: null,
};
export const DIALECT_2: Protocol = {
  name: "2",
  path: "/throttr/2",
  port: 9120,
  namespace: DEFAULT,
  pushSizeBytes: null,
};

/** Dialect 7.3 in the value size of 1, 2, 4 or 8 bytes. */
export const dialect73 = (valueBytes: 1 | 2 | 4 | 8): Protocol => ({
  name: `7.3/uint${8 * valueBytes}`,
  path: `/throttr/7.3/uint${8 * valueBytes}`,
  port: 9100 + valueBytes,
  namespace: DEFAULT,
  pushSizeBytes: valueBytes,
});

const PROTOCOLS = [EDGE, dialect73(1), dialect73(2), dialect73(4), dialect73(8), DIALECT_2, YRMCDS];
/** Ports of neighbours are so far behind those of others. */
const NEIGHBOURS_PORTS = 200;

/** A protocol where clients of a namespace speak it. */
export const protocolIn = (namespace: string, protocol: Protocol): Protocol =>
  namespace === DEFAULT
    ? protocol
    : { ...protocol, port: protocol.port + NEIGHBOURS_PORTS, namespace };

/** The variable of a deployment whose ports these are. */
export const TCP_PORTS = PROTOCOLS.flatMap((protocol) => [
  `${protocol.port}=${protocol.name}`,
  `${protocolIn(NEIGHBOUR, protocol).port}=${protocol.name}@${NEIGHBOUR}`,
]).join(", ");

export interface WireEvents {
  onBytes(bytes: Uint8Array): void;
  /** Called once: the server has closed the connection, and the client goes on sending before it answers that. */
  onCloseLeft(): void;
  /**
   * Called once: nothing comes any more.
   *
   * @param wasOpen false when nothing was sent
   */
  onEnd(reason: string, wasOpen: boolean): void;
}

export interface Wire {
  /** Sends bytes, in messages that end anywhere. Before the wire is open they wait. */
  write(bytes: Uint8Array): void;
  /** Sends nothing more. Over TCP and the bridge what was sent is still answered. */
  end(): void;
  /** Gives the connection up without a word. */
  destroy(): void;
}

/** How often bytes are sent as several messages. */
const CUT_SHARE = 0.3;
/** A gateway reads so much of its client at once. */
const READ_BYTES = 64 << 10;

/** The close code with which the server ends a connection whose client has ended it: such a client sends nothing more. */
const FINISHED = 1000;

/** Where a client is: no two connections of a run have one address. */
export function addressOf(connection: number): string {
  return `10.${(connection >> 16) & 255}.${(connection >> 8) & 255}.${connection & 255}`;
}

export interface WireOptions {
  readonly kind: WireKind;
  readonly protocol: Protocol;
  /** The number of the connection, which gives its address. */
  readonly connection: number;
  /** Offered by a WebSocket; none unless given. */
  readonly subprotocols?: readonly string[];
}

export function openWire(
  world: World,
  client: RunningLife,
  random: Random,
  options: WireOptions,
  events: WireEvents,
): Wire {
  switch (options.kind) {
    case "tcp":
      return openTcp(world, client, random, options, events);
    case "websocket":
      return new WebSocketWire(openSocket(world, client, random, options, events), random, events);
    case "gateway": {
      const bridged = { ...options, subprotocols: [BRIDGE_SUBPROTOCOL] };
      const socket = openSocket(world, client, random, bridged, events);
      return new BridgeWire(socket, random, events);
    }
  }
}

function openTcp(
  world: World,
  client: RunningLife,
  random: Random,
  { protocol, connection }: WireOptions,
  events: WireEvents,
): Wire {
  let isOver = false;
  const end = (reason: string): void => {
    if (isOver) return;
    isOver = true;
    events.onEnd(reason, true);
  };
  const { witness } = world;
  const tcp = connectTcp(
    world.cluster.site.network,
    client,
    { enter: (event) => world.door(random).enterTcp(event) },
    {
      onBytes: (bytes) => {
        witness.noteOpen(connection);
        events.onBytes(bytes);
      },
      onEnd: () => {
        tcp.end();
        end("the server has ended the connection");
      },
      onLost: () => end("the connection was lost"),
    },
    {
      localAddress: `127.0.0.1:${protocol.port}`,
      remoteAddress: `${addressOf(connection)}:${1024 + (connection % 60_000)}`,
    },
  );
  tcp.link.whenOver(() => witness.noteEnd(connection));
  return {
    write: (bytes) => tcp.write(bytes),
    end: () => tcp.end(),
    destroy: () => {
      tcp.destroy();
      end("the client has reset the connection");
    },
  };
}

function openSocket(
  world: World,
  client: RunningLife,
  random: Random,
  { protocol, connection, subprotocols = [] }: WireOptions,
  events: WireEvents,
): ClientWebSocket {
  const dial: Dial = async (request) => {
    request.headers.set("cf-connecting-ip", addressOf(connection));
    for (const [name, value] of Object.entries(headersOf(protocol.namespace))) {
      request.headers.set(name, value);
    }
    const door = { enter: (event: never) => world.door(random).enter(event) };
    return await exchange(world.cluster.site.network, client, door, request);
  };
  const url = `wss://edge.example${protocol.path}`;
  const socket = new ClientWebSocket(client, dial, url, subprotocols);
  const { faults } = world.cluster.site;
  socket.breaksFrame = () => faults.breaksFrame();
  socket.leavesCloseMs = (code) => {
    // A Hub of release 0.4.0 serves such a client again when it has slept.
    const canLeave = world.isToday && code !== FINISHED;
    const leftMs = canLeave ? faults.leavesCloseMs() : 0;
    if (leftMs > 0) events.onCloseLeft();
    return leftMs;
  };
  socket.addEventListener("open", () => world.witness.noteOpen(connection));
  socket.addEventListener("close", () => world.witness.noteEnd(connection));
  return socket;
}

interface SocketEvents {
  /** @returns whether the wire is open with it: false where the socket is given up instead */
  onOpen(): boolean;
  onMessage(message: Uint8Array): void;
  onEnd(reason: string, wasOpen: boolean): void;
}

function listen(socket: ClientWebSocket, events: SocketEvents): void {
  let wasOpen = false;
  socket.binaryType = "arraybuffer";
  socket.addEventListener("open", () => {
    wasOpen = events.onOpen();
  });
  socket.addEventListener("message", ({ data }: { data?: unknown }) => {
    events.onMessage(new Uint8Array(data as ArrayBuffer));
  });
  socket.addEventListener("close", ({ code, reason }: { code?: number; reason?: string }) => {
    events.onEnd(`${code} ${reason}`, wasOpen);
  });
}

/** Messages are a stream of bytes: a frame may be cut anywhere. */
class WebSocketWire implements Wire {
  readonly #socket: ClientWebSocket;
  readonly #random: Random;
  /** What waits for the socket to open. */
  #early: Uint8Array[] = [];

  constructor(socket: ClientWebSocket, random: Random, events: WireEvents) {
    this.#socket = socket;
    this.#random = random;
    listen(socket, {
      onOpen: () => {
        for (const bytes of this.#early.splice(0)) this.write(bytes);
        return true;
      },
      onMessage: (message) => events.onBytes(message),
      onEnd: (reason, wasOpen) => events.onEnd(reason, wasOpen),
    });
  }

  write(bytes: Uint8Array): void {
    if (this.#socket.readyState === 0) {
      this.#early.push(bytes);
      return;
    }
    for (const piece of piecesOf(bytes, this.#random)) this.#socket.send(piece);
  }

  end(): void {
    this.#socket.close(1000);
  }

  destroy(): void {
    this.#socket.terminate();
  }
}

/** A client of TCP behind a gateway. See src/wire/bridge.ts for what the two ends say. */
class BridgeWire implements Wire {
  readonly #socket: ClientWebSocket;
  readonly #random: Random;
  /** What waits for the socket to open, and for the Hub to answer what was sent before. */
  #unsent: Uint8Array[] = [];
  #unansweredBytes = 0;
  #drainedBytes = 0;
  #isEnding = false;
  #hasEnded = false;

  constructor(socket: ClientWebSocket, random: Random, events: WireEvents) {
    this.#socket = socket;
    this.#random = random;
    listen(socket, {
      onOpen: () => {
        // A server before 0.5.0 speaks another protocol here: a gateway refuses it (`bridge_unsupported`).
        const isBridge = socket.protocol === BRIDGE_SUBPROTOCOL;
        if (isBridge) this.#send();
        else socket.terminate();
        return isBridge;
      },
      onMessage: (message) => {
        const { consumedBytes, replies } = parseBridgeMessage(message);
        this.#unansweredBytes -= consumedBytes;
        this.#send();
        if (replies.length === 0) return;
        events.onBytes(replies);
        this.#drain(replies.length);
      },
      onEnd: (reason, wasOpen) => events.onEnd(reason, wasOpen),
    });
  }

  write(bytes: Uint8Array): void {
    this.#unsent.push(...piecesOf(bytes, this.#random));
    this.#send();
  }

  end(): void {
    this.#isEnding = true;
    this.#send();
  }

  destroy(): void {
    this.#socket.terminate();
  }

  #send(): void {
    if (this.#socket.readyState !== 1 || this.#hasEnded) return;
    while (this.#unsent.length > 0 && this.#unansweredBytes < bridgeWindow(FRAME_BYTES_LIMIT)) {
      const piece = this.#unsent.shift()!;
      this.#unansweredBytes += piece.length;
      this.#socket.send(piece);
    }
    if (!this.#isEnding || this.#unsent.length > 0) return;
    this.#hasEnded = true;
    this.#socket.send(BRIDGE_END);
  }

  #drain(bytes: number): void {
    this.#drainedBytes += bytes;
    if (this.#drainedBytes < DRAINED_PORTION_BYTES) return;
    this.#socket.send(drainedMessage(this.#drainedBytes));
    this.#drainedBytes = 0;
  }
}

/** Bytes as the messages that they are sent in. */
function piecesOf(bytes: Uint8Array, random: Random): Uint8Array[] {
  const pieces: Uint8Array[] = [];
  for (let at = 0; at < bytes.length;) {
    const most = Math.min(bytes.length - at, READ_BYTES);
    const length = random.chance(CUT_SHARE) ? 1 + random.int(most) : most;
    pieces.push(bytes.subarray(at, at + length));
    at += length;
  }
  return pieces;
}
