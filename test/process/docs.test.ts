/**
 * The documents, tried: shell blocks run against a server and print what their comments say, programs run,
 * all code in TypeScript is type-checked, and every error code is in the reference.
 */
import { execFile, execFileSync } from "node:child_process";
import {
  chmodSync,
  globSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { Script } from "node:vm";
import { parse as parseJsonc, type ParseError } from "jsonc-parser";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { experimental_readRawConfig } from "wrangler";
import {
  configWithPorts,
  startServer,
  TCP_PORTS,
  waitUntilReady,
  type Server,
} from "../../scripts/server.ts";
import { codeBlocksOf, type CodeBlock } from "../support/text/markdown-blocks.ts";
import { startBeside, type WorkerBeside } from "../support/process/worker-beside.ts";

const HTTP_PORT = 21_801;
const RECIPE_PORT = 21_830;
const BIN = "node_modules/.bin";
/** The ports that documents name, by those that stand in for them here. */
const tcpPorts = Object.fromEntries(TCP_PORTS.map((port, i) => [port, 21_810 + i]));
const ports: Readonly<Record<number, number>> = { ...tcpPorts, 8787: HTTP_PORT };

const documents = ["README.md", "examples/README.md", ...globSync("docs/*.md").toSorted()];
const blocks = documents.flatMap(codeBlocksOf);
const blocksIn = (...languages: readonly string[]): CodeBlock[] =>
  blocks.filter(({ language }) => languages.includes(language));

const DEPLOYS = "needs an account at Cloudflare; test/process/deploy.test.ts tries what does not";
const SERVES = "installs packages or keeps running; test/process/serve.test.ts runs the command";
const NAMES_ALL = "needs a secret; test/process/namespaces.test.ts runs the commands";
const RUNS_ON = "keeps running; test/process/gateway.test.ts runs the command";
const AS_ROOT = "changes the machine";
const IN_DOCKER = "needs Docker";

const { repository } = JSON.parse(readFileSync("package.json", "utf8")) as {
  repository: { url: string };
};
const home = repository.url.replace(/^git\+|\.git$/g, "");

/** Shell blocks that are not run, and why. */
const NOT_RUN: Readonly<Record<string, string>> = {
  "docs/performance.md: npm run bench -- --quick --parts table,limits,local":
    "takes minutes, and needs the machine for itself",
  [`README.md: git clone ${home}`]:
    "installs packages and keeps running; test/process/{init,examples}.test.ts do the same without a registry",
  "README.md: npx throttr-edge deploy   # or the button above; on Node 20: npm install --save-dev node@24 wrangler@4.155.0 first":
    DEPLOYS,
  "README.md: cd ../throttr-edge && npm start   # the server on loopback, without tokens: http://127.0.0.1:8787/dashboard":
    "keeps running; test/process/start.test.ts runs npm start",
  "README.md: npm test   # installs what is missing; 5 to 15 minutes on two cores":
    "is what runs this test",
  "docs/clients.md: (cd ../throttr-edge && npm ci && npm run build && npm pack)":
    "installs packages; test/process/examples.test.ts does the same without a registry",
  "docs/operations.md: export TOKEN_SECRET=$(openssl rand -base64 48)   # keep it: it signs tokens, and Cloudflare does not show it again":
    DEPLOYS,
  "docs/operations.md: npm run deploy -- --env staging   # with a TOKEN_SECRET of its own": DEPLOYS,
  'docs/operations.md: TOKEN_SECRET="$NEW_SECRET" TOKEN_SECRET_PREVIOUS="$OLD_SECRET" npm run deploy':
    DEPLOYS,
  "docs/operations.md: export THROTTR_TOKEN=…   # of the namespace, with the scope admin and without prefixes; the secret's holder can mint one":
    NAMES_ALL,
  "docs/namespaces.md: export THROTTR_TOKEN=$(TOKEN_SECRET=… npx throttr-edge token --ns '*' --scopes admin)   # for all namespaces":
    NAMES_ALL,
  "docs/namespaces.md: npx throttr-edge export --all-namespaces backup   # backup/shop.jsonl, … with a token for all, scope read (with --leases also admin)":
    NAMES_ALL,
  "docs/embedding.md: npx throttr-edge limits --url http://127.0.0.1:8787/throttr-edge --namespace my-app":
    "names a Worker that has the server inside it; test/process/embedded.test.ts runs the command",
  "docs/embedding.md: export TOKEN_SECRET=$(openssl rand -base64 48)   # keep it: Cloudflare does not show it again":
    DEPLOYS,
  "docs/operations.md: npx throttr-edge clock            # the lag of each shard":
    "names a deployment; test/process/cli.test.ts runs the command",
  "docs/gateway.md: (umask 077; TOKEN_SECRET=… npx throttr-edge token --ns my-app --ttl 365d > gateway-token)":
    RUNS_ON,
  "docs/gateway.md: sudo useradd --system throttr-gateway": AS_ROOT,
  "docs/moving.md: npx throttr-edge export --url https://old.example.com --out backup.jsonl":
    "names two deployments; test/process/transfer.test.ts runs the commands",
  'docs/semaphores.md: curl "$SERVER/v1/semaphores/gpu/leases" -H "Authorization: Bearer $TOKEN" -d \'{"maximum":4,"ttlMs":30000}\'':
    "names a deployment; test/pool/semaphores.test.ts asks the route",
  "examples/README.md: npm ci":
    "installs packages and keeps running; test/process/examples.test.ts runs the examples",
  "examples/README.md: npm ci && npm run build && npm pack --pack-destination examples":
    "installs packages; test/process/examples.test.ts does the same without a registry",
  "docs/self-hosting.md: npm install ./throttr-edge-*.tgz workerd@1.20261023.1 node@24": SERVES,
  'docs/self-hosting.md: npx throttr-edge serve --access open --tcp "9000=7.3, 9020=2"': SERVES,
  'docs/self-hosting.md: npx throttr-edge serve --tcp "9000=7.3/uint16@orders, 9001=7.3/uint64@orders, 9020=2@old" \\':
    SERVES,
  "docs/self-hosting.md: sudo install -d /opt/throttr-edge /etc/throttr-edge": AS_ROOT,
  "docs/self-hosting.md: docker build -t throttr-edge .   # in the checkout": IN_DOCKER,
  "docs/self-hosting.md: docker run -d -p 127.0.0.1:8787:8787 -p 127.0.0.1:9000:9000 -v throttr-data:/data -e TOKEN_SECRET \\":
    IN_DOCKER,
  "docs/self-hosting.md: docker stop throttr": IN_DOCKER,
};

/** Code in TypeScript that is not type-checked, and why. */
const NOT_CHECKED: Readonly<Record<string, string>> = {
  'docs/clients.md: import { Miniflare } from "miniflare";':
    "is for miniflare 4; test/process/package.test.ts runs the form of 5",
  'docs/sdks.md: import { RequestType, Service, TTLType, ValueSize } from "@throttr/sdk";':
    "needs the SDK, which is not in the registry; its own tests were run against the server",
  "docs/recipes.md: // app/root.tsx of React Router 7.9 or newer": "needs React Router",
  "docs/recipes.md: // src/hooks.server.ts of SvelteKit": "needs SvelteKit",
  "docs/recipes.md: // src/middleware.ts of Astro": "needs Astro",
  "docs/recipes.md: // nuxt.config.ts": "needs Nuxt",
  "docs/recipes.md: // server/middleware/limit.ts of Nuxt": "needs Nuxt",
};

/** Languages that nothing here can read. */
const UNREAD = ["", "c", "caddy", "cpp", "ini", "java", "mermaid", "nginx", "sql", "yaml"];

/** What fragments take for granted. */
const GIVEN = `
declare const env: Cloudflare.Env;
declare const html: string;
declare const script: string;
declare const token: string;
declare const userId: string;
declare const scene: unknown;
declare const limiter: import("throttr-edge/ratelimit").RateLimiter;
declare const gpu: import("throttr-edge/client").Semaphore;
declare function render(
  scene: unknown,
  options: { signal: import("throttr-edge/client").Signal },
): Promise<Uint8Array>;
declare function work(): Promise<Response>;
`;

const run = promisify(execFile);
const folder = mkdtempSync(join(tmpdir(), "throttr-docs-"));
/** Within the package, so that its own name is known there. */
const codeFolder = resolve(".wrangler/docs");
const url = `http://127.0.0.1:${HTTP_PORT}`;

let server: Server;

beforeAll(async () => {
  rmSync(codeFolder, { recursive: true, force: true });
  mkdirSync(codeFolder, { recursive: true });
  // As if the package were installed in the folder: npx finds it there, and asks no registry.
  mkdirSync(join(folder, BIN), { recursive: true });
  const command = join(folder, BIN, "throttr-edge");
  writeFileSync(
    command,
    `#!/bin/sh\nexec "${process.execPath}" "${resolve("dist/cli.js")}" "$@"\n`,
  );
  chmodSync(command, 0o755);
  const config = join(folder, "wrangler.toml");
  writeFileSync(config, configWithPorts(tcpPorts));
  const variables = { TOKEN_SECRET: "try-me" };
  // The quick start of docs/self-hosting.md has made it before its first call.
  writeFileSync(join(folder, "token-secret"), `${variables.TOKEN_SECRET}\n`);
  server = startServer({ config, port: HTTP_PORT, persistTo: join(folder, "state"), variables });
  await waitUntilReady(HTTP_PORT, Object.values(tcpPorts));
});

afterAll(async () => {
  await server.kill();
  rmSync(folder, { recursive: true, force: true });
});

const localised = (code: string): string =>
  code.replace(/\b\d{4,5}\b/g, (port) => String(ports[Number(port)] ?? port));

/** No block depends on what another has left. */
async function flush(): Promise<void> {
  const body = JSON.stringify({ namespace: "default" });
  const response = await fetch(`${url}/v1/admin/flush`, { method: "POST", body });
  expect(response.status).toBe(200);
}

/** What the comments of a block say that it prints: a line each, behind `#` or `//` and two spaces. */
function promisedLines(code: string): string[] {
  return [...code.matchAll(/^ *(?:#|\/\/) {2}(\S.*)$/gm)].map(([, line]) => {
    const [bytes] = /^(?:[\da-f]{2} )*[\da-f]{2}(?= {3}|$)/.exec(line!) ?? [];
    return bytes ?? line!;
  });
}

/** Lines are there, in this order, whatever stands between them; `…` is anything. */
function expectPrinted(printed: string, promised: readonly string[]): void {
  const squeezed = (text: string): string => text.trim().replace(/\s+/g, " ");
  // JSON that curl prints has no line end.
  const lines = printed
    .replace(/\}(?=[{#\w])/g, "}\n")
    .split("\n")
    .map(squeezed);
  let at = 0;
  for (const line of promised) {
    const parts = squeezed(line)
      .split("…")
      .map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
    const pattern = new RegExp(`^${parts.join(".*")}$`);
    const found = lines.findIndex((candidate, i) => i >= at && pattern.test(candidate));
    expect(found, `${line}\nis not in\n${printed}`).toBeGreaterThanOrEqual(0);
    at = found + 1;
  }
}

describe("shell blocks", () => {
  // Semaphores of other blocks stay until they are collected, and a Dump shows them: so blocks of raw frames come first.
  const isRaw = ({ code }: { readonly code: string }): number => Number(code.includes("/dev/tcp/"));
  const shell = blocksIn("sh").toSorted((a, b) => isRaw(b) - isRaw(a));

  it("every excluded shell block exists", () => {
    const names = shell.map(({ name }) => name);
    expect(Object.keys(NOT_RUN).filter((name) => !names.includes(name))).toEqual([]);
  });

  it.each(shell.filter(({ name }) => !Object.hasOwn(NOT_RUN, name)))(
    "shell blocks print what they say: $name",
    async ({ code }) => {
      await flush();
      const { stdout } = await run("bash", ["-euc", localised(code)], {
        cwd: folder,
        env: {
          ...process.env,
          PATH: `${folder}/${BIN}:${process.env.PATH}`,
          NPM_CONFIG_UPDATE_NOTIFIER: "false",
          HOME: folder,
          XDG_CONFIG_HOME: folder,
          NO_COLOR: "1",
        },
        timeout: 60_000,
      });
      expectPrinted(stdout, promisedLines(code));
    },
  );
});

describe("code in TypeScript", () => {
  const code = blocksIn("ts");

  it("code in TypeScript compiles", async () => {
    const names = code.map(({ name }) => name);
    expect(Object.keys(NOT_CHECKED).filter((name) => !names.includes(name))).toEqual([]);
    const checked = join(codeFolder, "checked");
    mkdirSync(checked);
    writeFileSync(join(checked, "given.d.ts"), GIVEN);
    code.forEach((block, i) => {
      if (Object.hasOwn(NOT_CHECKED, block.name)) return;
      const isEnvironment = block.code.startsWith("// env.d.ts");
      const name = isEnvironment ? "environment.d.ts" : `block-${i}.ts`;
      const text = isEnvironment || isProgram(block) ? block.code : wrapped(block.code);
      writeFileSync(join(checked, name), `// ${block.name}\n${text}`);
    });
    const config = {
      extends: "../../../tsconfig.examples.json",
      compilerOptions: {
        types: ["@cloudflare/workers-types", "node"],
        noUnusedLocals: false,
        noUnusedParameters: false,
      },
      include: ["."],
    };
    writeFileSync(join(checked, "tsconfig.json"), JSON.stringify(config));
    const compiler = resolve("node_modules/.bin/tsc");
    const { stdout } = await run(compiler, ["-p", checked]).catch(
      (error: { stdout: string }) => error,
    );
    expect(stdout).toBe("");
  });

  const local = code.filter((block) => block.code.includes("//127.0.0.1:8787"));

  it.each(local)("code in TypeScript runs: $name $heading", async (block) => {
    await flush();
    const [, name = "program.ts"] = /^\/\/ (\w+\.mjs)$/m.exec(block.code) ?? [];
    const file = join(codeFolder, name);
    writeFileSync(file, localised(block.code));
    const { stdout } = await run(process.execPath, [file], { timeout: 60_000 });
    const promised = promisedLines(block.code);
    expect(promised.length).toBeGreaterThan(0);
    expectPrinted(stdout, promised);
  });
});

const isProgram = ({ code }: CodeBlock): boolean => /^export (?:default|const) /m.test(code);

/** A fragment as a module: its imports, and a function of the rest, which may await and return. */
function wrapped(code: string): string {
  const imports = [...code.matchAll(/^import [^;]*;\n/gm)].map(([text]) => text);
  const rest = imports.reduce((text, one) => text.replace(one, ""), code);
  return `${imports.join("")}export async function fragment() {\n${rest}\n}\n`;
}

describe("other code", () => {
  it("blocks of code are in known languages", () => {
    const known = ["sh", "ts", "js", "json", "jsonc", "toml", ...UNREAD];
    expect(blocks.filter(({ language }) => !known.includes(language))).toEqual([]);
  });

  it.each(blocksIn("js"))("the block is JavaScript: $name", ({ code }) => {
    expect(() => new Script(code)).not.toThrow();
  });

  it.each(blocksIn("json"))("the block is JSON, whole or one value a line: $name", ({ code }) => {
    const isWhole = /^\s*\{\n/.test(code);
    for (const value of isWhole ? [code] : code.trim().split("\n"))
      expect(() => JSON.parse(value) as unknown).not.toThrow();
  });

  it.each(blocksIn("jsonc"))("the block is JSON with comments: $name", ({ code }) => {
    const errors: ParseError[] = [];
    // A block may be some fields of an object.
    const text = code.trim().startsWith("{") ? code : `{${code}}`;
    parseJsonc(text, errors, { allowTrailingComma: true });
    expect(errors).toEqual([]);
  });

  it.each(blocksIn("toml"))("the block is TOML: $name", ({ code }) => {
    const config = join(folder, "block.toml");
    writeFileSync(config, code);
    expect(experimental_readRawConfig({ config }).rawConfig).not.toEqual({});
  });
});

describe("the plugin of vitest", () => {
  it("the server runs beside a Worker under test with the configuration of docs/clients.md", async () => {
    const project = join(codeFolder, "plugin");
    const [config] = codeBlocksOf("docs/clients.md").filter(({ code }) => {
      return code.startsWith("// vitest.config.ts");
    });
    mkdirSync(join(project, "src"), { recursive: true });
    writeFileSync(join(project, "vitest.config.ts"), config!.code);
    writeFileSync(
      join(project, "wrangler.toml"),
      `name = "my-app"
main = "src/index.ts"
compatibility_date = "2026-10-23"
services = [{ binding = "THROTTR", service = "throttr-edge", entrypoint = "Throttr" }]
`,
    );
    writeFileSync(
      join(project, "src/index.ts"),
      `import { env } from "cloudflare:workers";
export default {
  fetch: async () => new Response(String(await env.THROTTR.increment("views", { ttlMs: 60_000 }))),
};
`,
    );
    writeFileSync(
      join(project, "app.test.ts"),
      `import { env, exports } from "cloudflare:workers";
import { expect, it } from "vitest";
it("the vitest example of docs/clients.md counts", async () => {
  for (const views of ["1", "2"]) {
    expect(await (await exports.default.fetch("https://my-app/")).text()).toBe(views);
  }
  await env.TEST_CLOCK.getByName("").advance(60_000);
  expect(await (await exports.default.fetch("https://my-app/")).text()).toBe("1");
});
`,
    );
    const { stdout } = await run(
      process.execPath,
      [resolve("node_modules/vitest/vitest.mjs"), "run"],
      {
        cwd: project,
        env: { ...process.env, NO_COLOR: "1" },
        timeout: 120_000,
      },
    );
    expect(stdout).toMatch(/Tests +1 passed/);
  });
});

/** A response whose body was read, so that its stream has ended. */
async function drained(asked: Promise<Response>): Promise<Response> {
  const response = await asked;
  await response.text();
  return response;
}

describe("the recipe", () => {
  const recipes = codeBlocksOf("docs/recipes.md");
  const config = recipes.find(({ language }) => language === "toml")!.code;
  let worker: WorkerBeside | undefined;

  async function start(heading: string): Promise<string> {
    const program = recipes.find((block) => block.heading === heading && block.language === "ts")!;
    const project = join(codeFolder, heading.toLowerCase().replaceAll(" ", "-"));
    mkdirSync(join(project, "src"), { recursive: true });
    writeFileSync(join(project, "src/index.ts"), program.code);
    writeFileSync(join(project, "wrangler.toml"), config);
    worker = await startBeside(join(project, "wrangler.toml"), RECIPE_PORT);
    return worker.url;
  }

  afterEach(async () => {
    await worker?.close();
    worker = undefined;
  });

  it.each([
    ["A plain Worker", "/", ""],
    ["itty-router", "/", ""],
    ["h3", "/", ""],
    ["tRPC", "/trpc/hello", "TOO_MANY_REQUESTS"],
  ])("the recipe %s refuses the fourth request, with header fields", async (name, path, code) => {
    const recipe = (await start(name)) + path;
    const ask = async (): Promise<Response> =>
      await fetch(recipe, { headers: { "cf-connecting-ip": `client of ${name}` } });
    for (const left of [2, 1, 0]) {
      const response = await ask();
      expect(response.status).toBe(200);
      expect(await response.text()).toContain("hello");
      expect(response.headers.get("ratelimit")).toMatch(new RegExp(`^"api";r=${left};t=\\d+$`));
    }
    const refused = await ask();
    expect(refused.status).toBe(429);
    expect(refused.headers.get("ratelimit")).toMatch(/^"api";r=0;t=\d+$/);
    expect(Number(refused.headers.get("retry-after"))).toBeGreaterThan(0);
    expect(await refused.text()).toContain(code === "" ? '"code":"rate_limited"' : code);
  });

  it("the recipe Login throttling refuses the sixth guess, and starts again after a login", async () => {
    const recipe = await start("Login throttling");
    const login = async (account: string, password: string): Promise<Response> =>
      await fetch(recipe, { method: "POST", body: new URLSearchParams({ account, password }) });
    for (let guess = 1; guess <= 4; guess++) expect((await login("ada", "x")).status).toBe(401);
    expect(await (await login("Ada", "correct horse")).text()).toBe("welcome");
    for (let guess = 1; guess <= 5; guess++) expect((await login("ada", "x")).status).toBe(401);
    const refused = await login("ada", "correct horse");
    expect(refused.status).toBe(429);
    expect(Number(refused.headers.get("retry-after"))).toBeGreaterThan(60);
    expect((await login("bob", "correct horse")).status).toBe(200);
    expect((await fetch(recipe)).status).toBe(405);
    expect((await login("", "x")).status).toBe(400);
    // The address has made twelve attempts that were counted, of 20.
    const statuses: number[] = [];
    for (let i = 0; i < 12; i++) statuses.push((await login(`c${i}`, "x")).status);
    expect(statuses.slice(0, 8)).toEqual(Array.from({ length: 8 }, () => 401));
    expect(statuses).toContain(429);
  });

  it("the recipe An address as a key limits the addresses of a /64 together", async () => {
    const recipe = await start("An address as a key");
    const ask = async (address: string): Promise<number> =>
      (await drained(fetch(recipe, { headers: { "cf-connecting-ip": address } }))).status;
    const statuses: number[] = [];
    for (const address of [
      "2001:db8:0:1::1",
      "2001:db8:0:1::2",
      "2001:db8::1:2:3:4:5",
      "2001:db8:0:1:ffff::",
    ])
      statuses.push(await ask(address));
    expect(statuses).toEqual([200, 200, 200, 429]);
    for (const address of ["2001:db8:0:2::1", "2001:db8::1", "::1", "192.0.2.1", "192.0.2.2"])
      expect(await ask(address)).toBe(200);
    for (const status of [200, 200, 429]) expect(await ask("192.0.2.1")).toBe(status);
  });

  it("the recipe API quotas by plan counts by key and plan", async () => {
    const recipe = await start("API quotas by plan");
    const ask = async (path: string, key: string): Promise<Response> =>
      await fetch(recipe + path, { headers: { "x-api-key": key } });
    expect((await fetch(`${recipe}/api/time`)).status).toBe(401);
    const first = await ask("/api/time", "free-1");
    expect(first.status).toBe(200);
    expect(first.headers.get("ratelimit-policy")).toContain("q=5;w=60");
    expect((await ask("/api/report", "free-1")).status).toBe(429);
    expect((await ask("/api/report", "free-2")).status).toBe(200);
    const refused = await ask("/api/time", "free-2");
    expect(refused.status).toBe(429);
    expect(Number(refused.headers.get("retry-after"))).toBeGreaterThan(0);
    expect(await (await ask("/api/report", "pro-1")).json()).toEqual({ remaining: 595 });
  });

  it("the recipe A hot API key decides most requests without a call, and refuses those above its limit", async () => {
    const recipe = await start("A hot API key");
    const ask = async (): Promise<{ status: number; isLocal?: boolean }> => {
      const response = await fetch(`${recipe}/api/time`, { headers: { "x-api-key": "hot" } });
      return { isLocal: false, ...((await response.json()) as object), status: response.status };
    };
    const startMs = performance.now();
    const answers: Awaited<ReturnType<typeof ask>>[] = [];
    for (let i = 0; i < 60; i++) answers.push(await ask());
    expect(answers.filter(({ status }) => status !== 200)).toEqual([]);
    expect(answers.filter(({ isLocal }) => isLocal).length).toBeGreaterThan(20);
    while (answers.length < 800) {
      answers.push(...(await Promise.all(Array.from({ length: 25 }, ask))));
    }
    const seconds = (performance.now() - startMs) / 1000;
    const statuses = answers.map(({ status }) => status);
    expect(new Set(statuses)).toEqual(new Set([200, 429]));
    // The bound of the bucket, with units that live for 500 ms.
    const allowed = statuses.filter((status) => status === 200).length;
    expect(allowed).toBeLessThanOrEqual(100 + 20 * (seconds + 0.5));
  });

  it("the recipe Tokens of a language model settles with what was used, and refuses more than the limit has", async () => {
    const recipe = await start("Tokens of a language model");
    const ask = async (user: string): Promise<Response> =>
      await fetch(recipe, {
        method: "POST",
        body: "one two three four",
        headers: { "x-user": user },
      });
    const left = (response: Response): number => Number(response.headers.get("x-tokens-left"));
    const first = await ask("ada");
    // The prompt has 5 tokens, and the answer at most 100.
    expect(left(first)).toBe(395);
    expect(await first.text()).toBe("four    three   two     one     ");
    // The answer had 8: 13 are spent, and 105 reserved anew.
    await expect
      .poll(async () => left(await drained(ask("ada"))), { timeout: 10_000, interval: 500 })
      .toBeGreaterThan(350);
    const many = await Promise.all(Array.from({ length: 6 }, async () => await ask("bob")));
    expect(many.map(({ status }) => status).toSorted((a, b) => a - b)).toEqual([
      200, 200, 200, 200, 429, 429,
    ]);
    const refused = many.find(({ status }) => status === 429)!;
    expect(Number(refused.headers.get("retry-after"))).toBeGreaterThan(10);
    await Promise.all(many.map(async (response) => await response.text()));
    await expect
      .poll(async () => (await drained(ask("bob"))).status, { timeout: 10_000 })
      .toBe(200);
  });

  it("the recipe User, organisation and service names the limit that refuses, and charges none then", async () => {
    const recipe = await start("User, organisation and service");
    const ask = async (user: string): Promise<Response> =>
      await fetch(recipe, { headers: { "x-user": user } });
    expect((await ask("")).status).toBe(401);
    for (const left of [4, 3, 2, 1, 0]) {
      const response = await ask("ada@acme");
      expect(await response.json()).toMatchObject({ left: [left, left + 3, expect.any(Number)] });
    }
    const refused = await ask("ada@acme");
    expect(refused.status).toBe(429);
    expect(Number(refused.headers.get("retry-after"))).toBeGreaterThan(30);
    expect(await refused.json()).toEqual({ error: "the limit of your user is reached" });
    for (const left of [2, 1, 0]) {
      expect(await (await ask("bob@acme")).json()).toMatchObject({
        left: [left + 2, left, expect.any(Number)],
      });
    }
    const full = await ask("bob@acme");
    expect(full.status).toBe(429);
    expect(await full.json()).toEqual({ error: "the limit of your organisation is reached" });
    // Bob was not charged for the refusal of his organisation, and another one has room.
    expect(await (await ask("bob@other")).json()).toMatchObject({
      left: [4, 7, expect.any(Number)],
    });
  });

  it("the recipe Job semaphore runs two jobs at a time, and refuses one that waited too long", async () => {
    const recipe = await start("Job semaphore");
    // Six reports of a second, two at a time, take three seconds at least.
    const startMs = performance.now();
    const answers = await Promise.all(Array.from({ length: 6 }, async () => await fetch(recipe)));
    const statuses = answers.map(({ status }) => status);
    const done = statuses.filter((status) => status === 200).length;
    expect(done).toBeGreaterThanOrEqual(4);
    expect(performance.now() - startMs).toBeGreaterThan(500 * done - 100);
    const busy = await Promise.all(Array.from({ length: 24 }, async () => await fetch(recipe)));
    expect(busy.map(({ status }) => status)).toContain(503);
    expect(busy.map(({ status }) => status)).toContain(200);
  });

  it("the recipe Live cursors shows moves to everybody", async () => {
    const recipe = await start("Live cursors");
    expect(await (await fetch(recipe)).text()).toContain("<title>Cursors</title>");
    const move = async (body: string): Promise<number> =>
      (await fetch(`${recipe}/moves`, { method: "POST", body })).status;
    expect(await move("no JSON")).toBe(400);
    expect(await move('{"who":"<b>","x":1,"y":2}')).toBe(400);
    const events = await fetch(`${recipe}/moves`);
    const reader = events.body!.pipeThrough(new TextDecoderStream()).getReader();
    const who = crypto.randomUUID();
    let seen = "";
    while (!seen.includes("id: ")) seen += (await reader.read()).value!;
    expect(await move(JSON.stringify({ who, x: 1, y: 2, evil: "<script>" }))).toBe(204);
    while (!seen.includes("data: ")) seen += (await reader.read()).value!;
    expect(seen).toContain(`data: {"who":"${who}","x":1,"y":2}\n`);
    await reader.cancel();
  });
});

describe("the page about the command line", () => {
  it("the page about the command line names every command of the help", () => {
    const help = execFileSync(process.execPath, ["dist/cli.js", "--help"], { encoding: "utf8" });
    const commands = [...help.matchAll(/^ {2}([a-z]+) /gm)].map(([, name]) => name!);
    expect(commands.length).toBeGreaterThan(25);
    const page = readFileSync("docs/cli.md", "utf8");
    const unknown = commands.filter((name) => !new RegExp(`\`${name}\\b|${name}\``).test(page));
    expect(unknown.filter((name) => !["help", "repl"].includes(name))).toEqual([]);
  });
});
