/** `throttr-edge serve`: the doors of a server on a machine of one's own. */
import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { acquire, get as getSemaphore, numberOfBody } from "../support/frames/yrmcds.ts";
import { concat, hex, HOURS, U64 } from "../support/frames/index.ts";
import { playScenario, throttrScenarios } from "../support/engine/vectors.ts";
import { openYrmcds } from "../support/process/yrmcds-sockets.ts";
import { upgradeHead } from "../support/process/raw-http.ts";
import { SelfHosted, tokenFor } from "../support/process/self-hosted.ts";
import { SocketClient } from "../support/process/socket-client.ts";
import { FOUND_BYTES, insertFrame, quotaOf } from "../support/process/socket-records.ts";

const TCP = { uint16: 21_610, uint64: 21_611, orders: 21_612, locks: 21_613 } as const;
const OTHER_HTTP_PORT = 21_620;

const MEBIBYTE = 1 << 20;
const TRAFFIC_BYTES = 24 * MEBIBYTE;
/** Code is compiled, and heap and journal come to the size that they stay at: seen within five times 24 MiB. */
const WARM_UP_BYTES = 6 * TRAFFIC_BYTES;
/** Half of what is measured goes each way: whatever kept one of the two would grow by twice as much. */
const MEASURED_BYTES = 4 * TRAFFIC_BYTES;
const GROWN_BYTES_MAX = TRAFFIC_BYTES;
const VALUE_BYTES = 1000;
/** Pairs of requests under way at once. */
const PAIRS = 100;

const folder = mkdtempSync(join(tmpdir(), "throttr-serve-"));
const server = SelfHosted.start([
  "--http",
  "127.0.0.1:0",
  "--http",
  `[::1]:${OTHER_HTTP_PORT}`,
  "--data",
  join(folder, "data"),
  "--var",
  "YRMCDS_ENABLE=on",
  "--drain-timeout",
  "500ms",
  "--tcp",
  `${TCP.uint16}=7.3/uint16@vectors, ${TCP.uint64}=7.3/uint64@vectors`,
  "--tcp",
  `${TCP.orders}=7.3/uint64@orders, ${TCP.locks}=yrmcds@locks`,
]);
let token: string;

beforeAll(async () => {
  token = await tokenFor("vectors");
  await server.ready();
});
afterAll(async () => {
  const exitCode = await server.stop();
  if (exitCode !== 0) throw new Error(`serve ended with ${exitCode}`);
  rmSync(folder, { recursive: true, force: true });
});

const ask = async (path: string, bearer?: string, init: RequestInit = {}): Promise<Response> =>
  await fetch(`${server.url}${path}`, {
    ...init,
    headers: bearer === undefined ? {} : { authorization: `Bearer ${bearer}` },
  });

it("the server does not compress WebSocket messages, which could take 32 MiB each", async () => {
  for (const path of ["/throttr/7.3/uint64", "/yrmcds/counter"]) {
    const head = await upgradeHead(server.url, path, { authorization: `Bearer ${token}` });
    expect(head).toMatch(/^HTTP\/1\.1 101 /);
    expect(head).not.toMatch(/sec-websocket-extensions/i);
  }
});

it("the server prints its addresses", () => {
  expect(server.events).toEqual([
    expect.objectContaining({
      event: "ready",
      http: [
        expect.stringMatching(/^http:\/\/127\.0\.0\.1:\d+$/),
        `http://[::1]:${OTHER_HTTP_PORT}`,
      ],
      tcp: [
        { address: `127.0.0.1:${TCP.uint16}`, spoken: "7.3/uint16", namespace: "vectors" },
        { address: `127.0.0.1:${TCP.uint64}`, spoken: "7.3/uint64", namespace: "vectors" },
        { address: `127.0.0.1:${TCP.orders}`, spoken: "7.3/uint64", namespace: "orders" },
        { address: `127.0.0.1:${TCP.locks}`, spoken: "yrmcds", namespace: "locks" },
      ],
    }),
  ]);
});

const vectors = [process.env.VECTORS, "../shared/vectors", "test/vectors"].find(
  (path) => path !== undefined && existsSync(path),
)!;
const lines = ["uint16", "uint64"].map((size) =>
  readFileSync(join(vectors, `throttr/${size}.jsonl`), "utf8"),
);

