/**
 * Takes the pictures of `docs/dashboard.md`: starts a server with sample data and some load, opens the screens in
 * Chromium, and writes PNG files into `docs/images`.
 *
 * They have a palette of 256 colours: a third of the bytes, and no difference that can be seen.
 */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Browser, Page } from "playwright-core";
import { http, ThrottrClient, webSocket, type LimitStrategy } from "../src/client/index.ts";
import { RateLimiter, tokenBucket } from "../src/ratelimit/index.ts";
import { launchChromium } from "./chromium.ts";
import { PICTURES_FOLDER, take } from "./page-picture.ts";
import { configWithPorts, dashboardConfig, startServer, waitUntilReady } from "./server.ts";

const PORT = 18_890;
const URL = `http://127.0.0.1:${PORT}`;
const WIDE = { width: 1200, height: 760 };
const NARROW = { width: 400, height: 800 };
const HOUR_MS = 3_600_000;
/** For screens of more parts. */
const HIGH = { width: 1200, height: 1085 };
/** How long screens with charts are open before their pictures are taken: charts of a new server begin empty. */
const CHART_MS = Number(process.env.CHART_MS ?? 170_000);

interface Picture {
  readonly name: string;
  /** Path and hash. */
  readonly place: string;
  readonly colorScheme?: "light" | "dark";
  readonly viewport?: { readonly width: number; readonly height: number };
  /** Brings the page to what is to be seen. */
  readonly show?: (page: Page) => Promise<void>;
}

const button = (page: Page, name: string): ReturnType<Page["getByRole"]> =>
  page.getByRole("button", { name, exact: true });

const PICTURES: readonly Picture[] = [
  { name: "records", place: "/dashboard#records" },
  { name: "limit", place: "/dashboard#records?record=api%3auser%3a7", colorScheme: "dark" },
  {
    name: "channels",
    place: "/dashboard#channels?channel=news",
    show: async (page) => {
      await page.locator(".messages li").nth(3).waitFor();
      await page.evaluate(() => scrollTo(0, 0));
    },
  },
  {
    name: "connections",
    place: "/dashboard#connections",
    show: async (page) => await page.locator("tr.opens .link").first().click(),
  },
  {
    name: "semaphores",
    place: "/dashboard#semaphores?semaphore=gpu",
    colorScheme: "dark",
    show: async (page) => await button(page, "Release").first().waitFor(),
  },
  {
    name: "limiter",
    place: "/dashboard#limiter?name=api",
    show: async (page) => {
      await page.getByLabel("Burst").fill("3");
      await page.getByLabel("Rate per second").fill("0.05");
      for (const results of [0, 1, 2, 3]) {
        await button(page, "Check").click();
        if (results > 0)
          await page
            .locator(".history li")
            .nth(results - 1)
            .waitFor();
        else await page.locator(".answer-head").waitFor();
      }
    },
  },
  {
    name: "narrow",
    place: "/dashboard#records?kind=limit",
    viewport: NARROW,
    colorScheme: "dark",
  },
  {
    name: "docs",
    place: "/docs#tag/limits/limit",
    show: async (page) => await page.locator('[id$="tag/limits/limit"]').waitFor(),
  },
];

/** Screens with charts, which are open all the time. */
const CHARTS: readonly Picture[] = [
  { name: "overview", place: "/dashboard#overview?range=live" },
  { name: "overview-dark", place: "/dashboard#overview?range=live", colorScheme: "dark" },
  { name: "limits", place: "/dashboard#limits?range=live", viewport: HIGH },
  {
    name: "limits-dark",
    place: "/dashboard#limits?range=live",
    viewport: HIGH,
    colorScheme: "dark",
  },
  { name: "limit-keys", place: "/dashboard#limits?limit=login&range=live", viewport: HIGH },
];

async function main(): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "throttr-pictures-"));
  const config = join(folder, "wrangler.toml");
  writeFileSync(config, `${configWithPorts({})}\n${dashboardConfig()}`);
  mkdirSync(PICTURES_FOLDER, { recursive: true });
  const server = startServer({ config, port: PORT, persistTo: join(folder, "state") });
  try {
    await waitUntilReady(PORT, []);
    const stop = await putSampleData();
    const browser = await launchChromium();
    const charts = await Promise.all(CHARTS.map(async (picture) => await open(browser, picture)));
    const openedAtMs = Date.now();
    for (const picture of PICTURES) {
      const page = await open(browser, picture);
      await take(page, picture.name);
      await page.context().close();
    }
    await new Promise((resolve) => setTimeout(resolve, openedAtMs + CHART_MS - Date.now()));
    for (const [i, { name }] of CHARTS.entries()) await take(charts[i]!, name);
    await browser.close();
    await stop();
  } finally {
    await server.kill();
    rmSync(folder, { recursive: true, force: true });
  }
}

async function open(
  browser: Browser,
  { place, colorScheme = "light", viewport = WIDE, show }: Picture,
): Promise<Page> {
  const context = await browser.newContext({
    locale: "en",
    viewport,
    colorScheme,
    reducedMotion: "reduce",
  });
  const page = await context.newPage();
  await page.goto(URL + place);
  await show?.(page);
  return page;
}

