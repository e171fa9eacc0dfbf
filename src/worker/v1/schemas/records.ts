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

const CHANGES = Object.keys(Change) as (keyof typeof Change)[];

export const ttlBody = v.strictObject({
  ttlMs: integer(0, Number.MAX_SAFE_INTEGER, "Milliseconds."),
  change: v.optional(
    v.pipe(
      v.picklist(CHANGES, `expected one of ${CHANGES.join(", ")}`),
      v.description("`patch`: from now on; `increase`, `decrease`: the end moves by it."),
    ),
    "patch",
  ),
});

export const recordsQuery = v.strictObject({
  prefix,
  limit,
  cursor: queryCursor(SCAN_CURSOR_BYTES_MAX),
});

export const prefixQuery = v.strictObject({
  prefix: queryBytes(1, "Keys that begin with it are removed."),
});

export const Remaining = v.strictObject(remaining);

const keyFields = {
  key: textAnswer("The key, where it is UTF-8."),
  keyBase64: base64Answer("The key, where it is not."),
};

const expiresAtMs = remaining.expiresAtMs;

export const ListedRecord = v.variant("kind", [
  v.strictObject({ ...keyFields, kind: v.literal("counter"), quota: U64Text, expiresAtMs }),
  v.strictObject({
    ...keyFields,
    kind: v.literal("buffer"),
    bytes: counted("Length of the value."),
    expiresAtMs,
  }),
]);

export const recordsAnswer = v.strictObject({
  records: v.pipe(
    v.array(ListedRecord),
    v.description(
      "In the order of their keys while every shard has at most 16,384, else in another one, each once. " +
        "May be empty, also where there are more.",
    ),
  ),
  cursor,
});

export const removedAnswer = v.strictObject({
  removed: counted("Records that were removed."),
});
