/**
 * Parts that the schemas of the JSON door are made of: numbers, bytes as text or base64, pages, times.
 *
 * Requests are checked by these schemas, and the OpenAPI document is made from them. A message says what was expected; the
 * reader of requests appends what came.
 */
import * as v from "valibot";
import { binaryBytes } from "../../../wire/bytes.ts";
import { SCAN_RECORDS_MAX } from "../../../wire/edge/command.ts";
import { bytesOfBase64, bytesOfText, bytesOfUrlBase64 } from "../../text.ts";

/** Largest quota. */
const U64_MAX = (1n << 64n) - 1n;

/**
 * 20 digits hold 2^64 - 1. Longer ones are refused before `BigInt` reads them, which takes time that grows faster than
 * they do.
 */
const U64_DIGITS = /^\d{1,20}$/;

/** The wire has one byte for the length of a name. */
const NAME_BYTES_MAX = 255;

/** Transforms a value; a transformation that returns null makes it invalid, with this message. */
function turned<Input, Output>(turn: (input: Input) => Output | null, message: string) {
  return v.rawTransform<Input, Output>(({ dataset, addIssue, NEVER }) => {
    const output = turn(dataset.value);
    if (output !== null) return output;
    addIssue({ message });
    return NEVER;
  });
}

/** An integer of a body. No bound is above 2^53 - 1: JSON readers round larger numbers. */
export function integer(min: number, max: number, description: string) {
  const message = `expected an integer from ${min} to ${max}`;
  return v.pipe(
    v.number(message),
    v.safeInteger(message),
    v.minValue(min, message),
    v.maxValue(max, message),
    v.description(description),
  );
}

/** Any version, in either case: an id is 16 bytes, of which nothing is read. */
const UUID = /^[\da-fA-F]{8}(?:-[\da-fA-F]{4}){3}-[\da-fA-F]{12}$/;

/** An id that callers may choose. */
export function uuid(description: string) {
  const message = "expected a UUID";
  return v.pipe(v.string(message), v.regex(UUID, message), v.description(description));
}

/**
 * A number above 0 that need not be whole. JSON has no NaN, and `1e999` is above every bound.
 *
 * @param max `Number.MAX_VALUE` for any finite number
 */
export function positive(max: number, description: string) {
  const range = max === Number.MAX_VALUE ? "above 0" : `above 0, at most ${max}`;
  const message = `expected a number ${range}`;
  return v.pipe(
    v.number(message),
    v.gtValue(0, message),
    v.maxValue(max, message),
    v.description(description),
  );
}

/** An integer in a query, where everything arrives as text. */
export function queryInteger(min: number, max: number, description: string) {
  const message = `expected an integer from ${min} to ${max}`;
  return v.pipe(
    v.string(message),
    v.metadata({ type: "integer", minimum: min, maximum: max, description }),
    turned((digits) => {
      const value = /^\d{1,16}$/.test(digits) ? Number(digits) : -1;
      return Number.isSafeInteger(value) && value >= min && value <= max ? value : null;
    }, message),
  );
}

/** For lone surrogates, which JSON can escape and UTF-8 cannot encode. */
const TEXT =
  "expected well-formed text; send other bytes as base64, in the field whose name ends in Base64";

/** For bytes in base64. */
const BASE64 = "expected base64";

/** Bytes that are sent as text. The output is bytes: a key or value is never text behind this point. */
export const text = (description: string) =>
  v.pipe(v.string(TEXT), v.description(description), turned(bytesOfText, TEXT));

/** As `text`; null stays null. */
export const textOrNull = (description: string) =>
  v.pipe(v.nullable(v.pipe(v.string(TEXT), turned(bytesOfText, TEXT))), v.description(description));

/** Bytes that are sent in base64, with or without padding. */
export const base64 = (description: string) =>
  v.pipe(
    v.string(BASE64),
    v.metadata({ contentEncoding: "base64", description }),
    turned(bytesOfBase64, BASE64),
  );

/** Bytes in a query, which arrive percent-decoded as a binary string. */
export const queryBytes = (bytesMin: number, description: string) => {
  const message = `expected ${bytesMin} to ${NAME_BYTES_MAX} bytes`;
  return v.pipe(
    v.string(message),
    v.description(`${description} Percent-encoded, byte by byte.`),
    turned((text) => {
      const isInRange = text.length >= bytesMin && text.length <= NAME_BYTES_MAX;
      return isInRange ? binaryBytes(text) : null;
    }, message),
  );
};

