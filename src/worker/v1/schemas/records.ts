/** Requests and answers about records of either kind. */
import * as v from "valibot";
import { SCAN_CURSOR_BYTES_MAX } from "../../../wire/edge/command.ts";
import { Change } from "../../../wire/throttr/requests.ts";
import {
  U64Text,
  base64Answer,
  counted,
  cursor,
  integer,
  limit,
  prefix,
  queryBytes,
  queryCursor,
  remaining,
  textAnswer,
} from "./parts.ts";

/** The ways to change a TTL, by the names of the wire. */
const CHANGES = Object.keys(Change) as (keyof typeof Change)[];

/** From 0, unlike the TTL of a new record: a change by 0 reads the remaining time, and a TTL of 0 ends the record. */
export const ttlBody = v.strictObject({
  ttlMs: integer(0, Number.MAX_SAFE_INTEGER, "In milliseconds."),
  change: v.optional(
    v.pipe(
      v.picklist(CHANGES, `expected one of ${CHANGES.join(", ")}`),
      v.description("`patch` sets the TTL, `increase` and `decrease` extend and shorten it."),
    ),
    "patch",
  ),
});

/** Its cursor may be longer than a key: a scan of large shards does not go in the order of keys. */
export const recordsQuery = v.strictObject({
  prefix,
  limit,
  cursor: queryCursor(SCAN_CURSOR_BYTES_MAX),
});

/** At least one byte, so that a prefix that was lost in a script does not remove everything; `flush` is for that. */
export const prefixQuery = v.strictObject({
  prefix: queryBytes(1, "Records whose keys begin with it are removed."),
});

/** How long a record lives, and nothing about what it holds. */
export const Remaining = v.strictObject(remaining);

/** The key of a listed record, in one of two fields. */
const keyFields = {
  key: textAnswer("The key, if it is UTF-8."),
  keyBase64: base64Answer("The key, if it is not UTF-8."),
};

const expiresAtMs = remaining.expiresAtMs;

/** A record without its value: `kind` says which of the other fields are there. */
export const ListedRecord = v.variant("kind", [
  v.strictObject({ ...keyFields, kind: v.literal("counter"), quota: U64Text, expiresAtMs }),
  v.strictObject({
    ...keyFields,
    kind: v.literal("buffer"),
    bytes: counted("Length of the value."),
    expiresAtMs,
  }),
]);

/** A page of records of both kinds: they share one set of keys. */
export const recordsAnswer = v.strictObject({
  records: v.pipe(
    v.array(ListedRecord),
    v.description(
      "In the order of their keys while every shard has at most 16,384 records, otherwise in another order, each once. " +
        "Can be empty before the last page.",
    ),
  ),
  cursor,
});

/** How many records were removed, on all shards together. */
export const removedAnswer = v.strictObject({
  removed: counted("Records that were removed."),
});
