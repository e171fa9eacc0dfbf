/**
 * The HTTP and WebSocket doors: routes, tokens, origins, errors.
 *
 * A route checks in one order: the path, the token, then the body. So a stranger without a token costs one signature
 * check, and learns nothing but which paths exist. The JSON routes of `/v1` are in `v1/`.
 */
import { variableName } from "../base/deployment.ts";
import { Hono, type Context, type MiddlewareHandler } from "hono";
import { cors } from "hono/cors";
import type { Access } from "../base/access.ts";
import { logError } from "../base/log.ts";
import { readSettings } from "../base/settings.ts";
import { VERSION } from "../base/version.ts";
import { BRIDGE_SUBPROTOCOL, BRIDGE_SUBPROTOCOL_PREFIX } from "../wire/bridge.ts";
import {
  protocolByName,
  SIZED_DIALECTS,
  SIZELESS_DIALECTS,
  VALUE_SIZES,
  type Protocol,
} from "../wire/throttr/protocol.ts";
import type { AnyProtocol } from "../wire/protocols.ts";
import { YRMCDS_PROTOCOLS, type YrmcdsProtocol } from "../wire/yrmcds/dialect.ts";
import type { ProblemCode } from "../wire/edge/codes.ts";
import { ThrottrError } from "../wire/edge/error.ts";
import type { App } from "./app.ts";
import { readBody } from "./body.ts";
import { callerOf, type Caller } from "./caller.ts";
import { credentialsOf, subprotocolsOf } from "./credentials.ts";
import { channelOf, openListener, publishMessage } from "./channels.ts";
import { assertHealthy } from "./health.ts";
import { locationOf, openConnection, type Entrance } from "./hubs.ts";
import { inOrder } from "./in-order.ts";
import { openLive } from "./live.ts";
import { EXPOSITION_TYPE, expositionOf } from "./metrics/exposition.ts";
import type { Metric } from "./metrics/exposition.ts";
import { metricsOf } from "./metrics/metrics.ts";
import { askMetricsOfAll } from "./metrics/namespaces.ts";
import { hasSessions, sessionAccess, sessionMissing, settingsFor } from "./mount.ts";
import { isProblem, methodNotAllowed, problemResponse } from "./problem.ts";
import { askSurvey } from "./survey.ts";
import { answerBody } from "./throttr-http.ts";
import { assertNotRevoked } from "./revocations.ts";
import { trustedAccess } from "./trust.ts";
import { authenticate, type Reach } from "./token.ts";
import { liveQuery } from "./v1/overview.ts";
import { readQuery } from "./v1/request.ts";
import { assertScopes, serveJson } from "./v1/serve.ts";
import { assertHost, assertOrigin, assertUrl, isListedOrigin } from "./web-pages.ts";

type AppContext = Context<App>;

/** The answer to a program at `/`: the doors, in short. */
const DOORS_TEXT = `Throttr Edge ${VERSION}

/docs                        routes of /v1, as a page; /openapi.json for programs
/v1/...                      counters, buffers, limits, semaphores and channels in JSON
/throttr/{dialect}/{size}    frames: POST a body, or GET to open a WebSocket
/yrmcds/counter              semaphores of the yrmcds protocol: a WebSocket
/channels/{name}             GET to listen (Server-Sent Events), POST to publish
/dashboard                   for people
/metrics, /health            for monitoring
`;

/**
 * The subprotocol that a page offers beside its token, and the only one that is confirmed. Browsers cannot set headers
 * on a WebSocket, so a page sends its token as a second subprotocol, `bearer.TOKEN`; and they fail a handshake that
 * confirms none of the names that they offered.
 */
const SUBPROTOCOL = "throttr";

/**
 * The routes of all HTTP doors. The Worker runs them for requests from outside, and the entrypoint `Throttr` for
 * requests over a service binding; each isolate makes the router once, when it starts.
 */
export const router = new Hono<App>();

// A code decides the answer. An error without a known code is a fault of the server: its text goes to the log, and not
// to the client, whom it might tell about other callers.
router.onError((error) => {
  if (error instanceof ThrottrError && isProblem(error)) {
    return problemResponse(error.code as ProblemCode, error);
  }
  logError("request_failed", { error: String(error), stack: error.stack });
  return problemResponse("internal", {
    detail: "the request failed; the reason is in the log of the server",
  });
});

/** Where a path has an empty name, which no route takes: most often a variable of the caller was empty. */
const EMPTY_NAME = /^\/v1\/.*\/(\/|$)/;

// Hono's own 404 is plain text. All errors have one form here, so that a client needs one reader for them.
router.notFound(({ req: { path } }) =>
  problemResponse("not_found", {
    detail: `there is no route ${path}; /docs lists the routes${EMPTY_NAME.test(path) ? ", and how to write an empty name" : ""}`,
  }),
);

