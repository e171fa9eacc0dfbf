/** `throttr-edge serve`: how a server starts, stops, ends and comes back. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { connect, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, afterEach, expect, it } from "vitest";
import { acquire, numberOfBody } from "../support/frames/yrmcds.ts";
import { concat } from "../support/frames/index.ts";
import { openYrmcds } from "../support/process/yrmcds-sockets.ts";
import {
  isRunning,
  killIfThere,
  SelfHosted,
  SERVE,
  TOKEN_SECRET,
} from "../support/process/self-hosted.ts";
import { SocketClient } from "../support/process/socket-client.ts";
import { insertFrame, quotaOf } from "../support/process/socket-records.ts";

const TCP_PORT = 21_640;
const TAKEN_PORT = 21_641;
/** Requests of a connection under way at once. */
const DEPTH = 16;

const folder = mkdtempSync(join(tmpdir(), "throttr-serve-"));
const started: SelfHosted[] = [];
let folders = 0;
const freshFolder = (): string => join(folder, `data-${folders++}`);

/** Starts a server on a port that is free; it is ended after the test that started it. */
function start(
  flags: readonly string[],
  environment?: Readonly<Record<string, string>>,
): SelfHosted {
  const server = SelfHosted.start(["--http", "127.0.0.1:0", ...flags], environment);
  started.push(server);
  return server;
}

/** Listens to a channel; `end` says what went wrong at last. */
async function listen(url: string): Promise<{ end: Promise<string> }> {
  const listening = await fetch(`${url}/channels/news`);
  return { end: listening.text().catch(String) };
}

afterAll(() => rmSync(folder, { recursive: true, force: true }));
afterEach(async () => {
  for (const server of started.splice(0)) await server.kill();
});

const open = (data: string, ...flags: readonly string[]): SelfHosted =>
  start(["--access", "open", "--data", data, ...flags], {});
const increment = async (url: string, name: string): Promise<Response> =>
  await fetch(`${url}/v1/counters/${name}/increment`, {
    method: "POST",
    body: '{"ttlMs":3600000}',
  });

it("a killed server has all acknowledged writes when it starts again", async () => {
  const data = freshFolder();
  const acknowledged = new Map<string, bigint>();
  for (let round = 0; round < 3; round++) {
    const server = open(data, "--tcp", `${TCP_PORT}=7.3/uint64`);
    await server.ready();
    const clients = await Promise.all([1, 2, 3, 4].map(() => SocketClient.open(TCP_PORT)));
    const loads = clients.map((client, i) => load(client, `${round}/${i}/`, acknowledged));
    const before = acknowledged.size;
    await sleep(700);
    expect(acknowledged.size).toBeGreaterThan(before);
    await server.kill();
    await Promise.all(loads);
  }
  const server = open(data, "--tcp", `${TCP_PORT}=7.3/uint64`);
  await server.ready();
  const client = await SocketClient.open(TCP_PORT);
  const lost: string[] = [];
  for (const [key, quota] of acknowledged)
    if ((await quotaOf(client, key)) !== quota) lost.push(key);
  await client.close();
  console.log(`${acknowledged.size} inserts acknowledged, ${lost.length} lost`);
  expect(lost).toEqual([]);
});

it("a restarted server wakes objects, so that a connection's resources are free in time", async () => {
  const data = freshFolder();
  const flags = ["--tcp", `${TCP_PORT}=yrmcds`, "--var", "YRMCDS_ENABLE=on"];
  const first = open(data, ...flags, "--var", "HOLDER_TIMEOUT_MS=8000");
  await first.ready();
  const holder = await openYrmcds(TCP_PORT);
  expect(numberOfBody(await holder.askOne(acquire("lock", 2, 3)))).toBe(2);
  await first.kill();
  const second = open(data, ...flags, "--var", "HOLDER_TIMEOUT_MS=8000");
  await second.ready();
  const other = await openYrmcds(TCP_PORT);
  expect(numberOfBody(await other.askOne(acquire("lock", 1, 3)))).toBe(1);
  const isFree = async (): Promise<boolean> =>
    (await other.askOne(acquire("lock", 2, 3))).status === 0;
  expect(await isFree()).toBe(false);
  await expect.poll(isFree, { timeout: 30_000, interval: 200 }).toBe(true);
  other.close();
});

