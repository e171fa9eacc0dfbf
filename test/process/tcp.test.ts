/** TCP as the system's sockets have it: clients that pause, and clients that don't stop. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, it } from "vitest";
import { configWithPorts, startServer, waitUntilReady, type Server } from "../../scripts/server.ts";
import { concat, HOURS, U16 } from "../support/frames/index.ts";

const HTTP_PORT = 18_787;
const TCP_PORT = 18_788;
const VALUE_BYTES = 1000;
const REPLY_BYTES = 6 + VALUE_BYTES;

const folder = mkdtempSync(join(tmpdir(), "throttr-tcp-"));
let server: Server;

beforeAll(async () => {
  const config = join(folder, "wrangler.toml");
  writeFileSync(config, configWithPorts({ 9002: TCP_PORT }));
  server = startServer({ config, port: HTTP_PORT, persistTo: join(folder, "state") });
  await waitUntilReady(HTTP_PORT, [TCP_PORT]);
  const value = new Uint8Array(VALUE_BYTES);
  const client = await open();
  client.socket.write(U16.set("k", value, HOURS, 10n));
  await new Promise((resolve) => client.socket.once("data", resolve));
  client.socket.destroy();
});

afterAll(async () => {
  await server.kill();
  rmSync(folder, { recursive: true, force: true });
});

interface Client {
  socket: Socket;
  bytes: number;
  isClosed: boolean;
}

async function open(): Promise<Client> {
  const socket = connect(TCP_PORT, "127.0.0.1");
  const client: Client = { socket, bytes: 0, isClosed: false };
  socket.on("data", (chunk: Buffer) => (client.bytes += chunk.length));
  socket.on("close", () => (client.isClosed = true));
  socket.on("error", () => {});
  await new Promise((resolve) => socket.once("connect", resolve));
  return client;
}

const gets = (count: number): Uint8Array =>
  concat(Array.from({ length: count }, () => U16.get("k")));

it("a client that pauses longer than an idle object stays awake gets all its replies", async () => {
  const client = await open();
  client.socket.pause();
  client.socket.write(gets(20_000));
  await sleep(13_000);
  client.socket.resume();
  await expect.poll(() => client.bytes, { timeout: 20_000 }).toBe(20_000 * REPLY_BYTES);
  client.socket.destroy();
});

it("a client that goes on sending after an unknown type gets the replies to its earlier requests", async () => {
  const client = await open();
  client.socket.pause();
  client.socket.write(concat([gets(3000), Uint8Array.of(0xff)]));
  for (let i = 0; i < 3; i++) {
    await sleep(200);
    client.socket.write(gets(10));
  }
  client.socket.resume();
  await expect.poll(() => client.isClosed, { timeout: 20_000 }).toBe(true);
  expect(client.bytes).toBe(3000 * REPLY_BYTES);
});
