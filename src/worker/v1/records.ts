/** Routes that counters and buffers share: removing a record, and changing its TTL. */
import * as operations from "../../wire/edge/operations.ts";
import { executeOne } from "../execute.ts";
import { nothing, ok, present, route, type Route } from "./route.ts";
import { components } from "./schemas/components.ts";
import { ttlBody } from "./schemas/records.ts";

/** For the description of both routes. */
const EITHER_KIND = "Works on a record of either kind: counters and buffers share one set of keys.";

/**
 * The routes of one kind. The operations look at no kind, so both paths do the same; a client finds what it needs in
 * its section.
 */
export function recordRoutes(kind: "counter" | "buffer"): readonly Route[] {
  const tag = `${kind}s` as const;
  const [name, example] = kind === "counter" ? ["Counter", "visits"] : ["Buffer", "page"];
  return [
    route({
      method: "DELETE",
      path: `/v1/${tag}/{key}`,
      id: `purge${name}`,
      tag,
      summary: `Remove a ${kind}`,
      description: EITHER_KIND,
      scopes: ["write"],
      once: "one",
      answers: { 204: { description: "The record was removed." } },
      errors: ["key_absent"],
      example: { url: `/v1/${tag}/${example}` },
      answer: async ({ caller, path, once }) => {
        const isRemoved = await executeOne(caller, operations.purge(path.key, once));
        // False is not null: only the test for null throws `key_absent`.
        present(isRemoved || null, kind);
        return nothing;
      },
    }),
    route({
      method: "POST",
      path: `/v1/${tag}/{key}/ttl`,
      id: `expire${name}`,
      tag,
      summary: `Change the TTL of a ${kind}`,
      description: `${EITHER_KIND} If the change ends the record, the answer is \`key_absent\`.`,
      scopes: ["write"],
      once: "one",
      body: ttlBody,
      answers: { 200: { description: "The remaining time.", schema: components.Remaining } },
      errors: ["key_absent"],
      example: { url: `/v1/${tag}/${example}/ttl`, body: { ttlMs: 60_000, change: "increase" } },
      answer: async ({ caller, path, body, once }) => {
        const options = { ...body, ...once };
        return ok(present(await executeOne(caller, operations.ttl(path.key, options)), kind));
      },
    }),
  ];
}
