/** The package as its users have it: what was built, by the names that it is imported by. */
import { execFileSync } from "node:child_process";
import { cpSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
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

  it("the testing helper refuses an option that it does not have", async () => {
    await expect(startThrottr({ variable: { ACCESS: "token" } } as object)).rejects.toMatchObject({
      code: "option_invalid",
      message: expect.stringContaining("variable: startThrottr has no such option") as string,
    });
  });

  it("the testing helper refuses a variable that the server does not have, and a value that it can't have", async () => {
    const misspelled = { REPLAY_MESSAGE_MAX: "10" };
    const unknown = {
      code: "option_invalid",
      message: expect.stringContaining("variables.REPLAY_MESSAGE_MAX: there is no such") as string,
    };
    await expect(startThrottr({ variables: misspelled })).rejects.toMatchObject(unknown);
    await expect(throttrWorker({ variables: misspelled })).rejects.toMatchObject(unknown);
    const tooMany = startThrottr({ variables: { SHARDS: "1000000" } });
    await expect(tooMany).rejects.toMatchObject({
      code: "config_invalid",
      message: expect.stringContaining("SHARDS: expected") as string,
    });
  });

  it("the testing helper's server may be closed twice, as at the end of a block that has closed it", async () => {
    await using closed = await startThrottr();
    await Promise.all([closed.close(), closed.close()]);
    await closed.close();
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

/** Compiles a project that depends on the package. @throws Error with what the compiler says */
function compile(name: string, source: string, more: object): void {
  const folder = resolve(`.wrangler/${name}`);
  mkdirSync(folder, { recursive: true });
  writeFileSync(`${folder}/index.ts`, source);
  const compilerOptions = { strict: true, noEmit: true, target: "es2022", ...more };
  const config = { compilerOptions, files: ["index.ts"] };
  writeFileSync(`${folder}/tsconfig.json`, JSON.stringify(config));
  const compiler = "node_modules/typescript/bin/tsc";
  try {
    execFileSync(process.execPath, [compiler, "-p", folder], { stdio: "pipe" });
  } catch (error) {
    throw new Error(String((error as { stdout: Buffer }).stdout), { cause: error });
  }
}

/** Makes a project that has installed the declarations: the compiler names their types by the package, not by a path. */
function installDeclarations(name: string): void {
  const folder = `.wrangler/${name}`;
  const installed = `${folder}/node_modules/throttr-edge`;
  rmSync(folder, { recursive: true, force: true });
  cpSync("dist", `${installed}/dist`, {
    recursive: true,
    filter: (path) => statSync(path).isDirectory() || path.endsWith(".d.ts"),
  });
  cpSync("package.json", `${installed}/package.json`);
  writeFileSync(`${folder}/package.json`, "{}");
}

/** Options of a Worker's project. */
const WORKER = {
  skipLibCheck: false,
  lib: ["es2022"],
  module: "esnext",
  moduleResolution: "bundler",
  declaration: true,
  types: ["@cloudflare/workers-types"],
};

describe("the declarations", () => {
  it("the type declarations compile in a project without other types than the web's", () => {
    compile(
      "consumer",
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
      {
        skipLibCheck: false,
        lib: ["es2022", "dom", "dom.iterable"],
        module: "esnext",
        moduleResolution: "bundler",
        types: [],
      },
    );
  });

  it("an option may be undefined, as a variable of the environment is, with exactOptionalPropertyTypes", () => {
    compile(
      "exact-consumer",
      `import { FlushedCounter, http, ThrottrClient, webSocket } from "throttr-edge/client";
import { rateLimitStorage, secondaryStorage } from "throttr-edge/better-auth";
import { ThrottrStore } from "throttr-edge/express-rate-limit";
import { guard } from "throttr-edge/fetch";
import { rateLimit } from "throttr-edge/hono";
import { KeyvThrottr } from "throttr-edge/keyv";
import { ThrottrStorage } from "throttr-edge/nestjs";
import { RateLimiterThrottr } from "throttr-edge/rate-limiter-flexible";
import { limitAll, RateLimiter, RefusalCache, tokenBucket } from "throttr-edge/ratelimit";
import { throttrDriver } from "throttr-edge/unstorage";
const text: string | undefined = process.env["TEXT"];
const number = text === undefined ? undefined : Number(text);
const isOn = number === undefined ? undefined : number > 0;
const throttr = new ThrottrClient(http("http://127.0.0.1", { token: text }), { timeoutMs: number });
const subscriber = new ThrottrClient(webSocket("http://127.0.0.1", { token: text }));
const strategy = tokenBucket({ burst: 1, rate: 1 });
const cache = new RefusalCache({ entriesMax: number });
const policy = { timeoutMs: number, onError: undefined };
const limiter = new RateLimiter({ throttr, name: "api", strategy, ...policy, cache, shadow: isOn });
export const calls = [
  limiter.limit("ada", { cost: number }),
  limitAll(throttr, [{ limiter, key: "ada", cost: number }], policy),
  throttr.limit({ name: "api", key: "ada", strategy, cost: number, idempotencyKey: text }),
  throttr.increment("ada", { by: number, ttlMs: 1, idempotencyKey: text }),
  throttr.list({ prefix: text, limit: number, cursor: undefined }),
  throttr.acquire("ada", { maximum: 1, ttlMs: 1_000, resources: number }),
  guard(new Request("http://127.0.0.1"), { limiter, key: "ada", cost: number }),
];
export const made = [
  new FlushedCounter(throttr, "views", { ttlMs: 1, flushMs: number, onError: undefined }),
  rateLimit({ limiter, key: () => "ada", cost: number, skipFailedRequests: isOn }),
  rateLimitStorage({ throttr, name: text, ...policy }),
  secondaryStorage({ throttr, prefix: text }),
  new ThrottrStore({ throttr, prefix: text, timeoutMs: number }),
  new KeyvThrottr({ throttr, prefix: text }),
  new ThrottrStorage({ throttr, prefix: text }),
  new RateLimiterThrottr({ storeClient: throttr, points: 1, duration: 1, timeoutMs: number }),
  throttrDriver({ throttr, base: text, ttl: number, channel: text, subscriber }),
];
`,
      {
        skipLibCheck: true,
        lib: ["es2022"],
        module: "nodenext",
        exactOptionalPropertyTypes: true,
        types: ["node"],
      },
    );
  });

  it.each([
    [
      "client",
      `import type { ThrottrClient } from "throttr-edge/client";
const limit = { name: "api", key: "ada", strategy: { strategy: "gcra", burst: 1, rate: 1 } } as const;
export const charged = (throttr: ThrottrClient) => throttr.limitAll({ requests: [limit] });
export const drawn = (throttr: ThrottrClient) => throttr.draw(limit);
export const reserved = (throttr: ThrottrClient) => throttr.reserve(limit);
export const settled = (throttr: ThrottrClient) => throttr.settle({ ...limit, id: "", cost: 1 });
export const shown = (throttr: ThrottrClient) => throttr.batch([["draw", limit], ["get", "a"]]);
`,
    ],
    [
      "ratelimit",
      `import type { LimitBackend } from "throttr-edge/ratelimit";
export const together = (throttr: LimitBackend) => throttr.limitAll;
`,
    ],
    [
      "better-auth",
      `import { rateLimitStorage, type RateLimitStorageOptions } from "throttr-edge/better-auth";
export const storageOf = (options: RateLimitStorageOptions) => rateLimitStorage(options);
`,
    ],
    [
      "testing",
      `import { startThrottr } from "throttr-edge/testing";
export const started = async () => (await startThrottr()).client;
`,
    ],
  ])(
    "a project may export what the declarations of %s make it infer, with declarations of its own",
    (entry, source) => {
      installDeclarations(`declaring-${entry}`);
      compile(`declaring-${entry}`, source, {
        skipLibCheck: true,
        lib: ["es2022", "dom", "dom.iterable"],
        module: "esnext",
        moduleResolution: "bundler",
        declaration: true,
        types: [],
      });
    },
  );

  it("a Worker with the server inside may export what it calls, with declarations of its own and those of the package checked", () => {
    installDeclarations("declaring-worker");
    compile(
      "declaring-worker",
      `import { throttr, throttrEdge } from "throttr-edge/worker";
export const { Shard, Hub, Channel, Directory, Throttr } = throttrEdge({ settings: { HUBS_MAX: 4 } });
export const app = throttr({ namespace: "my-app" });
export const gpu = app.semaphore("gpu", 4);
export const views = app.counter("views", { ttlMs: 1 });
export const listed = () => app.list();
export const shown = () => app.batch([["query", "views"], ["get", "page"]]);
`,
      WORKER,
    );
  });

  it("an option of a Worker with the server inside may be undefined, with exactOptionalPropertyTypes", () => {
    compile(
      "exact-worker",
      `import { dashboard } from "throttr-edge/dashboard";
import { routeThrottr, throttr, throttrEdge } from "throttr-edge/worker";
declare const number: number | undefined;
declare const text: string | undefined;
const isOn = number !== undefined;
export const edge = throttrEdge({
  settings: isOn ? { HUBS_MAX: number } : undefined,
  classes: isOn ? { Shard: "ThrottrShard" } : undefined,
});
export const app = throttr({ namespace: text, scopes: isOn ? ["read"] : undefined });
export default {
  fetch: async (request, env, ctx) => {
    const access = isOn ? () => ({ namespace: text }) : undefined;
    const pages = { dashboard: isOn ? dashboard : undefined, docs: undefined };
    const response = await routeThrottr(request, env, ctx, { prefix: text, access, ...pages });
    return response ?? new Response("my application");
  },
} satisfies ExportedHandler;
`,
      { ...WORKER, exactOptionalPropertyTypes: true },
    );
  });

  it("a Worker with the server inside may pass its counter and semaphore to code that names their types by the client", () => {
    installDeclarations("sharing-worker");
    compile(
      "sharing-worker",
      `import type { FlushedCounter, Semaphore } from "throttr-edge/client";
import { throttr } from "throttr-edge/worker";
export const views: FlushedCounter = throttr().counter("views", { ttlMs: 1 });
export const gpu: Semaphore = throttr().semaphore("gpu", 4);
`,
      WORKER,
    );
  });
});
