/** `throttr-edge serve`: channels make a bounded number of files, and what held nothing is removed. */
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { DatabaseSync } from "node:sqlite";
import { afterAll, afterEach, expect, it } from "vitest";
import { concat, subscribe, U16 } from "../support/frames/index.ts";
import { SelfHosted } from "../support/process/self-hosted.ts";

/** Groups that the channels of a namespace are spread over, and the file with the class's alarms. */
const FILES_MAX = 32 + 1;
const PORT = 9008;
const CHANNELS = join("objects", "throttr-edge-Channel");
const HUBS = join("objects", "throttr-edge-Hub");

const folder = mkdtempSync(join(tmpdir(), "throttr-serve-channels-"));
const started: SelfHosted[] = [];
let folders = 0;

afterAll(() => rmSync(folder, { recursive: true, force: true }));
afterEach(async () => {
  for (const server of started.splice(0)) await server.kill();
});

async function serve(data: string): Promise<SelfHosted> {
  const flags = ["--http", "127.0.0.1:0", "--access", "open", "--data", data];
  const server = SelfHosted.start([...flags, "--tcp", `${PORT}=7.3/uint16`]);
  started.push(server);
  await server.ready();
  return server;
}

const databasesIn = (data: string, folder: string): string[] =>
  readdirSync(join(data, folder)).filter((name) => name.endsWith(".sqlite"));

/** Sends requests, and waits for a status for each. */
async function statusesOf(socket: Socket, frames: readonly Uint8Array[]): Promise<Buffer> {
  const chunks: Buffer[] = [];
  const all = new Promise<Buffer>((resolve, reject) => {
    let bytes = 0;
    socket.on("data", (chunk) => {
      chunks.push(chunk);
      bytes += chunk.length;
      if (bytes >= frames.length) resolve(Buffer.concat(chunks));
    });
    socket.once("close", () => reject(new Error("closed")));
  });
  socket.write(concat([...frames]));
  const statuses = await all;
  socket.removeAllListeners("data");
  return statuses;
}

async function open(): Promise<Socket> {
  const socket = connect(PORT, "127.0.0.1");
  await new Promise((resolve) => socket.once("connect", resolve));
  return socket;
}

it("15,000 names, and ids that were made up, make no more files than there are groups", async () => {
  const data = join(folder, `data-${folders++}`);
  const server = await serve(data);
  const [publisher, subscriber] = [await open(), await open()];
  const counted = async (): Promise<number> => {
    const init = { method: "POST", body: '{"ttlMs":3600000}' };
    return (await fetch(`${server.url}/v1/counters/views/increment`, init)).status;
  };
  const names = Array.from({ length: 15_000 }, (_, i) => `nobody:${i}`);
  // As ids of connections look; a few of them name a Hub.
  const ids = Array.from({ length: 2000 }, (_, i) => i.toString(16).padStart(32, "f00f4abc8def"));
  const asked = statusesOf(
    publisher,
    [...names, ...ids].map((name) => U16.publish(name)),
  );
  // Other clients are answered meanwhile.
  expect(await counted()).toBe(200);
  expect(await asked).toEqual(Buffer.alloc(names.length + ids.length));
  const subscribed = Array.from({ length: 400 }, (_, i) => `many:${i}`);
  const statuses = await statusesOf(subscriber, subscribed.map(subscribe));
  expect(statuses).toEqual(Buffer.alloc(subscribed.length, 1));
  expect(await counted()).toBe(200);
  expect(databasesIn(data, CHANNELS).length).toBeLessThanOrEqual(FILES_MAX);
  // One Hub, and the file with the alarms.
  expect(databasesIn(data, HUBS).length).toBeLessThanOrEqual(2);
  for (const socket of [publisher, subscriber]) socket.destroy();
});

it("files of objects without data are removed at the start, and no others", async () => {
  const data = join(folder, `data-${folders++}`);
  const first = await serve(data);
  // A group keeps the number of a channel that was listened to.
  const aborting = new AbortController();
  const url = `${first.url}/channels/heard`;
  await fetch(url, { signal: aborting.signal });
  const { sequence } = (await (await fetch(url, { method: "POST", body: "x" })).json()) as {
    sequence: number;
  };
  expect(sequence).toBeGreaterThan(0);
  aborting.abort();
  // The exact number is stored half a second after the last message.
  await sleep(1000);
  first.process.kill("SIGTERM");
  expect(await first.exited).toBe(0);
  const kept = databasesIn(data, CHANNELS);
  // What release 0.4 left of a name that had no subscriber, of one that had one, and of one with an alarm.
  const file = (id: number): string => join(data, CHANNELS, `${String(id).repeat(64)}.sqlite`);
  const make = (id: number, ...statements: string[]): void => {
    const database = new DatabaseSync(file(id));
    database.exec("PRAGMA journal_mode = WAL");
    for (const statement of statements) database.exec(statement);
    database.close();
  };
  const TABLES =
    "CREATE TABLE _cf_KV (key TEXT PRIMARY KEY, value BLOB) WITHOUT ROWID; " +
    "CREATE TABLE _cf_METADATA (key INTEGER PRIMARY KEY, value BLOB)";
  make(1);
  make(2, TABLES, "INSERT INTO _cf_METADATA VALUES (1, NULL)");
  make(3, TABLES, "INSERT INTO _cf_KV VALUES ('hub:default/XXX/0', x'ff')");
  make(4, TABLES, "INSERT INTO _cf_METADATA VALUES (1, 1760000000000000000)");
  make(5, TABLES);
  const alarms = new DatabaseSync(join(data, CHANNELS, "metadata.sqlite"));
  alarms
    .prepare("INSERT INTO _cf_ALARM (actor_id, scheduled_time) VALUES (?, ?)")
    .run("5".repeat(64), BigInt(Date.now() + 86_400_000) * 1_000_000n);
  alarms.close();
  const second = await serve(data);
  const left = databasesIn(data, CHANNELS);
  expect(left).toEqual(expect.arrayContaining(kept.filter((name) => name !== "metadata.sqlite")));
  const ids = left.map((name) => name[0]! + name[1]! + name[2]!);
  expect(ids).toEqual(expect.arrayContaining(["333", "444", "555"]));
  expect(ids).not.toContain("111");
  expect(ids).not.toContain("222");
  expect(second.events.find(({ event }) => event === "objects_removed")).toBeDefined();
  const again = await fetch(`${second.url}/channels/heard`, { method: "POST", body: "y" });
  expect(await again.json()).toEqual({ delivered: 0, sequence: sequence + 1 });
});
