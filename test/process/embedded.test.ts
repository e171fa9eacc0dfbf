/** The server inside an application's own Worker, from the package as it is published, in the runtime. */
import type { StdioOptions } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { WebSocket } from "ws";
import { http, ThrottrClient, ThrottrError, webSocket, type Fetch } from "throttr-edge/client";
import { configWithPorts, startServer, waitUntilReady, type Server } from "../../scripts/server.ts";
import { cli } from "../support/cli/process.ts";
import { U64, yrmcds } from "../support/frames/index.ts";
import { bearerOf } from "../support/pool/tokens.ts";
import { SocketClient } from "../support/process/socket-client.ts";

const PORT = 18_940;
const TCP_PORT = 18_941;
const URL_ = `http://127.0.0.1:${PORT}`;
const HOUR_MS = 3_600_000;
const SECRET = "embedded-secret";
const SOURCES = resolve("test/support/embedded");

let folder: string;
let server: Server | null = null;
/** What the running server has logged. */
let log = "";

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "throttr-embedded-"));
});

afterAll(async () => {
  await server?.kill();
  rmSync(folder, { recursive: true, force: true });
});

/** Starts a Worker of `test/support/embedded`; what ran before ends. Data is kept by the name of a state. */
async function start(
  config: string,
  state: string,
  variables: Readonly<Record<string, string>> = {},
): Promise<void> {
  await server?.kill();
  const persistTo = join(folder, state);
  const stdio: StdioOptions = ["ignore", "pipe", "pipe"];
  server = startServer({ config, port: PORT, persistTo, variables, stdio });
  log = "";
  for (const stream of [server.process.stdout!, server.process.stderr!]) {
    stream.on("data", (chunk: Buffer) => (log += chunk.toString()));
  }
  await waitUntilReady(PORT, []);
}

const configOf = (name: string): string => join(SOURCES, `${name}.jsonc`);

async function textOf(path: string, init?: RequestInit): Promise<string> {
  return await (await fetch(URL_ + path, init)).text();
}

const jsonOf = async (path: string, init?: RequestInit): Promise<unknown> =>
  JSON.parse(await textOf(path, init)) as unknown;

/** The quota of a counter as the application reads it, once it is a number. */
async function expectCount(key: string, count: string): Promise<void> {
  await expect.poll(async () => await textOf(`/read?key=${key}`)).toBe(count);
}

const SESSION = { cookie: "user=ada" };