it("the server runs as it is in the package", async () => {
  const flags = ["--access", "open", "--http", "127.0.0.1:0", "--data", freshFolder()];
  const server = SelfHosted.start(flags, {}, [process.execPath, "dist/cli.js", "serve"]);
  started.push(server);
  await server.ready();
  expect((await increment(server.url, "views")).status).toBe(200);
  expect(await server.stop()).toBe(0);
});

it.each([
  ["is told to stop", (server: SelfHosted) => server.stop()],
  ["is interrupted at a terminal", (server: SelfHosted) => server.interrupt()],
])("a server answers requests under way when it %s, and ends with 0", async (_title, stop) => {
  const server = open(freshFolder());
  await server.ready();
  const { port } = new URL(server.url);
  const socket = connect(Number(port), "127.0.0.1");
  let answer = "";
  socket.on("data", (chunk: Buffer) => (answer += chunk.toString()));
  const closed = new Promise((resolve) => socket.once("close", resolve));
  socket.write("POST /channels/news HTTP/1.1\r\nhost: localhost\r\ncontent-length: 5\r\n\r\nhe");
  await sleep(300);
  const exited = stop(server);
  await expect.poll(() => server.events.map(({ event }) => event)).toContain("stopping");
  await sleep(300);
  socket.write("llo");
  await closed;
  expect(answer).toMatch(/^HTTP\/1\.1 200 OK/);
  expect(await exited).toBe(0);
  expect(server.events.at(-1)).toEqual({ event: "ended", exitCode: 0 });
});

it("a stopping server does not wait for connections that stay open", async () => {
  const server = open(freshFolder(), "--drain-timeout", "300ms");
  await server.ready();
  const { end: cut } = await listen(server.url);
  const startedAtMs = performance.now();
  expect(await server.stop()).toBe(0);
  expect(performance.now() - startedAtMs).toBeLessThan(5000);
  expect(await cut).toContain("terminated");
});

/** Stands in for workerd: it gets ready, and writes more to its log than pipes and buffers hold. */
const TALKATIVE_WORKERD = `#!${process.execPath}
const { createServer } = require("node:http");
const { writeSync } = require("node:fs");
if (process.argv[2] === "--version") console.log("workerd 2026-10-23");
else {
  const [, socket] = process.argv.join("\\n").match(/--socket-addr=(.*)=/);
  const server = createServer((_request, response) => response.end("{}"));
  server.listen(0, "127.0.0.1", () => {
    writeSync(3, JSON.stringify({ event: "listen", socket, port: server.address().port }) + "\\n");
    for (let i = 0; i < 20_000; i++) process.stdout.write("x".repeat(99) + "\\n");
  });
}
`;

it("a server whose log is no longer read stops in time", async () => {
  const workerd = join(folder, "talkative-workerd.cjs");
  writeFileSync(workerd, TALKATIVE_WORKERD, { mode: 0o700 });
  const [program = "", ...args] = SERVE;
  const flags = ["--access", "open", "--http", "127.0.0.1:0", "--drain-timeout", "300ms"];
  // Nothing reads its standard output.
  const server = spawn(
    program,
    [...args, ...flags, "--data", freshFolder(), "--workerd", workerd],
    { stdio: ["ignore", "pipe", "pipe"] },
  );
  const exited = once(server, "exit");
  let errors = "";
  server.stderr.on("data", (chunk: Buffer) => (errors += chunk.toString()));
  await expect.poll(() => errors, { timeout: 30_000 }).toContain("ready");
  await sleep(500);
  server.kill("SIGTERM");
  const late = setTimeout(() => server.kill("SIGKILL"), 5000);
  expect(await exited).toEqual([0, null]);
  clearTimeout(late);
  expect(errors).toContain("workerd ended with exit code 0");
});

it("SIGHUP stops a server, too", async () => {
  const server = open(freshFolder());
  await server.ready();
  server.process.kill("SIGHUP");
  expect(await server.exited).toBe(0);
});

it("a server that npx runs ends with npx, whose shell does not pass SIGTERM on", async () => {
  const shell = ["sh", "-c", '"$@"; true', "sh", ...SERVE];
  const flags = ["--http", "127.0.0.1:0", "--access", "open", "--data", freshFolder()];
  const server = SelfHosted.start(flags, { npm_lifecycle_event: "npx" }, shell);
  started.push(server);
  const { pid } = await server.ready();
  server.process.kill("SIGTERM");
  try {
    await expect.poll(() => server.events.at(-1), { timeout: 5000 }).toMatchObject({ exitCode: 0 });
  } finally {
    killIfThere(pid!);
  }
});

