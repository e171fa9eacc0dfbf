/** The gateway in front of the server: TCP clients of Throttr and of yrmcds, over WebSockets with a token. */
import { existsSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { sign } from "hono/jwt";
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from "vitest";
import { checkServer } from "../../src/cli/gateway/check.ts";
import { startGateway, type Gateway } from "../../src/cli/gateway/gateway.ts";
import type { GatewayOptions } from "../../src/cli/gateway/options.ts";
import { parsePorts } from "../../src/cli/gateway/ports.ts";
import { givenToken, tokenOfFile } from "../../src/cli/gateway/token.ts";
import type { ThrottrError } from "../../src/wire/edge/error.ts";
import { configWithPorts, startServer, waitUntilReady, type Server } from "../../scripts/server.ts";
import { comparedReplies, yrmcdsScenarios, recordedReplies } from "../support/yrmcds/vectors.ts";
import { concat, frameOf, hex, unhex, WHOAMI } from "../support/frames/index.ts";
import type { ModelProtocol } from "../support/models/requests.ts";
import { openYrmcds, type SocketClient } from "../support/process/yrmcds-sockets.ts";
import { TcpClient } from "../support/process/gateway-peers.ts";
import { withLiveIds } from "../support/engine/vectors.ts";

const HTTP_PORT = 21_510;
const TOKEN_SECRET = "gateway-secret";
const SCOPES = ["read", "write", "publish", "subscribe", "admin"];
const PORTS =
  "0=7.3/uint16, 0=7.3/uint64, 0=7.1/uint16, 0=5/uint16, 0=2, 0=edge, 0=yrmcds, 0=yrmcds/today";
/** Ports whose clients pipeline, with a request and how many bytes it is answered. */
const DIALECTS: readonly (readonly [port: string, request: string, replyBytes: number])[] = [
  ["7.3/uint16", "18", 17],
  ["7.3/uint64", "020161", 1],
  // Its ids have no status, and may begin like a push.
  ["7.1/uint16", "18", 16],
  ["5/uint16", "020161", 1],
  ["2", "020700000001016162", 5],
  ["edge", "020161", 1],
];
const protocol: ModelProtocol = { dialect: "7.3", valueSize: 2 };

const folder = mkdtempSync(join(tmpdir(), "throttr-gateway-"));
const vectors = [process.env.VECTORS, "../shared/vectors", "test/vectors"].find(
  (folder) => folder !== undefined && existsSync(folder),
)!;
const tokenFile = join(folder, "token");
const logs: Record<string, unknown>[] = [];
let server: Server;
let gateway: Gateway;
let opened: TcpClient[] = [];
let counters: SocketClient[] = [];

async function start(): Promise<void> {
  const config = join(folder, "wrangler.toml");
  writeFileSync(config, configWithPorts({}));
  server = startServer({
    config,
    port: HTTP_PORT,
    persistTo: join(folder, "state"),
    variables: { ACCESS: "token", TOKEN_SECRET },
  });
  await waitUntilReady(HTTP_PORT, []);
}

const options: GatewayOptions = {
  url: `http://127.0.0.1:${HTTP_PORT}`,
  token: tokenOfFile(tokenFile),
  ports: parsePorts(PORTS),
  writeLog: (line) => void logs.push(JSON.parse(line) as Record<string, unknown>),
};

/** Whoever connects from now on is in this namespace: the token is rotated. */
async function use(namespace: string): Promise<void> {
  const iat = Math.floor(Date.now() / 1000);
  const claims = { ns: namespace, scopes: SCOPES, iat, exp: iat + 3600 };
  writeToken(await sign(claims, TOKEN_SECRET, "HS256"));
}

function writeToken(token: string): void {
  writeFileSync(`${tokenFile}.new`, `${token}\n`);
  renameSync(`${tokenFile}.new`, tokenFile);
}

/** The port of the gateway where this is spoken. */
function portOf(name: string): number {
  return gateway.ports[parsePorts(PORTS).findIndex((port) => port.name === name)]!;
}

async function open(name: string): Promise<TcpClient> {
  const client = await TcpClient.open(portOf(name));
  opened.push(client);
  return client;
}

beforeAll(async () => {
  await start();
  gateway = await startGateway(options);
  await use("default");
});

afterEach(async () => {
  for (const { socket } of [...opened, ...counters]) socket.destroy();
  opened = [];
  counters = [];
  await vi.waitUntil(() => gateway.connections === 0, { timeout: 5000 });
  logs.length = 0;
});

afterAll(async () => {
  await Promise.all([gateway.close(), gateway.close()]);
  await server.kill();
  rmSync(folder, { recursive: true, force: true });
});

interface Exchange {
  size: string;
  scenario: string;
  conn: string;
  name: string;
  request_hex: string;
  response_hex: string;
  volatile: [offset: number, length: number, what: string][];
  sleep_before_ms?: number;
}

const ID_BYTES = 16;

describe("recorded exchanges of Throttr", () => {
  const lines = ["uint16", "uint64"].map((size) =>
    readFileSync(resolve(vectors, `throttr/${size}.jsonl`), "utf8")
      .trim()
      .split("\n"),
  );
  const steps = lines.flat().map((line) => JSON.parse(line) as Exchange);
  const scenarios = Map.groupBy(steps, ({ size, scenario }) => `${size}-${scenario}`);

  it.each([...scenarios])(
    "a recorded Throttr exchange is answered as recorded: %s",
    async (title, steps) => {
      await use(title);
      const names = [...new Set(steps.map(({ conn }) => conn.split(".")[0]!))];
      const clients = new Map<string, TcpClient>();
      for (const name of names) clients.set(name, await open(`7.3/${steps[0]!.size}`));
      await expect.poll(() => gateway.connections).toBe(names.length);
      // Of those that ask nothing, that they are open at the server shows nowhere else.
      await Promise.all([...clients.values()].map((client) => client.exchange(WHOAMI, 17)));
      const ids = new Map<string, string>();
      for (const step of steps) {
        if (step.sleep_before_ms !== undefined) await sleep(step.sleep_before_ms);
        if (step.name.includes("closed connection")) {
          clients.get("C")!.socket.end();
          await sleep(100);
        }
        const client = clients.get(step.conn.split(".")[0]!)!;
        const recorded = unhex(step.response_hex);
        const request = unhex(withLiveIds(step.request_hex, ids));
        const reply = await client.exchange(request, recorded.length);
        if (step.name.startsWith("WHOAMI")) {
          ids.set(hex(recorded.subarray(1, 1 + ID_BYTES)), hex(reply.subarray(1, 1 + ID_BYTES)));
        }
        const expected = unhex(withLiveIds(step.response_hex, ids));
        for (const [offset, length] of step.volatile) {
          reply.set(expected.subarray(offset, offset + length), offset);
        }
        expect([step.name, hex(reply)]).toEqual([step.name, hex(expected)]);
      }
    },
  );
});

describe.each(["document", "today"] as const)("recorded exchanges of yrmcds: %s", (form) => {
  const text = readFileSync(resolve(vectors, `yrmcds/${form}.jsonl`), "utf8");

  it.each([...yrmcdsScenarios(text)])(
    "a recorded yrmcds exchange is answered as recorded: %s",
    async (scenario, steps) => {
      await use(`${form}-${scenario}`);
      const port = portOf(form === "today" ? "yrmcds/today" : "yrmcds");
      const clients = new Map<string, SocketClient>();
      for (const step of steps) {
        let client = clients.get(step.conn);
        if (client === undefined || client.isEnded) {
          client = await openYrmcds(port);
          counters.push(client);
          clients.set(step.conn, client);
        }
        if (step.op === "close") client.socket.end();
        if (step.op === "rst") client.socket.resetAndDestroy();
        if (step.op !== "send" && step.op !== "poll") continue;
        const ask = async (): Promise<unknown> => {
          client.write(unhex(step.request_hex));
          const [replies] = await client.answers(1);
          return comparedReplies(step, replies!);
        };
        const wanted = comparedReplies(step, recordedReplies(step));
        // A close is heard of in the Hub, then in shards.
        if (step.op === "poll" || scenario === "close-releases") {
          await expect.poll(ask, { timeout: 10_000 }).toEqual(wanted);
        } else {
          expect([step.name, await ask()]).toEqual([step.name, wanted]);
        }
      }
    },
  );
});

const VALUE_BYTES = 1000;
const REPLY_BYTES = 6 + VALUE_BYTES;
const set = frameOf(protocol, {
  type: "set",
  key: "k",
  ttlType: 6,
  ttl: 10n,
  value: new Uint8Array(VALUE_BYTES),
});
const getK = frameOf(protocol, { type: "get", key: "k" });
const gets = (count: number): Uint8Array => concat(Array.from({ length: count }, () => getK));

describe("a client", () => {
  it("a client may send many times what the server queues for replies", async () => {
    await use("flood");
    const client = await open("7.3/uint16");
    const frames = 1_500_000;
    client.keepsBytes = false;
    const query = frameOf(protocol, { type: "query", key: "absent" });
    const block = concat(Array.from({ length: 15_000 }, () => query));
    for (let sent = 0; sent < frames; sent += 15_000) client.socket.write(block);
    expect(block.length * 100).toBeGreaterThan(10 << 20);
    await expect.poll(() => client.receivedBytes, { timeout: 60_000 }).toBe(frames);
    expect(client.isEnded).toBe(false);
    expect(logs).toEqual([]);
  });

  it("a client may ask for more than a silent peer is sent, and get it late", async () => {
    await use("replies");
    const client = await open("7.3/uint16");
    await client.exchange(set, 1);
    client.keepsBytes = false;
    client.socket.pause();
    const asked = 60_000;
    expect(asked * REPLY_BYTES).toBeGreaterThan(32 << 20);
    client.socket.write(gets(asked));
    await sleep(3000);
    expect(client.receivedBytes).toBe(1);
    client.socket.resume();
    await expect
      .poll(() => client.receivedBytes, { timeout: 60_000 })
      .toBe(1 + asked * REPLY_BYTES);
    expect(logs).toEqual([]);
  });

  it("a client that has ended its half gets all replies, and then the end", async () => {
    await use("half");
    const client = await open("7.3/uint16");
    client.keepsBytes = false;
    client.socket.end(concat([set, gets(20_000), Uint8Array.of(0x02)]));
    await expect.poll(() => client.isEnded, { timeout: 20_000 }).toBe(true);
    expect(client.receivedBytes).toBe(1 + 20_000 * REPLY_BYTES);
    expect(logs).toEqual([]);
  });

  it.each(DIALECTS)(
    "a client of dialect %s that has ended its half gets thousands of replies, and the end at once",
    async (name, request, replyBytes) => {
      await use("dialects");
      const client = await open(name);
      const depth = 5000;
      client.keepsBytes = false;
      client.socket.end(concat(Array.from({ length: depth }, () => unhex(request))));
      const startMs = performance.now();
      await expect.poll(() => client.isEnded, { timeout: 20_000 }).toBe(true);
      expect(client.receivedBytes).toBe(depth * replyBytes);
      expect(performance.now() - startMs).toBeLessThan(5000);
      expect(logs).toEqual([]);
    },
  );

  it("a client is listed as a TCP connection, at the address of the gateway", async () => {
    await use("listed");
    const client = await open("7.3/uint16");
    await client.exchange(WHOAMI, 17);
    const headers = { authorization: `Bearer ${readFileSync(tokenFile, "utf8").trim()}` };
    const response = await fetch(`${options.url}/v1/connections`, { headers });
    expect(await response.json()).toMatchObject({
      connections: [{ transport: "tcp", ip: "127.0.0.1" }],
    });
  });

  it("a client that sends an unknown type gets the replies to its earlier requests, and is closed", async () => {
    await use("unknown");
    const client = await open("7.3/uint16");
    client.socket.write(concat([set, gets(3000), Uint8Array.of(0xff)]));
    await sleep(100);
    client.socket.write(gets(10));
    await expect.poll(() => client.isEnded, { timeout: 20_000 }).toBe(true);
    expect(client.receivedBytes).toBe(1 + 3000 * REPLY_BYTES);
    expect(client.isReset).toBe(false);
    expect(logs).toEqual([expect.objectContaining({ event: "upstream_closed", code: 1002 })]);
  });

  it("a client's semaphore is released with its own connection, and with no other", async () => {
    await use("holder");
    const acquire = unhex("9002000000000014000000010000000500000005000a2f64756d702f74657374");
    const held = "91020000000000040000000100000005";
    const [a, b] = [await open("yrmcds"), await open("yrmcds")];
    expect(hex(await a.exchange(acquire, 16))).toBe(held);
    expect((await b.exchange(acquire, 34))[2]).toBe(0x21);
    a.socket.destroy();
    await sleep(300);
    expect(hex(await b.exchange(acquire, 16))).toBe(held);
  });

  it("a client is closed when its token is refused, and the next one enters with the next token", async () => {
    writeToken("no.such.token");
    const refused = await open("7.3/uint16");
    refused.socket.write(WHOAMI);
    await expect.poll(() => refused.isEnded).toBe(true);
    expect(refused.receivedBytes).toBe(0);
    expect(logs).toEqual([
      expect.objectContaining({
        level: "warning",
        event: "upstream_failed",
        reason: "refused",
        status: 401,
        code: "token_invalid",
      }),
    ]);
    expect(JSON.stringify(logs)).not.toContain("no.such");
    await use("default");
    const client = await open("7.3/uint16");
    expect(await client.exchange(WHOAMI, 17)).toHaveLength(17);
  });
});

it("a start tells a good token from a refused one, at every door", async () => {
  const signal = new AbortController().signal;
  const codeOf = async (token: string | null, ports = PORTS): Promise<unknown> =>
    await checkServer(
      { ...options, token: givenToken(token), ports: parsePorts(ports) },
      signal,
    ).then(
      (unchecked) => unchecked as unknown,
      (error: ThrottrError) => error.code,
    );
  const good = readFileSync(tokenFile, "utf8").trim();
  expect(await codeOf(good)).toBeNull();
  expect(await codeOf(good, "0=yrmcds")).toBeNull();
  expect(await codeOf("a.b.c")).toBe("token_invalid");
  expect(await codeOf(null)).toBe("token_missing");
  const exp = Math.floor(Date.now() / 1000) - 3600;
  const ended = await sign({ ns: "default", scopes: SCOPES, exp }, TOKEN_SECRET, "HS256");
  expect(await codeOf(ended)).toBe("token_expired");
  const reading = await sign(
    { ns: "default", scopes: ["read"], exp: exp + 7200 },
    TOKEN_SECRET,
    "HS256",
  );
  expect(await codeOf(reading, "0=yrmcds")).toMatchObject({
    reason: "refused",
    status: 403,
    code: "scope_missing",
  });
});

it("a thousand clients at once are each answered", async () => {
  await use("thousand");
  const count = 1000;
  const answers = await Promise.all(
    Array.from({ length: count }, async (_, i) => {
      const client = await open("7.3/uint16");
      const key = `key-${i}`;
      const insert = frameOf(protocol, { type: "insert", key, quota: 7n, ttlType: 4, ttl: 600n });
      const query = frameOf(protocol, { type: "query", key });
      return hex(await client.exchange(concat([insert, query]), 7));
    }),
  );
  expect(new Set(answers.map((answer) => answer.slice(0, 10)))).toEqual(new Set(["0101070004"]));
  expect(gateway.connections).toBe(count);
});

it("clients are closed when the server dies, and others are served when it is back", async () => {
  await use("again");
  const client = await open("7.3/uint16");
  await client.exchange(set, 1);
  await server.kill();
  await expect.poll(() => client.isEnded).toBe(true);
  const early = await open("7.3/uint16");
  await expect.poll(() => early.isEnded).toBe(true);
  expect(logs.map(({ event }) => event)).toEqual(["upstream_closed", "upstream_failed"]);
  expect(logs[1]).toMatchObject({ reason: "unreachable" });
  await start();
  const late = await open("7.3/uint16");
  expect(await late.exchange(getK, REPLY_BYTES)).toHaveLength(REPLY_BYTES);
});
