/** The proxies of docs/self-hosting.md in front of a server: they pass on what is meant, and end who abuses it. */
import { spawn, spawnSync, type ChildProcess } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { WebSocket } from "ws";
import { ThrottrClient } from "../../src/client/client.ts";
import { http } from "../../src/client/transport/http.ts";
import { webSocket } from "../../src/client/transport/web-socket.ts";
import { RawHttp, UPGRADE_HEADERS } from "../support/process/raw-http.ts";
import { SelfHosted } from "../support/process/self-hosted.ts";

const NGINX_PORT = 21_781;
const CADDY_PORT = 21_782;
const SOCKETS_OF_ONE = 3;
const READY_TIMEOUT_MS = 10_000;

const programs = { nginx: find("nginx"), caddy: find("caddy") };
const folder = mkdtempSync(join(tmpdir(), "throttr-proxies-"));
const server = SelfHosted.start(
  ["--http=127.0.0.1:0", "--access=open", "--behind-proxy", `--data=${join(folder, "data")}`],
  {},
);
const document = readFileSync("docs/self-hosting.md", "utf8");

beforeAll(async () => {
  await server.ready();
});
afterAll(async () => {
  await server.stop();
  rmSync(folder, { recursive: true, force: true });
});

/** The path of a program; null where the machine does not have it. */
function find(program: string): string | null {
  for (const path of [`/usr/sbin/${program}`, `/usr/bin/${program}`]) {
    if (spawnSync(path, ["-v"]).error === undefined) return path;
  }
  return null;
}

/** A configuration as the document has it, with parts replaced: each must be there. */
function configuration(language: string, replaced: Readonly<Record<string, string>>): string {
  const block = new RegExp(`^\`\`\`${language}\n([^]*?)^\`\`\``, "m").exec(document)![1]!;
  return Object.entries(replaced).reduce((text, [from, to]) => {
    if (!text.includes(from)) throw new Error(`docs/self-hosting.md has no ${from}`);
    return text.replace(from, to);
  }, block);
}

async function start(program: string, args: string[], port: number): Promise<ChildProcess> {
  const child = spawn(program, args, {
    stdio: ["ignore", "ignore", "pipe"],
    env: { ...process.env, XDG_DATA_HOME: folder, XDG_CONFIG_HOME: folder },
  });
  let errors = "";
  child.stderr.on("data", (chunk: Buffer) => (errors += chunk.toString()));
  const deadlineMs = performance.now() + READY_TIMEOUT_MS;
  for (;;) {
    const ok = await fetch(`http://127.0.0.1:${port}/health`).then(
      (response) => response.ok,
      () => false,
    );
    if (ok) return child;
    if (performance.now() > deadlineMs || child.exitCode !== null) throw new Error(errors);
    await sleep(50);
  }
}

const upstream = (): string => new URL(server.url).host;

/** What clients of a server do, through a proxy. */
async function expectNormalUse(url: string): Promise<void> {
  for (const transport of [http(url), webSocket(url, { WebSocket: WebSocket as never })]) {
    await using client = new ThrottrClient(transport);
    const before = (await client.query("visits"))?.quota ?? 0n;
    expect(await client.increment("visits", { ttlMs: 60_000 })).toBe(before + 1n);
    const value = new Uint8Array(500_000).fill(7);
    await client.set("large", value, { ttlMs: 60_000 });
    expect((await client.get("large"))!.value).toEqual(value);
  }
  const channel = `${url}/channels/${new URL(url).port}`;
  const listening = await fetch(channel);
  expect(listening.headers.get("content-type")).toContain("text/event-stream");
  const reader = listening.body!.pipeThrough(new TextDecoderStream()).getReader();
  let heard = "";
  const posted = await fetch(channel, { method: "POST", body: "hello" });
  expect(await posted.json()).toMatchObject({ delivered: 1 });
  while (!heard.includes("data: hello")) heard += (await reader.read()).value!;
  await reader.cancel();
}

/** A WebSocket whose first message announces 1 MiB and lacks its end. */
async function openUnfinished(url: string): Promise<RawHttp> {
  const socket = await RawHttp.open(url);
  socket.send("GET /throttr/7.3/uint64", { host: new URL(url).host, ...UPGRADE_HEADERS });
  await socket.head();
  if (!socket.received.startsWith("HTTP/1.1 101 ")) return socket;
  const head = Buffer.from([0x82, 0xff, 0, 0, 0, 0, 0, 0x10, 0, 0, 0, 0, 0, 0]);
  socket.socket.write(head);
  socket.socket.write(Buffer.alloc(100_000));
  return socket;
}

