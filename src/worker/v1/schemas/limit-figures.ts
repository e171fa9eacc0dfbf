/** Answers about decisions of limits: the schemas of `wire/limit-figures.ts`. */
import * as v from "valibot";
import { base64Answer, count, counted, textAnswer } from "./parts.ts";

/** A total, which outlives its shard, and an estimate of the last minute. */
const rate = v.strictObject({ total: count, perMinute: count });

/** Decisions by outcome. */
export const limitRates = {
  allowed: rate,
  refused: rate,
  errors: v.pipe(
    rate,
    v.description("Calls without a decision, such as `kind_mismatch` or `shard_full`."),
  ),
  local: v.pipe(
    rate,
    v.description(
      "Those of `allowed` and `refused` that callers decided from allowances, as they report with their next draw.",
    ),
  ),
};

const name = v.pipe(
  v.string(),
  v.description("Name of the limiter: what its stored keys have before their first colon."),
);

/** A key of a limiter, with the bounds between which its true count is. */
const hotKey = {
  key: textAnswer("The key of the limit, if it is UTF-8."),
  keyBase64: base64Answer("The key of the limit, if it is not UTF-8."),
  count: counted("At least the true count. Counts are halved every 5 minutes."),
  countErrorMax: counted("The true count is at least `count` less this."),
};

/** What is the same in the figures of all limiters and of one. */
const common = {
  atMs: counted("When all shards had answered, in ms since the epoch by the server's clock."),
  unreachableShards: v.pipe(
    v.array(count),
    v.description("Indexes of shards that did not answer: no figure includes them."),
  ),
};

const hottest = "The keys with the most decisions lately, at most 64.";
const mostRefused = "The keys with the most refusals lately, at most 64.";

export const limitFiguresAnswer = v.strictObject({
  ...common,
  limits: v.pipe(
    v.array(v.strictObject({ name, ...limitRates })),
    v.description("Most decisions of the last minute first."),
  ),
  others: v.pipe(
    v.nullable(v.strictObject(limitRates)),
    v.description(
      "All limiters beyond the 256 that a shard tells apart, and keys that name no limiter; null without any.",
    ),
  ),
  hottest: v.pipe(v.array(v.strictObject({ name, ...hotKey })), v.description(hottest)),
  mostRefused: v.pipe(v.array(v.strictObject({ name, ...hotKey })), v.description(mostRefused)),
});

export const oneLimitAnswer = v.strictObject({
  ...common,
  name,
  ...limitRates,
  hottest: v.pipe(v.array(v.strictObject(hotKey)), v.description(hottest)),
  mostRefused: v.pipe(v.array(v.strictObject(hotKey)), v.description(mostRefused)),
});