router.use(
  // Preflights are answered here, before a token is read: a browser sends them without one. It may keep the answer for
  // a day.
  cors({
    origin: (origin, c: AppContext) =>
      isListedOrigin(origin, readSettings(c.env)) ? origin : null,
    allowMethods: ["GET", "POST", "PUT", "PATCH", "DELETE"],
    allowHeaders: ["accept", "authorization", "content-type", "idempotency-key", "last-event-id"],
    maxAge: 86_400,
  }),
);

router.use(async (c, next) => {
  const settings = readSettings(c.env);
  assertUrl(c.req.url);
  // A request over a binding was made by a Worker, which may put any host into the URL.
  if (trustedAccess(c.executionCtx) === undefined) assertHost(c.req.url, settings);
  assertOrigin(c.req.header("origin"), c.req.url, settings);
  await next();
});

// A request that may write runs to its end. Otherwise the runtime would stop its code where it waits when the client has
// gone: some of its writes would be applied, and others not.
router.use(async (c, next) => {
  const { method } = c.req;
  await (method === "GET" || method === "HEAD" ? next() : inOrder(c.executionCtx, next()));
});

/**
 * Hono answers HEAD by running the handler of GET. One that opens a stream or a socket, which would stay open, lets it pass
 * to the route behind it, which refuses other methods.
 */
const unlessHead =
  (handler: (c: AppContext) => Promise<Response>): MiddlewareHandler<App> =>
  async (c, next) =>
    c.req.method === "HEAD" ? await next() : await handler(c);

// Without a token, as load balancers have none.
router.get("/health", async (c) => {
  await assertHealthy(c.env, readSettings(c.env), hasSessions(c.executionCtx));
  return c.json({ status: "ok" });
});

// A browser is sent to the dashboard; any other client gets the list of doors.
router.get("/", (c) => {
  const isPage = (c.req.header("accept") ?? "").includes("text/html");
  const response = isPage ? c.redirect("/dashboard") : c.text(DOORS_TEXT);
  response.headers.append("vary", "accept");
  return response;
});

// Browsers request it for every page without an icon; a 404 for each would fill the logs.
router.get("/favicon.ico", () => {
  return new Response(null, { status: 204, headers: { "cache-control": "public, max-age=86400" } });
});

/** Dialects with values of several sizes have the size in the path; the others have none. */
const THROTTR_PATHS = ["/throttr/:dialect", "/throttr/:dialect/:size"];

// Path and token are checked before the body is read: otherwise strangers could fill the memory with bodies.
router.on("POST", THROTTR_PATHS, async (c, next) => {
  protocolOf(c);
  c.set("access", await accessOf(c));
  await next();
});

// A body may hold many frames, so its limit is that of bodies; `findRuns` checks each frame against its own.
router.on("POST", THROTTR_PATHS, readBody("BODY_BYTES_MAX", "a body"));

router.on("POST", THROTTR_PATHS, async (c) => {
  const { access, body } = c.var;
  const caller = callerOf(c.env, c.executionCtx, access);
  return await answerBody(caller, protocolOf(c), body, c.req.raw.signal);
});

// GET is what a WebSocket handshake is made of; a GET without `Upgrade` gets a 426 that says what to send.
router.on(
  "GET",
  THROTTR_PATHS,
  unlessHead(async (c) => {
    const protocol = protocolOf(c);
    const access = await accessOf(c);
    return await openWebSocket(
      c,
      protocol,
      access,
      "GET opens a WebSocket; to send frames over HTTP, use POST",
    );
  }),
);

/** A form of the protocol has a path of its own, as a WebSocket has no port to tell forms apart by. */
const YRMCDS_PATHS = ["/yrmcds/counter", "/yrmcds/counter/:form"];

router.on(
  "GET",
  YRMCDS_PATHS,
  unlessHead(async (c) => {
    const protocol = yrmcdsProtocolOf(c);
    const access = await accessOf(c);
    assertMayCount(access);
    return await openWebSocket(
      c,
      protocol,
      access,
      "GET opens a WebSocket; semaphores over HTTP are at /v1/semaphores",
    );
  }),
);

// After the routes themselves, as Hono takes the first that matches: what comes here has another method.
for (const path of YRMCDS_PATHS) {
  router.all(path, (c) => {
    yrmcdsProtocolOf(c);
    return methodNotAllowed(["GET"], "Allowed methods: GET, which opens a WebSocket");
  });
}

/**
 * Opens a WebSocket to a Hub, and gives the Hub's answer to the client: from then on the Worker is not part of the
 * connection.
 *
 * @param upgradeText for a client that does not ask for a WebSocket: what the path is for, and what serves other
 * requests
 * @throws ThrottrError `upgrade_required`, `bridge_unsupported` for a gateway of another release, `connections_max`,
 * `hub_failed`
 */
