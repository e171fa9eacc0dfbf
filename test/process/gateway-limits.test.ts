/** What a gateway does when somebody does not: servers and clients that don't read, answer or end. */
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { copyFileSync, mkdtempSync, rmSync } from "node:fs";
import { createServer as createHttpServer } from "node:http";
import { createServer, type AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { connect as connectTls, type ConnectionOptions, type TLSSocket } from "node:tls";
import { afterEach, describe, expect, it } from "vitest";
import type { WebSocket } from "ws";
import { checkServer } from "../../src/cli/gateway/check.ts";
import { startGateway, type Gateway } from "../../src/cli/gateway/gateway.ts";
import type { GatewayOptions } from "../../src/cli/gateway/options.ts";
import { parsePorts } from "../../src/cli/gateway/ports.ts";
import { bridgeMessage, bridgeWindow, FRAME_BYTES_LIMIT } from "../../src/wire/bridge.ts";
import { parseExposition } from "../support/text/exposition.ts";
import { concat, unhex, WHOAMI } from "../support/frames/index.ts";
import {
  answerBytes,
  fakeServer,
  sendReplies,
  speakBridge,
  TcpClient,
  type FakeServer,
} from "../support/process/gateway-peers.ts";

/** What the system's sockets on the way may hold: buffers of loopback grow up to some MiB each. */
const SYSTEM_BYTES_MAX = 48 << 20;
const CERTIFICATES = new URL("certificates/", import.meta.url).pathname;
const STATUS = Uint8Array.of(1);
/** Node reads so much of a socket at once. */
const READ_BYTES_MAX = 64 << 10;

let fakes: FakeServer[] = [];
let gateways: Gateway[] = [];
let clients: TcpClient[] = [];
const logs: Record<string, unknown>[] = [];
const events = (): unknown[] =>
  logs.map(({ event }) => event).filter((event) => event !== "listening");

async function serve(
  take: (socket: WebSocket) => void,
  subprotocol?: string | null,
): Promise<FakeServer> {
  const fake = await fakeServer(take, subprotocol);
  fakes.push(fake);
  return fake;
}

async function start(url: string, options: Partial<GatewayOptions> = {}): Promise<Gateway> {
  const gateway = await startGateway({
    url,
    ports: parsePorts("0=7.3/uint16"),
    writeLog: (line) => void logs.push(JSON.parse(line) as Record<string, unknown>),
    ...options,
  });
  gateways.push(gateway);
  return gateway;
}

const before = ({ port }: FakeServer, options: Partial<GatewayOptions> = {}): Promise<Gateway> =>
  start(`ws://127.0.0.1:${port}`, options);

async function open({ ports }: Gateway): Promise<TcpClient> {
  const client = await TcpClient.open(ports[0]!);
  clients.push(client);
  return client;
}

afterEach(async () => {
  for (const { socket } of clients) socket.destroy();
  await Promise.all(gateways.flatMap((gateway) => [gateway.close(), gateway.close()]));
  await Promise.all(fakes.map((fake) => fake.close()));
  fakes = [];
  gateways = [];
  clients = [];
  logs.length = 0;
});

const answering = (socket: WebSocket): void => answerBytes(socket);

describe("a server that does not read", () => {
  it("a server that does not read is sent no more than sockets hold, and its client waits", async () => {
    const fake = await serve((socket) => socket.pause());
    const gateway = await before(fake);
    const client = await open(gateway);
    const startBytes = process.memoryUsage().rss;
    const block = new Uint8Array(1 << 20).fill(0x18);
    const total = 256;
    const { socket } = client;
    let written = 0;
    const feed = (): void => {
      while (written < total && socket.write(block)) written++;
      if (written < total) socket.once("drain", feed);
    };
    feed();
    await sleep(2000);
    const first = socket.bytesWritten - socket.writableLength;
    await sleep(1000);
    expect(socket.bytesWritten - socket.writableLength).toBe(first);
    expect(first).toBeLessThan(SYSTEM_BYTES_MAX);
    expect(process.memoryUsage().rss - startBytes).toBeLessThan(100 << 20);
    // All of it comes through when the server reads again.
    let received = 0;
    const [hub] = fake.sockets as [WebSocket];
    speakBridge(hub, {
      onFrames: ({ length }) => {
        received += length;
        sendReplies(hub, new Uint8Array(0), length);
      },
    });
    hub.resume();
    await expect.poll(() => received, { timeout: 30_000 }).toBeGreaterThan(64 << 20);
  });
});

describe("a server that does not answer", () => {
  it("a server that does not answer is sent one window of requests, and more only for what it answered", async () => {
    let received = 0;
    const fake = await serve((socket) =>
      speakBridge(socket, { onFrames: ({ length }) => (received += length) }),
    );
    const client = await open(await before(fake));
    client.socket.write(new Uint8Array(8 << 20).fill(0x18));
    const windowBytes = bridgeWindow(FRAME_BYTES_LIMIT);
    const expectReceived = async (bytes: number): Promise<void> => {
      await expect.poll(() => received).toBeGreaterThanOrEqual(bytes);
      await sleep(200);
      // A read goes out whole.
      expect(received).toBeLessThan(bytes + READ_BYTES_MAX);
    };
    await expectReceived(windowBytes);
    sendReplies(fake.sockets[0]!, new Uint8Array(10_000), 1 << 20);
    await expectReceived(windowBytes + (1 << 20));
    expect(client.receivedBytes).toBe(10_000);
  });

  it("a server that does not answer pings is given up, and its client closed", async () => {
    const fake = await serve((socket) => socket.pause());
    const client = await open(await before(fake, { pingMs: 100 }));
    client.socket.write(WHOAMI);
    await expect.poll(() => client.isEnded, { timeout: 5000 }).toBe(true);
    expect(events()).toEqual(["upstream_failed"]);
    expect(logs.at(-1)).toMatchObject({ reason: "lost" });
  });

  it("a server is pinged while nothing else happens", async () => {
    let pings = 0;
    const fake = await serve((socket) => {
      answering(socket);
      socket.on("message", (data: Buffer, isBinary) => {
        if (!isBinary && data.toString() === "ping") pings++;
      });
    });
    const client = await open(await before(fake, { pingMs: 100 }));
    await expect.poll(() => pings, { timeout: 5000 }).toBeGreaterThan(5);
    expect(client.receivedBytes).toBe(0);
    expect(client.isEnded).toBe(false);
  });

  it("a server that does not answer a request for a WebSocket is given up in time", async () => {
    const silent = createServer((socket) => void socket.on("error", () => {}).resume());
    silent.listen(0, "127.0.0.1");
    await once(silent, "listening");
    const { port } = silent.address() as { port: number };
    const client = await open(await start(`ws://127.0.0.1:${port}`, { connectTimeoutMs: 200 }));
    await expect.poll(() => client.isEnded, { timeout: 3000 }).toBe(true);
    expect(logs.at(-1)).toMatchObject({ event: "upstream_failed", reason: "unreachable" });
    silent.close();
  });

  it("a server that answers a request for a WebSocket byte by byte is given up in time", async () => {
    const slow = createHttpServer((_, response) => {
      response.writeHead(503, { "content-type": "text/plain" });
      const timer = setInterval(() => response.write("."), 50);
      response.once("close", () => clearInterval(timer));
    }).listen(0, "127.0.0.1");
    await once(slow, "listening");
    const { port } = slow.address() as AddressInfo;
    const client = await open(await start(`ws://127.0.0.1:${port}`, { connectTimeoutMs: 200 }));
    await expect.poll(() => client.isEnded, { timeout: 3000 }).toBe(true);
    const refused = { event: "upstream_failed", reason: "refused", status: 503 };
    expect(logs.at(-1)).toMatchObject(refused);
    slow.closeAllConnections();
    slow.close();
  });
});

describe("a client that does not read", () => {
  it("a client that does not read holds the server back, and a stalled one is given up", async () => {
    let drained = 0;
    let reports = 0;
    let sent = 0;
    const message = new Uint8Array(64 << 10);
    const push = bridgeMessage(0, concat([unhex("1901faff"), message.subarray(0, 1 + 0xfffa)]));
    const fake = await serve((socket) => {
      speakBridge(socket, {
        onDrained: (bytes) => {
          drained += bytes;
          reports++;
        },
      });
      const feed = (): void => {
        if (socket.readyState !== socket.OPEN) return;
        socket.send(push, () => {
          sent += push.length;
          feed();
        });
      };
      feed();
    });
    const client = await open(await before(fake, { stallTimeoutMs: 5000, pingMs: 100 }));
    client.keepsBytes = false;
    const startBytes = process.memoryUsage().rss;
    await expect.poll(() => client.receivedBytes, { timeout: 5000 }).toBeGreaterThan(10 << 20);
    // It was told after 64 KiB, or the message that went beyond, that the client took.
    expect(reports).toBeGreaterThan(60);
    expect(drained).toBeGreaterThan(9 << 20);
    client.socket.pause();
    // For a while the system still takes what the gateway has received, and the gateway reports it.
    let [sentThen, reportsThen] = [-1, -1];
    const isStill = async (): Promise<boolean> => {
      [sentThen, reportsThen] = [sent, reports];
      await sleep(300);
      return sent === sentThen && reports === reportsThen;
    };
    await expect.poll(isStill, { timeout: 4500, interval: 0 }).toBe(true);
    expect(drained).toBeLessThanOrEqual(sent);
    expect(sent - client.receivedBytes).toBeLessThan(SYSTEM_BYTES_MAX);
    expect(process.memoryUsage().rss - startBytes).toBeLessThan(200 << 20);
    await expect.poll(() => events(), { timeout: 15_000 }).toContain("client_stalled");
    await expect.poll(() => fake.sockets.length).toBe(0);
    expect(events()).toEqual(["client_stalled"]);
    await expect.poll(() => gateways[0]!.connections).toBe(0);
  });
});

it("a client that was slow once may be silent afterwards", async () => {
  const replies = new Uint8Array(24 << 20);
  const fake = await serve((socket) =>
    speakBridge(socket, { onFrames: ({ length }) => sendReplies(socket, replies, length) }),
  );
  const client = await open(await before(fake, { stallTimeoutMs: 800 }));
  client.keepsBytes = false;
  client.socket.pause();
  client.socket.write(STATUS);
  await sleep(400);
  client.socket.resume();
  await expect.poll(() => client.receivedBytes, { timeout: 5000 }).toBe(replies.length);
  await sleep(1500);
  expect(client.isEnded).toBe(false);
  expect(events()).toEqual([]);
});

describe("a client that ends its half", () => {
  it("a client that ends its half before the server was reached gets the end", async () => {
    const fake = await serve(answering);
    const gateway = await before(fake);
    const some = await Promise.all(Array.from({ length: 20 }, () => open(gateway)));
    for (const { socket } of some) socket.end();
    await expect.poll(() => some.every(({ isEnded }) => isEnded), { timeout: 3000 }).toBe(true);
    await expect.poll(() => fake.requests.length).toBe(20);
    await expect.poll(() => gateway.connections).toBe(0);
  });

  it("a client that ends its half behind requests gets the replies, though the server was reached later", async () => {
    const gateway = await before(await serve(answering));
    const some = await Promise.all(Array.from({ length: 20 }, () => open(gateway)));
    for (const { socket } of some) socket.end(unhex("181818"));
    await expect.poll(() => some.every(({ isEnded }) => isEnded), { timeout: 3000 }).toBe(true);
    expect(some.map(({ receivedBytes }) => receivedBytes)).toEqual(some.map(() => 3));
  });

  it("a client that has ended its half waits for late replies", async () => {
    const fake = await serve((socket) => answerBytes(socket, 700));
    const client = await open(await before(fake));
    client.socket.end(unhex("04"));
    await sleep(500);
    expect(client.isEnded).toBe(false);
    await expect.poll(() => client.isEnded, { timeout: 3000 }).toBe(true);
    expect(client.receivedBytes).toBe(1);
  });
});

describe("what the server sends before it closes", () => {
  it("bytes that the server sends before it closes reach the client, then the end", async () => {
    const replies = new Uint8Array(3 << 20);
    const fake = await serve((socket) =>
      speakBridge(socket, {
        onFrames: ({ length }) => {
          sendReplies(socket, replies, length);
          socket.close(1013, "push_bytes: too many");
        },
      }),
    );
    const client = await open(await before(fake));
    client.socket.pause();
    client.socket.write(STATUS);
    await sleep(300);
    // Bytes that nobody takes any more must not reset the connection.
    client.socket.write(STATUS);
    client.socket.resume();
    await expect.poll(() => client.isEnded).toBe(true);
    expect(client.receivedBytes).toBe(replies.length);
    expect(client.isReset).toBe(false);
    expect(logs.at(-1)).toMatchObject({
      event: "upstream_closed",
      code: 1013,
      reason: "push_bytes: too many",
    });
    await expect.poll(() => gateways[0]!.connections, { timeout: 3000 }).toBe(0);
  });

  it("bytes of the server outside of the protocol end the connection, with a line in the log", async () => {
    const fake = await serve((socket) =>
      speakBridge(socket, { onFrames: () => socket.send(unhex("0badf0")) }),
    );
    const client = await open(await before(fake));
    client.socket.write(WHOAMI);
    await expect.poll(() => client.isEnded).toBe(true);
    expect(logs.at(-1)).toMatchObject({ event: "upstream_failed", reason: "lost" });
    await expect.poll(() => fake.sockets.length).toBe(0);
  });
});

describe("a server of another release", () => {
  it("a server of release 0.4 gets no client's bytes, and the log names the remedy", async () => {
    let received = 0;
    const fake = await serve((socket) => socket.on("message", () => received++), null);
    const gateway = await before(fake);
    const client = await open(gateway);
    client.socket.write(WHOAMI);
    await expect.poll(() => client.isEnded).toBe(true);
    expect(received).toBe(0);
    expect(events()).toEqual(["upstream_failed"]);
    expect(logs.at(-1)).toMatchObject({
      reason: "refused",
      code: "bridge_unsupported",
      detail: expect.stringContaining("run the gateway of the server's release") as string,
    });
    await expect.poll(() => gateway.connections).toBe(0);
  });

  it("a server of another protocol version is refused at the start, with its code", async () => {
    const fake = await serve(() => {}, null);
    const options = { url: `http://127.0.0.1:${fake.port}`, ports: parsePorts("0=7.3") };
    await expect(checkServer(options, new AbortController().signal)).rejects.toMatchObject({
      code: "bridge_unsupported",
    });
  });
});

describe("limits", () => {
  it("a connection beyond the last is closed at once, and one that leaves makes room", async () => {
    const fake = await serve(answering);
    const gateway = await before(fake, { connectionsMax: 3, metricsPort: 0 });
    const some = [await open(gateway), await open(gateway), await open(gateway)];
    await Promise.all(some.map((client) => client.exchange(WHOAMI, 1)));
    const surplus = [await open(gateway), await open(gateway)];
    await expect.poll(() => surplus.every(({ isEnded }) => isEnded)).toBe(true);
    expect(events()).toEqual(["metrics_listening", "connections_max"]);
    some[0]!.socket.destroy();
    await expect.poll(() => gateway.connections).toBe(2);
    const next = await open(gateway);
    expect(await next.exchange(WHOAMI, 1)).toHaveLength(1);
    const text = await (await fetch(`http://127.0.0.1:${gateway.metricsPort}/metrics`)).text();
    const metrics = parseExposition(text);
    const valueOf = (name: string): number | undefined =>
      metrics.get(`throttr_gateway_${name}`)?.samples[0]?.value;
    expect(valueOf("connections")).toBe(3);
    expect(valueOf("connections_max")).toBe(3);
    expect(valueOf("connections_total")).toBe(4);
    expect(valueOf("connections_refused_total")).toBe(2);
    expect(valueOf("received_bytes_total")).toBe(4);
    expect(valueOf("sent_bytes_total")).toBe(4);
    expect(metrics.get("throttr_gateway_connections")!.samples[0]!.labels).toEqual({
      port: String(gateway.ports[0]),
      protocol: "7.3/uint16",
    });
  });

  it("a client that is silent too long is closed when a limit is set", async () => {
    const fake = await serve(answering);
    const gateway = await before(fake, { idleTimeoutMs: 500 });
    const client = await open(gateway);
    for (let i = 0; i < 4; i++) {
      await sleep(200);
      await client.exchange(WHOAMI, 1);
    }
    expect(client.isEnded).toBe(false);
    await expect.poll(() => client.isEnded, { timeout: 3000 }).toBe(true);
    expect(events()).toEqual(["client_idle"]);
  });

  it("warnings that every connection causes are logged at intervals", async () => {
    const gateway = await start("ws://127.0.0.1:9", { metricsPort: 0 });
    for (let i = 0; i < 20; i++) await open(gateway);
    await expect.poll(() => clients.every(({ isEnded }) => isEnded)).toBe(true);
    expect(events()).toEqual(["metrics_listening", "upstream_failed"]);
    await sleep(1100);
    const last = await open(gateway);
    await expect.poll(() => last.isEnded).toBe(true);
    expect(logs.at(-1)).toMatchObject({ event: "upstream_failed", suppressed: 19 });
    const text = await (await fetch(`http://127.0.0.1:${gateway.metricsPort}/metrics`)).text();
    const failures = parseExposition(text).get("throttr_gateway_upstream_failures_total")!.samples;
    expect(failures.find(({ labels }) => labels.reason === "unreachable")!.value).toBe(21);
  });

  it("the port of the figures serves nothing else", async () => {
    const gateway = await start("ws://127.0.0.1:9", { metricsPort: 0 });
    const at = `http://127.0.0.1:${gateway.metricsPort}`;
    const health = await fetch(`${at}/health`);
    expect([health.status, await health.json()]).toEqual([200, { status: "ok", connections: 0 }]);
    expect((await fetch(`${at}/`)).status).toBe(404);
    expect((await fetch(`${at}/metrics`, { method: "POST", body: "x" })).status).toBe(405);
  });

  it("taken ports and options out of range are refused by name", async () => {
    const fake = await serve(answering);
    await expect(
      before(fake, { ports: parsePorts(`0=2, ${fake.port}=7.3`) }),
    ).rejects.toMatchObject({ code: "listen_failed" });
    await expect(before(fake, { connectionsMax: 0 })).rejects.toThrow(
      "connectionsMax: expected an integer from 1 to 1000000, got 0",
    );
    await expect(start("ftp://host")).rejects.toMatchObject({ code: "option_invalid" });
    await expect(
      before(fake, { tls: { certificateFile: "/none", keyFile: "/none" } }),
    ).rejects.toMatchObject({ code: "tls_invalid" });
  });
});

describe("the end of a gateway", () => {
  it("a stopping gateway takes no more connections, and ends when its last one has ended", async () => {
    const gateway = await before(await serve(answering), { drainMs: 5000, metricsPort: 0 });
    const client = await open(gateway);
    await client.exchange(WHOAMI, 1);
    const closed = gateway.close();
    await expect(TcpClient.open(gateway.ports[0]!)).rejects.toThrow("ECONNREFUSED");
    const health = await fetch(`http://127.0.0.1:${gateway.metricsPort}/health`);
    expect([health.status, await health.json()]).toEqual([
      503,
      { status: "draining", connections: 1 },
    ]);
    await sleep(300);
    expect(await client.exchange(WHOAMI, 1)).toHaveLength(1);
    client.socket.end();
    await closed;
    expect(client.isEnded).toBe(true);
    expect(events()).toEqual(["metrics_listening", "draining", "stopped"]);
  });

  it("a stopping gateway answers requests under way when its time is over, and ends the rest", async () => {
    const fake = await serve((socket) => answerBytes(socket, 500));
    const gateway = await before(fake, { drainMs: 200 });
    const [idle, busy] = [await open(gateway), await open(gateway)];
    await idle.exchange(WHOAMI, 1);
    busy.socket.write(unhex("1818"));
    await sleep(50);
    const startMs = performance.now();
    const closed = gateway.close();
    await expect.poll(() => idle.isEnded, { timeout: 400 }).toBe(true);
    expect(busy.isEnded).toBe(false);
    expect(await busy.exchange(new Uint8Array(0), 2)).toHaveLength(2);
    for (const { socket } of [idle, busy]) socket.end();
    await closed;
    expect(busy.isReset).toBe(false);
    expect(performance.now() - startMs).toBeLessThan(1500);
  });

  it("a stopping gateway waits a second at most for answers, and not at all when asked again", async () => {
    const gateway = await before(await serve((socket) => speakBridge(socket, { onEnd() {} })), {
      drainMs: 60_000,
    });
    const client = await open(gateway);
    client.socket.write(WHOAMI);
    const startMs = performance.now();
    const closed = gateway.close();
    await sleep(100);
    void gateway.close();
    await closed;
    expect(performance.now() - startMs).toBeLessThan(1000);
    const other = await before(fakes[0]!, { drainMs: 0 });
    const waiting = await open(other);
    waiting.socket.write(WHOAMI);
    await sleep(100);
    await other.close();
    expect(performance.now() - startMs).toBeLessThan(4000);
  });
});

const folder = mkdtempSync(join(tmpdir(), "gateway-"));

function useCertificate(name: "first" | "second"): void {
  copyFileSync(`${CERTIFICATES}${name}.cert.pem`, join(folder, "cert.pem"));
  copyFileSync(`${CERTIFICATES}${name}.key.pem`, join(folder, "key.pem"));
}

const tls = { certificateFile: join(folder, "cert.pem"), keyFile: join(folder, "key.pem") };

async function openTls(port: number): Promise<[TcpClient, TLSSocket]> {
  // The types don't know that a client of TLS may keep its half, too.
  const options: ConnectionOptions & { allowHalfOpen: boolean } = {
    port,
    host: "127.0.0.1",
    rejectUnauthorized: false,
    allowHalfOpen: true,
  };
  const socket = connectTls(options);
  const client = new TcpClient(socket);
  clients.push(client);
  await once(socket, "secureConnect");
  return [client, socket];
}

describe("TLS", () => {
  it("TLS carries clients and half-closes, and takes a new certificate without ending connections", async () => {
    useCertificate("first");
    const gateway = await before(await serve(answering), { tls });
    const [port] = gateway.ports as [number];
    const [client, socket] = await openTls(port);
    expect(await client.exchange(unhex("1818"), 2)).toHaveLength(2);
    const first = socket.getPeerX509Certificate()!.fingerprint256;
    useCertificate("second");
    await gateway.reload();
    const [later, laterSocket] = await openTls(port);
    expect(laterSocket.getPeerX509Certificate()!.fingerprint256).not.toBe(first);
    expect(await later.exchange(WHOAMI, 1)).toHaveLength(1);
    socket.end(unhex("181818"));
    await expect.poll(() => client.isEnded).toBe(true);
    expect(client.receivedBytes).toBe(5);
    rmSync(tls.keyFile);
    await gateway.reload();
    expect(events()).toEqual(["tls_reloaded", "tls_reload_failed"]);
    const [last] = await openTls(port);
    expect(await last.exchange(WHOAMI, 1)).toHaveLength(1);
  });

  it("failed TLS handshakes are counted, and given up in time", async () => {
    useCertificate("first");
    const gateway = await before(await serve(answering), {
      tls,
      connectionsMax: 1,
      connectTimeoutMs: 300,
    });
    const silent = await open(gateway);
    const surplus = await open(gateway);
    await expect.poll(() => surplus.isEnded).toBe(true);
    expect(silent.isEnded).toBe(false);
    await expect.poll(() => silent.isEnded, { timeout: 3000 }).toBe(true);
    expect(events()).toEqual(["connections_max", "tls_failed"]);
    const [client] = await openTls(gateway.ports[0]!);
    expect(await client.exchange(WHOAMI, 1)).toHaveLength(1);
  });
});

/** The command as a process of its own. */
interface Command {
  readonly process: ChildProcess;
  readonly lines: Record<string, unknown>[];
}

function run(args: readonly string[], environment: Record<string, string> = {}): Command {
  const main = new URL("../../src/cli/main.ts", import.meta.url).pathname;
  const child = spawn(process.execPath, [main, "gateway", ...args], {
    env: { ...process.env, ...environment },
    stdio: ["ignore", "ignore", "pipe"],
  });
  const lines: Record<string, unknown>[] = [];
  let text = "";
  child.stderr!.on("data", (chunk: Buffer) => {
    text += chunk.toString();
    const parts = text.split("\n");
    text = parts.pop()!;
    for (const part of parts) {
      lines.push(part.startsWith("{") ? (JSON.parse(part) as Record<string, unknown>) : { part });
    }
  });
  return { process: child, lines };
}

describe("the command", () => {
  const PORT = 21_520;
  const named = (command: Command, event: string): unknown[] =>
    command.lines.filter((line) => line.event === event);

  it("the command shows its token, reloads at SIGHUP, drains at SIGTERM, and ends with 0", async () => {
    useCertificate("first");
    const fake = await serve(answering);
    const command = run(
      [
        `--url=http://127.0.0.1:${fake.port}/base/`,
        `--ports=${PORT}=7.3, ${PORT + 1}=yrmcds/today`,
        "--default-size=uint32",
        `--tls-cert=${tls.certificateFile}`,
        `--tls-key=${tls.keyFile}`,
        `--metrics-port=${PORT + 2}`,
        "--drain-ms=5s",
      ],
      { THROTTR_TOKEN: "a.b.c" },
    );
    await expect.poll(() => named(command, "listening").length, { timeout: 20_000 }).toBe(2);
    const [client] = await openTls(PORT);
    await client.exchange(WHOAMI, 1);
    await openTls(PORT + 1);
    await expect
      .poll(() => fake.requests)
      .toEqual([
        // The start asks by itself whether the token is good.
        { path: "/base/throttr/7.3/uint32", authorization: "Bearer a.b.c" },
        { path: "/base/throttr/7.3/uint32", authorization: "Bearer a.b.c" },
        { path: "/base/yrmcds/counter/today", authorization: "Bearer a.b.c" },
      ]);
    expect(await (await fetch(`http://127.0.0.1:${PORT + 2}/health`)).json()).toEqual({
      status: "ok",
      connections: 2,
    });
    command.process.kill("SIGHUP");
    await expect.poll(() => named(command, "tls_reloaded").length).toBe(1);
    const exited = once(command.process, "exit");
    command.process.kill("SIGTERM");
    await expect.poll(() => named(command, "draining").length).toBe(1);
    expect(await client.exchange(WHOAMI, 1)).toHaveLength(1);
    for (const { socket } of clients) socket.end();
    expect(await exited).toEqual([0, null]);
    expect(JSON.stringify(command.lines)).not.toContain("a.b.c");
  });

  it("the command ends at once at the second signal, and --quiet prints warnings only", async () => {
    const fake = await serve(answering);
    const command = run([
      `--url=ws://127.0.0.1:${fake.port}`,
      `--ports=${PORT}=7.3`,
      "--host=0.0.0.0",
      "--quiet",
    ]);
    await expect.poll(() => named(command, "host_open").length, { timeout: 20_000 }).toBe(1);
    await expect
      .poll(() =>
        TcpClient.open(PORT).then(
          () => true,
          () => false,
        ),
      )
      .toBe(true);
    const exited = once(command.process, "exit");
    command.process.kill("SIGINT");
    await sleep(300);
    expect(command.process.exitCode).toBe(null);
    command.process.kill("SIGINT");
    expect((await exited)[1] ?? (await exited)[0]).toBe(130);
    expect(command.lines.map(({ event }) => event)).toEqual(["host_open"]);
  });

  it("the command does not start with a refused token, and says why", async () => {
    const http = createHttpServer((_, response) => {
      const problem = { code: "token_expired", detail: "the token has expired: send a new one" };
      response.writeHead(401, { "content-type": "application/problem+json" });
      response.end(JSON.stringify(problem));
    }).listen(0, "127.0.0.1");
    await once(http, "listening");
    const url = `http://127.0.0.1:${(http.address() as AddressInfo).port}`;
    const command = run(["--json", `--url=${url}`, `--ports=${PORT}=7.3`, "--token=a.b.c"]);
    expect(await once(command.process, "exit")).toEqual([3, null]);
    http.close();
    const message = `${url} refuses the gateway's token: the token has expired: send a new one`;
    await expect
      .poll(() => command.lines)
      .toMatchObject([{ error: { code: "token_expired", message, exitCode: 3 } }]);
  });

  it("the command starts before the server does, and says that the token is unchecked", async () => {
    const command = run(["--url=http://127.0.0.1:21529", `--ports=${PORT}=7.3`]);
    await expect.poll(() => named(command, "listening").length, { timeout: 20_000 }).toBe(1);
    expect(named(command, "token_unchecked")).toMatchObject([
      {
        level: "warning",
        reason: "unreachable",
        detail: expect.stringContaining("ECONNREFUSED") as string,
      },
    ]);
    const exited = once(command.process, "exit");
    command.process.kill("SIGTERM");
    expect(await exited).toEqual([0, null]);
  });

  it("a start that still asks the server outlives SIGHUP, and opens no port after SIGTERM", async () => {
    let asked = 0;
    const silent = createServer(() => asked++).listen(0, "127.0.0.1");
    await once(silent, "listening");
    const { port } = silent.address() as AddressInfo;
    const command = run([`--url=http://127.0.0.1:${port}`, `--ports=${PORT}=7.3`]);
    await expect.poll(() => asked, { timeout: 20_000 }).toBe(1);
    command.process.kill("SIGHUP");
    await sleep(300);
    expect(command.process.signalCode).toBeNull();
    const exited = once(command.process, "exit");
    command.process.kill("SIGTERM");
    expect(await exited).toEqual([0, null]);
    expect(command.lines).toEqual([]);
    silent.close();
  });

  it.each([
    [["--ports=1=nothing"], "ports_invalid"],
    [["--token-file=/nowhere/token"], "token_unreadable"],
    [["--ports=9000"], "ports_invalid"],
    [["--ports=9000=2, 9000=7.3"], "ports_invalid"],
    [["--tls-cert=x"], "option_invalid"],
    [["--url=nothing"], "option_invalid"],
    [["--token=ä"], "token_unreadable"],
    [["--token=x", "--token-file=y"], "usage_invalid"],
    [["--connections-max=0"], "usage_invalid"],
  ])("the option %j is refused with %s, and the exit code of usage", async (args, code) => {
    const command = run(["--json", ...args]);
    expect(await once(command.process, "exit")).toEqual([2, null]);
    await expect.poll(() => command.lines).toMatchObject([{ error: { code } }]);
  });
});
