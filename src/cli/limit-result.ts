/** The result of a limit, as commands print it. */
import type { LimitResult } from "../wire/edge/limit.ts";
import { shownDuration } from "./duration.ts";
import type { Output } from "./output.ts";
import { shownTime } from "./records.ts";
import { tableOf, type Column } from "./table.ts";
import { shownText } from "./text.ts";

/** A result for scripts, in the fields of the library. */
export const resultJson = <Result extends LimitResult>({ quotas, ...result }: Result) => ({
  ...result,
  quotas: Object.fromEntries(Object.entries(quotas).map(([name, quota]) => [name, { ...quota }])),
});

/** A result for people: one line, and a table where the limit has several quotas. */
export function resultText(output: Output, result: LimitResult): string {
  const { success, remaining, limit, reset: resetMs, retryAfterMs, reason, quotas } = result;
  const room = `${remaining} of ${limit} left`;
  const wait =
    reason === undefined ? waitText(retryAfterMs) : "the cost is above the limit's capacity";
  const until = resetMs === null ? "" : `, reset ${shownTime(resetMs)}`;
  const line = success
    ? `${output.good("allowed")}  ${room}${until}`
    : `${output.bad("refused")}  ${room}, ${wait}`;
  const rows = Object.entries(quotas);
  return rows.length < 2 ? line : `${line}\n${tableOf(output, QUOTAS, rows)}`;
}

/** The quotas of a limit that has several. */
const QUOTAS: readonly Column<[string, LimitResult["quotas"][string]]>[] = [
  ["QUOTA", ([name]) => shownText(name)],
  ["ALLOWED", ([, { allowed }]) => (allowed ? "yes" : "no")],
  ["LEFT", ([, { remaining }]) => remaining, "right"],
  ["LIMIT", ([, { limit }]) => limit, "right"],
  ["RESET", ([, { reset }]) => (reset === null ? "never" : shownTime(reset))],
];

/** When a refused request may be repeated. */
export const waitText = (retryAfterMs: number | null): string =>
  retryAfterMs === null ? "waiting does not help" : `retry in ${shownWait(retryAfterMs)}`;

/** A wait for people, rounded up: a caller who waits as long as it says is not refused for a rounded millisecond. */
export function shownWait(ms: number): string {
  return shownDuration(ms < 1000 ? ms : Math.ceil(ms / 1000) * 1000);
}
