/**
 * The codes that a client acts on. They have a file of their own because pages bundle the client, and the table of all codes
 * (`codes.ts`) carries their titles: three kilobytes that a page never shows.
 */
import type { Code } from "./codes.ts";

/** After these codes it is not known whether the call was applied: those of `Phase.unknown`, which a test compares. */
export const UNKNOWN_CODES: readonly Code[] = ["aborted", "outcome_unknown", "timeout"];

/** A part of the refused message is at fault, so halves of the message may be accepted. */
export const PART_CODES: readonly Code[] = [
  "body_too_large",
  "channels_max",
  "frame_too_large",
  "prefix_missing",
  "request_type_unknown",
  "runs_max",
  "scope_missing",
];
