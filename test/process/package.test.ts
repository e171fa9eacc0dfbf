/** The package as its users have it: what was built, by the names that it is imported by. */
import { execFileSync } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { resolve } from "node:path";
import { convertV4MiniflareOptions, Miniflare } from "miniflare";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ThrottrError } from "throttr-edge/client";
import { RateLimiter, tokenBucket } from "throttr-edge/ratelimit";
import { startThrottr, throttrWorker, type TestServer } from "throttr-edge/testing";
import { upgradeHead } from "../support/process/raw-http.ts";

const HOUR_MS = 3_600_000;

describe("the testing helper", () => {
  let server: TestServer;

  beforeAll(async () => {
    server = await startThrottr({ variables: { SHARDS: "2" } });
  });

  afterAll(async () => {
    await server.close();
  });

  it("the testing helper starts a server and gives a client", async () => {
    const { client } = server;
    expect(await client.increment("views", { ttlMs: HOUR_MS })).toBe(1n);
    await client.set("page", "text", { ttlMs: HOUR_MS });
    expect(new TextDecoder().decode((await client.get("page"))!.value)).toBe("text");
    await expect(client.get("views")).rejects.toThrow(ThrottrError);
    await server.flush();
    expect((await client.list()).records).toEqual([]);
  });

  it("the testing helper's server delivers messages to subscribers", async () => {
    const { client } = server;
    const messages = client.subscribe("news")[Symbol.asyncIterator]();
    const first = messages.next();
    while (!(await client.publish("news", "hello")));
    expect((await first).value!.text()).toBe("hello");
    await messages.return!();
  });

  it("the testing helper's server limits", async () => {
    const limiter = new RateLimiter({
      throttr: server.client,
      name: "api",
      strategy: tokenBucket({ burst: 2, rate: 0.001 }),
    });
    const results = await Promise.all([1, 2, 3].map(() => limiter.limit("ada")));
    expect(results.map(({ success }) => success)).toEqual([true, true, false]);
  });

  it("the testing helper's server needs tokens when its variables say so", async () => {
    await using closed = await startThrottr({ variables: { ACCESS: "token", TOKEN_SECRET: "s" } });
    await expect(closed.client.query("a")).rejects.toMatchObject({ code: "token_missing" });
  });

  it("the testing helper's server does not compress WebSocket messages, which could take 32 MiB each", async () => {
    const head = await upgradeHead(server.url, "/throttr/7.3/uint64");
    expect(head).toMatch(/^HTTP\/1\.1 101 /);
    expect(head).not.toMatch(/sec-websocket-extensions/i);
  });

  it("the testing helper's server answers loopback host names only", async () => {
    const evil = { host: "evil.example", origin: "http://evil.example" };
    expect(await upgradeHead(server.url, "/throttr/7.3/uint64", evil)).toContain(" 421 ");
  });

  it("the testing helper's server can be a Worker beside another", async () => {
    const mine = {
      name: "mine",
      compatibilityDate: "2026-10-23",
      modules: [
        {
          type: "ESModule" as const,
          path: "mine.js",
          contents: `export default {
            async fetch(request, env) {
              return new Response(String(await env.THROTTR.increment("views", { ttlMs: 60000 })));
            },
          };`,
        },
      ],
      serviceBindings: { THROTTR: { name: "throttr-edge", entrypoint: "Throttr" } },
    };
    const options = convertV4MiniflareOptions({ workers: [mine, await throttrWorker()] });
    const runtime = new Miniflare(options);
    try {
      expect(await (await runtime.dispatchFetch("http://localhost/")).text()).toBe("1");
      expect(await (await runtime.dispatchFetch("http://localhost/")).text()).toBe("2");
    } finally {
      await runtime.dispose();
    }
  });

  it("the testing helper's compatibility date is not newer than that of wrangler.toml", async () => {
    const [, date] = /^compatibility_date = "(.*)"/m.exec(readFileSync("wrangler.toml", "utf8"))!;
    expect((await throttrWorker()).compatibilityDate <= date!).toBe(true);
  });
});

describe("the declarations", () => {
  it("the type declarations compile in a project without other types than the web's", () => {
    const folder = resolve(".wrangler/consumer");
    mkdirSync(folder, { recursive: true });
    writeFileSync(
      `${folder}/index.ts`,
      `import { http, ThrottrClient } from "throttr-edge/client";
import { rateLimitStorage, secondaryStorage } from "throttr-edge/better-auth";
import { ThrottrStore } from "throttr-edge/express-rate-limit";
import { guard } from "throttr-edge/fetch";
import { rateLimit } from "throttr-edge/hono";
import { RateLimiterThrottr } from "throttr-edge/rate-limiter-flexible";
import { RateLimiter, tokenBucket } from "throttr-edge/ratelimit";
const throttr = new ThrottrClient(http("http://127.0.0.1"));
const strategy = tokenBucket({ burst: 1, rate: 1 });
export const limiter = new RateLimiter({ throttr, name: "api", strategy });
export const middleware = rateLimit({ limiter, key: () => "ada" });
export const guarded = guard(new Request("http://127.0.0.1"), { limiter, key: "ada" });
export const storages = [rateLimitStorage({ throttr }), secondaryStorage({ throttr })];
export const store = new ThrottrStore({ throttr });
export const points = new RateLimiterThrottr({ storeClient: throttr, points: 1, duration: 1 });
export const consumed: Promise<number> = points.consume("ada").then((res) => res.consumedPoints);
`,
    );
    const options = {
      strict: true,
      noEmit: true,
      skipLibCheck: false,
      target: "es2022",
      lib: ["es2022", "dom", "dom.iterable"],
      module: "esnext",
      moduleResolution: "bundler",
      types: [],
    };
    const config = { compilerOptions: options, files: ["index.ts"] };
    writeFileSync(`${folder}/tsconfig.json`, JSON.stringify(config));
    const compiler = "node_modules/typescript/bin/tsc";
    const run = () => execFileSync(process.execPath, [compiler, "-p", folder], { stdio: "pipe" });
    expect(run).not.toThrow();
  });
});
