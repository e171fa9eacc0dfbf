/** The routes about all namespaces of the deployment: their list, and what they are doing. */
import * as v from "valibot";
import { reportFailure } from "../../base/failure.ts";
import { DEPLOYMENT } from "../../base/names.ts";
import { directoryStub } from "../../base/stubs.ts";
import { presentMs } from "../../base/clock.ts";
import { overviewOf } from "../../dispatch/overview.ts";
import type { Survey } from "../../dispatch/survey.ts";
import { SURVEYED_MAX, surveyNamespaces } from "../all-namespaces.ts";
import { cursorText } from "../text.ts";
import { namespaceName } from "../token.ts";
import { ok, route } from "./route.ts";
import { count, counted, cursor, queryCursor, queryInteger } from "./schemas/parts.ts";

/** Names of a page, unless given, and at most. */
const LIMIT_DEFAULT = 100;
const LIMIT_MAX = 1000;
/** Bytes of a name. */
const NAME_BYTES_MAX = 64;

/** Namespaces of an overview, unless given. */
const OVERVIEW_LIMIT_DEFAULT = 20;

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** Its cursor is the last name. */
const namespacesQuery = v.strictObject({
  limit: v.optional(queryInteger(1, LIMIT_MAX, "Names of the page."), String(LIMIT_DEFAULT)),
  cursor: queryCursor(NAME_BYTES_MAX, 1),
});

const namespacesAnswer = v.strictObject({
  namespaces: v.pipe(
    v.array(
      v.strictObject({
        name: v.string(),
        registeredAtMs: counted(
          "When the server listed it, in ms since the epoch: at its first request on a key, or when a release that has this list first started one of its shards.",
        ),
      }),
    ),
    v.description("Ordered by name."),
  ),
  cursor,
});

/** The query of `/metrics` for all namespaces. */
export const allMetricsQuery = v.strictObject({
  namespace: v.literal("*", "expected * for all namespaces; for one, send its token"),
  after: v.optional(namespaceName),
});

const overviewQuery = v.strictObject({
  limit: v.optional(
    queryInteger(1, SURVEYED_MAX, "Namespaces of the page."),
    String(OVERVIEW_LIMIT_DEFAULT),
  ),
  cursor: queryCursor(NAME_BYTES_MAX, 1),
});

const rate = v.strictObject({ total: count, perMinute: count });

/** Figures of a namespace, named as in the overview of one. */
const namespaceFigures = {
  requests: rate,
  readBytes: rate,
  writeBytes: rate,
  records: v.strictObject({ counters: count, buffers: count, bufferBytes: count }),
  connections: counted("Open connections."),
  subscriptions: count,
  channels: count,
  unreachable: counted("Shards and Hubs that did not answer; no sum includes them."),
};

const overviewsAnswer = v.strictObject({
  atMs: counted("When all had answered, in ms since the epoch."),
  namespaces: v.pipe(
    v.array(
      v.strictObject({
        name: v.string(),
        figures: v.pipe(
          v.nullable(v.strictObject(namespaceFigures)),
          v.description("Null if the namespace could not be asked."),
        ),
      }),
    ),
    v.description("Ordered by name."),
  ),
  cursor,
});

/** What the overview of one namespace says, in short. */
function figuresOf(name: string, survey: Survey | null, atMs: number): object | null {
  if (survey === null) return null;
  const overview = overviewOf(name, survey, atMs);
  const { requests, readBytes, writeBytes, records, subscriptions, channels } = overview;
  return {
    requests: { total: requests.total, perMinute: requests.perMinute },
    readBytes,
    writeBytes,
    records,
    connections: overview.connections.open,
    subscriptions,
    channels,
    unreachable: [...overview.shards, ...overview.hubs].filter((one) => one.isUnreachable).length,
  };
}

/** The name that a cursor stands for. */
const nameOf = (cursor: Uint8Array | undefined): string | null =>
  cursor === undefined ? null : decoder.decode(cursor);

/** The cursor that stands for a name. */
const cursorOf = (name: string | null): string | null =>
  cursorText(name === null ? null : encoder.encode(name));

export const namespacesRoutes = [
  route({
    method: "GET",
    path: "/v1/namespaces",
    id: "listNamespaces",
    tag: "admin",
    summary: "List the namespaces of the deployment",
    description:
      'Needs a token for all namespaces (`"ns": "*"`), or a server that is open to any namespace. A namespace is listed within seconds of its first request on a key, and stays listed. One that was only used for channels is not listed. At most 100,000 are.',
    reach: "deployment",
    scopes: ["admin"],
    query: namespacesQuery,
    answers: { 200: { description: "A page.", schema: namespacesAnswer } },
    example: { url: "/v1/namespaces?limit=100" },
    answer: async ({ caller: { env }, query: { limit, cursor: after } }) => {
      try {
        const directory = directoryStub(env, DEPLOYMENT);
        const namespaces = await directory.namespacesPage(nameOf(after), limit);
        const last = namespaces.length < limit ? null : namespaces.at(-1)!.name;
        return ok({ namespaces, cursor: cursorOf(last) });
      } catch (error) {
        throw reportFailure(error);
      }
    },
  }),
  route({
    method: "GET",
    path: "/v1/namespaces/overview",
    id: "overviewNamespaces",
    tag: "admin",
    summary: "Show what each namespace is doing",
    description:
      "Asks every object of each namespace of the page, and wakes those that sleep. After 6 s no further namespace is asked, so a page can have fewer than `limit`, and still not be the last: continue until `cursor` is null. `GET /v1/overview` says more of one namespace.",
    reach: "deployment",
    scopes: ["admin"],
    query: overviewQuery,
    answers: { 200: { description: "A page. Not a snapshot.", schema: overviewsAnswer } },
    example: { url: "/v1/namespaces/overview?limit=20" },
    answer: async ({ caller, query: { limit, cursor: after } }) => {
      const { namespaces, next } = await surveyNamespaces(caller, nameOf(after), limit);
      const atMs = presentMs();
      return ok({
        atMs,
        namespaces: namespaces.map(({ name, survey }) => ({
          name,
          figures: figuresOf(name, survey, atMs),
        })),
        cursor: cursorOf(next),
      });
    },
  }),
];
