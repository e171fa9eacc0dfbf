/** What is deployed stays small: start-up time and the platform's limit depend on it. */
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { gzipSync } from "node:zlib";
import { describe, expect, it } from "vitest";

const KIBIBYTE = 1024;
const GZIP_BYTES_MAX = 180 * KIBIBYTE;

/** Bundles a Worker as it would be deployed; returns the size of its script, compressed. */
function gzipBytesOf(...args: string[]): number {
  const folder = mkdtempSync(join(tmpdir(), "throttr-edge-"));
  try {
    const wrangler = "node_modules/wrangler/bin/wrangler.js";
    const env = { ...process.env, WRANGLER_SEND_METRICS: "false" };
    const run = [wrangler, "deploy", "--dry-run", `--outdir=${folder}`, ...args];
    execFileSync(process.execPath, run, { env, stdio: "pipe" });
    const script = readdirSync(folder).find((name) => name.endsWith(".js"))!;
    return gzipSync(readFileSync(join(folder, script))).length;
  } finally {
    rmSync(folder, { recursive: true });
  }
}

it(`the Worker has at most ${GZIP_BYTES_MAX} bytes, compressed`, () => {
  expect(gzipBytesOf()).toBeLessThan(GZIP_BYTES_MAX);
});

const THROTTR = `import { throttr } from "throttr-edge/worker";
const app = throttr({ namespace: "app" });
const count = async () => new Response(String(await app.increment("views", { ttlMs: 60_000 })));
`;
const ROUTED = `import { connectThrottr, routeThrottr } from "throttr-edge/worker";
export { Channel, Directory, Hub, Shard, Throttr } from "throttr-edge/worker";
${THROTTR}`;

/** Workers with parts of the server, and the limit of each in KiB: docs/embedding.md has the sizes. */
const WORKERS = [
  [
    "counters and limits",
    116,
    `export { Shard } from "throttr-edge/worker";
${THROTTR}
export default { fetch: count };`,
  ],
  [
    "all objects",
    138,
    `export { Channel, Directory, Hub, Shard } from "throttr-edge/worker";
${THROTTR}
export default { fetch: count };`,
  ],
  [
    "the doors",
    199,
    `${ROUTED}
export default {
  fetch: async (request, env, ctx) => (await routeThrottr(request, env, ctx)) ?? (await count()),
  connect: connectThrottr,
};`,
  ],
  [
    "the doors and the dashboard",
    288,
    `${ROUTED}
import { dashboard } from "throttr-edge/dashboard";
export default {
  fetch: async (request, env, ctx) =>
    (await routeThrottr(request, env, ctx, { dashboard })) ?? (await count()),
  connect: connectThrottr,
};`,
  ],
] as const;

describe("a Worker with the server inside it bundles what it imports and no more", () => {
  it.each(WORKERS)("with %s it has at most %i KiB, compressed", (name, kibibytesMax, source) => {
    const folder = resolve(".wrangler/bundles", name.replaceAll(" ", "-"));
    mkdirSync(folder, { recursive: true });
    writeFileSync(join(folder, "index.js"), source);
    const config = join(folder, "wrangler.json");
    const settings = { name: "bundle", main: "index.js", compatibility_date: "2026-10-23" };
    writeFileSync(config, JSON.stringify(settings));
    const kibibytes = gzipBytesOf(`--config=${config}`, "--minify") / KIBIBYTE;
    expect(kibibytes).toBeLessThan(kibibytesMax);
    // A limit far above the size would not see a part that comes back into the bundle.
    expect(kibibytes).toBeGreaterThan(kibibytesMax * 0.85);
  });
});