async function openWebSocket(
  c: AppContext,
  protocol: AnyProtocol,
  access: Access,
  upgradeText: string,
): Promise<Response> {
  if (c.req.header("upgrade")?.toLowerCase() !== "websocket") {
    throw new ThrottrError("upgrade_required", upgradeText);
  }
  const offered = subprotocolsOf(c.req);
  const isGateway = offered.includes(BRIDGE_SUBPROTOCOL);
  // A plain WebSocket would send the gateway messages without the bridge's header, which it would misread.
  if (!isGateway && offered.some((name) => name.startsWith(BRIDGE_SUBPROTOCOL_PREFIX))) {
    throw new ThrottrError(
      "bridge_unsupported",
      `this server speaks ${BRIDGE_SUBPROTOCOL} with gateways: run the gateway of the server's release`,
    );
  }
  const response = await openConnection(entranceOf(c), {
    protocolCode: protocol.code,
    transport: "websocket",
    access,
    isGateway,
    subprotocol: !isGateway && offered.includes(SUBPROTOCOL) ? SUBPROTOCOL : null,
    ip: ipOf(c),
    port: 0,
    channel: null,
    after: null,
  });
  if (response.webSocket !== null) return response;
  throw connectionRefused(response.status);
}

// An unknown dialect is a 404 for any method, and only then the method matters.
for (const path of THROTTR_PATHS) {
  router.all(path, (c) => {
    protocolOf(c);
    return methodNotAllowed(
      ["GET", "POST"],
      "Allowed methods: POST to send frames, GET to open a WebSocket",
    );
  });
}

// `{[^]+}` lets the name of a channel have slashes and ends of lines. The name is checked before the token, and both before the body.
router.post("/channels/:channel{[^]+}", async (c, next) => {
  channelOf(c.req.url);
  c.set("access", await accessOf(c));
  await next();
});

// A message becomes one PUBLISH frame, so it has the limit of a frame.
router.post("/channels/:channel{[^]+}", readBody("FRAME_BYTES_MAX", "a message"));

router.post("/channels/:channel{[^]+}", async (c) => {
  const channel = channelOf(c.req.url);
  const { access, body } = c.var;
  const caller = callerOf(c.env, c.executionCtx, access);
  return c.json(await publishMessage(caller, channel, body));
});

router.get(
  "/channels/:channel{[^]+}",
  unlessHead(async (c) => {
    const channel = channelOf(c.req.url);
    const access = await accessOf(c);
    // A browser sends the header only when it reconnects by itself; a page that opens a new `EventSource` can set the
    // query alone.
    const after = c.req.header("last-event-id") ?? c.req.query("lastEventId") ?? null;
    const opened = await openListener(entranceOf(c), access, { channel, after, ip: ipOf(c) });
    if (typeof opened === "number") throw connectionRefused(opened);
    return opened;
  }),
);

router.all("/channels/:channel{[^]+}", () =>
  methodNotAllowed(
    ["GET", "POST"],
    "Allowed methods: POST to publish a message, GET to receive Server-Sent Events",
  ),
);

// Figures are gathered at each scrape. There is no process to keep them in: an isolate may end at any time. Counts are
// kept before they are shown: Prometheus takes one that is a little less than before for one that began again at 0.
router.get("/metrics", async (c) => {
  const text = expositionOf(await askMetrics(c));
  return c.body(text, 200, { "content-type": EXPOSITION_TYPE, "cache-control": "no-store" });
});

/** The metrics of the caller's namespace, or with `?namespace=*` of all. Any other parameter is ignored there. */
async function askMetrics(c: AppContext): Promise<Metric[]> {
  if (c.req.query("namespace") === undefined) {
    const watcher = await watcherOf(c);
    return metricsOf(watcher.access.namespace, await askSurvey(watcher, true));
  }
  return await askMetricsOfAll(await watcherOf(c, "deployment"), c.req.raw);
}

// Not among the routes of `v1/`, whose answers are whole: this one stays open.
router.get(
  "/v1/overview/live",
  unlessHead(async (c) => {
    const watcher = await watcherOf(c);
    const { intervalMs } = readQuery(liveQuery, c.req.raw);
    return await openLive(watcher, intervalMs);
  }),
);

serveJson(router, accessOf);

const PAGES = ["/", "/docs", "/favicon.ico", "/openapi.json"];

// A known path with another method is a 405 and not a 404.
for (const path of [...PAGES, "/health", "/metrics", "/v1/overview/live"]) {
  router.all(path, () => methodNotAllowed(["GET"]));
}

