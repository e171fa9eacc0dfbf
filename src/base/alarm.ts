/** When an alarm may ring. */

/** Alarms are at least so far apart: each one that is set costs a row. */
export const ALARM_INTERVAL_MS = 1000;
/** The platform refuses dates of later centuries. An alarm that rings early finds nothing to do, and is set again. */
const ALARM_HORIZON_MS = 365 * 86_400_000;

/** The time, in milliseconds since the epoch, of the alarm for a deadline. */
export function alarmTime(deadlineMs: number, nowMs: number): number {
  return Math.min(Math.max(deadlineMs, nowMs + ALARM_INTERVAL_MS), nowMs + ALARM_HORIZON_MS);
}
