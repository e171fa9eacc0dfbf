/** The middleware: asks a limiter before a request is handled, and tells the client what it said. */
import type { Context, Env, MiddlewareHandler, Next } from "hono";
import { optionsOf } from "../ratelimit/known-options.ts";
import type { FieldNames } from "../wire/edge/argument.ts";
import type { RateLimitResult } from "../ratelimit/result.ts";
import {
  isCumulative,
  retryAfterSeconds,
  type Field,
  type HeaderStyle,
} from "../ratelimit/http/headers.ts";
import { PROBLEM_TYPE, type RateLimitProblem } from "../ratelimit/http/problem.ts";
import {
  checkHeaderStyle,
  checkLimiter,
  decisionIn,
  fieldsFor,
  problemFor,
  type RequestLimiter,
} from "../ratelimit/http/request-limiter.ts";
import { configurationInvalid } from "../wire/ratelimit/error.ts";

/**
 * How requests are limited.
 *
 * @example
 * const options: RateLimitOptions = {
 *   limiter,
 *   key: (c) => c.req.header("cf-connecting-ip") ?? "unknown",
 *   skip: (c) => c.req.path === "/health",
 * };
 */
export interface RateLimitOptions<E extends Env = Env, Name extends string = string> {
  /** Who decides; a function where it depends on the request, or on bindings that come with it. */
  readonly limiter: RequestLimiter | ((c: Context<E>) => RequestLimiter | Promise<RequestLimiter>);
  /** Who is limited: any text but none, which is an error (`key_invalid`). */
  readonly key?: ((c: Context<E>) => string | Promise<string>) | undefined;
  /** Another name of `key`. */
  readonly keyGenerator?: ((c: Context<E>) => string | Promise<string>) | undefined;
  /** What a request costs, an integer from 1; 1 unless given. */
  readonly cost?: number | ((c: Context<E>) => number | Promise<number>) | undefined;
  /** True for requests that are not limited: no limiter is asked, nothing is set. */
  readonly skip?: ((c: Context<E>) => boolean | Promise<boolean>) | undefined;
  /** Gives back what a request cost that was not successful. */
  readonly skipFailedRequests?: boolean | undefined;
  /** Gives back what a request cost that was successful. */
  readonly skipSuccessfulRequests?: boolean | undefined;
  /** Whether a request that has been handled was successful: its status is below 400 unless given. */
  readonly requestWasSuccessful?: ((c: Context<E>) => boolean | Promise<boolean>) | undefined;
  /** Which fields the response has; false for none but `Retry-After`. `draft-8` unless given. */
  readonly headers?: HeaderStyle | false | undefined;
  /** Where the result stands in `c.var`: `rateLimit` unless given. */
  readonly requestPropertyName?: Name | undefined;
  /** Is told of every refusal before it is answered; in shadow mode too. */
  readonly onLimited?:
    ((c: Context<E>, result: RateLimitResult) => void | Promise<void>) | undefined;
  /**
   * Answers a refused request; problem details unless given. Header fields are added to what it returns,
   * `Retry-After` too unless it has one. It may serve the request all the same: `await next()`.
   */
  readonly handler?:
    | ((
        c: Context<E>,
        next: Next,
        result: RateLimitResult,
      ) => Response | void | Promise<Response | void>)
    | undefined;
}

const OPTIONS: FieldNames<RateLimitOptions> = {
  limiter: true,
  key: true,
  keyGenerator: true,
  cost: true,
  skip: true,
  skipFailedRequests: true,
  skipSuccessfulRequests: true,
  requestWasSuccessful: true,
  headers: true,
  requestPropertyName: true,
  onLimited: true,
  handler: true,
};

const FUNCTIONS = ["skip", "requestWasSuccessful", "onLimited", "handler"] as const;

/**
 * What the middleware sets.
 *
 * @example
 * const app = new Hono<{ Variables: RateLimitVariables }>();
 */
export type RateLimitVariables<Name extends string = "rateLimit", Result = RateLimitResult> = {
  [Key in Name]: Result;
};

/**
 * Middleware that limits requests.
 *
 * A request that is allowed goes on, with the result in `c.var.rateLimit`; one that is refused is answered
 * with 429 and problem details, or 503 where the limit could not be asked and `onError` of the limiter is
 * "closed". Without `onError` an error of the limiter is thrown on, to the application's `onError`.
 *
 * The cost is given back, if it is, before the response is sent; not where the limiter could not be asked.
 *
 * @example
 * import { Hono } from "hono";
 * import { rateLimit } from "throttr-edge/hono";
 * import { RateLimiter, tokenBucket } from "throttr-edge/ratelimit";
 *
 * const app = new Hono<{ Bindings: Env }>();
 * const strategy = tokenBucket({ burst: 10, rate: 1 });
 *
 * app.use(
 *   "/api/*",
 *   rateLimit<{ Bindings: Env }>({
 *     limiter: (c) => new RateLimiter({ throttr: c.env.THROTTR, name: "api", strategy }),
 *     key: (c) => c.req.header("cf-connecting-ip") ?? "unknown",
 *   }),
 * );
 *
 * @throws RateLimitError `configuration_invalid` unless there is one of `key` and `keyGenerator`, for
 *   what is not a limiter or not a function, for unknown options, and for an unknown style of `headers`
 */
