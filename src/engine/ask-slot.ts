/**
 * Slots of a key near its limit: the shard is asked about it once in a while, however many callers wait for it.
 *
 * A caller that gets less than it wants takes a slot, and so does each that comes while others have theirs ahead of them.
 */
import { ASK_BACKLOG_NS, ASK_SLOT_NS } from "./sizes.ts";

/** What a caller got. */
export interface Got {
  readonly isRefused: boolean;
  /** Less than it wanted. */
  readonly isShort: boolean;
  readonly pauseNsMax: bigint;
}

/**
 * The slot of a caller.
 *
 * @param askNs the end of the slots that were taken before
 * @returns null for a caller that needs none; else the end of its slot, and its pause, which is above 0 after a refusal
 */
export function takeSlot(
  askNs: bigint,
  { isRefused, isShort, pauseNsMax }: Got,
  nowNs: bigint,
): { readonly askNs: bigint; readonly pauseNs: bigint } | null {
  const backlogNs = askNs > nowNs ? askNs - nowNs : 0n;
  if (!isRefused && !isShort && backlogNs === 0n) return null;
  const endNs = least(backlogNs + ASK_SLOT_NS, pauseNsMax);
  const waitNs = backlogNs > ASK_BACKLOG_NS ? backlogNs - ASK_BACKLOG_NS : 0n;
  // Slots that others have taken stay theirs, however short this caller's own pause may be.
  const takenNs = backlogNs > endNs ? backlogNs : endNs;
  return { askNs: nowNs + takenNs, pauseNs: isRefused ? endNs : least(waitNs, pauseNsMax) };
}

const least = (a: bigint, b: bigint): bigint => (a < b ? a : b);