it("a server that is stopped twice leaves no workerd behind", async () => {
  const server = open(freshFolder(), "--drain-timeout", "1m");
  await server.ready();
  const { workerdPid } = server;
  const { end: cut } = await listen(server.url);
  server.process.kill("SIGTERM");
  await expect.poll(() => server.events.at(-1)?.event).toBe("stopping");
  server.process.kill("SIGTERM");
  expect(await server.exited).not.toBeNull();
  expect(await cut).toContain("terminated");
  await expect.poll(() => isRunning(workerdPid)).toBe(false);
});

it("a workerd that has ended is started again, at the same ports, with its data, and without a write to the folder", async () => {
  const data = freshFolder();
  const server = open(data);
  await server.ready();
  const { url, workerdPid } = server;
  expect((await increment(url, "views")).status).toBe(200);
  // The configuration can't be replaced, as on a full disk.
  mkdirSync(join(data, "config.capnp.new"));
  killIfThere(workerdPid);
  const readyAgain = (): number => server.events.filter(({ event }) => event === "ready").length;
  await expect.poll(readyAgain, { timeout: 10_000 }).toBe(2);
  expect(server.events[1]).toEqual({ event: "restarting", exitCode: 137, pauseMs: 250 });
  expect(server.events[2]!.http).toEqual([url]);
  expect(await (await increment(url, "views")).json()).toMatchObject({ quota: "2" });
  expect(await server.stop()).toBe(0);
});

it("a stop before workerd is started again ends the server with 0", async () => {
  const server = open(freshFolder());
  await server.ready();
  killIfThere(server.workerdPid);
  await expect.poll(() => server.events.at(-1)?.event).toBe("restarting");
  expect(await server.stop()).toBe(0);
  expect(server.events.filter(({ event }) => event === "ready")).toHaveLength(1);
});

it("connections beyond CONNECTIONS_MAX are refused at every door, before a Hub takes them", async () => {
  const limit = ["--var", "CONNECTIONS_MAX=2"];
  const server = open(freshFolder(), "--tcp", `${TCP_PORT}=7.3/uint64`, ...limit);
  expect(await server.ready()).toMatchObject({ connectionsMax: 2 });
  const clients = await Promise.all([1, 2].map(() => SocketClient.open(TCP_PORT)));
  for (const client of clients)
    expect(await client.exchange(insertFrame("a", 1n), 1)).toBeDefined();
  const listener = await fetch(`${server.url}/channels/news`);
  expect(listener.status).toBe(503);
  expect(await listener.json()).toMatchObject({ code: "connections_max" });
  const surplus = await SocketClient.open(TCP_PORT);
  await expect.poll(() => surplus.isClosed).toBe(true);
  await clients.pop()!.close();
  const another = async (): Promise<number> => {
    const { status, body } = await fetch(`${server.url}/channels/news`);
    await body?.cancel();
    return status;
  };
  await expect.poll(another).toBe(200);
  for (const client of clients) await client.close();
});

it("a server takes connections for half of its open files, and answers at that limit", async () => {
  const limited = ["sh", "-c", 'ulimit -n 400; exec "$@"', "sh", ...SERVE];
  const flags = ["--http", "127.0.0.1:0", "--access", "open", "--data", freshFolder()];
  const server = SelfHosted.start([...flags, "--tcp", `${TCP_PORT}=7.3/uint64`], {}, limited);
  started.push(server);
  // 400 less 64 and 3 for each of 50 objects, by 2 and by 2.
  expect(await server.ready()).toMatchObject({ connectionsMax: 46, openFiles: 400 });
  const clients = await Promise.all(Array.from({ length: 60 }, () => SocketClient.open(TCP_PORT)));
  await expect.poll(() => clients.filter(({ isClosed }) => isClosed).length).toBe(14);
  expect((await increment(server.url, "views")).status).toBe(200);
  for (const client of clients) await client.close();
  expect(await server.stop()).toBe(0);
});

it("a server refuses to start with too few open files for any connection", async () => {
  const limited = ["sh", "-c", 'ulimit -n 200; exec "$@"', "sh", ...SERVE];
  const server = SelfHosted.start(["--access", "open", "--data", freshFolder()], {}, limited);
  started.push(server);
  expect(await server.exited).toBe(2);
  expect(server.errors).toContain("open_files_max");
});

