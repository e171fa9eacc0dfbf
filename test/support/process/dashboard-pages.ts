/** What tests of the dashboard's pages share: opening them, finding their parts, and waiting for what they show. */
import { execFileSync } from "node:child_process";
import type { Locator, Page, Request } from "playwright-core";
import { expect } from "vitest";
import { CHROMIUM } from "../../../scripts/chromium.ts";
import { SEEN_TIMEOUT_MS, type Dashboard, type OpenPage } from "./dashboard-browser.ts";

/** Of a server and a browser. */
export const START_TIMEOUT_MS = 90_000;
export const TOKEN_SECRET = "secret-of-the-test";
export const ALL_SCOPES = "read,write,publish,subscribe,admin";

/** The screens of the dashboard, by the names that addresses and headings have. */
export const SCREENS = [
  "overview",
  "shards",
  "limits",
  "records",
  "channels",
  "connections",
  "semaphores",
  "limiter",
];

/** Whether there is no browser to look with. */
const IS_BLIND = CHROMIUM === undefined;
if (IS_BLIND) {
  console.log("SKIPPED: the dashboard is not looked at: no Chromium here; CHROMIUM=… names one");
}

/**
 * Of all tests with a browser: they are skipped without one, and tried once more where they fail. On a busy machine a browser takes
 * seconds for what takes it milliseconds otherwise, and a key may be pressed before the page can hear it. A page that is wrong
 * fails both times.
 */
export const IN_BROWSER = { skip: IS_BLIND, retry: 1 };

/** The pages that one test has opened. */
export class Pages {
  #opened: OpenPage[] = [];

  async open(dashboard: Dashboard, ...args: Parameters<Dashboard["open"]>): Promise<Page> {
    const page = await dashboard.open(...args);
    this.#opened.push(page);
    return page.page;
  }

  /** Keeps a picture of the page that was opened first. */
  async picture(name: string): Promise<void> {
    await this.#opened[0]!.picture(name);
  }

  /** Where the pages have sent requests. */
  get origins(): readonly string[] {
    return this.#opened.flatMap((page) => [...page.origins]);
  }

  /**
   * Closes all pages.
   *
   * @param expected complaints that tests provoke
   * @throws Error for other complaints of the browser
   */
  async close(expected: RegExp): Promise<void> {
    const complaints = this.#opened
      .flatMap((page) => page.complaints)
      .filter((complaint) => !expected.test(complaint));
    for (const page of this.#opened) await page.close();
    this.#opened = [];
    if (complaints.length > 0) throw new Error(`the browser complains: ${complaints.join("; ")}`);
  }
}

/** Waits until something is seen that matches. */
export const see = async (where: Page | Locator, text: string | RegExp): Promise<void> =>
  await where.getByText(text).first().waitFor();

/** For what becomes true within a while. */
export const PATIENT = { timeout: SEEN_TIMEOUT_MS };

/** Expects something of what a page shows, and reads it until it holds: a page is drawn in steps. */
export function eventually<T>(read: () => T | Promise<T>): ReturnType<typeof expect.poll<T>> {
  return expect.poll(read, PATIENT);
}

/** Waits until nothing of that is there any more. */
export const gone = async (what: Locator): Promise<void> =>
  await eventually(async () => await what.count()).toBe(0);

/** Requests of a page for its rights in a namespace, which are held back. */
export interface HeldAccess {
  /** Resolves when the page has sent one. */
  readonly asked: Promise<void>;
  /** Answers them, or lets them fail, and waits until the page has seen that. */
  readonly settle: (isAnswered: boolean) => Promise<void>;
}

/** From now on the server seems to be slow to say what the page may do in a namespace. */
export async function holdAccess(page: Page, namespace: string): Promise<HeldAccess> {
  const asked = Promise.withResolvers<void>();
  const fate = Promise.withResolvers<boolean>();
  const isOfNamespace = (request: Request): boolean =>
    request.url().endsWith("/v1/access") &&
    new RegExp(`[.~]${namespace}$`).test(request.headers().authorization ?? "");
  await page.route("**/v1/access", async (route) => {
    if (!isOfNamespace(route.request())) return await route.fallback();
    asked.resolve();
    if (await fate.promise) await route.fallback();
    else await route.abort("connectionrefused");
  });
  return {
    asked: asked.promise,
    settle: async (isAnswered) => {
      const settled = isAnswered
        ? page.waitForEvent("requestfinished", isOfNamespace)
        : page.waitForEvent("requestfailed", isOfNamespace);
      fate.resolve(isAnswered);
      await settled;
      // Time for what must not happen.
      await page.waitForTimeout(300);
    },
  };
}

/** The figure of a tile. */
export const tileOf = (page: Page, name: string): Locator =>
  page.locator(".tile", { hasText: name }).locator(".tile-figure");

export const dialogOf = (page: Page): Locator => page.locator("dialog[open]").last();

export const button = (where: Page | Locator, name: string | RegExp): Locator =>
  where.getByRole("button", { name, exact: typeof name === "string" });

/** A row of a table by what its first column says. */
export const row = (page: Page | Locator, name: string): Locator =>
  page.getByRole("row").filter({ has: button(page as Page, name) });

/** A token with some scopes, of the namespace `my-app` unless another is given. */
export function tokenOf(scopes: string, ttlSeconds = 3600, namespace = "my-app"): string {
  const args = ["--ns", namespace, "--scopes", scopes, `--ttl=${ttlSeconds}s`];
  return execFileSync(process.execPath, ["src/cli/main.ts", "token", ...args], {
    env: { ...process.env, TOKEN_SECRET },
    encoding: "utf8",
    // It says when the token expires.
    stdio: ["ignore", "pipe", "ignore"],
  }).trim();
}

/** Nothing sticks out to the side, is cut off or squeezed to a column of letters, and what can be used has a name. */
export async function expectWhole(page: Page, width: number): Promise<void> {
  const found = await page.evaluate(() => {
    const all = (selector: string, isFound: (element: HTMLElement) => boolean): string[] =>
      [...document.querySelectorAll<HTMLElement>(selector)]
        .filter(isFound)
        .map(({ outerHTML }) => outerHTML.slice(0, 100));
    return {
      width: document.documentElement.scrollWidth,
      outside: all(
        "dialog[open], main, .card, .tile, button, input, select, .button",
        (element) => element.getBoundingClientRect().right > innerWidth + 0.5,
      ),
      cut: all("nav a span, .tile-figure, .button span", (element) => {
        return element.scrollWidth > element.clientWidth + 1 && element.clientWidth > 0;
      }),
      squeezed: all("h1, h2, h3, .label, .badge, .hint, .sort, .aside", (element) => {
        const { width, height } = element.getBoundingClientRect();
        return width > 1 && height > 90 && height > width * 2;
      }),
      nameless: all("a, button, input, select, textarea", (element) => {
        const label = (element as HTMLInputElement).labels?.[0]?.textContent ?? "";
        return `${element.ariaLabel ?? ""}${element.textContent}${label}`.trim() === "";
      }),
    };
  });
  expect(found).toEqual({ width, outside: [], cut: [], squeezed: [], nameless: [] });
}
