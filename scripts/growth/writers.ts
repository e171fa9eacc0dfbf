/** Writers of a growing namespace, one for each door: each sets new keys all the time, and notes those that are acknowledged. */
import { once } from "node:events";
import { connect } from "node:net";
import { ThrottrClient, webSocket } from "../../src/client/index.ts";
import { encodeRequest } from "../../src/wire/throttr/encode.ts";
import { protocolByName } from "../../src/wire/throttr/protocol.ts";

/** What one door has taken. */
export interface Written {
  /** Keys whose write was acknowledged, or was under way at the end and then was. */
  readonly keys: readonly string[];
  /** The longest time that a write took, in milliseconds. */
  readonly longestMs: number;
}

/** Writes until it is stopped; rejects at the first write that fails. */
type Writer = (place: string, stop: AbortSignal) => Promise<Written>;

/** Values of 16 bits say no longer one in seconds. */
const TTL_S = 60_000;
const VALUE = Buffer.alloc(900, "v");
const UNDER_WAY = 8;
const TTL_SECONDS = 4;
const STATUS_SUCCESS = 1;

const protocol = protocolByName("7.3", "uint16")!;

export const WRITERS = { tcp: writeTcp, http: writeHttp, client: writeByClient } satisfies Record<
  string,
  Writer
>;

class Notes implements Written {
  readonly keys: string[] = [];
  longestMs = 0;
  readonly #door: string;
  #made = 0;

  constructor(door: string) {
    this.#door = door;
  }

  nextKey(): string {
    return `${this.#door}:${String(this.#made++).padStart(8, "0")}`;
  }

  note(key: string, tookMs: number): void {
    this.keys.push(key);
    this.longestMs = Math.max(this.longestMs, tookMs);
  }
}

/** @param place port of the protocol with values of 16 bits */
async function writeTcp(place: string, stop: AbortSignal): Promise<Written> {
  const notes = new Notes("tcp");
  const socket = connect(Number(place), "127.0.0.1").setNoDelay(true);
  await once(socket, "connect");
  const sent: { readonly key: string; readonly atMs: number }[] = [];
  const send = (): void => {
    const key = notes.nextKey();
    sent.push({ key, atMs: performance.now() });
    const ttl = { ttlType: TTL_SECONDS, ttl: BigInt(TTL_S) };
    socket.write(
      encodeRequest(protocol, { type: "set", key: Buffer.from(key), value: VALUE, ...ttl }),
    );
  };
  try {
    await new Promise<void>((resolve, reject) => {
      socket.on("data", (replies: Buffer) => {
        for (const status of replies) {
          const { key, atMs } = sent.shift()!;
          if (status !== STATUS_SUCCESS) return reject(new Error(`SET ${key} was refused`));
          notes.note(key, performance.now() - atMs);
          if (!stop.aborted) send();
        }
        if (sent.length === 0) resolve();
      });
      socket.once("error", reject);
      socket.once("close", () => reject(new Error("the server closed the connection")));
      for (let i = 0; i < UNDER_WAY; i++) send();
    });
  } finally {
    socket.destroy();
  }
  return notes;
}

/** @param place URL of the server */
async function writeHttp(place: string, stop: AbortSignal): Promise<Written> {
  return await writeBy("http", stop, async (key) => {
    const response = await fetch(`${place}/v1/buffers/${key}?ttlMs=${TTL_S * 1000}`, {
      method: "PUT",
      headers: { "content-type": "application/octet-stream" },
      body: VALUE,
    });
    const text = await response.text();
    if (!response.ok) throw new Error(`PUT ${key}: ${response.status} ${text}`);
  });
}

/** By the package's client, over a WebSocket. */
async function writeByClient(place: string, stop: AbortSignal): Promise<Written> {
  const throttr = new ThrottrClient(webSocket(place));
  try {
    return await writeBy("client", stop, async (key) => {
      await throttr.set(key, VALUE, { ttlMs: TTL_S * 1000 });
    });
  } finally {
    await throttr.close();
  }
}

async function writeBy(
  door: string,
  stop: AbortSignal,
  write: (key: string) => Promise<void>,
): Promise<Written> {
  const notes = new Notes(door);
  const one = async (): Promise<void> => {
    while (!stop.aborted) {
      const key = notes.nextKey();
      const atMs = performance.now();
      await write(key);
      notes.note(key, performance.now() - atMs);
    }
  };
  await Promise.all(Array.from({ length: UNDER_WAY }, one));
  return notes;
}