describe("an application whose classes are exported without bindings", () => {
  beforeAll(async () => {
    await start(configOf("exports"), "app", { THROTTR_TOKEN_SECRET: SECRET });
  });

  it("a fetch handler counts, limits, batches and holds semaphores", async () => {
    expect([await textOf("/count"), await textOf("/count")]).toEqual(["1", "2"]);
    const statuses = [];
    for (let i = 0; i < 3; i++) statuses.push((await fetch(`${URL_}/limit`)).status);
    expect(statuses).toEqual([200, 200, 429]);
    expect(await jsonOf("/batch")).toEqual(["1", "kind_mismatch"]);
    expect(await jsonOf("/semaphore")).toEqual({ isHeld: true, isBusy: true });
    expect(await jsonOf("/publish")).toBe(false);
    expect(await jsonOf("/info")).toMatchObject({ nowSeconds: expect.any(Number) as number });
  });

  it("increments of many requests gather in the isolate, and are sent after the responses", async () => {
    await Promise.all(Array.from({ length: 20 }, async () => await textOf("/view")));
    await expectCount("views:page", "20");
    expect(await textOf("/view")).toBe("counted");
    await expectCount("views:page", "21");
  });

  it("the rights that the application gives a caller of its own code hold", async () => {
    expect(await jsonOf("/scopes")).toEqual(["scope_missing", "prefix_missing"]);
  });

  it("an object, its alarm, a queue, a cron and a Workflow count", async () => {
    expect(await textOf("/object")).toBe("1");
    for (const path of ["/alarm", "/queue", "/workflow", "/cdn-cgi/handler/scheduled"]) {
      expect((await fetch(URL_ + path)).status).toBe(200);
    }
    for (const key of ["alarm", "queue", "workflow", "cron"]) await expectCount(key, "1");
  });

  it("paths that are not the server's are the application's", async () => {
    for (const path of ["/", "/v1/info", "/tokens", "/tokens/", "/edge/other", "/edges/v1/info"]) {
      expect(await textOf(path)).toBe(`the application has no ${path}`);
    }
  });

  it.each(["/edge", "/edge/"])("%s leads to the dashboard", async (path) => {
    const page = await fetch(URL_ + path);
    expect([page.status, page.url]).toEqual([200, `${URL_}/edge/dashboard`]);
  });

  it("the application's session gives the rights of the doors below the prefix", async () => {
    const put = { method: "PUT", headers: { ...SESSION, "content-type": "application/json" } };
    const body = JSON.stringify({ quota: "7", ttlMs: HOUR_MS });
    const mine = await fetch(`${URL_}/edge/v1/counters/ada:a`, { ...put, body });
    expect(mine.status).toBe(201);
    await expectCount("ada:a", "7");
    const other = await jsonOf("/edge/v1/counters/bob:a", { ...put, body });
    expect(other).toMatchObject({ code: "prefix_missing", type: "/edge/docs#prefix_missing" });
    expect(other).toMatchObject({
      detail: expect.stringMatching(/may only use keys that begin with ada:$/) as string,
    });
    const figures = await jsonOf("/edge/v1/overview", { headers: SESSION });
    expect(figures).toMatchObject({ code: "scope_missing" });
  });

  it("without a session a token is needed, and one that is signed with THROTTR_TOKEN_SECRET opens the doors", async () => {
    const response = await fetch(`${URL_}/edge/v1/access`);
    expect(response.status).toBe(401);
    expect(await response.json()).toMatchObject({
      code: "token_missing",
      detail: expect.stringContaining("the application gives this request no rights") as string,
    });
    const headers = await bearerOf({ ns: "app", scopes: ["read"] }, SECRET);
    for (const prefix of ["/edge", "/tokens"]) {
      const access = await jsonOf(`${prefix}/v1/access`, { headers });
      expect(access).toMatchObject({ namespace: "app", scopes: ["read"] });
    }
    const both = await jsonOf("/edge/v1/access", { headers: { ...headers, ...SESSION } });
    expect(both).toMatchObject({ keyPrefixes: ["ada:"] });
  });

  it("pages of other sites can't use the cookies of a user", async () => {
    const origin = "https://evil.example";
    const headers = { ...SESSION, origin };
    const post = { method: "POST", headers, body: "hello" };
    expect(await jsonOf("/edge/channels/news", post)).toMatchObject({ code: "origin_not_allowed" });
    const image = { headers: { ...SESSION, "sec-fetch-site": "cross-site" } };
    expect(await jsonOf("/edge/v1/access", image)).toMatchObject({ code: "token_missing" });
    expect(await statusOfUpgrade({ ...SESSION, origin })).toBe(403);
    expect(await statusOfUpgrade({ ...SESSION, origin: URL_ })).toBe(101);
  });

  it("a WebSocket below the prefix has the rights of the session", async () => {
    const transport = webSocket(`${URL_}/edge`, { WebSocket: WithSession as never });
    await using client = new ThrottrClient(transport);
    expect(await client.increment("ada:socket", { ttlMs: HOUR_MS })).toBe(1n);
    await expect(client.query("bob:socket")).rejects.toThrow(ThrottrError);
    const messages = client.subscribe("news")[Symbol.asyncIterator]();
    const first = messages.next();
    await expect.poll(async () => await jsonOf("/publish")).toBe(true);
    expect((await first).value!.text()).toBe("hello");
    await messages.return!();
  });

  it("a client over HTTP works below the prefix", async () => {
    const withSession: Fetch = async (url, init) =>
      await fetch(url, { ...init, headers: { ...init.headers, ...SESSION } });
    for (const [url, count] of [
      [`${URL_}/edge`, 1n],
      [`${URL_}/edge/throttr/edge`, 2n],
    ] as const) {
      await using client = new ThrottrClient(http(url, { fetch: withSession }));
      expect(await client.increment("ada:http", { ttlMs: HOUR_MS })).toBe(count);
    }
  });

  it("the command line works with the address of the prefix, and of the door below it", async () => {
    const { authorization } = await bearerOf({ ns: "app" }, SECRET);
    const environment = { THROTTR_TOKEN: authorization!.replace("Bearer ", "") };
    for (const url of [
      `${URL_}/edge`,
      `${URL_}/edge/throttr/edge`,
      `ws://127.0.0.1:${PORT}/edge`,
    ]) {
      for (const command of ["health", "increment cli --ttl 1m", "limits", "info", "stat cli"]) {
        const args = [...command.split(" "), "--url", url];
        expect({ args, ...(await cli(args, { environment })) }).toMatchObject({ exitCode: 0 });
      }
    }
    await expectCount("cli", "3");
  });

  it("the command line says so where the application answers in place of the server", async () => {
    for (const command of ["increment a --ttl 1m", "limits", "info", "health"]) {
      const { exitCode, err } = await cli([...command.split(" "), "--url", URL_]);
      expect(exitCode).toBe(3);
      expect(err).toMatch(
        /^throttr-edge: response_invalid: \S+ did not answer as a Throttr server/,
      );
    }
    const socket = await cli(["query", "a", "--url", `ws://127.0.0.1:${PORT}`]);
    expect(socket.err).toContain("is there a Throttr server at ws://127.0.0.1:18940/throttr/edge?");
  });

  it("a page listens to a channel below the prefix with its session", async () => {
    const response = await fetch(`${URL_}/edge/channels/news`, { headers: SESSION });
    expect(response.headers.get("content-type")).toContain("text/event-stream");
    const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
    await expect.poll(async () => await jsonOf("/publish")).toBe(true);
    let text = "";
    while (!text.includes("data: hello")) text += (await reader.read()).value ?? "";
    await reader.cancel();
  });

  it("the document says where its routes are, and health needs no rights", async () => {
    expect(await jsonOf("/edge/openapi.json")).toMatchObject({ servers: [{ url: "/edge" }] });
    expect(await jsonOf("/edge/health")).toEqual({ status: "ok" });
  });

  it("the dashboard and the reference are served below the prefix, with the headers of assets", async () => {
    for (const name of ["dashboard", "docs"]) {
      const page = await fetch(`${URL_}/edge/${name}`);
      expect(await page.text()).toContain("<!doctype html>");
      expect(page.headers.get("content-type")).toBe("text/html; charset=utf-8");
      expect(page.headers.get("content-security-policy")).toContain("default-src 'none'");
      const etag = page.headers.get("etag")!;
      const again = await fetch(`${URL_}/edge/${name}`, { headers: { "if-none-match": etag } });
      expect(again.status).toBe(304);
      const script = await fetch(`${URL_}/edge/${name}/main.js`);
      expect(script.headers.get("content-type")).toBe("text/javascript; charset=utf-8");
      const slash = await fetch(`${URL_}/edge/${name}/?a=b`, { redirect: "manual" });
      expect([slash.status, slash.headers.get("location")]).toEqual([307, `/edge/${name}?a=b`]);
      expect(await textOf(`/tokens/${name}`)).toBe(`the application has no /tokens/${name}`);
    }
  });

  it("TCP clients are served by connectThrottr", async () => {
    const client = await SocketClient.open(TCP_PORT);
    expect([...(await client.exchange(U64.insert("tcp", 5), 1))]).toEqual([1]);
    expect((await client.exchange(U64.query("tcp"), 18))[0]).toBe(1);
    await client.close();
    await expectCount("tcp", "5");
  });

  it("data survives the kill of the process", async () => {
    const before = Number(await textOf("/count"));
    await start(configOf("exports"), "app", { THROTTR_TOKEN_SECRET: SECRET });
    expect(Number(await textOf("/count"))).toBe(before + 1);
  });
});

