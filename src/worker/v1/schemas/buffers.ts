/** Requests and answers about buffers. */
import * as v from "valibot";
import {
  base64,
  base64Answer,
  integer,
  oneOf,
  queryInteger,
  refusing,
  remaining,
  requiresOneOf,
  text,
  textAnswer,
  textOrNull,
  ttlMs,
} from "./parts.ts";

/** A value as text or in base64. Two fields, as no text says of itself which of the two it is. */
export const setBody = v.pipe(
  v.strictObject({
    value: v.exactOptional(text("The value, as text.")),
    valueBase64: v.exactOptional(base64("The value, in base64.")),
    ttlMs,
  }),
  v.metadata(requiresOneOf("value", "valueBase64")),
  oneOf("value", "valueBase64"),
);

/** The query that belongs to a raw value: its body has no place for a TTL. */
export const rawQuery = v.strictObject({
  ttlMs: queryInteger(1, Number.MAX_SAFE_INTEGER, "TTL of a raw value, in ms."),
});

/** Null is a value of its own on both sides, no record: so one call can create, replace or remove. */
export const compareAndSetBody = v.pipe(
  v.strictObject({
    expected: v.exactOptional(
      textOrNull("The value that the buffer must hold; null: there must be no record."),
    ),
    expectedBase64: v.exactOptional(base64("The value that the buffer must hold, in base64.")),
    value: v.exactOptional(textOrNull("The new value; null removes the buffer.")),
    valueBase64: v.exactOptional(base64("The new value, in base64.")),
    ttlMs: v.exactOptional(
      integer(
        1,
        Number.MAX_SAFE_INTEGER,
        "TTL of the new value, in ms; needed unless `value` is null.",
      ),
    ),
  }),
  v.metadata({
    allOf: [requiresOneOf("expected", "expectedBase64"), requiresOneOf("value", "valueBase64")],
  }),
  oneOf("expected", "expectedBase64"),
  oneOf("value", "valueBase64"),
  refusing((fields) =>
    fields.ttlMs === undefined && fields.value !== null
      ? { field: "ttlMs", message: "expected a TTL, unless value is null" }
      : null,
  ),
);

/** A buffer that was read. A client must look for both fields: which one comes depends on the bytes. */
export const Buffer = v.pipe(
  v.strictObject({
    value: textAnswer("The value, if it is UTF-8."),
    valueBase64: base64Answer("The value, if it is not UTF-8."),
    ...remaining,
  }),
  v.metadata(requiresOneOf("value", "valueBase64")),
);

/** A buffer that was not as expected is a normal answer, with the value that a next attempt needs. */
export const compareAndSetAnswer = v.strictObject({
  applied: v.boolean(),
  current: v.exactOptional(
    v.pipe(
      v.nullable(v.string()),
      v.description("If it was not applied: the value that the buffer holds; null for no record."),
    ),
  ),
  currentBase64: base64Answer("`current`, if it is not UTF-8."),
});