it.each([...throttrScenarios(lines.join("\n"))])(
  "a recorded exchange is answered as recorded: %s",
  async (_title, steps) => {
    const body = JSON.stringify({ namespace: "vectors" });
    const flushed = await ask("/v1/admin/flush", token, { method: "POST", body });
    expect(flushed.status).toBe(200);
    const port = TCP[steps[0]!.size as "uint16" | "uint64"];
    const played = await playScenario(steps, () => SocketClient.open(port));
    for (const { step, reply, expected } of played)
      expect(`${step}: ${reply}`).toBe(`${step}: ${expected}`);
    expect(played.length).toBeGreaterThan(0);
  },
);

it("the server lets in callers with a token, and no others", async () => {
  const path = "/v1/counters/none";
  expect((await ask(path, token)).status).toBe(404);
  expect(await (await ask(path)).json()).toMatchObject({ status: 401, code: "token_missing" });
  const forged = await tokenFor("vectors", "another secret");
  expect(await (await ask(path, forged)).json()).toMatchObject({ code: "token_invalid" });
  expect((await fetch(`http://[::1]:${OTHER_HTTP_PORT}/health`)).status).toBe(200);
});

it("each port serves the records of its namespace, and no others", async () => {
  const orders = await SocketClient.open(TCP.orders);
  const others = await SocketClient.open(TCP.uint64);
  expect(hex(await orders.exchange(insertFrame("mine", 7n), 1))).toBe("01");
  expect(await quotaOf(orders, "mine")).toBe(7n);
  expect(await quotaOf(others, "mine")).toBeNull();
  expect((await ask("/v1/counters/mine", token)).status).toBe(404);
  const found = await ask("/v1/counters/mine", await tokenFor("orders"));
  expect(await found.json()).toMatchObject({ quota: "7" });
  await Promise.all([orders.close(), others.close()]);
});

it("a port speaks the yrmcds protocol, and frees what a connection held", async () => {
  const holder = await openYrmcds(TCP.locks);
  expect(numberOfBody(await holder.askOne(acquire("lock", 2, 3)))).toBe(2);
  const other = await openYrmcds(TCP.locks);
  expect(numberOfBody(await other.askOne(getSemaphore("lock")))).toBe(2);
  holder.close();
  await expect
    .poll(
      async () =>
        (await other.askOne(getSemaphore("lock"))).body.length === 4 &&
        numberOfBody(await other.askOne(getSemaphore("lock"))),
    )
    .toBe(0);
  other.close();
});

it("the server listens on loopback by default", async () => {
  // All of 127.0.0.0/8 leads to this machine, as its other addresses do.
  await expect(SocketClient.open(TCP.orders, "127.0.0.2")).rejects.toThrow("ECONNREFUSED");
  const url = server.url.replace("127.0.0.1", "127.0.0.2");
  await expect(fetch(`${url}/health`)).rejects.toThrow("fetch failed");
});

it("the server does not trust a client's headers about its address", async () => {
  // An origin of https is another than that of http, which the request came by.
  const headers = { origin: server.url.replace("http:", "https:"), "x-forwarded-proto": "https" };
  expect((await fetch(`${server.url}/health`, { headers })).status).toBe(403);
});

it("the server's memory does not grow with traffic", async () => {
  const client = await SocketClient.open(TCP.uint64);
  await traffic(client, WARM_UP_BYTES);
  const before = residentBytes(server.workerdPid);
  await traffic(client, MEASURED_BYTES);
  const grown = residentBytes(server.workerdPid) - before;
  await client.close();
  expect(grown).toBeLessThan(GROWN_BYTES_MAX);
});

/** Sets and gets one buffer again and again, until so many bytes have gone to and fro. */
async function traffic(client: SocketClient, bytes: number): Promise<void> {
  const value = new Uint8Array(VALUE_BYTES).fill(7);
  const set = U64.set("buffer", value, HOURS, 1n);
  const get = U64.get("buffer");
  const pair = concat([set, get]);
  const replyBytes = 1 + FOUND_BYTES + VALUE_BYTES;
  const request = concat(Array.from({ length: PAIRS }, () => pair));
  for (let done = 0; done < bytes; done += PAIRS * (pair.length + replyBytes)) {
    const replies = await client.exchange(request, PAIRS * replyBytes);
    expect(replies).toHaveLength(PAIRS * replyBytes);
  }
}

function residentBytes(pid: number): number {
  return 1024 * Number(execFileSync("ps", ["-o", "rss=", "-p", String(pid)], { encoding: "utf8" }));
}
