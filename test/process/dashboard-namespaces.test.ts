/** The dashboard on an open server whose records are not in the namespace `default`. */
import type { Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { startDashboard, type Dashboard } from "../support/process/dashboard-browser.ts";
import {
  button,
  eventually,
  gone,
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
});
