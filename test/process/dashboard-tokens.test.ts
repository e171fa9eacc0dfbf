/** The dashboard of a server that needs tokens: signing in, what a token may see, and servers that are gone. */
import type { Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { startDashboard, type Dashboard } from "../support/process/dashboard-browser.ts";
import {
  ALL_SCOPES,
  button,
  dialogOf,
  eventually,
  gone,
  holdAccess,
  IN_BROWSER,
  Pages,
  see,
  START_TIMEOUT_MS,
  TOKEN_SECRET,
  tokenOf,
} from "../support/process/dashboard-pages.ts";

const PORT = 18_851;

let dashboard: Dashboard;
const pages = new Pages();

const open = async (...args: Parameters<Dashboard["open"]>): Promise<Page> =>
  await pages.open(dashboard, ...args);

describe("the dashboard, with tokens", IN_BROWSER, () => {
  beforeAll(async () => {
    dashboard = await startDashboard(PORT, { ACCESS: "token", TOKEN_SECRET });
  }, START_TIMEOUT_MS);

  afterEach(async () => await pages.close(/./));

  afterAll(async () => await dashboard.close());

  async function openWith(token: string, screen: string): Promise<Page> {
    const page = await open(undefined, screen);
    await page.getByLabel("Token").fill(token);
    await button(page, "Sign in").click();
    await page.getByRole("navigation").waitFor();
    return page;
  }

  it("the dashboard asks for a token, and says what is wrong with one", async () => {
    const page = await open();
    await see(page, "This deployment needs a token.");
    await see(
      page,
      /^TOKEN_SECRET=… npx throttr-edge token .*--scopes read,write,publish,subscribe,admin$/s,
    );
    await pages.picture("sign-in-1280-light");
    expect(await page.locator(".failure").count()).toBe(0);
    await page.getByLabel("Token").fill("nonsense");
    await button(page, "Sign in").click();
    await see(page, "token_invalid");
    await page.getByLabel("Token").fill(tokenOf("read", 1));
    await page.waitForTimeout(2000);
    await button(page, "Sign in").click();
    await see(page, "token_expired");
  });

  it("the token is kept for the tab, and for no other", async () => {
    const page = await openWith(tokenOf("read,write,publish,subscribe,admin"), "overview");
    await see(page, "Live");
    await see(page, "my-app");
    await page.reload();
    await see(page, "Live");
    expect(page.url()).not.toContain("ey");
    const other = await page.context().newPage();
    await other.goto(`${dashboard.url}/dashboard`);
    await see(other, "This deployment needs a token.");
    await button(page, "Sign out").click();
    await see(page, "This deployment needs a token.");
    expect(await page.evaluate(() => sessionStorage.length)).toBe(0);
  });

  it("a browser that keeps nothing shows the dashboard, and its page knows the token and the theme", async () => {
    const page = await open(undefined, "records");
    await page.addInitScript(() => {
      for (const area of ["localStorage", "sessionStorage"]) {
        Object.defineProperty(window, area, {
          get() {
            throw new DOMException("Access is denied for this document.", "SecurityError");
          },
        });
      }
    });
    await page.reload();
    await page.getByLabel("Token").fill(tokenOf("read,write"));
    await button(page, "Sign in").click();
    await page.getByRole("heading", { level: 1, name: "Records" }).waitFor();
    await button(page, "Theme: system").click();
    await button(page, "Theme: light").click();
    await button(page, "Theme: dark").waitFor();
  });

  it("a token for all namespaces chooses one, and the address names it", async () => {
    await signedIn("PUT", "/v1/counters/mine", { quota: 7, ttlMs: 3_600_000 });
    const page = await open(undefined, "records");
    await page.getByLabel("Token").fill(tokenOf(ALL_SCOPES, 3600, "*"));
    await button(page, "Sign in").click();
    await see(page, "This token is for all namespaces: choose one.");
    await pages.picture("namespace-missing-1280-light");
    await page.getByRole("searchbox").fill("my-app");
    await page
      .getByRole("button", { name: /^(?:Open )?my-app$/ })
      .first()
      .click();
    await button(page, "mine").waitFor();
    await eventually(() => page.url()).toMatch(/\?namespace=my-app#records$/);
    expect(page.url()).not.toContain("ey");
    await page.reload();
    await button(page, "mine").waitFor();
    await button(page, "Namespace my-app: choose another").click();
    await dialogOf(page).getByRole("searchbox").fill("other");
    await button(dialogOf(page), "Open other").click();
    await see(page, "No records yet");
    await page.goBack();
    await button(page, "mine").waitFor();
    await page.goto(`${dashboard.url}/dashboard?namespace=other#records`);
    await see(page, "No records yet");
  });

  it("signing out ends the way to a chosen namespace, whose answer comes later", async () => {
    const page = await open(undefined, "records");
    await page.getByLabel("Token").fill(tokenOf(ALL_SCOPES, 3600, "*"));
    await button(page, "Sign in").click();
    await page.getByRole("searchbox").fill("first");
    await button(page, "Open first").click();
    const held = await holdAccess(page, "other");
    await button(page, "Namespace first: choose another").click();
    await dialogOf(page).getByRole("searchbox").fill("other");
    await button(dialogOf(page), "Open other").click();
    await held.asked;
    await page.keyboard.press("Escape");
    await button(page, "Sign out").click();
    await see(page, "This deployment needs a token.");
    await held.settle(true);
    await see(page, "This deployment needs a token.");
    expect(await page.evaluate(() => sessionStorage.length)).toBe(0);
  });

  it("a link to a namespace that the token does not open shows the token's own", async () => {
    const page = await openWith(tokenOf("read"), "records");
    await see(page.locator(".rights"), "my-app");
    expect(await button(page, /choose another/).count()).toBe(0);
    await page.goto(`${dashboard.url}/dashboard?namespace=other#records`);
    await see(page.locator(".rights"), "my-app");
    await eventually(() => page.url()).toMatch(/\?namespace=my-app#records$/);
    await page.reload();
    await see(page.locator(".rights"), "my-app");
  });

  it("the token goes along with subscriptions", async () => {
    const page = await openWith(tokenOf("publish,subscribe,admin"), "channels");
    const tail = page.locator(".card", { hasText: "Live messages" });
    await tail.getByLabel("Channel").fill("news");
    await button(tail, "Listen").click();
    await see(tail, "Listening");
  });

  it.each([1280, 400, 320])(
    "a token that only reads is shown what it may see, %d pixels wide",
    async (width) => {
      await signedIn("PUT", `/v1/counters/views:${width}`, { quota: 7, ttlMs: 3_600_000 });
      await signedIn("PUT", "/v1/buffers/page", { value: "text", ttlMs: 3_600_000 });
      const lease = { maximum: 4, resources: 1, ttlMs: 3_600_000 };
      await signedIn("POST", "/v1/semaphores/gpu/leases", lease);
      const page = await open({ viewport: { width, height: 900 } }, "");
      await page.getByLabel("Token").fill(tokenOf("read"));
      await button(page, "Sign in").click();
      await button(page, `views:${width}`).waitFor();
      await pages.picture(`read-only-records-${width}-light`);
      const links = page.getByRole("navigation").getByRole("link");
      await eventually(async () => await links.allInnerTexts()).toEqual([
        "Records",
        "Semaphores",
        "Limiter",
      ]);
      expect(await button(page, "New record").count()).toBe(0);
      for (const [key, name] of [
        ["counter", `views:${width}`],
        ["buffer", "page"],
      ] as const) {
        await button(page, name).click();
        await see(dialogOf(page), "Time left");
        expect(await button(dialogOf(page), /Change|Purge/).count()).toBe(0);
        await pages.picture(`read-only-${key}-${width}-light`);
        await page.keyboard.press("Escape");
        await gone(page.locator("dialog[open]"));
      }
      await page.keyboard.press("2");
      await button(page, "gpu").waitFor();
      expect(await button(page, "Acquire").count()).toBe(0);
      await pages.picture(`read-only-semaphores-${width}-light`);
      await page.keyboard.press("3");
      await button(page, "Peek").click();
      await see(page.locator(".answer-head"), "Granted");
      expect(await button(page, /^(Check|Refund|Reset)$/).count()).toBe(0);
      await pages.picture(`read-only-limiter-${width}-light`);
    },
  );

  it("the dashboard says when the server cannot be reached, and tries again", async () => {
    const page = await openWith(tokenOf("read,write"), "records");
    await see(page, "Records");
    await page.context().setOffline(true);
    await page.keyboard.press("r");
    await see(page, "The server cannot be reached. Retrying…");
    await pages.picture("offline-1280-light");
    await button(page, "New record").click();
    await dialogOf(page).getByLabel("Key").fill("late");
    await button(dialogOf(page), "Create").click();
    await see(dialogOf(page), /cannot be reached\. It may have applied the change/);
    expect(await page.getByText(/TypeError|Failed to fetch/).count()).toBe(0);
    await page.keyboard.press("Escape");
    await page.context().setOffline(false);
    await gone(page.getByText("The server cannot be reached"));
  });

  it("the dashboard says which right a token lacks", async () => {
    const page = await openWith(tokenOf("write"), "overview");
    const lack = "This tab's token lacks the scope";
    await see(page, `${lack} admin (to see the overview, connections and channels).`);
    await pages.picture("lack-1280-light");
    await page.goto(`${dashboard.url}/dashboard#records`);
    await see(page, `${lack} read`);
    await page.goto(`${dashboard.url}/dashboard#channels`);
    await see(page, `${lack} publish`);
    await see(page, `${lack} subscribe`);
    await page.goto(`${dashboard.url}/dashboard#connections`);
    await see(page, `${lack} admin`);
    await page.goto(`${dashboard.url}/dashboard#limiter`);
    await button(page, "Check").click();
    await see(page.locator(".answer-head"), "Granted");
    await button(page, "Peek").click();
    await see(page, `${lack} read`);
  });

  it("the dashboard says when the server is gone, and keeps the last figures", async () => {
    const page = await openWith(tokenOf("read,admin"), "overview");
    await see(page, "Rows written");
    await dashboard.kill();
    await see(page, "Connection lost. Retrying…");
    await see(page, "Rows written");
    await page.keyboard.press("3");
    await button(page, "Retry").waitFor();
  });
});

/** Sends JSON with a token that may do everything. */
async function signedIn(method: "POST" | "PUT", path: string, body: object): Promise<void> {
  const token = tokenOf(ALL_SCOPES);
  const headers = { authorization: `Bearer ${token}` };
  const answer = await fetch(dashboard.url + path, { method, headers, body: JSON.stringify(body) });
  if (!answer.ok) throw new Error(await answer.text());
}
