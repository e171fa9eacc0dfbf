/** The dashboard in a browser: every screen, wide and narrow, light and dark, and what can be done there. */
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
  SCREENS,
  see,
  START_TIMEOUT_MS,
  tileOf,
} from "../support/process/dashboard-pages.ts";
import { increment } from "../../src/wire/edge/operations.ts";
import type { Shards } from "../../src/wire/shards.ts";
import { WHOAMI } from "../support/frames/index.ts";

const PORT = 18_850;

let dashboard: Dashboard;
const pages = new Pages();

const open = async (...args: Parameters<Dashboard["open"]>): Promise<Page> =>
  await pages.open(dashboard, ...args);

describe("the dashboard, open to all", IN_BROWSER, () => {
  beforeAll(async () => {
    dashboard = await startDashboard(PORT);
    const send = dashboard.send.bind(dashboard);
    const ttlMs = 3_600_000;
    const all = Array.from({ length: 60 }, (_, i) => i);
    await Promise.all(
      all.map((i) => send("PUT", `/v1/counters/page:${100 + i}`, { quota: i, ttlMs })),
    );
    await send("PUT", "/v1/counters/large", { quota: "18446744073709551615", ttlMs });
    await send("PUT", "/v1/buffers/json", { value: '{"a":[1,2]}', ttlMs });
    await send("PUT", "/v1/buffers/bytes", { valueBase64: "/wABAg==", ttlMs });
    const bucket = { strategy: "token_bucket", burst: 10, rate: 0.001 };
    await send("POST", "/v1/limits/api/ada", { strategy: bucket, cost: 3 });
    await send("POST", "/v1/semaphores/gpu/leases", { maximum: 4, resources: 3, ttlMs });
  }, START_TIMEOUT_MS);

  // A refusal that a test asks for is told by the browser, too.
  afterEach(async () => await pages.close(/status of 40[19]/));

  afterAll(async () => await dashboard.close());

  describe.each([1280, 400, 320])("%d pixels wide", (width) => {
    it.each(["light", "dark"] as const)("every screen fits this width, %s", async (colorScheme) => {
      const viewport = { width, height: 900 };
      const page = await open({ viewport, colorScheme });
      for (const screen of SCREENS) {
        await page.goto(`${dashboard.url}/dashboard#${screen}`);
        await page.getByRole("heading", { level: 1, name: new RegExp(screen, "i") }).waitFor();
        await gone(page.locator(".skeleton"));
        if (screen === "overview")
          await eventually(
            async () => await tileOf(page, "Requests per second").textContent(),
          ).toMatch(/\d/);
        await expectWhole(page, width);
        await pages.picture(`${screen}-${width}-${colorScheme}`);
      }
      const ground = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
      const isDark = Number(/\d+/.exec(ground)![0]) < 128;
      expect(isDark).toBe(colorScheme === "dark");
    });

    it.each(["light", "dark"] as const)("windows fit this width, %s", async (colorScheme) => {
      const page = await open({ viewport: { width, height: 900 }, colorScheme }, "records");
      const look = async (name: string): Promise<void> => {
        await expectWhole(page, width);
        await pages.picture(`${name}-${width}-${colorScheme}`);
        await page.keyboard.press("Escape");
        await gone(page.locator("dialog[open]"));
      };
      for (const name of ["api:ada", "json", "large"]) {
        await button(page, name).click();
        await see(dialogOf(page), /^(?:Time left|Resets in at most)$/);
        await look(`record-${name.replace(":", "-")}`);
      }
      await button(page, "New record").click();
      await look("record-new");
      await button(page, "Keyboard shortcuts and help").click();
      await look("help");
      await page.goto(`${dashboard.url}/dashboard#semaphores`);
      await button(page, "gpu").click();
      await button(dialogOf(page), "Release").waitFor();
      await look("holders");
    });
  });

  it("the dashboard shows each second what the namespace is doing, and nothing moves", async () => {
    const page = await open(undefined, "overview?range=live");
    await page.evaluate(() => {
      const shifts = window as unknown as { shifted: number };
      shifts.shifted = 0;
      new PerformanceObserver((list) => {
        for (const entry of list.getEntries()) {
          shifts.shifted += (entry as unknown as { value: number }).value;
        }
      }).observe({ type: "layout-shift", buffered: true });
    });
    await see(page, "Live");
    await eventually(async () => await tileOf(page, "Keys").textContent()).toMatch(/^\d+$/);
    const load = setInterval(() => {
      void dashboard.send("POST", "/v1/counters/load/increment", { ttlMs: 60_000 });
    }, 50);
    try {
      await eventually(async () =>
        Number(await tileOf(page, "Requests per second").textContent()),
      ).toBeGreaterThan(2);
      await see(page.locator(".legend"), "increment");
    } finally {
      clearInterval(load);
    }
    await see(page.locator(".tile"), /^[\d,]+ in all$/);
    await eventually(
      async () => await page.locator("table[aria-label=Shards] tbody tr").count(),
    ).toBe(1);
    await see(page, /of 24\.0 MiB/);
    await eventually(async () => await page.locator(".plot canvas").count()).toBe(1);
    const shifted = await page.evaluate(() => (window as unknown as { shifted: number }).shifted);
    expect(shifted).toBeLessThan(0.05);
  });

  it("the circle of hashes shows each shard with its range, and what a split changes", async () => {
    const page = await open({}, "overview");
    await page.getByRole("link", { name: "Circle of hashes" }).click();
    const { shards: before } = await shardsOf();
    const circle = page.getByRole("img", { name: /^Circle: / });
    await circle.waitFor();
    await eventually(async () => await circle.locator(".ring-range").count()).toBe(before.length);
    await eventually(async () => await page.getByRole("row").count()).toBe(1 + before.length);
    const begun = (await dashboard.send("POST", "/v1/shards/split", {
      namespace: "default",
      shard: before[0]!.shard,
    })) as { newShard: string };
    await eventually(async () => (await shardsOf()).shards.map(({ shard }) => shard)).toContain(
      begun.newShard,
    );
    await page.getByRole("button", { name: "Refresh" }).click();
    await see(page, begun.newShard);
    await eventually(async () => await circle.getAttribute("aria-label")).toContain(
      `${before.length + 1} shards`,
    );
    await eventually(async () => await circle.locator(".ring-range").count()).toBe(
      before.length + 1,
    );
  });

  it("the dashboard asks for figures only while it is visible", async () => {
    const page = await open();
    await see(page, "Live");
    const before = await feedsOf(page);
    await page.keyboard.press("3");
    await see(page, "Counters, buffers and rate limits");
    await page.keyboard.press("1");
    await see(page, "Live");
    expect(await feedsOf(page)).toBe(before + 1);
    await page.waitForTimeout(2500);
    expect(await feedsOf(page)).toBe(before + 1);
  });

  it("records are browsed by prefix and page, and their time counts down", async () => {
    const page = await open(undefined, "records");
    await page.getByRole("searchbox").fill("page:");
    await see(page, "Keys that begin with “page:”");
    await button(page, "page:149").waitFor();
    expect(await button(page, "page:150").count()).toBe(0);
    await button(page, "Next").click();
    await button(page, "page:150").waitFor();
    expect(await button(page, "page:149").count()).toBe(0);
    await eventually(async () => await button(page, "Next").isDisabled()).toBe(true);
    await button(page, "Previous").click();
    await button(page, "page:149").waitFor();
    const left = row(page, "page:100").locator("time");
    const before = await left.textContent();
    expect(before).toMatch(/^5\d min \d\d s$|^1 h 00 min$/);
    await eventually(async () => await left.textContent()).not.toBe(before);
    await page.getByRole("searchbox").fill("nothing");
    await see(page, "No record matches");
  });

  it("a second press on Next before the page is there turns no further page", async () => {
    const page = await open(undefined, "records?prefix=page:");
    await button(page, "page:149").waitFor();
    const answer = Promise.withResolvers<void>();
    await page.route("**/throttr/**", async (route) => {
      await answer.promise;
      await route.fallback();
    });
    await button(page, "Next").focus();
    await page.keyboard.press("Enter");
    await page.keyboard.press("Enter");
    await see(page, "Page 2");
    expect(await button(page, "Next").isDisabled()).toBe(true);
    answer.resolve();
    await button(page, "page:150").waitFor();
    await see(page, "Page 2");
  });

  it("the state of a limiter is shown as a record of the kind limit, and kinds can be filtered", async () => {
    const page = await open(undefined, "records?prefix=api");
    await see(row(page, "api:ada"), "7 tokens");
    await see(row(page, "api:ada"), /^limit$/);
    await page.goto(`${dashboard.url}/dashboard#records`);
    await page.getByLabel("Kind").selectOption("Buffers");
    // A buffer of no limit is in the list before and after, so only the limit's row tells when the filter has taken effect.
    await button(page, "api:ada").waitFor({ state: "detached" });
    await eventually(async () => await button(page, "json").count()).toBe(1);
    await page.getByLabel("Kind").selectOption("Limits");
    await button(page, "api:ada").waitFor();
    expect(
      await page
        .getByRole("table")
        .getByRole("button", { name: /^(json|large)$/ })
        .count(),
    ).toBe(0);
    await eventually(() => page.url()).toMatch(/#records\?kind=limit$/);
  });

  it("records are sorted by a column, as the address says", async () => {
    const page = await open(undefined, "records?prefix=page%3a");
    await button(page, "page:100").waitFor();
    const first = async (): Promise<string | null> =>
      await page.locator("tbody tr .link").first().textContent();
    await button(page, "Content").click();
    await button(page, "Content").click();
    await eventually(first).toBe("page:149");
    await eventually(() => page.url()).toMatch(/#records\?prefix=page%3a&sort=-content$/);
    await page.reload();
    await button(page, "page:149").waitFor();
    await eventually(first).toBe("page:149");
    const head = page.getByRole("columnheader", { name: "Content" });
    await eventually(async () => await head.getAttribute("aria-sort")).toBe("descending");
  });

  it.each([
    ["records", "json", "Time left"],
    ["semaphores", "gpu", "Release"],
  ])(
    "what is open of %s is in the address, so that reload opens it and back closes it",
    async (screen, name, text) => {
      const page = await open(undefined, screen);
      await button(page, name).click();
      await see(dialogOf(page), text);
      await eventually(() => page.url()).toMatch(new RegExp(`#${screen}\\?\\w+=${name}$`));
      await page.reload();
      await see(dialogOf(page), text);
      await page.goBack();
      await gone(page.locator("dialog[open]"));
      await eventually(() => page.url()).toMatch(new RegExp(`#${screen}$`));
      await page.goForward();
      await see(dialogOf(page), text);
      await page.keyboard.press("Escape");
      await gone(page.locator("dialog[open]"));
      await eventually(() => page.url()).toMatch(new RegExp(`#${screen}$`));
      await button(page, name).waitFor();
    },
  );

  it("an expired record is shown as gone", async () => {
    await dashboard.send("PUT", "/v1/counters/a-short-one", { quota: 1, ttlMs: 4000 });
    const page = await open(undefined, "records");
    await eventually(async () => await row(page, "a-short-one").locator("time").textContent()).toBe(
      "expired",
    );
    await button(page, "a-short-one").click();
    await see(dialogOf(page), "This record is gone");
  });

  it("a counter and its TTL can be changed, and purged after confirmation", async () => {
    await dashboard.send("PUT", "/v1/counters/mine", { quota: 5, ttlMs: 60_000 });
    const page = await open(undefined, "records");
    await button(page, "mine").click();
    const dialog = dialogOf(page);
    const quota = dialog.locator(".hero");
    await dialog.getByLabel("How").first().selectOption("increase");
    await dialog.getByLabel("Amount").fill("18446744073709551610");
    await button(dialog, "Change quota").click();
    await eventually(async () => await quota.textContent()).toBe(
      "Quota: 18,446,744,073,709,551,615",
    );
    await button(dialog, "Change quota").click();
    await see(dialog, "not_applied");
    await dialog.getByLabel("Amount").fill("-1");
    await button(dialog, "Change quota").click();
    await see(dialog, "amount_invalid");
    await dialog.getByLabel("Time", { exact: true }).fill("2");
    await button(dialog, "Change TTL").click();
    await see(dialog, /^(?:1 h 59 min|2 h 00 min)$/);
    const { quota: stored } = await counter("mine");
    expect(stored).toBe("18446744073709551615");
    await button(dialog, "Purge this record").click();
    await button(dialogOf(page), "Cancel").click();
    expect(await counter("mine")).toMatchObject({ quota: stored });
    await button(dialog, "Purge this record").click();
    await button(dialogOf(page), "Purge").click();
    await gone(page.locator("dialog[open]"));
    await see(page, "Purged mine");
    await button(page, "mine").waitFor({ state: "detached" });
    expect(await counter("mine")).toMatchObject({ code: "key_absent" });
  });

  it("values are shown as JSON, text, hex and limiter states", async () => {
    const page = await open(undefined, "records");
    const dialog = dialogOf(page);
    const value = dialog.getByLabel("Value", { exact: true });
    await button(page, "json").click();
    await eventually(async () => await value.textContent()).toBe(
      '{\n  "a": [\n    1,\n    2\n  ]\n}',
    );
    await button(dialog, "Hex").click();
    await eventually(async () => await value.textContent()).toContain("7b 22 61 22");
    await page.keyboard.press("Escape");
    await button(page, "bytes").click();
    await eventually(async () => await value.textContent()).toMatch(/^000000 {2}ff 00 01 02/);
    await page.keyboard.press("Escape");
    await button(page, "api:ada").click();
    await see(dialog, "Token bucket");
    await see(dialog, "Tokens left");
    await button(dialog, "Text").click();
    await eventually(async () => await value.textContent()).toMatch(/^12\|7\|/);
  });

  it("a buffer can be set, unless it was changed meanwhile", async () => {
    await dashboard.send("PUT", "/v1/buffers/note", { value: "one", ttlMs: 60_000 });
    const page = await open(undefined, "records");
    await button(page, "note").click();
    const dialog = dialogOf(page);
    await button(dialog, "Change value").click();
    await dialog.getByLabel("Value").fill("two");
    await button(dialog, "Save").click();
    await see(dialog.locator(".value"), "two");
    await button(dialog, "Change value").click();
    await dashboard.send("PUT", "/v1/buffers/note", { value: "three", ttlMs: 60_000 });
    await dialog.getByLabel("Value").fill("four");
    await button(dialog, "Save").click();
    await see(dialog, "changed_meanwhile");
    const { value } = (await (await fetch(`${dashboard.url}/v1/buffers/note`)).json()) as {
      value: string;
    };
    expect(value).toBe("three");
  });

  it("what is typed as a value stays when the window's other form reads the record again", async () => {
    const put = async (value: string): Promise<unknown> =>
      await dashboard.send("PUT", "/v1/buffers/draft", { value, ttlMs: 60_000 });
    await put("one");
    const page = await open(undefined, "records?record=draft");
    const dialog = dialogOf(page);
    await button(dialog, "Change value").click();
    await dialog.getByLabel("Value").fill("typed for an hour");
    await put("of another client");
    await button(dialog, "Change TTL").click();
    await see(dialog, /^59 min \d\d s$/);
    expect(await dialog.getByLabel("Value").inputValue()).toBe("typed for an hour");
    await button(dialog, "Save").click();
    await see(dialog, "changed_meanwhile");
  });

  it("a window stays open while its scroll bar is used, and closes with a press beside it", async () => {
    const page = await open(undefined, "records?record=json");
    const drawer = page.locator("dialog.drawer[open]");
    await button(drawer, "Purge this record").waitFor();
    // Headless browsers have no scroll bars: the window is the target of a press on its own.
    await drawer.evaluate((dialog) => {
      const { right, height } = dialog.getBoundingClientRect();
      const at = { clientX: right - 4, clientY: height / 2, bubbles: true };
      dialog.dispatchEvent(new MouseEvent("mousedown", at));
    });
    await page.waitForTimeout(300);
    expect(await drawer.count()).toBe(1);
    await page.mouse.click(20, 300);
    await gone(drawer);
  });

  it("records can be created, but not in the place of others", async () => {
    const page = await open(undefined, "records");
    const make = async (fill: (dialog: Locator) => Promise<void>): Promise<void> => {
      await button(page, "New record").click();
      await fill(dialogOf(page));
      await button(dialogOf(page), "Create").click();
    };
    await make(async (dialog) => {
      await dialog.getByLabel("Key").fill("made:counter");
      await dialog.getByLabel("Quota").fill("12");
    });
    await see(row(page, "made:counter"), "12");
    await make(async (dialog) => {
      await button(dialog, "Buffer").click();
      await dialog.getByLabel("Key").fill("made:buffer");
      await dialog.getByLabel("Value").fill("hello");
    });
    await see(row(page, "made:buffer"), "5 B");
    await make(async (dialog) => await dialog.getByLabel("Key").fill("made:buffer"));
    await see(dialogOf(page), "A record with this key already exists");
  });

  it("a message can be published, and each is shown once, as it comes", async () => {
    const page = await open(undefined, "channels");
    const tail = page.locator(".card", { hasText: "Live messages" });
    await tail.getByLabel("Channel").fill("news");
    await button(tail, "Listen").click();
    await see(tail, "Listening");
    const heading = page.getByRole("heading", { name: "Publish", exact: true });
    const publish = page.locator(".card").filter({ has: heading });
    await publish.getByLabel("Channel").fill("news");
    await publish.getByLabel("Message").fill("hello there");
    await button(publish, "Publish").click();
    await see(tail, "hello there");
    await see(page, "Published to news");
    await dashboard.send("POST", "/v1/channels/news", { payloadBase64: "/wD+" });
    await see(tail, "ff 00 fe");
    await see(tail, "2 messages");
    await eventually(async () => await tail.locator("li").count()).toBe(2);
    await button(page, "Refresh").click();
    await see(row(page, "news"), "1");
    await button(tail, "Stop").click();
    await see(tail, "Not listening");
    await button(page, "Refresh").click();
    await button(page, "news").waitFor({ state: "detached" });
  });

  it("connections are shown with their figures", async () => {
    const socket = new WebSocket(`${dashboard.url.replace("http", "ws")}/throttr/edge`);
    await new Promise((resolve) => socket.addEventListener("open", resolve));
    let replies = 0;
    socket.addEventListener("message", () => replies++);
    socket.send(WHOAMI);
    await eventually(() => replies).toBe(1);
    socket.send(increment("shown:counter", { ttlMs: 60_000 }).frame);
    await eventually(() => replies).toBe(2);
    const page = await open(undefined, "connections");
    const listed = page.getByRole("row").filter({ hasText: "WebSocket" });
    await see(listed.getByRole("cell"), "2");
    await listed.locator(".link").click();
    await see(dialogOf(page), "whoami");
    await see(dialogOf(page), "increment");
    await see(dialogOf(page), "WebSocket");
    await page.keyboard.press("Escape");
    socket.close();
    await page.getByLabel("Refresh interval").selectOption("Every 5 s");
    await eventually(async () => await page.getByText("No connections").count()).toBe(1);
  });

  it("a lease can be acquired by hand, is shown with its holder, and can be released", async () => {
    const page = await open(undefined, "semaphores");
    const form = page.locator(".card", { hasText: "Acquire a lease" });
    await form.getByLabel("Semaphore").fill("builds");
    await form.getByLabel("Resources").fill("3");
    await form.getByLabel("Maximum").fill("4");
    await button(form, "Acquire").click();
    await see(row(page, "builds"), "3");
    await button(form, "Acquire").click();
    await see(form, "semaphore_unavailable");
    await button(page, "builds").click();
    const dialog = page.locator("dialog.drawer");
    await see(dialog, "lease");
    await see(dialog, /^4 min \d\d s$|^5 min 00 s$/);
    await button(dialog, "Release").click();
    await button(page.locator("dialog.middle"), "Release").click();
    await see(dialog, "No holders");
  });

  it("the holders of a semaphore are never those of the one that the address named before", async () => {
    await dashboard.send("POST", "/v1/semaphores/slow/leases", {
      maximum: 9,
      resources: 2,
      ttlMs: 60_000,
    });
    const page = await open(undefined, "semaphores?semaphore=gpu");
    await button(dialogOf(page), "Release").waitFor();
    const answer = Promise.withResolvers<void>();
    await page.route("**/v1/semaphores/slow/holders*", async (route) => {
      await answer.promise;
      await route.fallback();
    });
    await page.evaluate(() => (location.hash = "#semaphores?semaphore=slow"));
    await see(dialogOf(page), "slow");
    expect(await button(dialogOf(page), "Release").count()).toBe(0);
    answer.resolve();
    await button(dialogOf(page), "Release").waitFor();
  });

  it("a page of free semaphores does not say that nothing is held, as the next one may have what is", async () => {
    const free = Array.from({ length: 100 }, (_, i) => `a-free-${100 + i}`);
    const lease = { maximum: 1, ttlMs: 1 };
    await Promise.all(
      free.map((name) => dashboard.send("POST", `/v1/semaphores/${name}/leases`, lease)),
    );
    const page = await open(undefined, "semaphores");
    await see(page, "Nothing on this page is held");
    await button(page, "Next").click();
    await see(row(page, "gpu"), "3");
  });

  it("a limit can be asked, peeked at, refunded and reset", async () => {
    const page = await open(undefined, "limiter");
    const card = page.locator(".card", { hasText: "Result" });
    const result = card.locator(".answer-head");
    await page.getByLabel("Name", { exact: true }).fill("hand");
    await page.getByLabel("Burst").fill("2");
    await page.getByLabel("Rate per second").fill("0.01");
    const press = async (name: string): Promise<string> => {
      const before = await page.locator(".history li").count();
      const isFirst = (await result.count()) === 0;
      await button(page, name).click();
      await eventually(async () =>
        isFirst ? await result.count() : await page.locator(".history li").count(),
      ).toBe(isFirst ? 1 : before + 1);
      return (await result.textContent())!;
    };
    expect(await press("Check")).toBe("Granted1 of 2 left");
    expect(await press("Check")).toBe("Granted0 of 2 left");
    expect(await press("Check")).toBe("Refused0 of 2 left");
    await see(card, /Available again in\s+1 min \d\d s/);
    expect(await press("Refund")).toBe("Refunded1 of 2 left");
    expect(await press("Peek")).toBe("Granted1 of 2 left");
    await eventually(async () => await card.getByRole("meter").getAttribute("aria-valuenow")).toBe(
      "50",
    );
    await button(page, "Reset").click();
    await see(page, "No request yet");
    await page.getByLabel("Burst").fill("0");
    await button(page, "Check").click();
    await see(page, "burst_invalid");
    await page.getByLabel("Burst").fill("abc");
    await button(page, "Check").click();
    await see(page, 'Burst: expected a number, got "abc"');
  });

  it("a foreign state in the place of a limit is reported, and can be reset", async () => {
    const page = await open(undefined, "limiter");
    await page.getByLabel("Name", { exact: true }).fill("other");
    await button(page, "Check").click();
    await see(page.locator(".answer-head"), "Granted");
    await page.getByLabel("Strategy").selectOption("sliding_window");
    await eventually(async () => await page.getByLabel("Limit", { exact: true }).count()).toBe(1);
    await button(page, "Check").click();
    await see(page, /^The buffer under "other:user:42" holds the state of another strategy/);
    await see(page, "it looks like token_bucket, not sliding_window");
    await pages.picture("limiter-other-1280-light");
    // What is reset is what was asked, not what the fields say by now.
    await page.getByLabel("Key", { exact: true }).fill("another");
    await button(page, "Reset this limit").click();
    await see(page, "The limit was reset");
    await gone(page.locator(".failure"));
    await page.getByLabel("Key", { exact: true }).fill("user:42");
    await button(page, "Check").click();
    await see(page.locator(".answer-head"), "Granted");
  });

  it("the limiter form makes all strategies", async () => {
    const page = await open(undefined, "limiter");
    for (const strategy of [
      "leaky_bucket",
      "gcra",
      "fixed_window",
      "sliding_window",
      "composite",
    ]) {
      await page.getByLabel("Key", { exact: true }).fill(strategy);
      await page.getByLabel("Strategy").selectOption(strategy);
      if (strategy === "composite") await button(page, "Add quota").click();
      await button(page, "Check").click();
      await see(page.locator(".answer-head"), "Granted");
    }
    await eventually(async () => await page.locator(".quota-result").count()).toBe(3);
    await pages.picture("limiter-composite-1280-light");
    const narrowest = await page
      .locator(".quota select")
      .evaluateAll((all) => Math.min(...all.map((select) => select.clientWidth)));
    // "minutes" and the arrow.
    expect(narrowest).toBeGreaterThanOrEqual(100);
  });

  it.each([320, 360, 390, 430])(
    "no name of a screen is cut off along the bottom, %d pixels wide",
    async (width) => {
      const page = await open({ viewport: { width, height: 800 } }, "records");
      await page.getByRole("link", { name: "Semaphores" }).waitFor();
      // To a fraction of a pixel, which is enough for an ellipsis.
      const cut = await page.locator(".side nav a span").evaluateAll((all) =>
        all
          .filter((name) => {
            const text = document.createRange();
            text.selectNodeContents(name);
            const room = parseFloat(getComputedStyle(name).width);
            const padding = 2 * parseFloat(getComputedStyle(name).paddingLeft);
            return text.getBoundingClientRect().width > room - padding + 0.1;
          })
          .map((name) => name.textContent),
      );
      expect(cut).toEqual([]);
      await expectWhole(page, width);
    },
  );

  it("no record is created without a key", async () => {
    const page = await open(undefined, "records");
    await button(page, "New record").click();
    const dialog = dialogOf(page);
    await button(dialog, "Create").click();
    await see(dialog, "Enter a key");
    expect((await fetch(`${dashboard.url}/v1/counters/`)).status).toBe(404);
  });

  it("on an open server every namespace can be chosen, and the address names it", async () => {
    const headers = { authorization: "Bearer namespace.my-app" };
    const body = JSON.stringify({ quota: 7, ttlMs: 3_600_000 });
    await fetch(`${dashboard.url}/v1/counters/mine`, { method: "PUT", headers, body });
    const page = await open({ viewport: { width: 320, height: 900 } }, "records");
    await button(page, "large").waitFor();
    const choice = page.locator("dialog[open] .choices");
    const choose = async (name: string): Promise<void> => {
      await button(page, /: choose another$/).click();
      await expectWhole(page, 320);
      await button(choice, name).click();
      await gone(page.locator("dialog[open]"));
      await see(page.locator(".rights"), name);
    };
    // The list has a namespace within seconds of its first record.
    await eventually(async () => {
      await button(page, /: choose another$/).click();
      await button(choice, "default").waitFor();
      const isListed = (await button(choice, "my-app").count()) === 1;
      await pages.picture("namespaces-320-light");
      await page.keyboard.press("Escape");
      return isListed;
    }).toBe(true);
    await choose("my-app");
    await button(page, "mine").waitFor();
    expect(await button(page, "large").count()).toBe(0);
    await eventually(() => page.url()).toMatch(/\/dashboard\?namespace=my-app#records$/);
    await page.getByRole("link", { name: "Channels" }).click();
    await eventually(() => page.url()).toMatch(/\/dashboard\?namespace=my-app#channels$/);
    const tail = page.locator(".card", { hasText: "Live messages" });
    await tail.getByLabel("Channel").fill("news");
    await button(tail, "Listen").click();
    await see(tail, "Listening");
    await fetch(`${dashboard.url}/channels/news`, { method: "POST", headers, body: "to my-app" });
    await see(tail, "to my-app");
    await pages.picture("namespace-320-light");
    // Another namespace ends the socket, even one that is only being opened, which a browser complains of.
    await button(tail, "Stop").click();
    await choose("default");
    await page.goBack();
    await see(page.locator(".rights"), "my-app");
    await page.reload();
    await see(page.locator(".rights"), "my-app");
    await button(page, "Leave the namespace").click();
    await see(page.locator(".rights"), "default");
    expect(page.url()).not.toContain("namespace=");
  });

  it("a namespace that is not listed can be opened by its name", async () => {
    const page = await open(undefined, "/dashboard?namespace=linked#records");
    await see(page.locator(".rights"), "linked");
    await see(page, "No records yet");
    await button(page, "Namespace linked: choose another").click();
    await dialogOf(page).getByRole("searchbox").fill("brand new");
    await gone(dialogOf(page).locator(".choices li"));
    expect(await button(dialogOf(page), /^Open/).count()).toBe(0);
    await dialogOf(page).getByRole("searchbox").fill("brand-new");
    await button(dialogOf(page), "Open brand-new").click();
    await see(page.locator(".rights"), "brand-new");
    await page.goto(`${dashboard.url}/dashboard#sign-in`);
    await see(page, "Or open a namespace without a token");
    await button(page, "default").click();
    await see(page.locator(".rights"), "default");
  });

  it("the dashboard can always be signed in to and out of", async () => {
    const page = await open(undefined, "sign-in");
    await see(page, "Or open a namespace without a token");
    await pages.picture("sign-in-open-1280-light");
    await page.getByLabel("Token", { exact: true }).fill("nonsense");
    await button(page, "Sign in").click();
    await see(page, "token_invalid");
    await button(page, "Back").click();
    await see(page, "Live");
    expect(page.url()).not.toContain("#");
    expect(await page.evaluate(() => sessionStorage.length)).toBe(0);
  });

  it("what is opened right behind a window stays open, though the browser takes a while to go back from the window", async () => {
    const page = await open(undefined, "records");
    await page.evaluate(() => {
      const back = history.back.bind(history);
      history.back = () => setTimeout(back, 300);
    });
    const openAndClose = async (name: string): Promise<void> => {
      await button(page, name).click();
      await see(dialogOf(page), "Time left");
      await page.keyboard.press("Escape");
    };
    await openAndClose("json");
    await openAndClose("bytes");
    // The step back is still to come then.
    await gone(page.locator("dialog[open]"));
    await page.keyboard.press("2");
    await page.getByRole("heading", { level: 1, name: "Limits" }).waitFor();
    await page.waitForTimeout(500);
    await eventually(() => page.url()).toMatch(/#limits$/);
    await page.goBack();
    await button(page, "json").waitFor();
    await eventually(() => page.url()).toMatch(/#records$/);
  });

  it("a key that asks for the filter before a screen has taken the focus has it", async () => {
    const page = await open(undefined, "overview");
    await see(page, "Live");
    await page.evaluate(() => {
      window.requestAnimationFrame = (draw) => window.setTimeout(draw, 3000, 0);
    });
    await page.keyboard.press("3");
    await button(page, "json").waitFor();
    await page.keyboard.press("/");
    await page.waitForTimeout(3500);
    await page.keyboard.type("js");
    await eventually(async () => await page.getByRole("searchbox").inputValue()).toBe("js");
  });

  it("a button keeps the focus while it waits for the server, and can be pressed again", async () => {
    const page = await open(undefined, "limiter");
    const answers: (() => void)[] = [];
    await page.route("**/throttr/**", async (route) => {
      await new Promise<void>((resolve) => answers.push(resolve));
      await route.fallback();
    });
    const check = button(page, "Check");
    const isFocused = async (): Promise<boolean> =>
      await check.evaluate((element) => element === document.activeElement);
    await check.focus();
    await page.keyboard.press("Enter");
    await eventually(async () => await check.isDisabled()).toBe(true);
    await page.keyboard.press("Enter");
    expect([answers.length, await isFocused()]).toEqual([1, true]);
    answers[0]!();
    await page.locator(".answer-head").waitFor();
    await eventually(async () => await check.isEnabled()).toBe(true);
    await page.keyboard.press("Enter");
    await eventually(() => answers.length).toBe(2);
    answers[1]!();
    await page.locator(".history li").waitFor();
    expect(await isFocused()).toBe(true);
  });

  it("the dashboard can be used with the keyboard alone", async () => {
    const page = await open(undefined, "overview");
    await see(page, "Live");
    await page.keyboard.press("3");
    await button(page, "json").waitFor();
    await eventually(() => page.evaluate(() => document.activeElement?.id)).toBe("screen-title");
    await page.keyboard.press("/");
    await page.keyboard.type("json?");
    await eventually(async () => await page.getByRole("searchbox").inputValue()).toBe("json?");
    await page.keyboard.press("Backspace");
    await see(page, "Keys that begin with “json”");
    await button(page, "json").focus();
    await page.keyboard.press("Enter");
    await dialogOf(page).waitFor();
    await page.keyboard.press("Escape");
    await gone(page.locator("dialog[open]"));
    await eventually(
      async () => await page.evaluate(() => document.activeElement?.textContent),
    ).toBe("json");
    await page.keyboard.press("?");
    await dialogOf(page).getByLabel("Enable shortcuts of a single key").uncheck();
    await page.keyboard.press("Escape");
    await page.keyboard.press("4");
    await page.waitForTimeout(200);
    await eventually(() => page.url()).toContain("#records");
  });

  it("the dashboard keeps the chosen theme, and follows the system's until then", async () => {
    const page = await open({ colorScheme: "dark" }, "limiter");
    const scheme = async (): Promise<string> =>
      await page.evaluate(() => getComputedStyle(document.documentElement).colorScheme);
    await see(page, "No request yet");
    expect(await scheme()).toBe("light dark");
    await page.keyboard.press("t");
    expect(await scheme()).toBe("light");
    await page.reload();
    expect(await scheme()).toBe("light");
    await see(page, "No request yet");
    await page.keyboard.press("t");
    await eventually(scheme).toBe("dark");
  });

  it("nothing moves for users who prefer reduced motion", async () => {
    const page = await open({ reducedMotion: "reduce" });
    await see(page, "Live");
    const animation = await page.evaluate(
      () => getComputedStyle(document.querySelector(".dot")!).animationName,
    );
    expect(animation).toBe("none");
  });

  it("the dashboard leaves all other paths to the Worker, and runs no foreign scripts", async () => {
    const page = await fetch(`${dashboard.url}/dashboard`);
    expect(page.status).toBe(200);
    const html = await page.text();
    expect(html).not.toMatch(/<style|<script(?![^>]* src=)| style=| on\w+=/);
    const policy = page.headers.get("content-security-policy")!;
    expect(policy).toContain("default-src 'none'; script-src 'self'; style-src 'self'");
    expect(policy).not.toContain("unsafe");
    for (const path of ["/dashboard/none", "/_headers"]) {
      const answer = await fetch(dashboard.url + path);
      expect([path, answer.status]).toEqual([path, 404]);
      expect(answer.headers.get("content-type")).toBe("application/problem+json");
    }
    const slash = await fetch(`${dashboard.url}/dashboard/`, { redirect: "manual" });
    expect([slash.status, slash.headers.get("location")]).toEqual([307, "/dashboard"]);
  });
});

async function counter(key: string): Promise<{ quota: string }> {
  return (await (await fetch(`${dashboard.url}/v1/counters/${key}`)).json()) as { quota: string };
}

async function shardsOf(): Promise<Shards> {
  return (await (await fetch(`${dashboard.url}/v1/shards`)).json()) as Shards;
}

/** How often the page has asked for the live overview. */
const feedsOf = async (page: Page): Promise<number> =>
  await page.evaluate(
    () =>
      performance
        .getEntriesByType("resource")
        .filter(({ name }) => name.includes("/v1/overview/live")).length,
  );
