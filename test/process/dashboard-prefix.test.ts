/** The dashboard as a part of an application: below a prefix, with the session of the application in place of a token. */
import { resolve } from "node:path";
import type { Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { startDashboard, type Dashboard } from "../support/process/dashboard-browser.ts";
import {
  ALL_SCOPES,
  button,
  dialogOf,
  eventually,
  gone,
  IN_BROWSER,
  Pages,
  SCREENS,
  see,
  START_TIMEOUT_MS,
  TOKEN_SECRET,
  tokenOf,
} from "../support/process/dashboard-pages.ts";
import { startPrefixProxy, type PrefixProxy } from "../support/process/prefix-proxy.ts";

const PORT = 18_853;
const PROXY_PORT = 18_854;
const EMBEDDED_PORT = 18_856;
const PREFIX = "/app/throttr-edge";

let dashboard: Dashboard;
let proxy: PrefixProxy;
const pages = new Pages();

/** A page in a browser that is signed in to the application behind the proxy, or not. */
async function open(session: string | null, path: string): Promise<Page> {
  const page = await pages.open(dashboard, undefined, "/health");
  if (session !== null) {
    await page.context().addCookies([{ name: "session", value: session, url: proxy.url }]);
  }
  await page.goto(proxy.url + path);
  return page;
}

describe("the dashboard below a prefix", IN_BROWSER, () => {
  beforeAll(async () => {
    dashboard = await startDashboard(PORT, { ACCESS: "token", TOKEN_SECRET });
    const tokens = { ada: tokenOf(ALL_SCOPES), bob: tokenOf("read") };
    proxy = await startPrefixProxy(PROXY_PORT, dashboard.url, { prefix: PREFIX, tokens });
  }, START_TIMEOUT_MS);

  afterEach(async () => {
    await pages.close(/status of 401/);
    const strays = proxy.strays.splice(0);
    if (strays.length > 0) throw new Error(`asked outside the prefix: ${strays.join(", ")}`);
  });

  afterAll(async () => {
    await proxy.close();
    await dashboard.close();
  });

  it("every screen works below a prefix, with the session of the application around it", async () => {
    const page = await open("ada", "/dashboard");
    await see(page, "Live");
    await see(page.locator(".rights"), "my-app");
    await see(page.locator(".rights"), "no token needed");
    for (const screen of SCREENS) {
      await page.goto(`${proxy.url}/dashboard#${screen}`);
      await page.getByRole("heading", { level: 1, name: new RegExp(screen, "i") }).waitFor();
      await gone(page.locator(".skeleton"));
      expect(await page.locator(".failure").count()).toBe(0);
    }
    expect(await page.evaluate(() => sessionStorage.length)).toBe(0);
  });

  it("below a prefix records are created and messages are received", async () => {
    const page = await open("ada", "/dashboard#records");
    await button(page, "New record").click();
    await dialogOf(page).getByLabel("Key").fill("made:below");
    await button(dialogOf(page), "Create").click();
    await button(page, "made:below").waitFor();
    await page.goto(`${proxy.url}/dashboard#channels`);
    const tail = page.locator(".card", { hasText: "Live messages" });
    await tail.getByLabel("Channel").fill("news");
    await button(tail, "Listen").click();
    await see(tail, "Listening");
    const heading = page.getByRole("heading", { name: "Publish", exact: true });
    const publish = page.locator(".card").filter({ has: heading });
    await publish.getByLabel("Channel").fill("news");
    await publish.getByLabel("Message").fill("hello below");
    await button(publish, "Publish").click();
    await see(tail, "hello below");
  });

  it("the session's rights decide what the dashboard shows", async () => {
    const page = await open("bob", "/dashboard");
    await see(page.locator(".rights"), /^read$/);
    const links = page.getByRole("navigation").getByRole("link");
    await eventually(async () => await links.allInnerTexts()).toEqual([
      "Records",
      "Semaphores",
      "Limiter",
    ]);
    await page.goto(`${proxy.url}/dashboard#overview`);
    await see(page, "This session lacks the scope admin");
  });

  it("without a session the dashboard says what is missing, and opens once there is one", async () => {
    const page = await open(null, "/dashboard");
    await see(page, "This deployment needs a token.");
    await see(page, /sign in to the application that this dashboard is part of/);
    await button(page, "Retry without a token").click();
    await see(page, "This deployment needs a token.");
    await page.context().addCookies([{ name: "session", value: "ada", url: proxy.url }]);
    await button(page, "Retry without a token").click();
    await see(page, "Live");
  });

  it("below a prefix a token can be used in place of a session", async () => {
    const page = await open(null, "/dashboard#records");
    await page.getByLabel("Token").fill(tokenOf("read"));
    await button(page, "Sign in").click();
    await page.getByRole("navigation").waitFor();
    await page.reload();
    await page.getByRole("navigation").waitFor();
    await button(page, "Sign out").click();
    await see(page, "This deployment needs a token.");
  });

  it("the API reference below a prefix sends its requests there, and leads back to the dashboard", async () => {
    const page = await open("ada", "/dashboard");
    await page.getByRole("link", { name: "API reference" }).first().click();
    await page.waitForURL(`${proxy.url}/docs`);
    await page.goto(`${proxy.url}/docs#tag/counters/incrementCounter`);
    const operation = page.locator('[id$="/incrementCounter"]');
    await operation.getByRole("button", { name: /^Test Request/ }).click();
    await button(page, /^Send/).first().click();
    await see(page, "200 OK");
    await page.goto(`${proxy.url}/docs`);
    await page.getByRole("link", { name: "Dashboard", exact: true }).click();
    await page.waitForURL(`${proxy.url}/dashboard`);
    await see(page, "Live");
  });
});

describe("the dashboard inside a Worker", IN_BROWSER, () => {
  beforeAll(async () => {
    const config = resolve("test/support/embedded/exports.jsonc");
    dashboard = await startDashboard(EMBEDDED_PORT, {}, { config, prefix: "/edge" });
  }, START_TIMEOUT_MS);

  afterEach(async () => await pages.close(/status of 40[13]/));

  afterAll(async () => await dashboard.close());

  it("the application's session opens its dashboard, with the rights that it gives", async () => {
    const page = await pages.open(dashboard, undefined, "/dashboard");
    await see(page, "Sign in to the application.");
    await page.context().addCookies([{ name: "user", value: "ada", url: dashboard.url }]);
    await page.goto(`${dashboard.url}/dashboard/`);
    await see(page.locator(".rights"), /^app$/);
    await see(page.locator(".rights"), "read, write, publish, subscribe");
    await eventually(() => page.url()).toBe(`${dashboard.url}/dashboard`);
    const links = page.getByRole("navigation").getByRole("link");
    await eventually(async () => await links.allInnerTexts()).toEqual([
      "Records",
      "Channels",
      "Semaphores",
      "Limiter",
    ]);
    for (const key of ["ada:1", "bob:1"]) {
      await page.goto(`${dashboard.url}/dashboard#records`);
      await button(page, "New record").click();
      await dialogOf(page).getByLabel("Key").fill(key);
      await button(dialogOf(page), "Create").click();
      if (key === "ada:1") await button(page, key).waitFor();
      else await see(dialogOf(page), "This session does not allow this name");
    }
    await page.keyboard.press("Escape");
    await page.goto(`${dashboard.url}/dashboard#channels`);
    const tail = page.locator(".card", { hasText: "Live messages" });
    await tail.getByLabel("Channel").fill("news");
    await button(tail, "Listen").click();
    await see(tail, "Listening");
  });

  it("without a token secret the dashboard asks to sign in to the application, and for no token", async () => {
    const page = await pages.open(dashboard, undefined, "/dashboard");
    await see(page, "Sign in to the application.");
    expect(await page.getByLabel("Token").count()).toBe(0);
    await page.context().addCookies([{ name: "user", value: "ada", url: dashboard.url }]);
    await button(page, "Retry").click();
    await see(page.locator(".rights"), /^app$/);
  });

  it("the dashboard links to the API reference only where the application serves it", async () => {
    const page = await pages.open(dashboard, undefined, "/dashboard");
    const { origin } = new URL(dashboard.url);
    await page.context().addCookies([{ name: "user", value: "ada", url: origin }]);
    const links = page.getByRole("link", { name: "API reference" });
    for (const [prefix, count] of [
      ["/edge", 2],
      ["/bare", 0],
    ] as const) {
      await page.goto(`${origin}${prefix}/dashboard`);
      await see(page.locator(".rights"), /^app$/);
      await button(page, "Keyboard shortcuts and help").click();
      await see(dialogOf(page), "Refresh the screen");
      await eventually(async () => await links.count()).toBe(count);
    }
  });
});
