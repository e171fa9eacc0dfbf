/**
 * Health of a deployment, for load balancers. It needs no token, so an answer must cost next to nothing.
 *
 * It asks one shard of namespace `default` at most. Problems of other namespaces are known only from calls that met
 * them: `base/data-refusals.ts` remembers those.
 */
import { presentMs } from "../base/clock.ts";
import { isWithin } from "../base/recent.ts";
import type { Environment } from "../base/environment.ts";
import { OPEN_ACCESS } from "../base/access.ts";
import { dataRefusal } from "../base/data-refusals.ts";
import { shardMapOf } from "../dispatch/known-maps.ts";
import { ShardGroup, type AskedShard } from "../dispatch/shard-group.ts";
import type { Settings } from "../base/settings.ts";
import { shardStub } from "../base/stubs.ts";
import { orIfUnknown } from "../base/unknown-method.ts";
import { Phase, phaseOf } from "../wire/edge/codes.ts";
import type { ThrottrError } from "../wire/edge/error.ts";
import { reportFailure } from "../base/failure.ts";
import { assertConfigured } from "./token.ts";

/** Each isolate asks the shard at most once in this time, however often `/health` is called. */
const REMEMBERED_MS = 60_000;
/** The same, after a failure that may be over at once, as that of a shard that restarts. */
const FAILURE_REMEMBERED_MS = 5_000;

/** The last answer of the shard, and when it was asked. */
interface Known {
  readonly atMs: number;
  problem: ThrottrError | null;
}

/** By settings, which are one object for each environment: tests with others do not share it. */
const known = new WeakMap<Settings, Known>();

/**
 * @param hasSessions whether an application gives rights, so that no token is needed
 * @throws ThrottrError when no caller can be served
 */
export async function assertHealthy(
  env: Environment,
  settings: Settings,
  hasSessions: boolean,
): Promise<void> {
  if (!hasSessions) assertConfigured(settings);
  const refusal = dataRefusal();
  if (refusal !== null) throw refusal;
  // With tokens the namespaces in use are unknown, and asking `default` would create an object that nobody uses.
  if (settings.ACCESS !== "open") return;
  const problem = await problemOfShard(env, settings);
  if (problem !== null) throw problem;
}

/** The problem with which the first shard of namespace `default` refuses every request; null if it serves. */
async function problemOfShard(env: Environment, settings: Settings): Promise<ThrottrError | null> {
  const before = known.get(settings);
  if (before !== undefined && isWithin(before.atMs, rememberedMs(before))) return before.problem;
  // Other requests get the last answer meanwhile: on this platform a request cannot await a call of another one.
  const asked: Known = { atMs: presentMs(), problem: before?.problem ?? null };
  known.set(settings, asked);
  asked.problem = await askShard(env);
  return asked.problem;
}

/** A refusal says what the data is like, and comes again. */
function rememberedMs({ problem }: Known): number {
  const isRefusal = problem === null || phaseOf(problem.code) === Phase.refusal;
  return isRefusal ? REMEMBERED_MS : FAILURE_REMEMBERED_MS;
}

/** Asks the first shard for what it is: where it can't serve its range, it refuses. */
async function askShard(env: Environment): Promise<ThrottrError | null> {
  const map = shardMapOf(env, OPEN_ACCESS.namespace);
  const shards = new ShardGroup(map, (from) => shardStub(env, map.nameAt(from)));
  try {
    await shards.findShards();
    if (map.shards > 0) await shards.askOwnerOf(0, askState);
    return null;
  } catch (error) {
    return reportFailure(error);
  }
}

async function askState({ placement, stub }: AskedShard): Promise<void> {
  // A shard of a release before 0.5.0 looks at all its records for it.
  await orIfUnknown<unknown>(stub().shardState(placement), () => stub().summary(placement));
}