/**
 * A caller with the scope `admin`, which reading figures of a whole namespace needs.
 *
 * @throws ThrottrError as `accessOf`; `scope_missing`
 */
async function watcherOf(c: AppContext, reach?: Reach): Promise<Caller> {
  const access = await accessOf(c, reach);
  assertScopes(["admin"], access);
  c.set("access", access);
  return callerOf(c.env, c.executionCtx, access);
}

/**
 * The dialect that the path names.
 *
 * @throws ThrottrError `protocol_unknown`, with all names that would do
 */
function protocolOf(c: AppContext): Protocol {
  const { dialect, size } = c.req.param() as { dialect: string; size?: string };
  const protocol = protocolByName(dialect, size);
  if (protocol !== undefined) return protocol;
  throw new ThrottrError(
    "protocol_unknown",
    `${c.req.path}: dialects with a value size (${VALUE_SIZES.join(", ")}) are ${SIZED_DIALECTS.join(", ")}; without one ${SIZELESS_DIALECTS.join(", ")}`,
  );
}

/**
 * The form of the yrmcds protocol that the path names.
 *
 * @throws ThrottrError `protocol_unknown` for another form, and for any when `YRMCDS_ENABLE` is off
 */
function yrmcdsProtocolOf(c: AppContext): YrmcdsProtocol {
  const form = c.req.param("form");
  const name = form === undefined ? "yrmcds" : `yrmcds/${form}`;
  const isServed = readSettings(c.env).YRMCDS_ENABLE === "on";
  if (isServed && Object.hasOwn(YRMCDS_PROTOCOLS, name)) return YRMCDS_PROTOCOLS[name]!;
  throw new ThrottrError(
    "protocol_unknown",
    isServed
      ? `${c.req.path}: the paths are /yrmcds/counter and /yrmcds/counter/today`
      : `the yrmcds protocol is off: set ${variableName("YRMCDS_ENABLE")}=on to serve it`,
  );
}

/**
 * A connection of the yrmcds protocol may ask for everything, so it needs what any of it needs.
 *
 * @throws ThrottrError 403
 */
function assertMayCount(access: Access): void {
  assertScopes(["read", "write"], access);
  if (access.keyPrefixes.length > 0) {
    throw new ThrottrError(
      "prefix_missing",
      "rights with keyPrefixes can't open the yrmcds protocol: use /v1/semaphores",
    );
  }
}

/** The client's address, as Cloudflare reports it. An IPv6 address has at most 45 characters; the rest is cut off. */
function ipOf(c: AppContext): string {
  return (c.req.header("cf-connecting-ip") ?? "").slice(0, 45);
}

const entranceOf = (c: AppContext): Entrance => ({
  env: c.env,
  settings: readSettings(c.env),
  location: locationOf(c.req.raw),
  ctx: c.executionCtx,
});

/** @param status as of `openConnection`, which has tried all Hubs */
const connectionRefused = (status: number): ThrottrError =>
  new ThrottrError("connections_max", CONNECTION_REFUSALS[status] ?? HUBS_FULL);

const CONNECTION_REFUSALS: Readonly<Record<number, string>> = {
  429: `the limit of yrmcds connections is reached (${variableName("YRMCDS_CONNECTIONS_MAX")})`,
  507: "the object of the channel has no memory left for another listener: end listeners or subscriptions of other channels, and try again",
};

/** No Hub of the client's location has room, or this isolate holds as many connections as it may. */
const HUBS_FULL = `too many connections: the namespace has reached its limit at this location (${variableName("HUBS_MAX")} times ${variableName("HUB_CONNECTIONS_MAX")}), or the server has reached ${variableName("CONNECTIONS_MAX")}`;

/**
 * The caller's access: from the binding that it came over, from the session of an application, or from its token. A
 * binding goes first, so a Worker needs no token, and none that it passes on changes its rights. A session goes before a
 * token, too: the application may use the same header for its own.
 *
 * @throws ThrottrError as `authenticate`; `token_revoked`
 */
async function accessOf(c: AppContext, reach: Reach = "namespace"): Promise<Access> {
  const known = trustedAccess(c.executionCtx) ?? (await sessionAccess(c.executionCtx));
  // A binding or a session is for one namespace.
  if (known !== null && reach !== "deployment") return known;
  const settings = settingsFor(c.executionCtx, readSettings(c.env));
  const credentials = credentialsOf(c.req);
  // Where an application gives the rights, a request has a session, or a token that can be checked.
  const isChecked = credentials.token !== null && settings.TOKEN_SECRET !== "";
  if (hasSessions(c.executionCtx) && !isChecked) {
    throw sessionMissing(known !== null, settings.TOKEN_SECRET !== "");
  }
  const access = await authenticate(settings, credentials, reach);
  await assertNotRevoked(c.env, c.executionCtx, access);
  return access;
}
