/** A browser that looks at the dashboard of a server, as `wrangler dev` serves it. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import type { Browser, BrowserContextOptions, Page } from "playwright-core";
import { launchChromium } from "../../../scripts/chromium.ts";
import {
  configWithPorts,
  dashboardConfig,
  startServer,
  waitUntilReady,
} from "../../../scripts/server.ts";

/** What is seen is kept here, for people to look at. */
const SCREENSHOTS = resolve(".wrangler/screenshots");
/** How long something may take to be seen. */
export const SEEN_TIMEOUT_MS = 30_000;

export interface Dashboard {
  /** Of the server. */
  readonly url: string;
  /** A page of its own, with nothing stored, at a screen of the dashboard or another path. */
  open(options?: BrowserContextOptions, screenOrPath?: string): Promise<OpenPage>;
  /** Sends JSON to the server. */
  send(method: "POST" | "PUT", path: string, body: object): Promise<unknown>;
  /** Ends the server, and leaves the browser. */
  kill(): Promise<void>;
  close(): Promise<void>;
}

export interface OpenPage {
  readonly page: Page;
  /** What the browser has complained of. */
  readonly complaints: readonly string[];
  /** Where the page has sent requests: origins, each once. */
  readonly origins: ReadonlySet<string>;
  /** Keeps a picture of the page as a whole. */
  picture(name: string): Promise<void>;
  close(): Promise<void>;
}

/** A Worker that serves the dashboard below a prefix. */
interface Embedding {
  readonly config: string;
  readonly prefix: string;
}

/** @param embedding missing: the server by itself */
export async function startDashboard(
  port: number,
  variables: Readonly<Record<string, string>> = {},
  embedding: Embedding | null = null,
): Promise<Dashboard> {
  const folder = mkdtempSync(join(tmpdir(), "throttr-dashboard-"));
  const config = embedding?.config ?? join(folder, "wrangler.toml");
  if (embedding === null) {
    writeFileSync(config, `${configWithPorts({})}\n${dashboardConfig()}`);
  }
  const server = startServer({ config, port, persistTo: join(folder, "state"), variables });
  try {
    await waitUntilReady(port, []);
  } catch (error) {
    await server.kill();
    throw error;
  }
  const browser = await launchChromium();
  const url = `http://127.0.0.1:${port}${embedding?.prefix ?? ""}`;
  return {
    url,
    open: async (options, place = "overview") =>
      await openPage(
        browser,
        url + (place.startsWith("/") ? place : `/dashboard#${place}`),
        options,
      ),
    send: async (method, path, body) => {
      const answer = await fetch(url + path, requestOf(method, body));
      if (!answer.ok) throw new Error(`${method} ${path}: ${await answer.text()}`);
      return answer.status === 200 ? await answer.json() : await answer.text();
    },
    kill: async () => await server.kill(),
    close: async () => {
      await browser.close();
      await server.kill();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

const requestOf = (method: "POST" | "PUT", body: object): RequestInit => ({
  method,
  body: JSON.stringify(body),
});

async function openPage(
  browser: Browser,
  url: string,
  options?: BrowserContextOptions,
): Promise<OpenPage> {
  const context = await browser.newContext({ locale: "en", ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(SEEN_TIMEOUT_MS);
  const complaints: string[] = [];
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type())) complaints.push(message.text());
  });
  page.on("pageerror", (error) => complaints.push(String(error)));
  const origins = new Set<string>();
  // Of the whole context: workers and pages that it opens are asked for here, too.
  context.on("request", (request) => origins.add(new URL(request.url()).origin));
  await page.goto(url);
  return {
    page,
    complaints,
    origins,
    picture: async (name) => {
      mkdirSync(SCREENSHOTS, { recursive: true });
      await page.screenshot({ path: join(SCREENSHOTS, `${name}.png`), fullPage: true });
    },
    close: async () => await context.close(),
  };
}