describe("an application with bindings and migrations of an earlier compatibility date", () => {
  beforeAll(async () => {
    await start(configOf("bindings"), "bindings");
  });

  it("counters need one class, and its binding", async () => {
    expect(await jsonOf("/count")).toBe("1");
    expect(await jsonOf("/count")).toBe("2");
  });

  it("nothing is logged or waited for because the other classes are missing", async () => {
    expect(await jsonOf("/list")).toBe(1);
    // A second later counts of doors are handed over, and a namespace that could not be registered is tried again.
    await sleep(3000);
    expect(log).toBe("");
  });

  it("a class that the Worker lacks is named with the lines to add", async () => {
    expect(await jsonOf("/publish")).toContain(
      'class_missing: the Worker lacks the classes Hub, Channel, Directory: its main module needs the line export { Hub, Channel, Directory } from "throttr-edge/worker"',
    );
    await expect.poll(() => log).toContain("class_missing");
    expect(log).not.toContain("stack");
    expect(await jsonOf("/fetch")).toContain("class_missing: the Worker lacks the class Throttr");
  });
});

describe("an application with settings in code", () => {
  it("settings in code hold for an object that its alarm wakes, which finds classes by their new names", async () => {
    await start(configOf("renamed"), "renamed");
    const semaphore = `${URL_}/v1/semaphores/gpu`;
    const holder = new WebSocket(`ws://127.0.0.1:${PORT}/yrmcds/counter`);
    await new Promise((opened) => holder.once("open", opened));
    holder.send(yrmcds.acquire("gpu", 1, 4));
    await expect.poll(async () => await usedOf(semaphore)).toBe(1);
    await start(configOf("renamed"), "renamed");
    // The holder is gone with the process. Within HOLDER_TIMEOUT_MS, 3 s in code and 15 s by default, an alarm of the
    // shard asks the Hub for it.
    await sleep(6000);
    expect(await usedOf(semaphore)).toBe(0);
  });

  it("other paths stay the application's with the doors at the root", async () => {
    expect(await textOf("/")).toBe("the application");
    expect(await jsonOf("/v1/access")).toMatchObject({ namespace: "default" });
  });
});

