/** Routes about a whole namespace: listing, figures, removal, clocks. */
import type { TallyFigures } from "../../engine/tally.ts";
import { byNameOf, figuresOf } from "../../dispatch/overview.ts";
import type { ListedRecord } from "../../wire/edge/operations.ts";
import * as operations from "../../wire/edge/operations.ts";
import type { InfoFigures } from "../../wire/throttr/info.ts";
import { executeOne } from "../execute.ts";
import { ok, route } from "./route.ts";
import { askSurvey, setClocksBack } from "../survey.ts";
import { components } from "./schemas/components.ts";
import { assertNamespace } from "./confirmation.ts";
import { clockAnswer, adminBody } from "./schemas/namespace.ts";
import { prefixQuery, recordsAnswer, recordsQuery, removedAnswer } from "./schemas/records.ts";
import { cursorText, textFields } from "../text.ts";

/** The answer of routes that remove records. */
const removed = { 200: { description: "The number of removed records.", schema: removedAnswer } };

/**
 * A record of a list. A counter shows its quota, a buffer only its size: a page of values might not fit into memory.
 */
function inJson({ key, kind, quota, bytes, expiresAtMs }: ListedRecord): object {
  const value = kind === "counter" ? { quota: String(quota) } : { bytes };
  return { ...textFields("key", key), kind, ...value, expiresAtMs };
}

/** Requests by the names of calls. INFO does not count those of the yrmcds protocol. */
function requestsByName(figures: TallyFigures): InfoFigures["requestsByType"] {
  const rates = Object.entries(byNameOf(figures));
  return Object.fromEntries(rates.filter(([name]) => !name.startsWith("yrmcds_")));
}

export const namespaceRoutes = [
  route({
    method: "GET",
    path: "/v1/records",
    id: "listRecords",
    tag: "records",
    summary: "List records",
    description:
      "A page can have fewer records than `limit`, or none, and still not be the last: continue until `cursor` is null.",
    scopes: ["read"],
    query: recordsQuery,
    answers: { 200: { description: "A page. Not a snapshot.", schema: recordsAnswer } },
    errors: ["after_invalid", "cursor_lost"],
    example: { url: "/v1/records?prefix=user:&limit=100" },
    answer: async ({ caller, query }) => {
      const { records, cursor } = await executeOne(caller, operations.list(query));
      return ok({ records: records.map(inJson), cursor: cursorText(cursor) });
    },
  }),
  route({
    method: "GET",
    path: "/v1/info",
    id: "info",
    tag: "records",
    summary: "Figures of the namespace",
    description: "Figures per minute are estimates.",
    scopes: ["read"],
    answers: { 200: { description: "The figures.", schema: components.Info } },
    example: { url: "/v1/info" },
    answer: async ({ caller }) => {
      const info = await executeOne(caller, operations.info());
      // A second round of calls, after INFO's own: figures may be later than those beside them.
      const figures = figuresOf(await askSurvey(caller));
      return ok({ ...info, requestsByType: requestsByName(figures) });
    },
  }),
  route({
    method: "DELETE",
    path: "/v1/records",
    id: "removeRecords",
    tag: "admin",
    summary: "Remove all records whose keys begin with a prefix",
    scopes: ["admin"],
    query: prefixQuery,
    answers: removed,
    example: { url: "/v1/records?prefix=session:" },
    answer: async ({ caller, query }) => {
      return ok({ removed: await executeOne(caller, operations.removeAll(query.prefix)) });
    },
  }),
  route({
    method: "POST",
    path: "/v1/admin/flush",
    id: "flush",
    tag: "admin",
    summary: "Remove all records of the namespace",
    description: "If the token has `keyPrefixes`, only the records that they allow.",
    scopes: ["admin"],
    body: adminBody,
    answers: removed,
    errors: ["namespace_mismatch"],
    example: { url: "/v1/admin/flush", body: { namespace: "default" } },
    answer: async ({ caller, body }) => {
      assertNamespace(body, caller);
      return ok({ removed: await executeOne(caller, operations.removeAll("")) });
    },
  }),
  route({
    method: "POST",
    path: "/v1/admin/clock",
    id: "setClockBack",
    tag: "admin",
    summary: "Set the times of records back after the clock was ahead",
    scopes: ["admin"],
    body: adminBody,
    answers: { 200: { description: "By how much each shard was set back.", schema: clockAnswer } },
    errors: ["namespace_mismatch"],
    example: { url: "/v1/admin/clock", body: { namespace: "default" } },
    answer: async ({ caller, body }) => {
      assertNamespace(body, caller);
      const byMs = await setClocksBack(caller);
      return ok({ shards: byMs.map((setBackMs, index) => ({ index, setBackMs })) });
    },
  }),
];
