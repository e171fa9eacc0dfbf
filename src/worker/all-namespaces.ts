/**
 * Surveys of many namespaces, for who may see all of them.
 *
 * A survey wakes every object of its namespace. So a page is bounded in number, and ends early when it has taken long: a
 * scraper gives up after 10 s by default, and a Worker may make a limited number of calls for a request.
 */
import { reportFailure } from "../base/failure.ts";
import { stopwatchMs } from "../base/clock.ts";
import { DEPLOYMENT } from "../base/names.ts";
import { directoryStub } from "../base/stubs.ts";
import { Dispatch } from "../dispatch/dispatch.ts";
import type { Survey } from "../dispatch/survey.ts";
import type { Caller } from "./caller.ts";

/** Namespaces of a page, at most. With 4 shards and a Hub each they take 700 calls. */
export const SURVEYED_MAX = 100;
/** Namespaces that are asked at once. */
const CONCURRENT = 10;
/** No survey begins later; one that has begun may take 2 s more, as objects have as long to answer. */
const BUDGET_MS = 6000;

/** One namespace of a page. */
export interface SurveyedNamespace {
  readonly name: string;
  /** Null if its Directory failed. Shards and Hubs that fail are in the survey. */
  readonly survey: Survey | null;
}

/** Some namespaces in the order of their names. */
export interface SurveyedPage {
  readonly namespaces: readonly SurveyedNamespace[];
  /** The last name of the page; null if no namespaces follow. */
  readonly next: string | null;
}

/**
 * Asks the namespaces behind a name for their figures, as far as there is time.
 *
 * @param isKept see `ShardCalls.summary`
 * @throws ThrottrError `outcome_unknown` when the list of namespaces fails
 */
export async function surveyNamespaces(
  caller: Caller,
  after: string | null,
  limit: number,
  isKept: boolean = false,
): Promise<SurveyedPage> {
  const names = await namesBehind(caller, after, limit + 1);
  const asked = names.slice(0, limit);
  const namespaces: SurveyedNamespace[] = [];
  const endMs = stopwatchMs() + BUDGET_MS;
  for (let from = 0; from < asked.length; from += CONCURRENT) {
    if (from > 0 && stopwatchMs() >= endMs) break;
    const some = asked.slice(from, from + CONCURRENT);
    namespaces.push(...(await Promise.all(some.map((name) => surveyed(caller, name, isKept)))));
  }
  const hasMore = namespaces.length < names.length;
  return { namespaces, next: hasMore ? namespaces.at(-1)!.name : null };
}

async function namesBehind(
  { env }: Caller,
  after: string | null,
  limit: number,
): Promise<string[]> {
  try {
    const page = await directoryStub(env, DEPLOYMENT).namespacesPage(after, limit);
    return page.map(({ name }) => name);
  } catch (error) {
    throw reportFailure(error);
  }
}

async function surveyed(
  { env, requestTally }: Caller,
  name: string,
  isKept: boolean,
): Promise<SurveyedNamespace> {
  try {
    return { name, survey: await new Dispatch(env, name, requestTally).survey(isKept) };
  } catch (error) {
    reportFailure(error);
    return { name, survey: null };
  }
}