describe("an application that takes over the objects of a server of its own", () => {
  it("data that the server wrote opens inside the application under the same names", async () => {
    const alone = join(folder, "alone.toml");
    writeFileSync(alone, configWithPorts({}));
    await start(alone, "moved");
    await using client = new ThrottrClient(http(URL_, { token: "namespace.app" }));
    await client.insert("moved", { quota: 42, ttlMs: HOUR_MS });

    const source = readFileSync(configOf("exports"), "utf8");
    const config = join(SOURCES, ".moved.jsonc");
    // The same Worker with another main module: as after a transfer of its classes.
    const named = source.replace('"embedding-app"', '"throttr-edge"').replace('"2"', '"4"');
    writeFileSync(config, named);
    try {
      await start(config, "moved");
      await expectCount("moved", "42");
    } finally {
      rmSync(config);
    }
  });
});

/** How much of a semaphore is in use; 0 where the server does not know it any more. */
async function usedOf(url: string): Promise<number> {
  const state = (await (await fetch(url)).json()) as { readonly consumption?: number };
  return state.consumption ?? 0;
}

/** A WebSocket of a browser whose user has signed in. */
class WithSession extends WebSocket {
  constructor(url: string, protocols: string[]) {
    super(url, protocols, { headers: SESSION });
  }
}

/** The status of the answer to a handshake. */
async function statusOfUpgrade(headers: Record<string, string>): Promise<number> {
  const socket = new WebSocket(`ws://127.0.0.1:${PORT}/edge/throttr/edge`, { headers });
  const { promise, resolve: settle } = Promise.withResolvers<number>();
  socket.once("upgrade", ({ statusCode }) => settle(statusCode!));
  socket.once("unexpected-response", (_request, { statusCode }) => settle(statusCode!));
  socket.on("error", () => {});
  const status = await promise;
  socket.terminate();
  return status;
}
