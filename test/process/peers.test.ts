/** Peers that ask for much and do not read it, over real sockets: what they cost others. */
import { mkdtempSync, rmSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, expect, it } from "vitest";
import { concat, HOURS, stat, U64 } from "../support/frames/index.ts";
import { SelfHosted } from "../support/process/self-hosted.ts";
import { SocketClient } from "../support/process/socket-client.ts";
import { insertFrame, quotaOf } from "../support/process/socket-records.ts";

const PORT = 21_821;
const VALUE_BYTES = 1_000_000;
const GETS = 20_000;
/** Reads that may be under way, or answered, when the end of a connection is seen. */
const READS_MAX = 1000;

const folder = mkdtempSync(join(tmpdir(), "throttr-peers-"));
const server = SelfHosted.start([
  "--http",
  "127.0.0.1:0",
  "--data",
  join(folder, "data"),
  "--access",
  "open",
  "--var",
  "SHARDS=1",
  "--tcp",
  `${PORT}=7.3/uint64@default`,
]);
let other: SocketClient;
/** A large value of its own for each test: its reads are counted. */
let key: string;
let tests = 0;

beforeAll(async () => {
  await server.ready();
  other = await SocketClient.open(PORT);
});
afterAll(async () => {
  await other.close();
  await server.stop();
  rmSync(folder, { recursive: true, force: true });
});
beforeEach(async () => {
  key = `large${tests++}`;
  const value = new Uint8Array(VALUE_BYTES);
  const set = U64.set(key, value, HOURS, 1n);
  await other.exchange(set, 1);
});

const gets = (count: number): Uint8Array<ArrayBuffer> => {
  const get = U64.get(key);
  return concat(Array.from({ length: count }, () => get));
};

/** How often the value has been read by now, as STAT of the edge dialect tells another peer. */
async function readsOf(): Promise<number> {
  const response = await fetch(`${server.url}/throttr/edge`, { method: "POST", body: stat(key) });
  const reply = new DataView(await response.arrayBuffer());
  expect(reply.getUint8(0)).toBe(1);
  return Number(reply.getBigUint64(17, true));
}

it.each(["closes", "resets"])(
  "writes that a TCP peer sent before it %s its connection are executed, and its reads are not",
  async (how) => {
    const peer = await SocketClient.open(PORT);
    peer.socket.write(concat([gets(GETS), insertFrame(`behind:${key}`, 7n)]));
    await peer.take(1);
    if (how === "closes") peer.socket.destroy();
    else peer.socket.resetAndDestroy();
    const written = (): Promise<bigint | null> => quotaOf(other, `behind:${key}`);
    await expect.poll(written, { timeout: 30_000 }).toBe(7n);
    expect(await readsOf()).toBeLessThan(READS_MAX);
  },
);

it("writes of a body whose client has gone are executed, and its reads are not", async () => {
  const body = concat([gets(5000), insertFrame(`behind:${key}`, 7n)]);
  const client = new AbortController();
  const response = await fetch(`${server.url}/throttr/7.3/uint64`, {
    method: "POST",
    body,
    signal: client.signal,
  });
  await response.body!.getReader().read();
  client.abort();
  const written = (): Promise<bigint | null> => quotaOf(other, `behind:${key}`);
  await expect.poll(written, { timeout: 30_000 }).toBe(7n);
  expect(await readsOf()).toBeLessThan(READS_MAX);
});

it("a body of replies announces its length, though it is written as it is read", async () => {
  const url = `${server.url}/throttr/7.3/uint64`;
  const response = await fetch(url, { method: "POST", body: gets(1) });
  const { length } = await response.bytes();
  expect(length).toBeGreaterThan(VALUE_BYTES);
  expect(response.headers.get("content-length")).toBe(String(length));
});

it("a connection is answered between two sections of another's large request", async () => {
  const asked = 30;
  const socket = new WebSocket(`${server.url.replace("http", "ws")}/throttr/7.3/uint64`);
  socket.binaryType = "arraybuffer";
  await new Promise((resolve) => socket.addEventListener("open", resolve));
  let received = 0;
  socket.addEventListener("message", ({ data }: MessageEvent<ArrayBuffer>) => {
    received += data.byteLength;
  });
  socket.send(gets(asked));
  // A single question could be late on a busy machine: one answer from between two sections is enough.
  const answers: number[] = [];
  const isWhole = (): boolean => received >= asked * VALUE_BYTES;
  while (!isWhole()) answers.push(await readsOf());
  socket.close();
  expect(answers.filter((reads) => reads > 0 && reads < asked)).not.toEqual([]);
});

/** A WebSocket that does not even answer the close of the other side. */
async function openMute(port: number): Promise<{ status: string; socket: Socket }> {
  const socket = connect({ port, host: "127.0.0.1" });
  socket.write(
    "GET /throttr/7.3/uint64 HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" +
      "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
  );
  const head = await new Promise<Buffer>((resolve) => socket.once("data", resolve));
  return { status: head.toString("latin1").slice(9, 12), socket };
}

it("a WebSocket that the server has closed takes its place until its peer has closed it, too", async () => {
  const small = SelfHosted.start([
    "--http",
    "127.0.0.1:0",
    "--data",
    join(folder, "small"),
    "--access",
    "open",
    "--var",
    "HUBS_MAX=1",
    "--var",
    "HUB_CONNECTIONS_MAX=1",
  ]);
  await small.ready();
  const port = Number(new URL(small.url).port);
  const { status, socket } = await openMute(port);
  expect(status).toBe("101");
  // Text is refused, and the connection closed.
  const closing = new Promise<Buffer>((resolve) => socket.once("data", resolve));
  socket.write(Buffer.from([0x81, 0x81, 0, 0, 0, 0, 0x61]));
  expect((await closing)[0]).toBe(0x88);
  const second = await openMute(port);
  expect(second.status).toBe("503");
  second.socket.destroy();
  socket.destroy();
  const isFree = async (): Promise<boolean> => {
    const third = await openMute(port);
    third.socket.destroy();
    return third.status === "101";
  };
  await expect.poll(isFree, { timeout: 10_000 }).toBe(true);
  await small.stop();
});
