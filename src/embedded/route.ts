/** The doors of the server below a path of the application that it is part of. */
import { mount } from "../worker/mount.ts";
import { router } from "../worker/router.ts";
import { mayUseSession } from "../worker/web-pages.ts";
import type { Environment } from "../base/environment.ts";
import { readSettings, SettingsError } from "../base/settings.ts";
import type { ExpiringGrant } from "../base/grant.ts";
import { checkOptions, type FieldNames } from "../wire/edge/argument.ts";
import { ThrottrError } from "../wire/edge/error.ts";
import { PROBLEM_TYPE } from "../worker/v1/document.ts";
import { answerPage, type Pages } from "./pages.ts";

/** The rights of a session; null for a request without one. */
export type Session = ExpiringGrant | null;

export interface RouteOptions {
  /**
   * The path that the doors are below, as a URL has it, such as `/a%20b`; `/throttr-edge` unless given. `/` serves them at the
   * root.
   */
  readonly prefix?: string | undefined;
  /**
   * The rights of a request, by the session of the application, such as its cookie. Called for each request that needs
   * rights, and for each connection; it must not read the body. Without `scopes` it gives all but `admin`. An empty list
   * of prefixes is an error: it would allow any key. Where it gives null, a token that is signed with
   * `THROTTR_TOKEN_SECRET` is accepted, and a request without one gets a 401.
   *
   * Without it a token is the only way, or `THROTTR_ACCESS=open`.
   */
  readonly access?: ((request: Request) => Session | Promise<Session>) | undefined;
  /** The module `throttr-edge/dashboard`, to serve the dashboard at `/dashboard` below the prefix. */
  readonly dashboard?: Pages | undefined;
  /** The module `throttr-edge/docs`, to serve the API reference at `/docs` below the prefix. */
  readonly docs?: Pages | undefined;
}

const OPTIONS: FieldNames<RouteOptions> = {
  prefix: true,
  access: true,
  dashboard: true,
  docs: true,
};

const PREFIX = "/throttr-edge";

/** The prefix itself leads to the dashboard, but not the root of the application. */
const HOME: Pages = { files: {}, detours: { "": "/dashboard", "/": "/dashboard" } };

/** In place of `Bearer`: RFC 9110 wants a challenge with each 401, and has none for cookies. */
const SESSION_CHALLENGE = "Session";

/** Lists all codes. */
const CODES_PAGE = "https://github.com/throttr/throttr-edge/blob/main/docs/reference.md";

/** The doors, below the prefix. Any other path is the application's. */
const DOORS = /^\/(?:throttr|yrmcds|channels|v1)\/|^\/(?:health|metrics|openapi\.json)$/;

/**
 * Answers requests to the doors of Throttr: frames and WebSockets, channels, `/v1`, health and metrics. Null for any
 * other path, which is the application's own.
 *
 * @throws ThrottrError `option_invalid`, `argument_invalid`
 *
 * @example
 * export default {
 *   async fetch(request, env, ctx) {
 *     const response = await routeThrottr(request, env, ctx, {
 *       access: async (request) => {
 *         const user = await userOf(request);
 *         if (user === null) return null;
 *         const prefixes = [`user:${user.id}:`];
 *         const scopes = ["read", "write"] as const;
 *         return { namespace: "my-app", scopes, keyPrefixes: prefixes, channelPrefixes: prefixes };
 *       },
 *     });
 *     return response ?? new Response("my application");
 *   },
 * };
 */
