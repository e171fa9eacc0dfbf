/**
 * Opens connections: chooses the Hub, and hands over what the connection is.
 *
 * Each location of clients has its own Hubs, because an object is created near its first caller and stays there. Hubs
 * are filled one after the other, so few of them are awake; the index with room is remembered for a minute.
 */
import { presentMs } from "../base/clock.ts";
import type { Environment } from "../base/environment.ts";
import {
  CONNECTION_HEADER,
  encodeOpenRequest,
  type OpenRequest,
} from "../base/calls/open-request.ts";
import { connectionCount, countedHubs } from "../objects/hub/connection-count.ts";
import type { Access } from "../base/access.ts";
import { DEPLOYMENT, hubName } from "../base/names.ts";
import { withTimeout } from "../base/in-time.ts";
import { logWarning } from "../base/log.ts";
import { isWithin } from "../base/recent.ts";
import { directoryStub, hubStub } from "../base/stubs.ts";
import { orIfUnknown } from "../base/unknown-method.ts";
import { endUnused } from "../base/unused-socket.ts";
import type { Settings } from "../base/settings.ts";
import { inOrder } from "./in-order.ts";
import { OPENING_MS_MAX } from "../engine/sizes.ts";
import { ThrottrError } from "../wire/edge/error.ts";

/** The location of clients whose location is unknown: TCP connections, and requests outside of Cloudflare. */
export const NOWHERE = "XXX";
/** After this time the first Hub is tried again, because connections may have closed there. */
const REMEMBERED_MS = 60_000;
/** Places remembered. Namespaces are strangers' choice, so the map is emptied rather than grown. */
const REMEMBERED_MAX = 1000;

/** Shortest time between two recounts of a full isolate. */
const RECOUNT_INTERVAL_MS = 10_000;

/** The index of the first Hub that had room, by namespace and location. It may be wrong: then one more Hub is asked. */
const roomAt = new Map<string, { index: number; untilMs: number }>();

/** Namespaces that this isolate knows to be listed. */
const listed = new Set<string>();

/** Connections that are being opened: they count, or a burst would pass the limit together. */
let opening = 0;
/** When the isolate was last recounted. A recount is a call to each Hub, and a full server gets many requests. */
let recountedAtMs = 0;

/** The client's location: the three letters of the data centre that took the request. */
export function locationOf(request: Request): string {
  const colo = (request.cf as { colo?: unknown } | undefined)?.colo;
  return typeof colo === "string" && /^[A-Z]{3}$/.test(colo) ? colo : NOWHERE;
}

/** Where a connection comes in. */
export interface Entrance {
  readonly env: Environment;
  readonly settings: Settings;
  readonly location: string;
  /** Of the request that opens it. Null at the TCP door: its handler runs to its end even after its client has gone. */
  readonly ctx: Pick<ExecutionContext, "waitUntil"> | null;
}

/**
 * Asks the Hubs of a location, one after the other, to take a connection.
 *
 * @returns status 101 with a socket; 503 when all Hubs are full; 507 when the channel's group has no room for a listener; 429 when
 * the namespace has as many connections of the yrmcds protocol as it may have
 * @throws ThrottrError `hub_failed`
 */
export async function openConnection(entrance: Entrance, request: OpenRequest): Promise<Response> {
  const { ctx } = entrance;
  const opened = openCounted(entrance, request);
  return await (ctx === null ? opened : inOrder(ctx, opened));
}

async function openCounted(entrance: Entrance, request: OpenRequest): Promise<Response> {
  opening++;
  const opened = openNow(entrance, request);
  try {
    return await withTimeout(opened, OPENING_MS_MAX);
  } catch (error) {
    const ended = endLate(opened);
    entrance.ctx?.waitUntil(ended);
    if (error instanceof ThrottrError) throw error;
    throw hubFailed(error);
  } finally {
    opening--;
  }
}

/** Ends the socket of a connection that a Hub opens after its client was refused. */
async function endLate(opened: Promise<Response>): Promise<void> {
  try {
    const { webSocket } = await opened;
    if (webSocket !== null) endUnused(webSocket);
  } catch {
    // The Hub has not opened it: the refusal says so already.
  }
}

async function openNow(entrance: Entrance, request: OpenRequest): Promise<Response> {
  const { env, settings } = entrance;
  if (!(await hasRoom(env, settings))) return new Response(null, { status: 503 });
  await listNamespace(env, request.access);
  return await askHubs(entrance, request);
}

/**
 * Lists the namespace of a connection by a token for all namespaces: only Hubs of listed ones are told when such a token
 * is revoked, and a namespace that is used for channels alone is listed by no shard.
 */
async function listNamespace(env: Environment, { namespace, token }: Access): Promise<void> {
  if (token?.isForAll !== true || listed.has(namespace)) return;
  try {
    const call = directoryStub(env, DEPLOYMENT).registerNamespace(namespace);
    if (!(await orIfUnknown(call, () => false))) return;
  } catch (error) {
    // A Directory that fails must not lock out operators.
    logWarning("namespace_unregistered", { namespace, error: String(error) });
    return;
  }
  if (listed.size >= REMEMBERED_MAX) listed.clear();
  listed.add(namespace);
}

/** Whether `CONNECTIONS_MAX` allows the connections that are being opened. */
async function hasRoom(env: Environment, { CONNECTIONS_MAX }: Settings): Promise<boolean> {
  const isFree = (): boolean => connectionCount() + opening <= CONNECTIONS_MAX;
  if (CONNECTIONS_MAX === 0 || isFree()) return true;
  if (isWithin(recountedAtMs, RECOUNT_INTERVAL_MS)) return false;
  recountedAtMs = presentMs();
  // A Hub that was reset lost its connections without reporting it. Any call makes it count anew.
  const asked = countedHubs().map((name) => hubStub(env, name).figures());
  await Promise.allSettled(asked);
  return isFree();
}

/** Asks the Hubs of a location until one has room. A Hub that is full answers 503, and the next one is asked. */
async function askHubs(
  { env, settings: { HUBS_MAX }, location }: Entrance,
  request: OpenRequest,
): Promise<Response> {
  const { namespace } = request.access;
  const headers = { upgrade: "websocket", [CONNECTION_HEADER]: encodeOpenRequest(request) };
  const key = `${namespace}/${location}`;
  const remembered = roomAt.get(key);
  const first = remembered !== undefined && remembered.untilMs > presentMs() ? remembered.index : 0;
  for (let i = 0; i < HUBS_MAX; i++) {
    const index = (first + i) % HUBS_MAX;
    const hub = hubStub(env, hubName.format(namespace, { location, index }));
    const response = await askHub(hub, headers);
    if (response.status !== 503) {
      if (i > 0) remember(key, index);
      return response;
    }
  }
  return new Response(null, { status: 503 });
}

/**
 * Hands a connection over. Only `fetch` can return a WebSocket from an object, so what the connection is travels in a
 * header; no request from outside reaches an object.
 *
 * @throws ThrottrError `hub_failed`
 */
async function askHub(hub: Fetcher, headers: HeadersInit): Promise<Response> {
  try {
    return await hub.fetch("https://hub/", { headers });
  } catch (error) {
    throw hubFailed(error);
  }
}

function hubFailed(error: unknown): ThrottrError {
  logWarning("hub_failed", { error: String(error) });
  return new ThrottrError("hub_failed", "the object that accepts connections failed: try again");
}

function remember(key: string, index: number): void {
  if (roomAt.size >= REMEMBERED_MAX) roomAt.clear();
  roomAt.set(key, { index, untilMs: presentMs() + REMEMBERED_MS });
}