export function rateLimit<E extends Env = Env, Name extends string = "rateLimit">(
  options: RateLimitOptions<E, Name> & { readonly skip?: undefined },
): MiddlewareHandler<E & { Variables: RateLimitVariables<Name> }>;
/** With `skip` there may be no result. */
export function rateLimit<E extends Env = Env, Name extends string = "rateLimit">(
  options: RateLimitOptions<E, Name>,
): MiddlewareHandler<E & { Variables: RateLimitVariables<Name, RateLimitResult | undefined> }>;
export function rateLimit<E extends Env>(options: RateLimitOptions<E>): MiddlewareHandler<E> {
  optionsOf(options, OPTIONS);
  const { limiter, cost = 1, headers = "draft-8", skip, onLimited, handler } = options;
  const { skipFailedRequests = false, skipSuccessfulRequests = false } = options;
  const { requestPropertyName = "rateLimit", requestWasSuccessful = isBelow400 } = options;
  if (typeof limiter !== "function") {
    checkLimiter(limiter, "a RateLimiter, or a function of the context that returns one");
  }
  const keyOf = keyFunctionOf(options);
  checkFunctions(options);
  checkHeaderStyle(headers);

  async function isGivenBack(c: Context<E>): Promise<boolean> {
    if (!skipFailedRequests && !skipSuccessfulRequests) return false;
    return (await requestWasSuccessful(c)) ? skipSuccessfulRequests : skipFailedRequests;
  }

  /** @returns the result of giving it back, if that was done */
  async function serve(
    c: Context<E>,
    next: Next,
    refund: () => Promise<RateLimitResult>,
  ): Promise<RateLimitResult | null> {
    try {
      await next();
    } catch (error) {
      // What the application has thrown is what went wrong: an error of the refund must not take its place.
      if (skipFailedRequests) await refund().catch(() => {});
      throw error;
    }
    return (await isGivenBack(c)) ? await refund() : null;
  }

  async function refuse(
    c: Context<E>,
    next: Next,
    result: RateLimitResult,
    chosen: RequestLimiter,
  ): Promise<void> {
    const response =
      handler === undefined
        ? problemResponse(c, problemFor(chosen, result))
        : await handler(c, next, result);
    if (!response || c.finalized) return;
    c.res = response;
    const seconds = retryAfterSeconds(result);
    if (seconds === null || c.res.headers.has(RETRY_AFTER)) return;
    c.header(RETRY_AFTER, String(seconds));
  }

  return async (c, next) => {
    if (await skip?.(c)) {
      await next();
      return;
    }
    const chosen = typeof limiter === "function" ? await limiter(c) : limiter;
    checkLimiter(chosen);
    const key = await keyOf(c);
    const charge = { cost: typeof cost === "function" ? await cost(c) : cost };
    const waitUntil = (work: Promise<unknown>): void => keepAlive(c, work);
    const result = await chosen.limit(key, { ...charge, waitUntil });
    setVariable(c, requestPropertyName, result);

    const { success, reason } = decisionIn(result);
    let told = result;
    if (!success) await onLimited?.(c, result);
    if (!result.success) await refuse(c, next, result, chosen);
    else if (!success || reason !== undefined) await next();
    else told = (await serve(c, next, async () => await chosen.refund(key, charge))) ?? result;

    if (!c.finalized) return;
    if (headers !== false && c.res.status !== SWITCHING_PROTOCOLS) {
      setFields(c, headers, fieldsFor(chosen, told, headers));
    }
    return c.res;
  };
}

const RETRY_AFTER = "Retry-After";
/** Such a response can't be copied, and its fields are not read. */
const SWITCHING_PROTOCOLS = 101;

function keyFunctionOf<E extends Env>({
  key,
  keyGenerator,
}: RateLimitOptions<E>): (c: Context<E>) => string | Promise<string> {
  const keyOf = key ?? keyGenerator;
  const isOne = key === undefined || keyGenerator === undefined;
  if (typeof keyOf === "function" && isOne) return keyOf;
  const expected = "expected a function, either as key or as keyGenerator";
  throw configurationInvalid("key", expected, keyOf);
}

/** A wrong one would fail a request, that of `handler` the first that is refused. */
function checkFunctions<E extends Env>(options: RateLimitOptions<E>): void {
  for (const name of FUNCTIONS) {
    const given = options[name];
    if (given === undefined || typeof given === "function") continue;
    throw configurationInvalid(name, "expected a function", given);
  }
}

/** Keeps work alive after the response, where the platform would end it. */
function keepAlive<E extends Env>(c: Context<E>, work: Promise<unknown>): void {
  let context: Context["executionCtx"];
  try {
    // Hono throws where the application was called without one, as in Node: nothing ends the work there.
    context = c.executionCtx;
  } catch {
    return;
  }
  context.waitUntil(work);
}

function isBelow400<E extends Env>(c: Context<E>): boolean {
  return c.res.status < 400;
}

function setVariable<E extends Env>(c: Context<E>, name: string, result: RateLimitResult): void {
  (c as unknown as Context<{ Variables: Record<string, RateLimitResult> }>).set(name, result);
}

function problemResponse<E extends Env>(c: Context<E>, problem: RateLimitProblem): Response {
  return c.body(JSON.stringify(problem), problem.status, { "content-type": PROBLEM_TYPE });
}

function setFields<E extends Env>(c: Context<E>, style: HeaderStyle, fields: Field[]): void {
  for (const [name, value] of fields) {
    if (isCumulative(style)) c.header(name, value, { append: true });
    else if (!c.res.headers.has(name)) c.header(name, value);
  }
}
