/** The route that lists connections, each with what it has asked. */
import * as v from "valibot";
import { pageOfConnections } from "../../dispatch/hub-pages.ts";
import { hexOf } from "../../wire/bytes.ts";
import { Command } from "../../wire/edge/command.ts";
import {
  CONNECTION_KEY_BYTES,
  ConnectionKind,
  type ConnectionRow,
} from "../../wire/throttr/connection-row.ts";
import { RequestType } from "../../wire/throttr/requests.ts";
import { reportFailure } from "../../base/failure.ts";
import { urlBase64Of } from "../text.ts";
import { ok, route } from "./route.ts";
import { count, counted, cursor, queryCursor, queryInteger } from "./schemas/parts.ts";

const LIMIT_DEFAULT = 100;
const LIMIT_MAX = 1000;

const connectionsQuery = v.strictObject({
  limit: v.optional(queryInteger(1, LIMIT_MAX, "Rows of the page."), String(LIMIT_DEFAULT)),
  cursor: queryCursor(CONNECTION_KEY_BYTES, CONNECTION_KEY_BYTES),
});

const transports = Object.keys(ConnectionKind) as (keyof typeof ConnectionKind)[];

const connectionsAnswer = v.strictObject({
  connections: v.pipe(
    v.array(
      v.strictObject({
        id: v.pipe(
          v.string(),
          v.description("32 hex digits: its own channel. Holders of semaphores have it as a UUID."),
        ),
        transport: v.pipe(
          v.picklist(transports),
          v.description("`events`: a listener of Server-Sent Events."),
        ),
        ip: v.pipe(v.string(), v.description("Empty where it is not known.")),
        port: counted("0 where it is not known."),
        connectedAtMs: counted("In ms since the epoch."),
        readBytes: count,
        writeBytes: count,
        publishedBytes: counted("Of the payloads that it has published."),
        receivedBytes: counted("Of the payloads that it was pushed."),
        requests: counted("All of them. Those of the yrmcds protocol are not counted here."),
        requestsByType: v.pipe(
          v.record(v.string(), count),
          v.description("By the names that `GET /v1/info` has; those that are not 0."),
        ),
      }),
    ),
    v.description("In the order in which they connected, then of their ids."),
  ),
  cursor,
});

/** A name that a request of Throttr and a command have both counts both, as in `GET /v1/info`. */
const TYPES = [...Object.entries(RequestType), ...Object.entries(Command)];

function inJson({ counts, ...row }: ConnectionRow) {
  const requestsByType: Record<string, number> = {};
  let requests = 0;
  for (const [name, type] of TYPES) {
    if (counts[type] === 0) continue;
    requestsByType[name] = (requestsByType[name] ?? 0) + counts[type]!;
    requests += counts[type]!;
  }
  return {
    id: hexOf(row.id),
    transport: transports.find((name) => ConnectionKind[name] === row.kind),
    ip: row.ip,
    port: row.port,
    connectedAtMs: row.connectedAtMs,
    readBytes: row.readBytes,
    writeBytes: row.writeBytes,
    publishedBytes: row.publishedBytes,
    receivedBytes: row.receivedBytes,
    requests,
    requestsByType,
  };
}

export const connectionRoutes = [
  route({
    method: "GET",
    path: "/v1/connections",
    id: "listConnections",
    tag: "admin",
    summary: "List connections, and what each has asked",
    description:
      "Over TCP, WebSocket and Server-Sent Events. Those of a Hub that does not answer within 2 s are left out. `METRICS=off` counts no requests and no bytes. A token's prefixes don't matter.",
    scopes: ["admin"],
    query: connectionsQuery,
    body: undefined,
    answers: { 200: { description: "A page; no snapshot.", schema: connectionsAnswer } },
    errors: [],
    example: { url: "/v1/connections?limit=100" },
    answer: async ({ caller: { env, access }, query: { limit, cursor: after = null } }) => {
      try {
        const page = await pageOfConnections(env, access.namespace, after, limit);
        return ok({
          connections: page.connections.map(inJson),
          cursor: page.cursor === null ? null : urlBase64Of(page.cursor),
        });
      } catch (error) {
        throw reportFailure(error);
      }
    },
  }),
];
