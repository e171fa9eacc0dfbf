/**
 * The three doors as one interface, so that one table of exchanges runs over each.
 */
import { exports } from "cloudflare:workers";
import { concat } from "../frames/index.ts";

export interface Door {
  /** Sends bytes and waits for so many bytes of reply; fewer when the connection ends or time is up. */
  exchange(request: Uint8Array, replyBytes: number): Promise<Uint8Array>;
  close(): Promise<void>;
}

export type OpenDoor = (dialect: string, size: string) => Promise<Door>;

const REPLY_TIMEOUT_MS = 10_000;
/** How long silence is listened to where no reply is expected. */
const SILENCE_MS = 30;

const server = exports.default as unknown as Fetcher;

/** Replies that arrive in any pieces, taken in the pieces one waits for. */
export class Inbox {
  #chunks: Uint8Array[] = [];
  #bytes = 0;
  #wake: (() => void) | null = null;
  isClosed = false;

  push(bytes: Uint8Array): void {
    this.#chunks.push(bytes);
    this.#bytes += bytes.length;
    this.#wake?.();
  }

  end(): void {
    this.isClosed = true;
    this.#wake?.();
  }

  async take(count: number): Promise<Uint8Array> {
    const timeout = scheduler.wait(count === 0 ? SILENCE_MS : REPLY_TIMEOUT_MS).then(() => true);
    const isEnough = (): boolean => count > 0 && this.#bytes >= count;
    while (!isEnough() && !this.isClosed) {
      const woken = new Promise<boolean>((resolve) => (this.#wake = () => resolve(false)));
      if (await Promise.race([woken, timeout])) break;
    }
    const received = concat(this.#chunks);
    const taken = received.subarray(0, count === 0 ? undefined : count);
    this.#chunks = [received.subarray(taken.length)];
    this.#bytes = received.length - taken.length;
    return taken;
  }
}

export const openHttp: OpenDoor = async (dialect, size) => ({
  async exchange(request) {
    const response = await post(dialect, size, request);
    if (!response.ok) throw new Error(await response.text());
    return new Uint8Array(await response.arrayBuffer());
  },
  close: async () => {},
});

/** @param size empty for a dialect without sizes */
export async function post(
  dialect: string,
  size: string,
  body: BodyInit,
  headers: HeadersInit = {},
): Promise<Response> {
  return await server.fetch(`http://localhost${pathOf(dialect, size)}`, {
    method: "POST",
    body,
    headers,
  });
}

/** Path of a dialect's door. */
export function pathOf(dialect: string, size: string): string {
  return size === "" ? `/throttr/${dialect}` : `/throttr/${dialect}/${size}`;
}

export async function get(path: string, headers: HeadersInit = {}): Promise<Response> {
  return await server.fetch(`http://localhost${path}`, { headers });
}

export interface SocketDoor extends Door {
  readonly socket: WebSocket;
  readonly inbox: Inbox;
  /** How the server closed the connection. */
  readonly closed: Promise<{ code: number; reason: string }>;
}

/** @param answersClose false: the client goes on after the server has closed the connection */
export async function openSocket(
  path: string,
  headers: Record<string, string> = {},
  answersClose = true,
): Promise<SocketDoor> {
  const response = await get(path, { upgrade: "websocket", ...headers });
  const socket = response.webSocket;
  if (socket === null) throw new Error(`${response.status}: ${await response.text()}`);
  const inbox = new Inbox();
  const closed = Promise.withResolvers<{ code: number; reason: string }>();
  socket.binaryType = "arraybuffer";
  socket.addEventListener("message", ({ data }) => {
    inbox.push(
      typeof data === "string"
        ? new TextEncoder().encode(data)
        : new Uint8Array(data as ArrayBuffer),
    );
  });
  socket.addEventListener("close", ({ code, reason }) => {
    inbox.end();
    closed.resolve({ code, reason });
  });
  socket.accept({ allowHalfOpen: !answersClose });
  return {
    socket,
    inbox,
    closed: closed.promise,
    async exchange(request, replyBytes) {
      if (request.length > 0) socket.send(request);
      return await inbox.take(replyBytes);
    },
    close: async () => socket.close(1000),
  };
}

export const openWebSocket: OpenDoor = (dialect, size) => openSocket(`/throttr/${dialect}/${size}`);

const TCP_PORTS: Readonly<Record<string, number>> = {
  uint8: 9001,
  uint16: 9002,
  uint32: 9004,
  uint64: 9008,
};

export interface TcpDoor extends Door {
  readonly inbox: Inbox;
  write(bytes: Uint8Array): Promise<void>;
  /** Ends the sending half. */
  end(): Promise<void>;
  /** Resolves when the server has closed. */
  readonly closed: Promise<void>;
}

export const connectTcp = (port: number): Socket => server.connect(`localhost:${port}`);

export async function openPort(port: number): Promise<TcpDoor> {
  const socket = connectTcp(port);
  const writer = (socket.writable as WritableStream<Uint8Array>).getWriter();
  const inbox = new Inbox();
  const closed = (async () => {
    try {
      for await (const chunk of socket.readable as ReadableStream<Uint8Array>) inbox.push(chunk);
    } catch {
      // A reset is an end, too.
    }
    inbox.end();
  })();
  return {
    inbox,
    closed,
    write: (bytes) => writer.write(bytes),
    end: () => writer.close(),
    async exchange(request, replyBytes) {
      if (request.length > 0) await writer.write(request);
      return await inbox.take(replyBytes);
    },
    close: async () => {
      await writer.close();
      await closed;
    },
  };
}

export const openTcp: OpenDoor = (dialect, size) => {
  if (dialect !== "7.3") throw new Error(`no port speaks ${dialect}`);
  return openPort(TCP_PORTS[size]!);
};

export const DOORS: Readonly<Record<string, OpenDoor>> = {
  HTTP: openHttp,
  WebSocket: openWebSocket,
  TCP: openTcp,
};
