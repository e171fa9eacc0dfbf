/** The API reference in a browser, and the size of the pages. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import type { Locator, Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { startDashboard, type Dashboard } from "../support/process/dashboard-browser.ts";
import {
  button,
  eventually,
  IN_BROWSER,
  Pages,
  see,
  START_TIMEOUT_MS,
  TOKEN_SECRET,
  tokenOf,
} from "../support/process/dashboard-pages.ts";

const PORT = 18_852;
const ASSETS = ".wrangler/assets";
/** All files of the dashboard, and of the API reference, compressed. */
const GZIP_BYTES_MAX = { dashboard: 95_000, docs: 1_350_000 };

let dashboard: Dashboard;
const pages = new Pages();

const open = async (...args: Parameters<Dashboard["open"]>): Promise<Page> =>
  await pages.open(dashboard, ...args);

/** The part of the API reference about one operation. */
const operation = (page: Page, id: string): Locator => page.locator(`[id$="/${id}"]`);

describe("the API reference", IN_BROWSER, () => {
  beforeAll(async () => {
    dashboard = await startDashboard(PORT, { ACCESS: "token", TOKEN_SECRET });
  }, START_TIMEOUT_MS);

  afterEach(async () => {
    // It asks nothing of anyone but its server, whatever a test has done; a refused request would be a complaint.
    const foreign = pages.origins.filter((origin) => origin !== dashboard.url);
    // The dashboard tries to open without a token, and then asks for one.
    await pages.close(/status of 401/);
    if (foreign.length > 0) throw new Error(`the page asks ${foreign.join(", ")}`);
  });

  afterAll(async () => await dashboard.close());

  it.each(["light", "dark"] as const)(
    "the API reference shows its operations on every screen size, %s",
    async (colorScheme) => {
      const page = await open({ colorScheme }, "/docs#tag/counters/incrementCounter");
      await operation(page, "incrementCounter").waitFor();
      for (const width of [1280, 400, 320]) {
        await page.setViewportSize({ width, height: 900 });
        await eventually(
          async () => await page.evaluate(() => document.documentElement.scrollWidth),
        ).toBe(width);
        await pages.picture(`docs-${width}-${colorScheme}`);
      }
      await eventually(async () => await page.getByRole("main").count()).toBe(1);
      const ground = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
      expect(Number(/\d+/.exec(ground)![0]) < 128).toBe(colorScheme === "dark");
      await page.getByRole("link", { name: "Dashboard", exact: true }).click();
      await page.waitForURL(`${dashboard.url}/dashboard`);
    },
  );

  it("the API reference scrolls to the row of the error code in its address", async () => {
    const page = await open(undefined, "/docs#shard_full");
    const shown = page.locator("tr.shown");
    await shown.waitFor();
    await eventually(async () => await shown.textContent()).toMatch(/^\s*shard_full\s*507/);
    await eventually(
      async () => await shown.evaluate((row) => row.getBoundingClientRect().top),
    ).toBeGreaterThan(0);
    await page.evaluate(() => (location.hash = "#key_absent"));
    await shown.filter({ hasText: "key_absent" }).waitFor();
    await eventually(async () => await shown.count()).toBe(1);
  });

  it("the API reference finds operations by their names", async () => {
    const page = await open(undefined, "/docs");
    await page.getByRole("button", { name: /Search/ }).click();
    await page.getByRole("combobox").fill("refund");
    await page
      .getByRole("option")
      .filter({ hasText: /refund/i })
      .first()
      .waitFor();
  });

  it("the API reference sends a request to its server with the token of the dashboard's session", async () => {
    const page = await open(undefined, "/dashboard");
    await page.getByLabel("Token").fill(tokenOf("read,write"));
    await button(page, "Sign in").click();
    await page.getByRole("navigation").waitFor();
    await page.goto(`${dashboard.url}/docs#tag/counters/incrementCounter`);
    await operation(page, "incrementCounter")
      .getByRole("button", { name: /^Test Request/ })
      .click();
    await button(page, /^Send/).first().click();
    await see(page, "200 OK");
  });

  it("the API reference runs only its own scripts and asks only its own server", async () => {
    const answer = await fetch(`${dashboard.url}/docs`);
    const policy = answer.headers.get("content-security-policy")!;
    // Scalar writes `style` attributes, which neither a hash nor a nonce can allow.
    expect(policy.split("; ")).toEqual([
      "default-src 'none'",
      "script-src 'self'",
      "style-src 'self' 'unsafe-inline'",
      "img-src 'self' data:",
      "connect-src 'self'",
      "base-uri 'none'",
      "form-action 'none'",
      "frame-ancestors 'none'",
    ]);
  });

  it.each(["dashboard", "docs"] as const)("the compressed assets of /%s stay small", (page) => {
    const files = readdirSync(join(ASSETS, page), { withFileTypes: true });
    expect(files.length).toBeGreaterThanOrEqual(5);
    const bytes = files
      .map(({ parentPath, name }) => gzipSync(readFileSync(join(parentPath, name))).length)
      .reduce((sum, length) => sum + length, 0);
    console.log(`/${page} has ${bytes} bytes, compressed`);
    expect(bytes).toBeLessThan(GZIP_BYTES_MAX[page]);
  });
});