describe.skipIf(programs.nginx === null)(
  `nginx as documented${programs.nginx === null ? " (skipped: nginx is not installed)" : ""}`,
  () => {
    const url = `http://127.0.0.1:${NGINX_PORT}`;
    let proxy: ChildProcess;

    beforeAll(async () => {
      const text = configuration("nginx", {
        "listen 443 ssl;": `listen 127.0.0.1:${NGINX_PORT};`,
        "ssl_certificate     /etc/ssl/throttr.pem;": "",
        "ssl_certificate_key /etc/ssl/throttr.key;": "",
        "http://127.0.0.1:8787;": `http://${upstream()};`,
        "client_header_timeout 10s;": "client_header_timeout 1s;",
        "client_body_timeout 30s;": "client_body_timeout 1s;",
        "proxy_read_timeout 60s;": "proxy_read_timeout 2s;",
        "limit_conn sockets_of_one 20;": `limit_conn sockets_of_one ${SOCKETS_OF_ONE};`,
      });
      const temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map(
        (name) => `${name}_temp_path ${join(folder, name)};`,
      );
      mkdirSync(join(folder, "nginx"));
      const path = join(folder, "nginx/nginx.conf");
      writeFileSync(
        path,
        `daemon off; master_process off; pid ${join(folder, "nginx.pid")}; error_log stderr error;
         events {} http { access_log off; ${temporary.join(" ")}\n${text}}`,
      );
      proxy = await start(programs.nginx!, ["-c", path, "-e", "stderr"], NGINX_PORT);
    });
    afterAll(() => void proxy.kill());

    it("nginx passes HTTP, WebSockets and Server-Sent Events on", async () => {
      await expectNormalUse(url);
    });

    it("nginx ends a connection that sends nothing, and one whose head comes too slowly", async () => {
      using silent = await RawHttp.open(url);
      using dripping = await RawHttp.open(url);
      const drip = setInterval(() => dripping.socket.write("G"), 100);
      expect(await silent.closed()).toBe(true);
      expect(await dripping.closed()).toBe(true);
      clearInterval(drip);
    });

    it("nginx ends a body that stops", async () => {
      using stopped = await RawHttp.open(url);
      const { host } = new URL(url);
      stopped.send("POST /throttr/7.3/uint64", { host, "content-length": "1000000" });
      stopped.socket.write(Buffer.alloc(500_000));
      expect(await stopped.closed()).toBe(true);
    });

    it("nginx ends WebSockets with an unfinished message, and allows an address a few of them", async () => {
      const sockets: RawHttp[] = [];
      for (let i = 0; i < SOCKETS_OF_ONE; i++) sockets.push(await openUnfinished(url));
      for (const { received } of sockets) expect(received).toMatch(/^HTTP\/1\.1 101 /);
      using surplus = await openUnfinished(url);
      expect(await surplus.head()).toMatch(/^HTTP\/1\.1 429 /);
      const call = await fetch(`${url}/v1/info`);
      expect(call.status).toBe(200);
      await call.arrayBuffer();
      for (const socket of sockets) expect(await socket.closed()).toBe(true);
      using next = await openUnfinished(url);
      expect(next.received).toMatch(/^HTTP\/1\.1 101 /);
    });
  },
);

describe.skipIf(programs.caddy === null)(
  `Caddy as documented${programs.caddy === null ? " (skipped: caddy is not installed)" : ""}`,
  () => {
    const url = `http://127.0.0.1:${CADDY_PORT}`;
    let proxy: ChildProcess;

    beforeAll(async () => {
      const text = configuration("caddy", {
        "{\n    servers {": "{\n    admin off\n    servers {",
        "throttr.example.com {": `http://127.0.0.1:${CADDY_PORT} {`,
        "127.0.0.1:8787 {": `${upstream()} {`,
        "read_header 10s": "read_header 1s",
        "read_body 60s": "read_body 1s",
      });
      const path = join(folder, "Caddyfile");
      writeFileSync(path, text);
      const args = ["run", "--config", path, "--adapter", "caddyfile"];
      proxy = await start(programs.caddy!, args, CADDY_PORT);
    });
    afterAll(() => void proxy.kill());

    it("Caddy passes HTTP, WebSockets and Server-Sent Events on", async () => {
      await expectNormalUse(url);
    });

    it("Caddy ends a head that comes too slowly and a body that stops", async () => {
      using dripping = await RawHttp.open(url);
      const drip = setInterval(() => dripping.socket.write("G"), 100);
      using stopped = await RawHttp.open(url);
      const { host } = new URL(url);
      stopped.send("POST /throttr/7.3/uint64", { host, "content-length": "1000000" });
      stopped.socket.write(Buffer.alloc(500_000));
      expect(await dripping.closed()).toBe(true);
      clearInterval(drip);
      expect(await stopped.closed()).toBe(true);
    });
  },
);
