/** The answer about the last hour: the schema of `wire/history.ts`. */
import * as v from "valibot";
import { count, counted } from "./parts.ts";

/** Decisions by outcome. */
const decisions = {
  allowed: count,
  refused: count,
  errors: counted("Calls without a decision, such as `kind_mismatch` or `shard_full`."),
};

export const historyAnswer = v.strictObject({
  minutes: v.pipe(
    v.array(
      v.strictObject({
        atMs: counted("When the minute began, in ms since the epoch."),
        requests: count,
        readBytes: count,
        writeBytes: count,
        limits: v.pipe(
          v.strictObject(decisions),
          v.description("Decisions of all limiters together."),
        ),
        byLimit: v.pipe(
          v.record(v.string(), v.strictObject(decisions)),
          v.description(
            "By name: the limiters with the most decisions of that minute, at most 16. Lacks what a shard decided between its report of the minute and its sleep, so it may add up to less than `limits`.",
          ),
        ),
      }),
    ),
    v.description(
      "At most the last 60 whole minutes, oldest first. A minute in which nothing was counted is absent.",
    ),
  ),
  unavailable: v.pipe(
    v.nullable(v.picklist(["off", "outdated"])),
    v.description(
      "Why there are no minutes: `off` (`HISTORY=off` or `METRICS=off`), or `outdated` (the Directory still runs the previous release). Else null.",
    ),
  ),
});
