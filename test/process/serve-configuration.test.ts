/** The configuration that `throttr-edge serve` writes, as workerd reads it. */
import { spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, it } from "vitest";
import { assetsIn } from "../../src/cli/serve/assets.ts";
import { CONFIGURATION_NAME, configurationText } from "../../src/cli/serve/configuration.ts";
import { WORKER_FILE } from "../../src/cli/package-folder.ts";
import { findWorkerd } from "../../src/cli/serve/workerd.ts";
import { health } from "../../src/cli/serve/health.ts";
import { killIfThere } from "../support/process/self-hosted.ts";

const folder = mkdtempSync(join(tmpdir(), "throttr-serve-"));
const text = String.raw`a"),\x ` + "\n\t\u0001ä€\u{1f600}'";
const port = 21_630;
const url = `http://127.0.0.1:${port}`;
const runtime = join(folder, 'a "quoted" folder');
const files = join(runtime, "site");
let ended: Promise<unknown>;
let pid: number;

beforeAll(async () => {
  mkdirSync(join(files, "panel"), { recursive: true });
  mkdirSync(join(runtime, "objects"), { recursive: true });
  writeFileSync(join(files, "panel/index.html"), "<p>panel</p>");
  writeFileSync(join(files, "panel/a.bin"), Uint8Array.of(0, 255, 10, 34));
  writeFileSync(
    join(files, "_headers"),
    "/panel*\n  Content-Security-Policy: default-src 'none'\n",
  );
  const assets = assetsIn(files);
  // In place of the Worker one that shows what it was given.
  writeFileSync(
    join(runtime, WORKER_FILE),
    `import { DurableObject } from "cloudflare:workers";
     export class Shard extends DurableObject {
       count() { return this.ctx.storage.sql.exec("select 1 as one").one().one; }
     }
     export class Hub extends DurableObject {}
     export class Channel extends DurableObject {}
     export class Directory extends DurableObject {}
     export default { async fetch({ url }, { TEXT, SECRET, SHARD }) {
       const outside = await fetch(url).then(() => "reached", () => "refused");
       return Response.json({ TEXT, SECRET, one: await SHARD.getByName("a").count(), outside });
     } };`,
  );
  const configuration = configurationText({
    http: [{ host: "127.0.0.1", port }],
    tcpHost: "127.0.0.1",
    tcp: [],
    variables: { TEXT: text },
    secretNames: ["SECRET"],
    isBehindProxy: false,
    objectsFolder: join(runtime, "objects"),
    packageFolder: runtime,
    assets,
  });
  writeFileSync(join(runtime, "config.capnp"), configuration);
  const child = spawn(
    findWorkerd(undefined),
    ["serve", join(runtime, "config.capnp"), CONFIGURATION_NAME, `--import-path=${runtime}`],
    { env: { SECRET: text }, stdio: ["ignore", "inherit", "ignore"] },
  );
  pid = child.pid!;
  ended = new Promise((resolve) => child.once("exit", resolve));
  const deadlineMs = performance.now() + 20_000;
  while ((await health(url, AbortSignal.timeout(1000))) !== null) {
    if (performance.now() > deadlineMs) throw new Error("workerd does not get ready");
    await sleep(50);
  }
});
afterAll(async () => {
  killIfThere(pid);
  await ended;
  rmSync(folder, { recursive: true, force: true });
});

it("the configuration gives variables and secrets unchanged, SQLite, and no access to the network", async () => {
  expect(await (await fetch(url)).json()).toEqual({
    TEXT: text,
    SECRET: text,
    one: 1,
    outside: "refused",
  });
});

it("assets are served as the platform does, and other paths go to the Worker", async () => {
  const page = await fetch(`${url}/panel?a=1`);
  expect([page.status, await page.text()]).toEqual([200, "<p>panel</p>"]);
  expect(page.headers.get("content-type")).toBe("text/html; charset=utf-8");
  expect(page.headers.get("content-security-policy")).toBe("default-src 'none'");
  const bytes = await (await fetch(`${url}/panel/a.bin`)).arrayBuffer();
  expect([...new Uint8Array(bytes)]).toEqual([0, 255, 10, 34]);
  const detour = await fetch(`${url}/panel/index.html?a=1`, { redirect: "manual" });
  expect([detour.status, detour.headers.get("location")]).toEqual([307, "/panel?a=1"]);
  const etag = page.headers.get("etag")!;
  const again = await fetch(`${url}/panel`, { headers: { "if-none-match": `W/${etag}, "b"` } });
  expect(again.status).toBe(304);
  const head = await fetch(`${url}/panel`, { method: "HEAD" });
  expect([head.status, await head.text()]).toEqual([200, ""]);
  for (const path of ["/panel/none", "/_headers", "/panel/..%2f_headers", "/panel"]) {
    const method = path === "/panel" ? "POST" : "GET";
    expect(await (await fetch(`${url}${path}`, { method })).json()).toHaveProperty("TEXT");
  }
});