/** Creates records, limits, holders and connections, and steady load. @returns a function that ends all of it */
async function putSampleData(): Promise<() => Promise<void>> {
  const throttr = new ThrottrClient(http(URL));
  const sockets = [1, 2, 3].map(() => new ThrottrClient(webSocket(URL)));
  const { strategy } = LIMITERS.api;
  const daily = {
    strategy: "fixed_window",
    quotas: [{ name: "day", limit: 1000, windowMs: 24 * HOUR_MS }],
  } as const;
  for (let i = 1; i <= 24; i++) {
    await throttr.insert(`views:page-${i}`, { quota: BigInt(i * i * 37), ttlMs: i * HOUR_MS });
    await throttr.limit({ name: "api", key: `user:${i}`, strategy, cost: (i % 12) + 1 });
  }
  await throttr.limit({ name: "mails", key: "ada", strategy: daily, cost: 12 });
  await throttr.set("session:ada", '{"user":"ada","role":"admin"}', { ttlMs: HOUR_MS });
  await throttr.set("flags", '{"beta":true,"theme":"dark"}', { ttlMs: 24 * HOUR_MS });
  for (const [name, resources, maximum] of [
    ["gpu", 3, 8],
    ["gpu", 2, 8],
    ["builds", 1, 4],
  ] as const) {
    await throttr.acquire(name, { resources, maximum, ttlMs: HOUR_MS });
  }
  const listening = sockets.map(async (socket, i) => {
    for await (const _ of socket.subscribe(["news", "orders", "prices"][i]!));
  });
  const assets = new RateLimiter({
    throttr,
    name: "assets",
    strategy: tokenBucket({ burst: 60, rate: 25 }),
    local: true,
  });
  let round = 0;
  const timer = setInterval(() => {
    round++;
    const wave = 1 + Math.sin(round / 60);
    const calls: Promise<unknown>[] = [];
    for (let i = 0; i < 3 + wave * 4; i++) {
      calls.push(throttr.increment(`views:page-${(i % 24) + 1}`, { ttlMs: HOUR_MS }));
    }
    calls.push(...limited(throttr, round));
    for (let i = 0; i < wave; i++) calls.push(assets.limit("tenant:acme"));
    calls.push(throttr.get("session:ada"), sockets[round % 3]!.get("flags"));
    if (round % 5 === 0) calls.push(throttr.publish("news", `{"story":${round}}`));
    // The server ends before the load does.
    void Promise.allSettled(calls);
  }, 100);
  return async () => {
    clearInterval(timer);
    await Promise.all([throttr, ...sockets].map(async (client) => await client.close()));
    await Promise.allSettled(listening);
  };
}

/** Limiters of an application, with their callers: calls of each a second on average, which rise and fall over minutes. */
const LIMITERS = {
  api: {
    strategy: { strategy: "token_bucket", burst: 20, rate: 2 },
    callers: [
      ...Array.from({ length: 24 }, (_, i) => [`user:${i + 1}`, 0.8] as const),
      ["user:7", 6],
      ["user:19", 3],
    ],
  },
  search: {
    strategy: { strategy: "gcra", burst: 10, rate: 4 },
    callers: [
      ["anonymous", 5],
      ["user:3", 2],
      ["user:11", 1.5],
    ],
  },
  login: {
    strategy: { strategy: "sliding_window", limit: 5, windowMs: 60_000 },
    callers: [
      ["203.0.113.7", 3],
      ["203.0.113.9", 1.2],
      ["198.51.100.24", 0.3],
      ["198.51.100.80", 0.05],
      ["192.0.2.41", 0.04],
    ],
  },
  uploads: {
    strategy: {
      strategy: "composite",
      primary: {
        strategy: "fixed_window",
        quotas: [{ name: "day", limit: 10_000, windowMs: 24 * HOUR_MS }],
      },
      secondary: { strategy: "token_bucket", burst: 30, rate: 10 },
    },
    callers: [
      ["team:blue", 2.5],
      ["team:red", 1],
    ],
  },
  webhooks: {
    strategy: { strategy: "leaky_bucket", burst: 5, rate: 1 },
    callers: [["shop.example", 1.4]],
  },
} as const satisfies Record<
  string,
  { strategy: LimitStrategy; callers: readonly (readonly [key: string, perSecond: number])[] }
>;

/** Calls that are due, by limiter and key: a part of one is due in a later round. */
const due = new Map<string, number>();

/** The calls of a tenth of a second. */
function limited(throttr: ThrottrClient, round: number): Promise<unknown>[] {
  const wave = 1 + 0.4 * Math.sin(round / 300);
  return Object.entries(LIMITERS).flatMap(([name, { strategy, callers }]) =>
    callers.flatMap(([key, perSecond]) => {
      const id = `${name}:${key}`;
      const calls = (due.get(id) ?? Math.random()) + (perSecond * wave) / 10;
      due.set(id, calls % 1);
      return Array.from({ length: Math.floor(calls) }, () =>
        throttr.limit({ name, key, strategy }),
      );
    }),
  );
}

await main();
