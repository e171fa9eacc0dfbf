/** Surveys of a namespace for HTTP routes: figures of all its objects, with failures as problems. */
import { Dispatch } from "../dispatch/dispatch.ts";
import { overviewOf } from "../dispatch/overview.ts";
import type { Silence, Survey } from "../dispatch/survey.ts";
import type { Overview } from "../wire/overview.ts";
import type { Caller } from "./caller.ts";
import type { ShardLimitFigures } from "../base/calls/shard.ts";
import { presentMs } from "../base/clock.ts";
import { reportFailure } from "../base/failure.ts";

/**
 * Asks all objects of the namespace for their figures.
 *
 * @param isKept see `ShardCalls.summary`
 * @throws ThrottrError `outcome_unknown` when the Directory, which knows of the Hubs, fails
 */
export async function askSurvey(
  { env, access, requestTally }: Caller,
  isKept: boolean = false,
): Promise<Survey> {
  try {
    return await new Dispatch(env, access.namespace, requestTally).survey(isKept);
  } catch (error) {
    throw reportFailure(error);
  }
}

/**
 * Sets the clocks of all shards back. Returns by how many milliseconds, by index of the shard.
 *
 * @throws ThrottrError `outcome_unknown` when a shard fails: it may be sent again
 */
export async function setClocksBack({ env, access, requestTally }: Caller): Promise<number[]> {
  try {
    return await new Dispatch(env, access.namespace, requestTally).setClocksBack();
  } catch (error) {
    throw reportFailure(error);
  }
}

/**
 * Asks all shards what their limits have decided; what one does not say within 2 s is left out.
 *
 * @throws ThrottrError `outcome_unknown` when a call could not be made
 */
export async function askLimitFigures(
  caller: Caller,
): Promise<readonly (ShardLimitFigures | Silence)[]> {
  const { env, access, requestTally } = caller;
  try {
    return await new Dispatch(env, access.namespace, requestTally).limitFigures();
  } catch (error) {
    throw reportFailure(error);
  }
}

/**
 * A survey as the overview that HTTP shows, with the time at which all objects had answered.
 *
 * @throws ThrottrError as `askSurvey`
 */
export async function askOverview(caller: Caller): Promise<Overview> {
  const survey = await askSurvey(caller);
  return overviewOf(caller.access.namespace, survey, presentMs());
}
