/**
 * What a namespace did in the last hour: the answer to `GET /v1/history`.
 *
 * Each object that counts tells the Directory once a minute, with its first request of a minute, what it has counted by
 * then. So the figures are about a minute behind, and those of an object that nothing is asked of come with its next
 * request, to the minute in which they were counted.
 */

/** What rate limits decided in a minute. */
export interface DecisionCounts {
  readonly allowed: number;
  readonly refused: number;
  /** Calls without a decision, such as `kind_mismatch`. */
  readonly errors: number;
}

/** What was counted in one minute. */
export interface HistoryMinute {
  /** When the minute began, ms since the epoch. */
  readonly atMs: number;
  readonly requests: number;
  readonly readBytes: number;
  readonly writeBytes: number;
  /** Decisions of all limiters together. */
  readonly limits: DecisionCounts;
  /** The limiters with the most decisions of that minute, at most 16. */
  readonly byLimit: Readonly<Record<string, DecisionCounts>>;
}

export interface History {
  /** At most the last 60 whole minutes, oldest first; a minute in which nothing was counted is absent. */
  readonly minutes: readonly HistoryMinute[];
  /** Why there are none: `off` (`HISTORY` or `METRICS`), or `outdated` (the Directory runs the release before); else null. */
  readonly unavailable: "off" | "outdated" | null;
}
