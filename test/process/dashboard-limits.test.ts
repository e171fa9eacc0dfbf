/** The screen Limits in a browser: what is granted and refused, for which keys, and what their records hold. */
import type { Locator, Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { startDashboard, type Dashboard } from "../support/process/dashboard-browser.ts";
import {
  button,
  dialogOf,
  eventually,
  expectWhole,
  gone,
  IN_BROWSER,
  Pages,
  row,
  see,
  START_TIMEOUT_MS,
  tileOf,
} from "../support/process/dashboard-pages.ts";
import { answerFigures, type Traffic } from "../support/process/limit-figures.ts";

const PORT = 18_855;
const TRAFFIC: Traffic = {
  api: [42, 6, 36],
  login: [0.4, 3.1],
  "uploads-of-the-customers-of-our-largest-region.eu-central-1:v2": [3, 0],
  "signup@eu": [0.02, 0],
};
/** Counts of keys are halved every five minutes by the clock, which may be now. */
const COUNT_OF_9 = /^[49]$/;
const KEYS = [
  { name: "api", key: "ada", count: 1204, countErrorMax: 0 },
  { name: "login", key: "198.51.100.7", count: 930, countErrorMax: 12 },
  { name: "api", keyBase64: "/wD+", count: 12, countErrorMax: 0 },
  ...Array.from({ length: 10 }, (_, i) => ({
    name: "api",
    key: `user:${i}`,
    count: 10 - i,
    countErrorMax: 0,
  })),
];

const COMPOSITE = {
  strategy: "composite",
  primary: {
    strategy: "fixed_window",
    quotas: [{ name: "day", limit: 100, windowMs: 86_400_000 }],
  },
  secondary: { strategy: "token_bucket", burst: 10, rate: 0.001 },
};

let dashboard: Dashboard;
const pages = new Pages();

/** A page whose figures are made up, at a place of the dashboard. */
async function open(
  place: string,
  options: Parameters<Dashboard["open"]>[0] = {},
  figures: Partial<Parameters<typeof answerFigures>[1]> = {},
): Promise<Page> {
  const page = await pages.open(dashboard, options, "/health");
  await answerFigures(page, { traffic: TRAFFIC, keys: KEYS, ...figures });
  await page.goto(`${dashboard.url}/dashboard#${place}`);
  return page;
}

const chart = (page: Page): Locator => page.getByRole("img", { name: /per second/ });

describe("the screen Limits", IN_BROWSER, () => {
  beforeAll(async () => {
    dashboard = await startDashboard(PORT);
    const strategy = { strategy: "token_bucket", burst: 10, rate: 0.001 };
    await dashboard.send("POST", "/v1/limits/api/ada", { strategy, cost: 3 });
    await dashboard.send("POST", "/v1/limits/login/198.51.100.7", { strategy: COMPOSITE });
  }, START_TIMEOUT_MS);

  afterEach(async () => await pages.close(/status of (?:404|409)/));

  afterAll(async () => await dashboard.close());

  describe.each([1280, 400, 320])("%d pixels wide", (width) => {
    it.each(["light", "dark"] as const)(
      "limits and one of them fit this width, %s",
      async (colorScheme) => {
        const viewport = { width, height: 900 };
        const page = await open("limits", { viewport, colorScheme });
        await button(page, "login").first().waitFor();
        await eventually(
          async () => await tileOf(page, "Refused per second").textContent(),
        ).toMatch(/\d/);
        await expectWhole(page, width);
        await pages.picture(`limits-${width}-${colorScheme}`);
        await button(page, "api").first().click();
        await page.getByRole("heading", { level: 1, name: "Limit api" }).waitFor();
        await button(page, "ada").first().waitFor();
        await expectWhole(page, width);
        await pages.picture(`limits-one-${width}-${colorScheme}`);
        await button(page, "ada").first().click();
        await see(dialogOf(page), "Token bucket");
        await expectWhole(page, width);
        await pages.picture(`limits-record-${width}-${colorScheme}`);
      },
    );
  });

  it("the longest name of a limiter fits a narrow screen", async () => {
    const name = "N".repeat(64);
    const viewport = { width: 320, height: 900 };
    const page = await open(`limits?limit=${name}`, { viewport }, { traffic: { [name]: [1, 0] } });
    await page.getByRole("heading", { level: 1, name: `Limit ${name}` }).waitFor();
    await expectWhole(page, 320);
  });

  it("limiters are listed with what they grant and refuse, sorted and filtered as the address says", async () => {
    const page = await open("limits");
    await see(row(page, "api"), "42.0");
    await see(row(page, "login"), "89 %");
    await see(row(page, "signup@eu"), "< 0.1");
    await see(row(page, "api"), "75 %");
    await see(
      page,
      "66 % of the decisions of the last minute were made by callers from allowances",
    );
    await eventually(async () => await tileOf(page, "Granted per second").textContent()).toMatch(
      /^4\d\.\d$/,
    );
    await button(page, "Refused").click();
    await button(page, "Refused").click();
    const first = page.locator("table[aria-label=Limiters] tbody tr .link").first();
    await eventually(async () => await first.textContent()).toBe("api");
    await button(page, "Refused share").click();
    await button(page, "Refused share").click();
    await eventually(async () => await first.textContent()).toBe("login");
    await page.getByRole("searchbox").fill("sign");
    await gone(row(page, "api").getByRole("meter"));
    await eventually(() => page.url()).toMatch(/#limits\?sort=-refused_share&filter=sign$/);
    await page.reload();
    await see(row(page, "signup@eu"), "< 0.1");
    expect(await row(page, "api").getByRole("meter").count()).toBe(0);
  });

  it("limiters beyond those that the server tells apart are one row", async () => {
    const rate = { total: 100, perMinute: 60 };
    const others = { allowed: rate, refused: rate, errors: rate, local: rate };
    const page = await open("limits", {}, { more: { others } });
    const listed = page.getByRole("row").filter({ hasText: "others" });
    await see(listed, "50 %");
    expect(await listed.getByRole("button").count()).toBe(0);
  });

  it("shards that did not answer are named", async () => {
    const page = await open("limits", {}, { more: { unreachableShards: [1, 3] } });
    await see(page, "Shards 1, 3 did not answer");
  });

  it("a limiter opens with its keys, and reload and back work", async () => {
    const page = await open("limits");
    await row(page, "login").first().getByRole("button").first().click();
    await page.getByRole("heading", { level: 1, name: "Limit login" }).waitFor();
    await eventually(async () => await page.evaluate(() => document.activeElement?.id)).toBe(
      "screen-title",
    );
    await eventually(() => page.url()).toMatch(/#limits\?limit=login$/);
    await see(page, "918 – 930");
    await page.reload();
    await see(page, "918 – 930");
    await page.goBack();
    await page.getByRole("heading", { level: 1, name: "Limits" }).waitFor();
    await page.goForward();
    await button(page, "All limits").click();
    await page.getByRole("heading", { level: 1, name: "Limits" }).waitFor();
    await eventually(() => page.url()).toMatch(/#limits$/);
  });

  it.each([
    ["api", "ada", ["Token bucket", "Tokens left", /^7$/, "count as spent"]],
    ["login", "198.51.100.7", ["Composite: fixed window and token bucket", "day: used"]],
  ] as const)(
    "a key of the limiter %s leads to the state of its limit: %s",
    async (limit, key, texts) => {
      const page = await open(`limits?limit=${limit}`);
      await button(page, key).first().click();
      for (const text of texts) await see(dialogOf(page), text);
      await page.keyboard.press("Escape");
      await gone(page.locator("dialog[open]"));
      await eventually(() => page.url()).toMatch(new RegExp(`#limits\\?limit=${limit}$`));
    },
  );

  it("a key that is not text, and one whose record has expired, can be opened", async () => {
    const page = await open("limits");
    const keys = page.locator(".card", { hasText: "Most refused keys" });
    await button(keys, "\\xff\\x00\\xfe").click();
    await see(dialogOf(page), "This record is gone");
    await page.keyboard.press("Escape");
    await eventually(async () => await keys.getByRole("row").count()).toBe(9);
    await button(keys, "Show all 13").click();
    await eventually(async () => await keys.getByRole("row").count()).toBe(14);
  });

  it("the chart begins with the last hour, and shows what comes when asked", async () => {
    const page = await open("limits");
    await chart(page)
      .and(page.getByRole("img", { name: /of the last hour/ }))
      .waitFor();
    const figure = page.locator(".legend li", { hasText: "granted" }).locator(".figure");
    await page.mouse.move(0, 0);
    const plot = (await chart(page).boundingBox())!;
    await page.mouse.move(plot.x + plot.width / 2, plot.y + plot.height / 2);
    // 45.42 are granted per second, by waves of half as much.
    await eventually(async () => Number(await figure.textContent())).toBeGreaterThan(20);
    await button(page, "Last 3 minutes").click();
    await chart(page)
      .and(page.getByRole("img", { name: /three minutes/ }))
      .waitFor();
    await eventually(() => page.url()).toMatch(/#limits\?range=live$/);
    await eventually(
      async () => await button(page, "Last 3 minutes").getAttribute("aria-pressed"),
    ).toBe("true");
    await page.reload();
    await chart(page)
      .and(page.getByRole("img", { name: /three minutes/ }))
      .waitFor();
  });

  it("without history the chart begins with what comes", async () => {
    const page = await open("limits", {}, { history: false });
    await chart(page)
      .and(page.getByRole("img", { name: /three minutes/ }))
      .waitFor();
    await page.goto(`${dashboard.url}/dashboard#overview`);
    await see(page, "Live");
    await chart(page)
      .and(page.getByRole("img", { name: /three minutes/ }))
      .waitFor();
  });

  it("no line joins what was long ago with the present of a quiet namespace", async () => {
    const page = await open("overview");
    await page.route("**/v1/history", async (route) => {
      const minute = Math.floor(Date.now() / 60_000);
      const limits = { allowed: 0, refused: 0, errors: 0 };
      const busy = { requests: 60_000, readBytes: 0, writeBytes: 0, limits, byLimit: {} };
      const minutes = [50, 49, 48].map((ago) => ({ ...busy, atMs: (minute - ago) * 60_000 }));
      await route.fulfill({ json: { minutes, unavailable: null } });
    });
    await page.reload();
    await chart(page)
      .and(page.getByRole("img", { name: /of the last hour/ }))
      .waitFor();
    const isDrawn = async (minutesAgo: number): Promise<boolean> =>
      await page.locator(".plot canvas").evaluate((drawn, minutesAgo) => {
        const over = drawn.parentElement!.querySelector<HTMLElement>(".u-over")!;
        const { width, height } = drawn as HTMLCanvasElement;
        const scale = width / drawn.clientWidth;
        const copy = new OffscreenCanvas(width, height).getContext("2d", {
          willReadFrequently: true,
        })!;
        copy.drawImage(drawn as HTMLCanvasElement, 0, 0);
        const column = (ago: number): string => {
          const x = over.offsetLeft + over.offsetWidth * (1 - ago / 60);
          return copy
            .getImageData(Math.round(x * scale), 0, 1, over.offsetHeight * scale)
            .data.join();
        };
        // Nothing is known of the time before.
        return column(minutesAgo) !== column(57);
      }, minutesAgo);
    // The present is known.
    await eventually(async () => await tileOf(page, "Requests per second").textContent()).toMatch(
      /\d/,
    );
    await page.waitForTimeout(1500);
    await eventually(async () => await isDrawn(48.5)).toBe(true);
    expect([await isDrawn(40), await isDrawn(20), await isDrawn(8)]).toEqual([false, false, false]);
  });

  it("the overview's chart begins with the last hour, too", async () => {
    const page = await open("overview");
    await chart(page)
      .and(page.getByRole("img", { name: /of the last hour/ }))
      .waitFor();
    await see(page.locator(".legend"), "requests");
    await button(page, "Last 3 minutes").click();
    await see(page.locator(".legend"), "other");
  });

  it("a limiter can be tried by hand from its figures", async () => {
    const page = await open("limits?limit=api");
    await page.getByRole("link", { name: "Try a limiter" }).click();
    await page.getByRole("heading", { level: 1, name: "Limiter" }).waitFor();
    await eventually(async () => await page.getByLabel("Name", { exact: true }).inputValue()).toBe(
      "api",
    );
    const current = page.getByRole("navigation").locator("[aria-current=page]");
    await eventually(async () => await current.textContent()).toBe("Limits");
    await page.getByRole("link", { name: "All limits" }).click();
    await page.getByRole("heading", { level: 1, name: "Limits" }).waitFor();
  });

  it("the screen can be used with the keyboard alone", async () => {
    const page = await open("records");
    await page.getByRole("heading", { level: 1, name: "Records" }).waitFor();
    await page.keyboard.press("2");
    await page.getByRole("heading", { level: 1, name: "Limits" }).waitFor();
    const focused = async (): Promise<string | null> =>
      await page.evaluate(() => document.activeElement!.textContent);
    await eventually(focused).toBe("Limits");
    await button(page.getByRole("table", { name: "Limiters" }), "api").focus();
    await page.keyboard.press("Enter");
    await eventually(focused).toBe("Limit api");
    await button(page, "ada").first().focus();
    await page.keyboard.press("Enter");
    await see(dialogOf(page), "Token bucket");
    // The figures come anew while the window is open, and the button is still the same.
    await page.waitForTimeout(2500);
    await page.keyboard.press("Escape");
    await gone(page.locator("dialog[open]"));
    await eventually(focused).toBe("ada");
    // A step back of the test does not wait for the one of the window.
    await eventually(() => page.url()).toMatch(/#limits\?limit=api$/);
    await page.goBack();
    await page.getByRole("heading", { level: 1, name: "Limits" }).waitFor();
    await page.keyboard.press("/");
    await page.keyboard.type("sign");
    await gone(row(page, "login").getByRole("meter"));
  });

  it("what a limiter decides is counted, and is seen within seconds", async () => {
    const page = await pages.open(dashboard, undefined, "limits");
    const strategy = { strategy: "token_bucket", burst: 3, rate: 0.001 };
    for (let i = 0; i < 12; i++) {
      await dashboard.send("POST", "/v1/limits/counted/eve", { strategy });
    }
    const listed = row(page, "counted").filter({ has: page.getByRole("meter") });
    await see(listed, "75 %");
    const refused = page.locator(".card", { hasText: "Most refused keys" });
    await see(refused.getByRole("row").filter({ has: button(page, "eve") }), COUNT_OF_9);
    await button(listed, "counted").click();
    await see(tileOf(page, "Granted per second").locator(".."), "3 in all");
    await see(tileOf(page, "Refused per second").locator(".."), "9 in all");
    await button(page, "eve").first().click();
    await see(dialogOf(page), "Tokens left");
    for (let i = 0; i < 4; i++) {
      await dashboard.send("POST", "/v1/limits/login/198.51.100.7", { strategy: COMPOSITE });
    }
    await page.goto(`${dashboard.url}/dashboard#limits?limit=login`);
    await button(page, "198.51.100.7").first().click();
    await see(dialogOf(page), "Composite: fixed window and token bucket");
  });

  it("the screen asks for figures only while it is open", async () => {
    const page = await open("limits");
    let asked = 0;
    page.on("request", (request) => {
      if (request.url().endsWith("/v1/limits")) asked++;
    });
    await eventually(() => asked).toBeGreaterThan(1);
    await page.getByRole("link", { name: "Semaphores" }).click();
    await see(page, "Semaphores");
    const before = asked;
    await page.waitForTimeout(4500);
    expect(asked).toBe(before);
  });
});