export async function routeThrottr(
  request: Request,
  env: unknown,
  ctx: Pick<ExecutionContext, "waitUntil">,
  options: RouteOptions = {},
): Promise<Response | null> {
  checkOptions(options, OPTIONS, "routeThrottr");
  const prefix = prefixOf(options.prefix ?? PREFIX);
  const url = new URL(request.url);
  const environment = env as Environment;
  if (url.pathname !== prefix && !url.pathname.startsWith(`${prefix}/`)) return null;
  const path = url.pathname.slice(prefix.length);
  const page = pageOf(request, options, prefix, path);
  if (page !== null) return page;
  if (!DOORS.test(path)) return null;
  const context = contextOf(ctx);
  const { access } = options;
  const isOwnPage = access !== undefined && isOfOwnPage(request, environment);
  if (access !== undefined) {
    mount(context, { grantOf: async () => await access(request), isOwnPage });
  }
  const inner = new Request(url.origin + path + url.search, request);
  const response = await router.fetch(inner, environment, context);
  // A browser sends cookies to another origin, and shows the page the answer, only where the answer allows both.
  if (isOwnPage && response.headers.has("access-control-allow-origin")) {
    response.headers.set("access-control-allow-credentials", "true");
  }
  if (response.body === null) return response;
  const hasReference = options.docs !== undefined;
  if (response.headers.get("content-type") === PROBLEM_TYPE) {
    const isSessionNeeded =
      response.status === 401 &&
      access !== undefined &&
      readSettings(environment).TOKEN_SECRET === "";
    const problem = await placedProblem(response, hasReference ? prefix : null);
    // Without a secret no token can be right: the dashboard reads the challenge, and asks for none.
    if (isSessionNeeded) problem.headers.set("www-authenticate", SESSION_CHALLENGE);
    return problem;
  }
  if (path === "/openapi.json") return await placedDocument(response, prefix);
  if (path === "/v1/access") return await placedGrant(response, hasReference);
  return response;
}

/** False if a variable is out of range: the router then answers every request with `config_invalid`. */
function isOfOwnPage(request: Request, environment: Environment): boolean {
  try {
    return mayUseSession(request, readSettings(environment));
  } catch (error) {
    if (error instanceof SettingsError) return false;
    throw error;
  }
}

/**
 * A context for one request: what is noted of it must not hold for others of the same event. A method of the platform's
 * object would refuse to be called on another one.
 */
function contextOf(ctx: Pick<ExecutionContext, "waitUntil">): ExecutionContext {
  const waitUntil = (work: Promise<unknown>): void => ctx.waitUntil(work);
  return { waitUntil, passThroughOnException: () => {}, props: {} } as object as ExecutionContext;
}

/** A file of the dashboard or of the reference; null for any other path. */
function pageOf(
  request: Request,
  { dashboard, docs }: RouteOptions,
  prefix: string,
  path: string,
): Response | null {
  const hasHome = dashboard !== undefined && prefix !== "";
  for (const pages of [hasHome ? HOME : undefined, dashboard, docs]) {
    const page = pages === undefined ? null : answerPage(pages, request, prefix, path);
    if (page !== null) return page;
  }
  return null;
}

/**
 * The prefix without a slash at its end.
 *
 * @throws ThrottrError `option_invalid`
 */
function prefixOf(prefix: string): string {
  if (!/^\/(?:[^/?#]+(?:\/[^/?#]+)*\/?)?$/.test(prefix)) {
    throw prefixInvalid(`a path that begins with a slash, such as ${PREFIX}`, prefix);
  }
  // The path of a request is escaped, and has no dots to resolve: it would never begin with another form.
  const { pathname } = new URL(`http://localhost${prefix}`);
  if (pathname !== prefix) throw prefixInvalid(`the path as a URL has it, ${pathname}`, prefix);
  return prefix.replace(/\/$/, "");
}

function prefixInvalid(expected: string, got: string): ThrottrError {
  return new ThrottrError("option_invalid", `prefix: expected ${expected}, got ${got}`);
}

/**
 * Makes a problem lead to the row of its code: in the API reference, or in the project's documentation.
 *
 * @param prefix of the API reference; null where there is no such page
 */
async function placedProblem(response: Response, prefix: string | null): Promise<Response> {
  const problem: { readonly type: string; readonly code: string } = await response.json();
  const type = prefix === null ? `${CODES_PAGE}#${problem.code}` : prefix + problem.type;
  return Response.json({ ...problem, type }, response);
}

/** Makes the document say where its routes are. */
async function placedDocument(response: Response, prefix: string): Promise<Response> {
  if (prefix === "") return response;
  const document: object = await response.json();
  return Response.json({ ...document, servers: [{ url: prefix }] }, response);
}

/** Makes the rights say whether the API reference is there: the dashboard reads them anyway. */
async function placedGrant(response: Response, hasReference: boolean): Promise<Response> {
  const grant: object = await response.json();
  return Response.json({ ...grant, hasReference }, response);
}
