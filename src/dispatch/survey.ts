/**
 * Survey: the figures of all objects of a namespace, asked at once.
 *
 * INFO, Stats of yrmcds, `GET /v1/overview` and `GET /metrics` are made of it. It costs one call to the Directory, and
 * one to each Shard and Hub, and each call is billed: nothing asks for a survey by itself. Each object answers for
 * itself, so it is not a snapshot.
 *
 * Objects keep their old code for up to five minutes after a deployment. What one of the release before leaves out must
 * be told apart from a figure that is zero: see `Silence`.
 */
import type { Environment } from "../base/environment.ts";
import { sumFigures, type TallyFigures } from "../engine/tally.ts";
import { hasMoved, refusalOf } from "../base/failure.ts";
import type { KeptHub } from "../base/calls/channel.ts";
import type { HubFigures } from "../base/calls/hub.ts";
import { inTime } from "../base/in-time.ts";
import { directoryStub, hubStub } from "../base/stubs.ts";
import type { ShardSummary } from "../base/calls/shard.ts";
import type { Answered, AskedShard, ShardGroup } from "./shard-group.ts";
import { readOrAsk, type SaidOf } from "./shard-reports.ts";

/** What was counted beside Shards and Hubs, and what the Hubs say. */
interface Beside {
  /** By name; those that have connections. */
  readonly hubs: readonly HubAnswer[];
  /** What was counted beside Shards and these Hubs. */
  readonly beside: TallyFigures;
  /** Of that, what HTTP callers have asked since the Directory started. */
  readonly doors: TallyFigures;
}

/** What all objects have said, or why they have not. */
export interface Survey extends Beside {
  /** In the order of the circle. */
  readonly shards: readonly SaidOf<ShardSummary | Silence>[];
}

/** A survey in which all Shards have answered. */
export interface WholeSurvey extends Beside {
  readonly shards: readonly Answered<ShardSummary>[];
}

/** What one Hub has said. */
export interface HubAnswer {
  readonly hub: string;
  readonly answer: HubFigures | Silence;
}

/** In place of what an object did not say. */
export interface Silence {
  /**
   * `timeout`, `failed`, `outdated` (it runs an earlier release, which says less), or the code that a
   * shard refuses every request with.
   */
  readonly code: string;
}

/** Figures have no field `code`. */
export function isSilence(answer: object): answer is Silence {
  return "code" in answer;
}

/** What Shards say that have answered, or have reported. */
export function answeringShards({ shards }: Survey | WholeSurvey): ShardSummary[] {
  return shards.flatMap(({ answer }) => (isSilence(answer) ? [] : [answer]));
}

/** What Hubs say that have answered. */
export function answeringHubs({ hubs }: Beside): HubFigures[] {
  return hubs.flatMap(({ answer }) => (isSilence(answer) ? [] : [answer]));
}

/**
 * Asks all objects; what a Shard or Hub does not say within 2 s is left out.
 *
 * @param isKept see `ShardCalls.summary`
 */
export async function askAll(
  env: Environment,
  shards: ShardGroup,
  isKept: boolean,
): Promise<Survey> {
  const [beside, said] = await Promise.all([
    askBeside(env, shards.map.namespace),
    findShardsInTime(shards).then(
      async () =>
        await readOrAsk<ShardSummary | Silence>(env, shards, isKept, {
          ask: async (asked, isToReport) => {
            const summary = await inTimeOrSilence<ShardSummary>(
              asked,
              async ({ placement, stub }) => {
                return await stub().summary(placement, isKept, isToReport);
              },
            );
            return orOutdated(summary, "figures");
          },
          read: ({ summary }) => summary,
        }),
    ),
  ]);
  return { ...beside, shards: said };
}

/** A shard has refused, as it does not own the range that it was asked for: nothing is missing, so nothing is logged. */
interface Moved {
  readonly moved: unknown;
}

/** What all shards say, in the order of the circle; those that do not within 2 s are left out. */
export async function askEach<T extends object>(
  shards: ShardGroup,
  ask: (shard: AskedShard) => Promise<T>,
): Promise<(T | Silence)[]> {
  await findShardsInTime(shards);
  const answers = await shards.askKnown(async (shard) => await inTimeOrSilence(shard, ask));
  return answers.map(({ answer }) => answer);
}

/** Where the first shard does not say which others there are, those that are known are asked. */
async function findShardsInTime(shards: ShardGroup): Promise<void> {
  await inTime(shards.findShards(), shards.shardAt(0).name, "shard_failed");
}

/** What a shard says within 2 s. */
async function inTimeOrSilence<T extends object>(
  shard: AskedShard,
  ask: (shard: AskedShard) => Promise<T>,
): Promise<T | Silence> {
  const call = ask(shard).catch((error: unknown): Moved => {
    if (hasMoved(error)) return { moved: error };
    throw error;
  });
  const answer = await answerOrSilence<T | Moved>(call, shard.name, "shard_failed");
  if ("moved" in answer) throw answer.moved;
  return answer;
}

/**
 * Asks all objects, and waits for all Shards: INFO has no way to say that a sum leaves one out.
 *
 * @throws what a Shard throws
 */
export async function askWhole(env: Environment, shards: ShardGroup): Promise<WholeSurvey> {
  const [beside, summaries] = await Promise.all([
    askBeside(env, shards.map.namespace),
    shards.askAll(async ({ placement, stub }) => await stub().summary(placement, false)),
  ]);
  return { ...beside, shards: summaries };
}

/** Asks the Directory, then the Hubs that it names. */
async function askBeside(env: Environment, namespace: string): Promise<Beside> {
  const directory = directoryStub(env, namespace);
  const { hubs: names, figures, doors, kept = [] } = await directory.survey();
  const hubs = await Promise.all(
    names.toSorted().map(async (hub): Promise<HubAnswer> => {
      const asked = await answerOrSilence(hubStub(env, hub).figures(), hub, "hub_failed");
      return { hub, answer: orOutdated(asked, "byTransport") };
    }),
  );
  const empty = hubs.filter(({ answer }) => !isSilence(answer) && answer.connections === 0);
  // A Hub that was reset lost its connections, and could not tell the Directory: a survey sees it empty.
  if (empty.length > 0) await directory.suspect(empty.map(({ hub }) => hub));
  // A Directory of an earlier release does not tell the two apart.
  return { hubs, beside: sumFigures([figures, ...lostBy(hubs, kept)]), doors: doors ?? figures };
}

/** What Hubs have reported and do not say themselves: they were started again since, or do not answer. */
function lostBy(hubs: readonly HubAnswer[], kept: readonly KeptHub[]): TallyFigures[] {
  const said = new Map(
    hubs.map(({ hub, answer }) => [hub, isSilence(answer) ? null : answer.countedSinceMs]),
  );
  return kept.flatMap(({ hub, sinceMs, tally }) => (said.get(hub) === sinceMs ? [] : [tally]));
}

/** What a call returns, or why it did not: `refusalOf` tells a shard that refuses every request from one that failed. */
export async function answerOrSilence<T extends object>(
  call: Promise<T>,
  name: string,
  event: "hub_failed" | "shard_failed",
): Promise<T | Silence> {
  let code = "timeout";
  const noting = call.catch((error: unknown) => {
    code = refusalOf(error)?.code ?? "failed";
    throw error;
  });
  return (await inTime(noting, name, event)) ?? { code };
}

/** During a deployment objects of the release before answer, without fields that are new. */
function orOutdated<T extends object>(answer: T | Silence, field: keyof T): T | Silence {
  return isSilence(answer) || field in answer ? answer : { code: "outdated" };
}
