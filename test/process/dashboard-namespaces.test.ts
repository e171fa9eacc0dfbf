/** The dashboard on an open server whose records are not in the namespace `default`. */
import type { Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { http, ThrottrClient } from "../../src/client/index.ts";
import { startDashboard, type Dashboard } from "../support/process/dashboard-browser.ts";
import {
  button,
  dialogOf,
  eventually,
  gone,
  holdAccess,
  IN_BROWSER,
  Pages,
  row,
  see,
  START_TIMEOUT_MS,
} from "../support/process/dashboard-pages.ts";

const PORT = 18_858;
const STRATEGY = { strategy: "token_bucket", burst: 3, rate: 0.001 };

let dashboard: Dashboard;
const pages = new Pages();

const open = async (path: string): Promise<Page> => await pages.open(dashboard, undefined, path);

/** Creates counters in a namespace, with three digits behind the prefix. */
async function count(namespace: string, prefix: string, amount: number): Promise<void> {
  const throttr = new ThrottrClient(http(dashboard.url, { token: `namespace.${namespace}` }));
  const keys = Array.from({ length: amount }, (_, i) => prefix + String(i).padStart(3, "0"));
  await Promise.all(keys.map((key) => throttr.increment(key, { ttlMs: 3_600_000 })));
  await throttr.close();
}

/** Chooses a namespace in the list behind the name of the one that is open. */
async function choose(page: Page, namespace: string): Promise<void> {
  await openList(page);
  await button(dialogOf(page), namespace).click();
  await gone(page.locator("dialog[open]"));
  await see(page.locator(".rights"), namespace);
}

const openList = async (page: Page): Promise<void> => await button(page, /choose another$/).click();

/** Asks a limit in a namespace, and waits until the server lists the namespace. */
async function use(namespace: string): Promise<void> {
  const headers = { authorization: `Bearer namespace.${namespace}` };
  const body = JSON.stringify({ strategy: STRATEGY });
  await fetch(`${dashboard.url}/v1/limits/api/ada`, { method: "POST", headers, body });
  const listed = async (): Promise<string> =>
    await (await fetch(`${dashboard.url}/v1/namespaces`)).text();
  await eventually(listed).toContain(`"${namespace}"`);
}

describe("the dashboard of an open server, without a namespace in its address", IN_BROWSER, () => {
  beforeAll(async () => {
    dashboard = await startDashboard(PORT);
  }, START_TIMEOUT_MS);

  afterEach(async () => await pages.close(/./));

  afterAll(async () => await dashboard.close());

  it("on a server without records the dashboard opens the namespace `default`", async () => {
    const page = await open("/dashboard#limits");
    await see(page.locator(".rights"), "default");
    await see(page, "No decisions yet");
    expect(await page.getByText("Other namespaces with records").count()).toBe(0);
  });

  it("the dashboard opens the only namespace with records, and its address names it", async () => {
    await use("my-app");
    const page = await open("/dashboard#limits");
    await row(page, "api").first().waitFor();
    await see(page.locator(".rights"), "my-app");
    await eventually(() => page.url()).toMatch(/\/dashboard\?namespace=my-app#limits$/);
  });

  it("an empty screen Limits names the namespaces with records, and leads to them", async () => {
    const page = await open("/dashboard?namespace=default#limits");
    await see(page, "Other namespaces with records: my-app.");
    await see(page.locator(".rights"), "default");
    await button(page, "my-app").click();
    await row(page, "api").first().waitFor();
    await eventually(() => page.url()).toMatch(/\/dashboard\?namespace=my-app#limits$/);
  });

  it("where several namespaces have records, the dashboard lets its user choose", async () => {
    await use("shop");
    const page = await open("/dashboard#limits");
    await see(page, "Nothing in the namespace default: choose one with records.");
    const choices = page.locator(".choices li");
    await eventually(async () => await choices.allInnerTexts()).toEqual(["my-app", "shop"]);
    await button(page, "shop").click();
    await row(page, "api").first().waitFor();
    await eventually(() => page.url()).toMatch(/\/dashboard\?namespace=shop#limits$/);
  });

  it("the namespace `default` is opened where it has records of its own", async () => {
    await use("default");
    const page = await open("/dashboard#limits");
    await row(page, "api").first().waitFor();
    await see(page.locator(".rights"), "default");
    await gone(page.locator(".choices"));
    expect(page.url()).not.toContain("namespace=");
  });

  it("each namespace has its own pages: another one begins with its first", async () => {
    await count("my-app", "mine:", 60);
    await count("shop", "theirs:", 60);
    const page = await open("/dashboard?namespace=my-app#records");
    await row(page, "mine:000").waitFor();
    await button(page, "Next").click();
    await see(page, "Page 2");
    await choose(page, "shop");
    await see(page, "Page 1");
    await row(page, "theirs:000").waitFor();
    await button(page, "Next").click();
    await see(page, "Page 2");
    await page.goBack();
    await see(page.locator(".rights"), "my-app");
    await see(page, "Page 1");
    await row(page, "mine:000").waitFor();
  });

  it("all keys are listed from the first on after the second page of a prefix", async () => {
    await count("my-app", "mine:", 60);
    const page = await open("/dashboard?namespace=my-app#records?prefix=mine:");
    await button(page, "Next").click();
    await see(page, "Page 2");
    await page.getByRole("link", { name: "Records" }).click();
    await see(page, "All keys");
    await see(page, "Page 1");
    await row(page, "api:ada").waitFor();
  });

  it("a limiter that the chosen namespace does not have shows nothing of the one before", async () => {
    const page = await open("/dashboard?namespace=my-app#limits?limit=api");
    await see(page.locator(".tile"), "Refused per second");
    await openList(page);
    await page.locator("#namespace-filter").fill("nothing-here");
    await button(dialogOf(page), "Open nothing-here").click();
    await see(page, "No shard has counted a limiter of this name.");
    await gone(page.locator(".tile"));
  });

  it("a server that is restarting opens the namespace that the address names, and no other", async () => {
    const page = await open("/dashboard?namespace=shop#limits");
    await row(page, "api").first().waitFor();
    let asked = 0;
    await page.route("**/v1/access", async (route) => {
      if (asked++ === 0) await route.abort("connectionrefused");
      else await route.fallback();
    });
    await page.reload();
    await see(page, "The server cannot be reached. Retrying…");
    await row(page, "api").first().waitFor();
    await see(page.locator(".rights"), "shop");
    expect(page.url()).toMatch(/\/dashboard\?namespace=shop#limits$/);
  });

  it("the address names a chosen namespace only once the server has let the page in", async () => {
    const page = await open("/dashboard?namespace=shop#limits");
    await row(page, "api").first().waitFor();
    await page.route("**/v1/access", async (route) => await route.abort("connectionrefused"));
    await openList(page);
    await button(dialogOf(page), "my-app").click();
    await see(dialogOf(page), /The server cannot be reached/);
    expect(page.url()).toMatch(/\/dashboard\?namespace=shop#limits$/);
    await page.unroute("**/v1/access");
    await button(dialogOf(page), "my-app").click();
    await gone(page.locator("dialog[open]"));
    await see(page.locator(".rights"), "my-app");
    expect(page.url()).toMatch(/\/dashboard\?namespace=my-app#limits$/);
  });

  it.each([
    ["is answered", true],
    ["fails", false],
  ])(
    "Forward ends the way to the namespace that Back has led to, and its request then %s",
    async (_, isAnswered) => {
      const page = await open("/dashboard?namespace=my-app#limits");
      await row(page, "api").first().waitFor();
      await choose(page, "shop");
      const held = await holdAccess(page, "my-app");
      await page.goBack();
      await held.asked;
      await page.goForward();
      await held.settle(isAnswered);
      expect(await page.locator(".failure").count()).toBe(0);
      expect(await page.locator(".rights").innerText()).toContain("shop");
      expect(page.url()).toMatch(/\/dashboard\?namespace=shop#limits$/);
    },
  );

  it("a chosen namespace is opened although its user goes to another screen meanwhile", async () => {
    const page = await open("/dashboard?namespace=nothing-here#limits");
    const held = await holdAccess(page, "shop");
    await see(page, "Other namespaces with records");
    await button(page, "shop").click();
    await held.asked;
    await page.getByRole("link", { name: "Records" }).click();
    await see(page, "No records yet");
    await held.settle(true);
    await see(page.locator(".rights"), "shop");
    expect(page.url()).toMatch(/\/dashboard\?namespace=shop#records$/);
  });

  it("of two chosen namespaces the last one stays open, whichever is answered first", async () => {
    const page = await open("/dashboard?namespace=default#limits");
    await row(page, "api").first().waitFor();
    const held = await holdAccess(page, "my-app");
    await openList(page);
    await button(dialogOf(page), "my-app").click();
    await held.asked;
    await button(dialogOf(page), "shop").click();
    await gone(page.locator("dialog[open]"));
    await held.settle(true);
    expect(await page.locator(".rights").innerText()).toContain("shop");
    expect(page.url()).toMatch(/\/dashboard\?namespace=shop#limits$/);
  });

  it("an empty screen says why it can't open another namespace", async () => {
    const page = await open("/dashboard?namespace=nothing-here#limits");
    const held = await holdAccess(page, "shop");
    await see(page, "Other namespaces with records");
    await button(page, "shop").click();
    await held.settle(false);
    await see(page, /The server cannot be reached/);
    await see(page.locator(".rights"), "nothing-here");
  });
});
