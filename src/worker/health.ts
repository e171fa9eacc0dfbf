/**
 * How a deployment is, for whoever asks: no token is needed, so an answer costs next to nothing.
 *
 * Shards of other namespaces than `default` are unknown here: `base/data-refusals.ts` tells what calls have met.
 */
import { OPEN_ACCESS } from "../base/access.ts";
import { dataRefusal } from "../base/data-refusals.ts";
import { shardName } from "../base/names.ts";
import { ShardMap } from "../dispatch/placement.ts";
import type { Settings } from "../base/settings.ts";
import { shardStub } from "../base/stubs.ts";
import type { ThrottrError } from "../wire/edge/error.ts";
import { reportFailure } from "../base/failure.ts";
import { assertConfigured } from "./token.ts";

/** A shard is asked at most once within so long by each isolate, whoever asks how often. */
const REMEMBERED_MS = 60_000;

interface Known {
  readonly atMs: number;
  problem: ThrottrError | null;
}

const known = new WeakMap<Settings, Known>();

/** @throws ThrottrError when no caller can be served */
export async function assertHealthy(env: Env, settings: Settings): Promise<void> {
  assertConfigured(settings);
  const refusal = dataRefusal();
  if (refusal !== null) throw refusal;
  // Where tokens are asked for, the namespaces in use are not known, and `default` need not be one of them.
  if (settings.ACCESS !== "open") return;
  const problem = await problemOfShard(env, settings);
  if (problem !== null) throw problem;
}

/** What the first shard of namespace `default` refuses every request with; null for nothing. */
async function problemOfShard(env: Env, settings: Settings): Promise<ThrottrError | null> {
  const before = known.get(settings);
  if (before !== undefined && Date.now() - before.atMs < REMEMBERED_MS) return before.problem;
  // Who asks meanwhile gets the last answer: a request can't wait for the call of another.
  const asked: Known = { atMs: Date.now(), problem: before?.problem ?? null };
  known.set(settings, asked);
  asked.problem = await askShard(env, settings);
  return asked.problem;
}

async function askShard(env: Env, settings: Settings): Promise<ThrottrError | null> {
  const { namespace } = OPEN_ACCESS;
  const { placement } = new ShardMap(namespace, settings.SHARDS, settings.SHARD_SECRET);
  try {
    await shardStub(env, shardName.format(namespace, 0)).summary(placement);
    return null;
  } catch (error) {
    return reportFailure(error);
  }
}
