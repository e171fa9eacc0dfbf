/** What commands say of records. */
import type { Remaining } from "../wire/edge/operations.ts";
import { shownDuration } from "./duration.ts";
import { ExitCode } from "./exit-code.ts";
import type { Output } from "./output.ts";
import { jsonBytes } from "./text.ts";

/** Says that there is no record under a key. */
export async function absent(output: Output, key: Uint8Array): Promise<ExitCode> {
  await output.print({ ...jsonBytes("key", key), found: false }, () => null);
  output.note(output.faint("there is no such record"));
  return ExitCode.refused;
}

/** How long a record still lives, for scripts. */
export const remainingJson = ({ ttlMs, expiresAtMs }: Remaining) => ({ ttlMs, expiresAtMs });

/** How long a record still lives, for people. */
export function remainingText({ ttlMs, expiresAtMs }: Remaining): [string, string][] {
  return [
    ["ttl", shownDuration(ttlMs)],
    ["expires", shownTime(expiresAtMs)],
  ];
}

/** A point in time for people. What no calendar has is said in milliseconds. */
export function shownTime(atMs: number): string {
  const date = new Date(atMs);
  return Number.isNaN(date.getTime()) ? `${atMs} ms` : date.toISOString();
}
