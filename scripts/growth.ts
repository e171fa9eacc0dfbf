/** `npm run growth`: one namespace grows from one shard to many by itself, under constant writes over TCP, HTTP and the client. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { parseSettings } from "../src/base/settings.ts";
import type { Shards } from "../src/wire/shards.ts";
import { launchChromium } from "./chromium.ts";
import { grow } from "./growth/grow.ts";
import { take } from "./page-picture.ts";
import { configWithPorts, dashboardConfig, startServer, waitUntilReady } from "./server.ts";

const HTTP_PORT = 18_880;
const TCP_PORT = 18_881;
const SHARDS_DEFAULT = "64";
/** As many as a namespace may have by default. */
const { SHARDS_MAX } = parseSettings({});
const USAGE = `npm run growth -- [--shards <number>] [--picture]

  --shards <number>  number of shards to grow to, up to ${SHARDS_MAX} (default: ${SHARDS_DEFAULT})
  --picture          writes docs/images/shards.png: the circle of hashes while it grows
  --help             prints this`;
/** The least that a shard may have, so that little data makes many shards. */
const VARIABLES = { SHARDS: "1", SHARD_BYTES_MAX: String(1 << 20) };
const VIEWPORT = { width: 1200, height: 760 };
/** Of all shards, at which share the picture is taken at the earliest, as soon as one is seen to split. */
const PICTURE_SHARE = 0.25;
const LOAD_TIMEOUT_MS = 60_000;

const { shards, hasPicture } = argumentsOrExit();
const folder = mkdtempSync(join(tmpdir(), "throttr-growth-"));
const config = join(folder, "wrangler.toml");
writeFileSync(config, `${configWithPorts({ 9000: TCP_PORT })}\n${dashboardConfig()}`);
const server = startServer({
  config,
  port: HTTP_PORT,
  persistTo: join(folder, "state"),
  variables: VARIABLES,
});
process.on("exit", () => server.killNow());
try {
  const url = `http://127.0.0.1:${HTTP_PORT}`;
  await waitUntilReady(HTTP_PORT, [TCP_PORT]);
  let last = 0;
  const pictures: Promise<void>[] = [];
  const onShards = (rows: Shards["shards"]): void => {
    if (rows.length > last) process.stderr.write(`${rows.length} shards\n`);
    last = Math.max(last, rows.length);
    const isGood = rows.length >= shards * PICTURE_SHARE;
    if (hasPicture && isGood && pictures.length === 0) pictures.push(takeRing(url));
  };
  const growth = await grow({ url, tcpPort: TCP_PORT, shards, onShards });
  await Promise.all(pictures);
  const { written, listed, tookMs } = growth;
  for (const [door, { keys, longestMs }] of Object.entries(written)) {
    console.log(`${door}: ${keys.length} keys, the longest write took ${longestMs.toFixed(0)} ms`);
  }
  console.log(
    `${growth.shards.length} shards after ${(tookMs / 1000).toFixed(1)} s; LIST has all ${listed} keys, and no write failed`,
  );
} finally {
  await server.kill();
  rmSync(folder, { recursive: true, force: true });
}

interface Arguments {
  readonly shards: number;
  readonly hasPicture: boolean;
}

/** The flags; ends the process with how to use them where they are wrong, or where that is asked for. */
function argumentsOrExit(): Arguments {
  try {
    const { values } = parseArgs({
      options: {
        shards: { type: "string", default: SHARDS_DEFAULT },
        picture: { type: "boolean", default: false },
        help: { type: "boolean", short: "h" },
      },
    });
    if (values.help === true) {
      console.log(USAGE);
      return process.exit(0);
    }
    const shards = /^\d+$/.test(values.shards) ? Number(values.shards) : NaN;
    if (shards >= 1 && shards <= SHARDS_MAX) return { shards, hasPicture: values.picture };
    throw new Error(
      `--shards: expected a whole number from 1 to ${SHARDS_MAX}, got ${values.shards}`,
    );
  } catch (error) {
    console.error(`${(error as Error).message}\n\n${USAGE}`);
    return process.exit(2);
  }
}

/** Looks at the circle of hashes again and again, until a shard of it splits. */
async function takeRing(url: string): Promise<void> {
  const browser = await launchChromium();
  const context = await browser.newContext({
    locale: "en",
    viewport: VIEWPORT,
    reducedMotion: "reduce",
  });
  const page = await context.newPage();
  const circle = page.locator(".card", { hasText: "Circle of hashes" }).first();
  do {
    await page.goto("about:blank");
    await page.goto(`${url}/dashboard#shards`);
    await circle.locator("svg").first().waitFor({ timeout: LOAD_TIMEOUT_MS });
  } while (!(await circle.innerText()).includes("splitting"));
  await take(page, "shards");
  await browser.close();
}
