/** Serves the routes of the JSON door, and the OpenAPI document that describes them. */
import type { Context, Hono } from "hono";
import type { Access } from "../../base/access.ts";
import { Scope, type ScopeName } from "../../wire/throttr/requests.ts";
import { ThrottrError } from "../../wire/edge/error.ts";
import type { App } from "../app.ts";
import { readBody } from "../body.ts";
import { callerOf } from "../caller.ts";
import { methodNotAllowed } from "../problem.ts";
import type { Reach } from "../token.ts";
import { documentText } from "./openapi.ts";
import { RAW_TYPE, readRequest } from "./request.ts";
import type { Answer, Route } from "./route.ts";
import { ROUTES } from "./routes.ts";

type AppContext = Context<App>;

/**
 * For all answers. They are a caller's own data: no cache may keep them, and no browser may guess that a raw value is a
 * page.
 */
const HEADERS = { "cache-control": "no-store", "x-content-type-options": "nosniff" };
/** The document changes with a deployment only, so caches may keep it for 5 minutes. */
const DOCUMENT_HEADERS = { "cache-control": "public, max-age=300" };
/** For a reader without redirects, such as curl. */
const NO_REFERENCE =
  "This server has no reference pages. Its OpenAPI document, with all error codes, is at /openapi.json.\n";

/**
 * Adds all routes of `/v1` to the router, and the document that describes them.
 *
 * @param accessOf what a caller may do; throws a ThrottrError for one who is not known
 */
export function serveJson(
  router: Hono<App>,
  accessOf: (c: AppContext, reach?: Reach) => Promise<Access>,
): void {
  for (const route of ROUTES) {
    router.on(
      route.method,
      patternOf(route),
      async (c, next) => {
        // The rights come before the body: otherwise strangers could fill the memory with bodies.
        const access = await accessOf(c, route.reach);
        assertScopes(route.scopes, access);
        c.set("access", access);
        await next();
      },
      readBody("BODY_BYTES_MAX", "a body"),
      async (c) => await serve(route, c, c.var),
    );
  }
  // A path that exists answers another method with 405 and the methods that it has.
  for (const pattern of new Set(ROUTES.map(patternOf))) {
    const methods = ROUTES.filter((route) => patternOf(route) === pattern).map((r) => r.method);
    router.all(pattern, () => methodNotAllowed(methods));
  }
  router.get("/openapi.json", (c) =>
    c.body(documentText(), 200, { ...DOCUMENT_HEADERS, "content-type": "application/json" }),
  );
  // The reference is one of the assets, which are served before the Worker is asked: this is a server without them.
  router.get("/docs", (c) =>
    c.text(NO_REFERENCE, 302, { ...DOCUMENT_HEADERS, location: "/openapi.json" }),
  );
}

/**
 * Checks that an access has all scopes. Prefixes are checked later, at the frames, as only those have keys.
 *
 * @throws ThrottrError `scope_missing`
 */
export function assertScopes(scopes: readonly ScopeName[], access: Access): void {
  for (const scope of scopes) {
    if ((access.scopes & Scope[scope]) !== 0) continue;
    throw new ThrottrError("scope_missing", `this route needs the scope ${scopes.join(" and ")}`);
  }
}

/** Answers one request: reads it, runs its route, and makes a response of the answer. */
async function serve(
  route: Route,
  c: AppContext,
  { access, body }: App["Variables"],
): Promise<Response> {
  const input = readRequest(route, c.req.raw, body);
  const caller = callerOf(c.env, c.executionCtx, access);
  return responseOf(await route.answer({ caller, ...input }));
}

/** Bytes go as they are, and anything else as JSON; an answer with neither has no body. */
function responseOf({ status, json, bytes }: Answer): Response {
  if (bytes !== undefined) {
    return new Response(bytes, { status, headers: { ...HEADERS, "content-type": RAW_TYPE } });
  }
  if (json === undefined) return new Response(null, { status, headers: HEADERS });
  const headers = { ...HEADERS, "content-type": "application/json" };
  return new Response(JSON.stringify(json), { status, headers });
}

/**
 * The path in Hono's notation, `:key` for `{key}`. Hono decodes such names as UTF-8, so `readRequest` reads them again.
 */
function patternOf({ path }: Route): string {
  return path.replace(/\{(\w+)\}/g, ":$1");
}
