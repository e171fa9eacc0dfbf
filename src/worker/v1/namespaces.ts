/** The route that lists the namespaces of the deployment. */
import * as v from "valibot";
import { reportFailure } from "../../base/failure.ts";
import { DEPLOYMENT } from "../../base/names.ts";
import { directoryStub } from "../../base/stubs.ts";
import { cursorText } from "../text.ts";
import { ok, route } from "./route.ts";
import { counted, cursor, queryCursor, queryInteger } from "./schemas/parts.ts";

/** Names of a page, unless given, and at most. */
const LIMIT_DEFAULT = 100;
const LIMIT_MAX = 1000;
/** Bytes of a name. */
const NAME_BYTES_MAX = 64;

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
        const name = after === undefined ? null : decoder.decode(after);
        const namespaces = await directoryStub(env, DEPLOYMENT).namespacesPage(name, limit);
        const last = namespaces.length < limit ? undefined : namespaces.at(-1);
        return ok({
          namespaces,
          cursor: cursorText(last === undefined ? null : encoder.encode(last.name)),
        });
      } catch (error) {
        throw reportFailure(error);
      }
    },
  }),
];
