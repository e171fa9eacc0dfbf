/** The guard: asks a limiter before a request is handled, for any framework that works with `Response`. */
import type { FieldNames } from "../../wire/edge/argument.ts";
import { optionsOf } from "../../ratelimit/known-options.ts";
import type { RateLimitResult } from "../../ratelimit/result.ts";
import { isCumulative, retryAfterSeconds, type HeaderStyle } from "../../ratelimit/http/headers.ts";
import { PROBLEM_TYPE } from "../../ratelimit/http/problem.ts";
import {
  checkHeaderStyle,
  checkLimiter,
  fieldsFor,
  problemFor,
  type RequestLimiter,
} from "../../ratelimit/http/request-limiter.ts";
import { configurationInvalid } from "../../wire/ratelimit/error.ts";

/**
 * How a request is limited.
 *
 * @typeParam Incoming the request: a `Request`, or the event or context of a framework
 *
 * @example
 * const options: GuardOptions<Request> = {
 *   limiter,
 *   key: (request) => request.headers.get("cf-connecting-ip") ?? "unknown",
 * };
 */
export interface GuardOptions<Incoming> {
  /** Decides: a RateLimiter. */
  readonly limiter: RequestLimiter;
  /** Identifies the client: any text, or a function of the request. Empty text is an error (`key_invalid`). */
  readonly key: string | ((request: Incoming) => string | Promise<string>);
  /** What the request costs, an integer from 1; 1 unless given. */
  readonly cost?: number | ((request: Incoming) => number | Promise<number>) | undefined;
  /** Style of the header fields; false for `Retry-After` only. `draft-8` unless given. */
  readonly headers?: HeaderStyle | false | undefined;
}

/**
 * The decision on a request.
 *
 * @example
 * const { response, addTo }: Guarded = await guard(request, { limiter, key });
 * return response ?? addTo(await handle(request));
 */
export interface Guarded {
  /**
   * The response to a refused request; null for one that is allowed. 429 with problem details and `Retry-After`, or 503
   * where the limit could not be asked and `onError` of the limiter is "closed". It has `headers` already.
   */
  readonly response: Response | null;
  /** Header fields for the response of the application. */
  readonly headers: Headers;
  /** The answer of the limiter. */
  readonly result: RateLimitResult;
  /**
   * A copy of a response with the header fields added: those of a response of `fetch` can't be changed. Fields of `draft-8`
   * are lists, so several guards add up; of the other styles a field that exists stays.
   */
  readonly addTo: (response: Response) => Response;
}

const OPTIONS: FieldNames<GuardOptions<unknown>> = {
  limiter: true,
  key: true,
  cost: true,
  headers: true,
};
/** Such a response can't be copied, and clients don't read its fields. */
const SWITCHING_PROTOCOLS = 101;

/**
 * Limits a request: gives the response to a refused one, and the header fields for the response to an allowed one. It is
 * one call to the server.
 *
 * An error of the limiter without `onError` is thrown on.
 *
 * @example
 * import { guard } from "throttr-edge/fetch";
 * import { RateLimiter, tokenBucket } from "throttr-edge/ratelimit";
 *
 * const strategy = tokenBucket({ burst: 10, rate: 1 });
 *
 * export default {
 *   async fetch(request: Request, env: Env): Promise<Response> {
 *     const { response, headers } = await guard(request, {
 *       limiter: new RateLimiter({ throttr: env.THROTTR, name: "api", strategy }),
 *       key: request.headers.get("cf-connecting-ip") ?? "unknown",
 *     });
 *     return response ?? new Response("hello", { headers });
 *   },
 * };
 *
 * @throws RateLimitError `configuration_invalid` for unknown options, what is not a limiter, a key that is neither text nor
 *   a function, and an unknown style of `headers`; ThrottrError as `RateLimiter.limit`
 */
export async function guard<Incoming>(
  request: Incoming,
  options: GuardOptions<Incoming>,
): Promise<Guarded> {
  const { limiter, key, cost = 1, headers: style = "draft-8" } = optionsOf(options, OPTIONS);
  checkLimiter(limiter);
  if (typeof key !== "string" && typeof key !== "function") {
    throw configurationInvalid("key", "expected text or a function of the request", key);
  }
  checkHeaderStyle(style);
  const result = await limiter.limit(typeof key === "string" ? key : await key(request), {
    cost: typeof cost === "function" ? await cost(request) : cost,
  });
  const headers = new Headers();
  if (style !== false) {
    for (const [name, value] of fieldsFor(limiter, result, style)) headers.set(name, value);
  }
  return {
    response: result.success ? null : refusalOf(limiter, result, headers),
    headers,
    result,
    addTo: (response) => withFields(response, headers, style !== false && isCumulative(style)),
  };
}

function refusalOf(limiter: RequestLimiter, refusal: RateLimitResult, fields: Headers): Response {
  const problem = problemFor(limiter, refusal);
  const headers = new Headers(fields);
  headers.set("content-type", PROBLEM_TYPE);
  const seconds = retryAfterSeconds(refusal);
  if (seconds !== null) headers.set("retry-after", String(seconds));
  return new Response(JSON.stringify(problem), { status: problem.status, headers });
}

function withFields(response: Response, fields: Headers, isList: boolean): Response {
  if (response.status === SWITCHING_PROTOCOLS) return response;
  const copy = new Response(response.body, response);
  fields.forEach((value, name) => {
    if (isList) copy.headers.append(name, value);
    else if (!copy.headers.has(name)) copy.headers.set(name, value);
  });
  return copy;
}