it("a server names the port that is taken and the process that has it, and ends", async () => {
  const taken = createServer().listen(TAKEN_PORT, "127.0.0.1");
  await new Promise((resolve) => taken.once("listening", resolve));
  const server = open(freshFolder(), "--http", `127.0.0.1:${TAKEN_PORT}`);
  expect(await server.exited).toBe(1);
  expect(server.errors).toContain(`"http 127.0.0.1:${TAKEN_PORT}": bind(): Address already in use`);
  const { detail } = server.events.find(({ event }) => event === "not_ready")!;
  expect(detail).toContain(`port ${TAKEN_PORT} is taken by process ${process.pid} (`);
  taken.close();
});

it("stack traces in the log name the lines of the sources", async () => {
  const data = freshFolder();
  const first = open(data);
  await first.ready();
  expect((await increment(first.url, "views")).status).toBe(200);
  expect(await first.stop()).toBe(0);
  const shards = join(data, "objects/throttr-edge-Shard");
  for (const name of readdirSync(shards).filter((file) => /^[0-9a-f]+\.sqlite$/.test(file)))
    writeFileSync(join(shards, name), "not a database".repeat(1000));
  const second = open(data);
  await second.ready();
  expect((await increment(second.url, "views")).status).toBe(503);
  const traces = (): string =>
    [second.errors, ...second.events.map((event) => JSON.stringify(event))].join("\n");
  // It serves what other files have, and says that this one is not well.
  expect(second.events.find(({ event }) => event === "warning")?.detail).toContain("/health: 503");
  await expect.poll(traces).toMatch(/src\/(objects|dispatch|base)\/[\w/-]+\.ts:\d+:\d+/);
  expect(traces()).not.toContain("worker.js:");
});

it("a server refuses to start without a secret, and says how to give one", async () => {
  const data = freshFolder();
  const server = start(["--data", data], { TOKEN_SECRET: "" });
  expect(await server.exited).toBe(2);
  expect(server.errors).toContain("token_secret_missing");
  expect(server.errors).toContain("--token-secret-file");
  expect(existsSync(data)).toBe(false);
});

it("a server refuses to start with a port that can't be read, by the name of the variable without a prefix", async () => {
  const server = start(["--data", freshFolder(), "--tcp", "9000=8@a"], {
    TOKEN_SECRET: "a secret",
  });
  expect(await server.exited).toBe(2);
  expect(server.errors).toContain(
    '"code":"config_invalid","message":"TCP_PORTS: 9000=8@a: expected ',
  );
});

it("a server answers health checks, and leaves nothing in the folder for temporary files", async () => {
  const data = freshFolder();
  const temporary = freshFolder();
  mkdirSync(temporary);
  const check = async (): Promise<number | null> =>
    await SelfHosted.start(["--check", "--data", data]).exited;
  expect(await check()).toBe(1);
  const server = start(["--data", data], { TOKEN_SECRET, TMPDIR: temporary });
  await server.ready();
  expect(readdirSync(temporary)).toEqual([]);
  expect(await check()).toBe(0);
  await server.stop();
  expect(await check()).toBe(1);
});

it("a server trusts a proxy only when it is told of one", async () => {
  const server = open(freshFolder(), "--behind-proxy");
  await server.ready();
  const headers = { origin: server.url.replace("http:", "https:"), "x-forwarded-proto": "https" };
  expect((await fetch(`${server.url}/health`, { headers })).status).toBe(200);
});

/** Inserts records one after the other, several under way at once, until the connection ends. */
async function load(
  client: SocketClient,
  prefix: string,
  acknowledged: Map<string, bigint>,
): Promise<void> {
  for (let first = 0; !client.isClosed; first += DEPTH) {
    const entries = Array.from({ length: DEPTH }, (_, i) => `${prefix}${first + i}`);
    const frames = entries.map((key, i) => insertFrame(key, BigInt(first + i)));
    const statuses = await client.exchange(concat(frames), DEPTH);
    // Replies come in order, so what has a reply is known, also of a batch that was cut.
    statuses.forEach((status, i) => {
      if (status === 1) acknowledged.set(entries[i]!, BigInt(first + i));
    });
  }
}
