/**
 * Errors that code throws, or is given, when something goes wrong. The platform fails in ways that are known, and the server and its
 * package fail with codes. Any other error is a mistake in the code, whatever becomes of it on its way to a caller.
 */
import { ALL_CODES, Phase, phaseOf } from "../../../src/wire/edge/codes.ts";
import { ThrottrError } from "../../../src/wire/edge/error.ts";
import { COMMIT_FAILED, FULL } from "../platform/disk/errors.ts";

/** What the simulated platform throws by itself. */
const OF_PLATFORM: readonly string[] = [
  "Network connection lost.",
  "fetch failed",
  "Durable Object is overloaded. Too many requests queued.",
  COMMIT_FAILED,
  FULL,
];
/** An object is asked for a method, or given frames, that only another release knows. */
const BETWEEN_RELEASES = [
  "The RPC receiver does not implement the method ",
  "frames: not whole",
  // Release 0.4.0 can leave a new shard without them on a full disk: its journal, or its row.
  "no such table: journal_0",
  "Expected exactly one result from SQL query, but got no results.",
];
/** A shard ends its life by itself: see src/objects/shard/shard-time.ts. */
const RESTARTS = "clock_still: ";
/** A partition has left a second copy of the object: see src/objects/shard/shard-claim.ts. */
const PARTED = /^an old copy of shard \S+ is asked$/;
/** A shard has lost its data while it gave a part of it to another one: see src/objects/shard/adoption.ts. */
const FORGOTTEN = /^\S+ does not know of the attempt$/;
/** A Directory tells that of the deployment which Hub it could not reach: see src/objects/channel/directory.ts. */
const UNTOLD = /^\S+ has not answered$/;
/** An object was given up: see src/base/in-time.ts. */
const GIVEN_UP = /^no answer within \d+ ms$/;
/** Of a life that is over nothing leaves, this error as little as anything else. */
const OVER = "LifeOver";

const CODES: readonly string[] = ALL_CODES;
/** Codes of faults of the disk, and of a call that came too late. */
const FAULTS_OF_OTHERS: readonly string[] = ["journal_failed", "charge_cancelled"];
/** Those of an object that has another release than its caller. */
const FAULTS_BETWEEN_RELEASES: readonly string[] = ["answer_version", "page_version"];
/** What stands in front of a message: what `String(error)` puts there, and a door where a shard has refused its part of a call. */
const PREFIX = /^(?:\w*Error: |a part was refused: )+/;
/** An error of the language within another text, and what it says. */
const OF_LANGUAGE = /\b(?:Type|Range|Reference|Syntax)Error: (.*)$/s;

/**
 * Whether no fault of a run explains an error, or what it was made of.
 *
 * @param error what was thrown, or what a log says of it
 * @param hasReleases whether objects of several releases call each other
 */
export function isMistake(error: unknown, hasReleases: boolean): boolean {
  for (let each = error; ;) {
    if (!isExplained(each, hasReleases)) return true;
    const cause = each instanceof Error ? each.cause : undefined;
    if (cause === undefined || cause === null) return false;
    each = cause;
  }
}

function isExplained(error: unknown, hasReleases: boolean): boolean {
  if (error instanceof Error && error.name === OVER) return true;
  const text = textOf(error);
  if (OF_PLATFORM.includes(text) || text.startsWith(RESTARTS)) return true;
  if ([GIVEN_UP, PARTED, FORGOTTEN, UNTOLD].some((known) => known.test(text))) return true;
  if (hasReleases && BETWEEN_RELEASES.some((known) => text.startsWith(known))) return true;
  const inner = OF_LANGUAGE.exec(text)?.[1];
  if (inner !== undefined && !OF_PLATFORM.some((known) => inner.startsWith(known))) return false;
  return [error, text].some((each) => isRefusal(ThrottrError.from(each).code, hasReleases));
}

function isRefusal(code: string, hasReleases: boolean): boolean {
  if (!CODES.includes(code)) return false;
  if (phaseOf(code) !== Phase.fault || FAULTS_OF_OTHERS.includes(code)) return true;
  return hasReleases && FAULTS_BETWEEN_RELEASES.includes(code);
}

const textOf = (error: unknown): string =>
  (error instanceof Error ? error.message : String(error)).replace(PREFIX, "");
