/** The route about the caller itself: a page with a session of its application has no token to read its rights from. */
import * as v from "valibot";
import type { Grant } from "../../wire/grant.ts";
import { Scope } from "../../wire/throttr/requests.ts";
import type { Caller } from "../caller.ts";
import { SCOPE_NAMES } from "../../base/grant.ts";
import { presentMs } from "../../base/clock.ts";
import { isForAllNamespaces } from "../token.ts";
import { ok, route } from "./route.ts";

const prefixes = (names: string) =>
  v.pipe(
    v.array(v.string()),
    v.description(`${names} must begin with one of these; empty for any.`),
  );

/** The schema of `Grant` in `wire/grant.ts`. */
const grantAnswer = v.strictObject({
  namespace: v.string(),
  scopes: v.array(v.picklist(SCOPE_NAMES)),
  keyPrefixes: prefixes("Keys"),
  channelPrefixes: prefixes("Channels"),
  isForAllNamespaces: v.pipe(
    v.boolean(),
    v.description("Whether the caller may list namespaces, and choose one for each request."),
  ),
  hasReference: v.pipe(
    v.boolean(),
    v.description("Whether `/docs` leads to the API reference of this server."),
  ),
  atMs: v.pipe(v.number(), v.description("The server's time, in ms since the epoch.")),
  expiresAtMs: v.pipe(
    v.nullable(v.number()),
    v.description("When the access ends, in ms since the epoch; null for never."),
  ),
});

const decoder = new TextDecoder();

function grantOf({ access, settings }: Caller): Grant {
  const { namespace, scopes, expiresAtMs, keyPrefixes, channelPrefixes } = access;
  return {
    namespace,
    scopes: SCOPE_NAMES.filter((name) => (scopes & Scope[name]) !== 0),
    // They came as text, in the claims of a token or the props of a binding.
    keyPrefixes: keyPrefixes.map((prefix) => decoder.decode(prefix)),
    channelPrefixes: channelPrefixes.map((prefix) => decoder.decode(prefix)),
    isForAllNamespaces: isForAllNamespaces(settings, access),
    // Below the path of an application, `routeThrottr` says what is there.
    hasReference: true,
    atMs: presentMs(),
    expiresAtMs,
  };
}

export const accessRoutes = [
  route({
    method: "GET",
    path: "/v1/access",
    id: "access",
    tag: "admin",
    summary: "Show what the caller may do",
    description:
      "The namespace and the rights of the token, or of the request without one where the server lets it in; the namespace is `*` for a token for all of them that names none. No scope is needed.",
    reach: "either",
    scopes: [],
    answers: { 200: { description: "The rights.", schema: grantAnswer } },
    example: { url: "/v1/access" },
    answer: ({ caller }) => Promise.resolve(ok(grantOf(caller))),
  }),
];
