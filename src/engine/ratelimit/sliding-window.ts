/**
 * Sliding window: two buckets stand for the window that ends now. The current one counts in full, the one
 * before it for the share of it that the window still covers, as if its requests had come evenly.
 *
 * Buckets lie on the grid of the epoch. No bucket counts more than the limit, so no window of any
 * position lets twice the limit through. Source: rate limit reference names it; the sums here are exact:
 * `previous * (window - elapsed) + (current + cost) * window <= limit * window`.
 */
import type { SlidingWindowConfiguration } from "../../wire/ratelimit/configuration.ts";
import {
  slidingWindowCodec,
  type SlidingWindowState,
} from "../../wire/ratelimit/sliding-window-state.ts";
import { addUpTo, upToEnd } from "./moments.ts";
import { LIFE_PARTS, TTL_NS_MIN, type Strategy } from "./strategy.ts";

export function slidingWindow({
  limit,
  windowNs,
}: SlidingWindowConfiguration): Strategy<SlidingWindowState> {
  const lifeNsMax = windowNs / BigInt(LIFE_PARTS);

  /** The buckets at a moment: what was the current one may be the previous one by then, or gone. */
  function bucketsAt(state: SlidingWindowState | null, ns: bigint): SlidingWindowState {
    if (state !== null) {
      const { startNs, current } = state;
      const elapsedNs = ns - startNs;
      if (elapsedNs < windowNs) return state;
      if (elapsedNs < 2n * windowNs) {
        return { current: 0, previous: current, startNs: startNs + windowNs };
      }
    }
    return { current: 0, previous: 0, startNs: ns - (ns % windowNs) };
  }

  /** Further grants of cost 1. */
  function remainingAt({ current, previous, startNs }: SlidingWindowState, ns: bigint): number {
    const coveredNs = ns > startNs ? startNs + windowNs - ns : windowNs;
    const free = BigInt(limit) * windowNs - BigInt(previous) * coveredNs;
    return Math.max(0, Number(free / windowNs) - current);
  }

  /** When a cost that is refused now is granted. */
  function resetNs(buckets: SlidingWindowState, cost: number): bigint | null {
    if (cost > limit) return null;
    const { current, previous, startNs } = buckets;
    const room = limit - cost;
    if (room >= current) return upToEnd(startNs + fadeNs(previous, room - current));
    return upToEnd(startNs + windowNs + fadeNs(current, room));
  }

  /** From the start of a bucket until at most `room` of the previous one's count, which is more, is covered. */
  function fadeNs(count: number, room: number): bigint {
    return windowNs - (BigInt(room) * windowNs) / BigInt(count);
  }

  /** Changes the bucket that a charge was counted in, current or previous; null when it is neither any more. */
  function changeCharged(
    state: SlidingWindowState,
    nowNs: bigint,
    charged: SlidingWindowState,
    by: number,
  ): SlidingWindowState | null {
    const buckets = bucketsAt(state, nowNs);
    const { current, previous, startNs } = buckets;
    if (charged.startNs === startNs) return { ...buckets, current: addUpTo(current, by) };
    if (charged.startNs !== startNs - windowNs) return null;
    return { ...buckets, previous: addUpTo(previous, by) };
  }

  return {
    codec: slidingWindowCodec,
    leadingQuotas: 1,
    judge: (state, nowNs, cost) => {
      const buckets = bucketsAt(state, nowNs);
      const remaining = remainingAt(buckets, nowNs);
      const allowed = cost <= remaining;
      return [
        {
          allowed,
          limit,
          remaining,
          resetNs: allowed ? upToEnd(buckets.startNs + windowNs) : resetNs(buckets, cost),
        },
      ];
    },
    charge: (state, nowNs, cost, [quota]) => {
      quota!.remaining -= cost;
      const { current, previous, startNs } = bucketsAt(state, nowNs);
      return { current: current + cost, previous, startNs };
    },
    refund: (state, nowNs, cost) => {
      const { current, previous, startNs } = bucketsAt(state, nowNs);
      if (current + previous === 0) return null;
      const fromCurrent = Math.min(current, cost);
      const fromPrevious = Math.min(previous, cost - fromCurrent);
      return { current: current - fromCurrent, previous: previous - fromPrevious, startNs };
    },
    lifeNsMax,
    lifeNs: () => lifeNsMax,
    missing: () => Infinity,
    giveBack: (state, nowNs, { units, charged }) => changeCharged(state, nowNs, charged, -units),
    owe: (state, nowNs, { units, charged }) => changeCharged(state, nowNs, charged, units),
    amend: (state, by) => ({ ...state, current: addUpTo(state.current, by) }),
    ttlNs: ({ startNs }, nowNs) => {
      const leftNs = startNs + 2n * windowNs - nowNs;
      return leftNs < TTL_NS_MIN ? TTL_NS_MIN : upToEnd(leftNs);
    },
  };
}
