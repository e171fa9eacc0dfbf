/**
 * Fixed windows: each quota counts up to its limit in a window that starts with the first request that
 * is counted, not on a grid. A request counts in all quotas or in none.
 *
 * Source: rate limit reference, "Algorithms". The state holds starts and counts, the configuration lengths and
 * limits: a quota that the state does not have starts fresh, one that the configuration does not have
 * is forgotten. A window whose counts were all given back has not started.
 */
import {
  TTL_FACTOR,
  type FixedWindowConfiguration,
  type QuotaConfiguration,
} from "../../wire/ratelimit/configuration.ts";
import { fixedWindowCodec, type CountedWindow } from "../../wire/ratelimit/fixed-window-state.ts";
import { INT64_MAX } from "../../wire/ratelimit/numbers.ts";
import { addUpTo, upToEnd } from "./moments.ts";
import { LIFE_PARTS, TTL_NS_MIN, type Strategy } from "./strategy.ts";

type State = readonly CountedWindow[];

export function fixedWindow({ quotas }: FixedWindowConfiguration): Strategy<State> {
  const lifeNsMax =
    quotas.reduce((least, { windowNs }) => (windowNs < least ? windowNs : least), INT64_MAX) /
    BigInt(LIFE_PARTS);

  /** Counts of the windows that a charge was counted in, where those still run; null when none does. */
  function changeCharged(state: State, nowNs: bigint, charged: State, by: number): State | null {
    let isLive = false;
    const windows = state.map((window) => {
      const quota = quotas.find(({ name }) => name === window.name);
      if (quota === undefined || liveWindow(state, quota, nowNs) === undefined) return window;
      if (windowOf(charged, quota)?.startNs !== window.startNs) return window;
      isLive = true;
      return countedBy(window, by);
    });
    return isLive ? windows : null;
  }

  return {
    codec: fixedWindowCodec(quotas[0]!.name),
    leadingQuotas: quotas.length,
    judge: (state, nowNs, cost) =>
      quotas.map((quota) => {
        const { limit, windowNs } = quota;
        const window = liveWindow(state, quota, nowNs);
        const count = window?.count ?? 0;
        return {
          allowed: count + cost <= limit,
          limit,
          remaining: Math.max(0, limit - count),
          resetNs: cost > limit ? null : upToEnd((window?.startNs ?? nowNs) + windowNs),
        };
      }),
    charge: (state, nowNs, cost, results) =>
      quotas.map((quota, i) => {
        results[i]!.remaining -= cost;
        const window = liveWindow(state, quota, nowNs);
        return {
          name: quota.name,
          count: (window?.count ?? 0) + cost,
          startNs: window?.startNs ?? nowNs,
        };
      }),
    refund: (state, nowNs, cost) => {
      const windows: CountedWindow[] = [];
      let isLive = false;
      for (const quota of quotas) {
        const window = windowOf(state, quota);
        if (window === undefined) continue;
        const isRefunded = liveWindow(state, quota, nowNs) !== undefined;
        const count = isRefunded ? Math.max(0, window.count - cost) : window.count;
        windows.push({ ...window, count });
        isLive ||= isRefunded;
      }
      return isLive ? windows : null;
    },
    lifeNsMax,
    lifeNs: (charged, nowNs) => {
      let lifeNs = lifeNsMax;
      for (const quota of quotas) {
        const window = liveWindow(charged, quota, nowNs);
        const leftNs = window === undefined ? lifeNs : window.startNs + quota.windowNs - nowNs;
        if (leftNs < lifeNs) lifeNs = leftNs;
      }
      return lifeNs;
    },
    missing: () => Infinity,
    giveBack: (state, nowNs, { units, charged }) => changeCharged(state, nowNs, charged, -units),
    owe: (state, nowNs, owed) => changeCharged(state, nowNs, owed.charged, owed.units),
    amend: (state, by) => state.map((window) => countedBy(window, by)),
    ttlNs: (state, nowNs) => {
      let leftNs = 0n;
      for (const quota of quotas) {
        const window = windowOf(state, quota);
        if (window === undefined) continue;
        const windowLeftNs = window.startNs + quota.windowNs - nowNs;
        if (windowLeftNs > leftNs) leftNs = windowLeftNs;
      }
      return leftNs < TTL_NS_MIN ? TTL_NS_MIN : upToEnd(leftNs * BigInt(TTL_FACTOR));
    },
  };
}

function countedBy(window: CountedWindow, by: number): CountedWindow {
  return { ...window, count: addUpTo(window.count, by) };
}

function windowOf(state: State | null, { name }: QuotaConfiguration): CountedWindow | undefined {
  return state?.find((window) => window.name === name);
}

/** The window of a quota, unless it has ended or not started. */
function liveWindow(
  state: State | null,
  quota: QuotaConfiguration,
  nowNs: bigint,
): CountedWindow | undefined {
  const window = windowOf(state, quota);
  if (window === undefined || window.count === 0) return undefined;
  return nowNs - window.startNs >= quota.windowNs ? undefined : window;
}
