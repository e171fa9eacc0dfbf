/** How commands print records: their absence, and their remaining time. */
import type { Remaining } from "../wire/edge/operations.ts";
import { shownDuration } from "./duration.ts";
import { ExitCode } from "./exit-code.ts";
import type { Output } from "./output.ts";
import { jsonBytes } from "./text.ts";

/** Reports that a key has no record. Exits with 1, so scripts can test for it. */
export async function absent(output: Output, key: Uint8Array): Promise<ExitCode> {
  await output.print({ ...jsonBytes("key", key), found: false }, () => null);
  output.note(output.faint("no such record"));
  return ExitCode.refused;
}

/** The remaining time of a record, for scripts. */
export const remainingJson = ({ ttlMs, expiresAtMs }: Remaining) => ({ ttlMs, expiresAtMs });

/** The remaining time of a record, for people. */
export function remainingText({ ttlMs, expiresAtMs }: Remaining): [string, string][] {
  return [
    ["ttl", shownDuration(ttlMs)],
    ["expires", shownTime(expiresAtMs)],
  ];
}

/** A time for people. A `Date` ends in the year 275760; later times are printed in milliseconds. */
export function shownTime(atMs: number): string {
  const date = new Date(atMs);
  return Number.isNaN(date.getTime()) ? `${atMs} ms` : date.toISOString();
}
