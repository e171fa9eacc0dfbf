/** The route that lists connections, each with its requests by type. */
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
import { cursorText } from "../text.ts";
import { ok, route } from "./route.ts";
import { count, counted, cursor, queryCursor, queryInteger } from "./schemas/parts.ts";

/** Rows of a page, unless given. */
const LIMIT_DEFAULT = 100;
/** Rows of a page at most. A row has a count for each type of request, and all of a page are in memory at once. */
const LIMIT_MAX = 1000;

/** Its cursor is the key of the last row, so a page begins behind a connection even if that has closed. */
const connectionsQuery = v.strictObject({
  limit: v.optional(queryInteger(1, LIMIT_MAX, "Rows of the page."), String(LIMIT_DEFAULT)),
  cursor: queryCursor(CONNECTION_KEY_BYTES, CONNECTION_KEY_BYTES),
});

/** The names of transports, as `byTransport` of the overview has them. */
const transports = Object.keys(ConnectionKind) as (keyof typeof ConnectionKind)[];

/** Declared here and not among the components: no other route has it. */
const connectionsAnswer = v.strictObject({
  connections: v.pipe(
    v.array(
      v.strictObject({
        id: v.pipe(
          v.string(),
          v.description(
            "32 hexadecimal digits: the name of its own channel. Holders of semaphores show it as a UUID.",
          ),
        ),
        transport: v.pipe(
          v.picklist(transports),
          v.description("`events`: a listener of Server-Sent Events."),
        ),
        ip: v.pipe(v.string(), v.description("Empty if unknown.")),
        port: counted("0 if unknown."),
        connectedAtMs: counted("In ms since the epoch."),
        readBytes: count,
        writeBytes: count,
        publishedBytes: counted("Payload bytes that it published."),
        receivedBytes: counted("Payload bytes that it received."),
        requests: counted("All requests, except those of the yrmcds protocol."),
        requestsByType: v.pipe(
          v.record(v.string(), count),
          v.description("By the names of `GET /v1/info`; types without requests are left out."),
        ),
      }),
    ),
    v.description("Ordered by the time they connected, then by id."),
  ),
  cursor,
});

/** A name that both a request of Throttr and a command have counts both, as in `GET /v1/info`. */
const TYPES = [...Object.entries(RequestType), ...Object.entries(Command)];

/** One row. Types without requests are left out: most connections use only a few. */
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
    summary: "List connections with their requests",
    description:
      "Connections over TCP, WebSocket and Server-Sent Events. A Hub that does not answer within 2 s is left out. With `METRICS=off` requests and bytes are not counted. The token's prefixes do not matter.",
    scopes: ["admin"],
    query: connectionsQuery,
    answers: { 200: { description: "A page. Not a snapshot.", schema: connectionsAnswer } },
    example: { url: "/v1/connections?limit=100" },
    answer: async ({ caller: { env, access }, query: { limit, cursor: after = null } }) => {
      try {
        const page = await pageOfConnections(env, access.namespace, after, limit);
        const connections = page.connections.map(inJson);
        return ok({ connections, cursor: cursorText(page.cursor) });
      } catch (error) {
        throw reportFailure(error);
      }
    },
  }),
];