/** Refuses an object because of one of its fields. */
export function refusing<Fields extends object>(
  find: (fields: Fields) => { field: string; message: string } | null,
) {
  return v.rawCheck<Fields>(({ dataset, addIssue }) => {
    if (!dataset.typed) return;
    const input = dataset.value;
    const found = find(input);
    if (found === null) return;
    const { field: key, message } = found;
    const value = (input as Record<string, unknown>)[key];
    const path = [{ type: "object", origin: "value", input, key, value }] as const;
    addIssue({ message, path: path as never });
  });
}

/** Requires exactly one of two fields. */
export function oneOf<Fields extends object>(...names: readonly [string, string]) {
  return refusing<Fields>((fields) =>
    names.filter((name) => Object.hasOwn(fields, name)).length === 1
      ? null
      : { field: names[0], message: `expected either ${names.join(" or ")}` },
  );
}

/** Says in JSON Schema what `oneOf` checks, as the conversion leaves checks of several fields out. */
export const requiresOneOf = (...names: readonly string[]) => ({
  oneOf: names.map((name) => ({ required: [name] })),
});

/** From 1, as a record that ends at once would be none. There is no end: every record expires. */
export const ttlMs = integer(1, Number.MAX_SAFE_INTEGER, "TTL of the record, in ms.");

/** Both kinds of input in one message: valibot would name the alternatives of the union. */
const U64_MESSAGE = "expected an integer from 0 to 2^64 - 1, above 2^53 - 1 as a string of digits";

/** A quota of a request. The output is a `bigint`, whatever came. */
export const U64 = v.pipe(
  v.union(
    [
      v.pipe(v.string(), v.regex(U64_DIGITS, U64_MESSAGE)),
      v.pipe(v.number(), v.safeInteger(U64_MESSAGE), v.minValue(0, U64_MESSAGE)),
    ],
    U64_MESSAGE,
  ),
  v.description(
    "0 to 2^64 - 1: a string of digits, or a number up to 2^53 - 1. A larger number would arrive rounded, so it is refused.",
  ),
  turned((value: string | number) => {
    const whole = BigInt(value);
    return whole <= U64_MAX ? whole : null;
  }, U64_MESSAGE),
);

/** A quota of an answer, always a string: a field that is a number only while it is small would break clients late. */
export const U64Text = v.pipe(
  v.string(),
  v.regex(U64_DIGITS),
  v.description(
    "0 to 2^64 - 1, always as a string of digits, because JSON readers round large numbers.",
  ),
);

/** Which names to list; all unless given. */
export const prefix = v.exactOptional(
  queryBytes(0, "Only names that begin with it; all without it."),
);

/** Rows of a page. Bounded because a shard holds a whole page in memory. */
export const limit = v.exactOptional(
  queryInteger(1, SCAN_RECORDS_MAX, `Rows of the page. Default: ${SCAN_RECORDS_MAX}.`),
);

/**
 * A cursor as the last page gave it. Clients may not make their own, but anything can come, so its length is checked
 * before it goes to a shard.
 */
export const queryCursor = (bytesMax: number, bytesMin = 0) =>
  v.exactOptional(
    v.pipe(
      v.string(),
      v.description("`cursor` of the previous page."),
      turned((cursor) => {
        const bytes = bytesOfUrlBase64(cursor);
        if (bytes === null || bytes.length < bytesMin) return null;
        return bytes.length <= bytesMax ? bytes : null;
      }, "expected the cursor of a page"),
    ),
  );

/** The query of lists whose cursor is the last name. */
export const pageQuery = v.strictObject({ prefix, limit, cursor: queryCursor(NAME_BYTES_MAX) });

/** A figure of an answer: exact in a double for as long as a server runs. */
export const count = v.pipe(v.number(), v.safeInteger(), v.minValue(0));

/** A figure with a description of its own. */
export const counted = (description: string) => v.pipe(count, v.description(description));

/** How long a record lives. Both times are from the server's clock: a client's may be wrong. */
export const remaining = {
  ttlMs: v.pipe(v.number(), v.description("Remaining time, in ms, rounded up.")),
  expiresAtMs: v.pipe(
    v.number(),
    v.description("Expiry, in ms since the epoch by the server's clock, rounded up."),
  ),
};

/** A field of an answer: text, or base64 in the field with `Base64` behind its name. */
export const textAnswer = (description: string) =>
  v.exactOptional(v.pipe(v.string(), v.description(description)));

/** The other field of such a pair. */
export const base64Answer = (description: string) =>
  v.exactOptional(v.pipe(v.string(), v.metadata({ contentEncoding: "base64", description })));

/** A time of an answer, or null for never. */
export const moment = (description: string) =>
  v.pipe(v.nullable(v.number()), v.description(description));

/** Null after the last page, and never missing: a program can tell the end from a misspelt name. */
export const cursor = v.pipe(
  v.nullable(v.string()),
  v.description("Cursor of the next page; null after the last page."),
);
