/** Routes of the shards of a namespace: which there are, and splits by hand. */
import * as v from "valibot";
import { refusalOf, reportFailure } from "../../base/failure.ts";
import { Dispatch } from "../../dispatch/dispatch.ts";
import { CIRCLE } from "../../wire/range.ts";
import type { Caller } from "../caller.ts";
import { assertNamespace } from "./confirmation.ts";
import { ok, route } from "./route.ts";
import { adminBody } from "./schemas/namespace.ts";
import { count, counted, integer } from "./schemas/parts.ts";

/** Of 8 hex digits; an index is shorter. */
const LABEL_LENGTH_MAX = 8;
const LABEL_MESSAGE = "expected the name of a shard, as GET /v1/shards shows it";
const label = v.pipe(
  v.string(),
  v.description(
    "Its index; or the hash at which its range begins, in 8 hex digits, of a shard that a split has made.",
  ),
);
/** Which shard. */
export const shardPlace = {
  shard: label,
  from: counted("First hash of its range, of 2^32."),
  to: counted("Behind the last hash of its range."),
};
/** Whether it should split. */
export const splitNeed = {
  isHot: v.pipe(
    v.boolean(),
    v.description("More calls than `SPLIT_CALLS_PER_SECOND` for half a minute."),
  ),
  splitProblem: v.pipe(
    v.nullable(v.string()),
    v.description(
      "Why its last split does not come to its end, or why it does not split though it is large; it tries again, and needs no split once this is null.",
    ),
  ),
};
const shardsAnswer = v.strictObject({
  shards: v.array(
    v.strictObject({
      ...shardPlace,
      records: counted("Records of all kinds; expired records count until they are collected."),
      bytes: counted("Memory that the records use."),
      bytesMax: counted("The limit, `SHARD_BYTES_MAX`: a shard with more than 60 % of it splits."),
      callsPerSecond: v.pipe(
        v.number(),
        v.description("Calls with requests on keys, in the last whole five seconds."),
      ),
      ...splitNeed,
      reportedAtMs: v.pipe(
        v.nullable(v.number()),
        v.description("When the shard reported this, in ms since the epoch; null if it was asked."),
      ),
      split: v.nullable(
        v.strictObject({
          at: counted("First hash of the upper part."),
          isGiven: v.pipe(
            v.boolean(),
            v.description("The upper part is another shard's, which may not know yet."),
          ),
        }),
      ),
    }),
  ),
});
const splitBody = v.strictObject({
  ...adminBody.entries,
  shard: v.pipe(
    v.string(LABEL_MESSAGE),
    v.minLength(1, LABEL_MESSAGE),
    v.maxLength(LABEL_LENGTH_MAX, LABEL_MESSAGE),
    v.description("As `GET /v1/shards` shows it."),
  ),
  at: v.exactOptional(
    integer(
      1,
      CIRCLE - 1,
      "First hash of the upper part; unless given, the middle of the records.",
    ),
  ),
});
const splitAnswer = v.strictObject({ shard: label, newShard: label, at: count });

async function asked<T>(
  { env, access, requestTally }: Caller,
  ask: (dispatch: Dispatch) => Promise<T>,
): Promise<T> {
  try {
    return await ask(new Dispatch(env, access.namespace, requestTally));
  } catch (error) {
    const refusal = refusalOf(error);
    // The caller's mistake, or a moment that is not right: nothing has failed.
    throw refusal?.code === "split_refused" ? refusal : reportFailure(error);
  }
}

export const shardRoutes = [
  route({
    method: "GET",
    path: "/v1/shards",
    id: "shards",
    tag: "admin",
    summary: "List the shards of the namespace",
    description:
      "In the order of the circle of hashes, of which each shard owns a range. Asks every shard, and wakes those that sleep; of more than 16 shards it shows their last reports instead, which they make each minute while they are awake. The token's prefixes do not matter.",
    scopes: ["admin"],
    answers: { 200: { description: "The shards.", schema: shardsAnswer } },
    example: { url: "/v1/shards" },
    answer: async ({ caller }) =>
      ok({ shards: await asked(caller, async (d) => await d.shards()) }),
  }),
  route({
    method: "POST",
    path: "/v1/shards/split",
    id: "splitShard",
    tag: "admin",
    summary: "Begin a split of a shard",
    description:
      "The shard serves all of its range meanwhile, and `GET /v1/shards` shows how far it is. Ranges are never merged again.",
    scopes: ["admin"],
    body: splitBody,
    answers: { 200: { description: "The split has begun.", schema: splitAnswer } },
    errors: ["namespace_mismatch", "split_refused"],
    example: { url: "/v1/shards/split", body: { namespace: "default", shard: "0" } },
    answer: async ({ caller, body }) => {
      assertNamespace(body, caller);
      const { shard, at = null } = body;
      return ok(await asked(caller, async (dispatch) => await dispatch.split(shard, at)));
    },
  }),
];
