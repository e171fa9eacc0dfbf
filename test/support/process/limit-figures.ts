/** Figures of rate limits as a server answers them, for pages that are looked at without hours of traffic. */
import type { Page } from "playwright-core";
import type { History, HistoryMinute } from "../../../src/wire/history.ts";
import type { HotKey, LimitFigures, LimitRates } from "../../../src/wire/limit-figures.ts";

const MINUTE_MS = 60_000;

/** By limiter: granted and refused per second, and how much of that from allowances. */
export type Traffic = Readonly<
  Record<string, readonly [allowed: number, refused: number, local?: number]>
>;

/** The last hour of a server that knows all but the current minute. */
export function historyOf(traffic: Traffic, nowMs: number, minutes = 60): History {
  const current = nowMs - (nowMs % MINUTE_MS);
  return {
    minutes: Array.from({ length: minutes }, (_, i): HistoryMinute => {
      const wave = 1 + 0.5 * Math.sin(i / 6);
      const byLimit = Object.fromEntries(
        Object.entries(traffic).map(([name, [allowed, refused]]) => [
          name,
          {
            allowed: Math.round(allowed * wave * 60),
            refused: Math.round(refused * wave * 60),
            errors: 0,
          },
        ]),
      );
      const all = Object.values(byLimit);
      const sum = (outcome: "allowed" | "refused"): number =>
        all.reduce((total, counts) => total + counts[outcome], 0);
      const limits = { allowed: sum("allowed"), refused: sum("refused"), errors: 0 };
      return {
        atMs: current - (minutes - i) * MINUTE_MS,
        requests: limits.allowed + limits.refused,
        readBytes: 0,
        writeBytes: 0,
        limits,
        byLimit,
      };
    }),
    unavailable: null,
  };
}

const ratesOf = (
  [allowed, refused, local = 0]: Traffic[string],
  seconds: number,
  errors = 0,
): LimitRates => ({
  allowed: { total: Math.round(allowed * seconds), perMinute: allowed * 60 },
  refused: { total: Math.round(refused * seconds), perMinute: refused * 60 },
  errors: { total: errors, perMinute: errors },
  local: { total: Math.round(local * seconds), perMinute: local * 60 },
});

/** Answers the routes of figures in place of the server, from now on. */
export async function answerFigures(
  page: Page,
  {
    traffic,
    keys = [],
    history = true,
    more = {},
  }: {
    readonly traffic: Traffic;
    readonly keys?: readonly (HotKey & { readonly name: string })[];
    /** False: the server is of a release without history. */
    readonly history?: boolean;
    readonly more?: Partial<LimitFigures>;
  },
): Promise<void> {
  const startedAtMs = Date.now() - 3_600_000;
  await page.route("**/v1/history", async (route) =>
    history
      ? await route.fulfill({ json: historyOf(traffic, Date.now()) })
      : await route.fulfill({
          status: 404,
          contentType: "application/problem+json",
          json: { type: "/docs#not_found", code: "not_found", status: 404 },
        }),
  );
  await page.route(/\/v1\/limits(?:\/[^/]*)?$/, async (route) => {
    const atMs = Date.now();
    const seconds = (atMs - startedAtMs) / 1000;
    const name = /\/v1\/limits\/(.*)$/.exec(route.request().url())?.[1];
    const common = { atMs, unreachableShards: [] };
    if (name !== undefined) {
      const own = keys.filter((key) => key.name === name);
      const rates = ratesOf(traffic[name]!, seconds);
      await route.fulfill({ json: { ...common, name, ...rates, hottest: own, mostRefused: own } });
      return;
    }
    const limits = Object.entries(traffic).map(([limiter, rates]) => ({
      name: limiter,
      ...ratesOf(rates, seconds),
    }));
    const json = { ...common, limits, others: null, hottest: keys, mostRefused: keys, ...more };
    await route.fulfill({ json });
  });
}
