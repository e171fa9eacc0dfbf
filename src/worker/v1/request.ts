/** Reads a request of the JSON door: path, query, body, and the headers that a route uses. Unknown fields are refused. */
import * as v from "valibot";
import { binaryBytes } from "../../wire/bytes.ts";
import { IDEMPOTENCY_KEY_BYTES_MAX } from "../../wire/edge/command.ts";
import { shown } from "../../wire/ratelimit/error.ts";
import { ThrottrError } from "../../wire/edge/error.ts";
import { escapedName, rawPath, shortName, unescaped } from "../escaped-name.ts";
import { type FieldError } from "../problem.ts";
import { parseJson } from "./json.ts";
import { refuseFields, type Call, type Route, type Schema } from "./route.ts";

/** The content type of raw values, in requests and in answers. */
export const RAW_TYPE = "application/octet-stream";
/** Longer field names are cut in messages, in characters: a stranger chose them. */
const FIELD_LENGTH_MAX = 100;
/** Errors that an answer lists, at most. */
const ERRORS_MAX = 20;
/** In a larger body only the first error is looked for: a list of all could take more memory than the body. */
const LISTED_BYTES_MAX = 64 << 10;

/** What `readRequest` gives: all of a call but its caller. */
type Input = Omit<Call<string, Schema, Schema | undefined>, "caller">;

/**
 * Reads and checks the request of a route.
 *
 * @throws ThrottrError with the code of what is wrong, and its field
 */
export function readRequest(route: Route, request: Request, bytes: Uint8Array): Input {
  const parameters = parametersOf(new URL(request.url));
  const path = namesOf(route.path, rawPath(request.url), parameters);
  const once = onceOf(route, request.headers.get("idempotency-key"));
  const isRaw = route.rawQuery !== undefined && typeOf(request) === RAW_TYPE;
  const query = checked(
    isRaw ? route.rawQuery : route.query,
    fieldsOf(parameters),
    "query_invalid",
  );
  // A raw value leaves no room for fields in the body, so they are in the query, which has been checked above.
  const body = bodyOf(route, bytes, isRaw ? (query as object) : null);
  const accept = request.headers.get("accept") ?? "";
  // A client that takes both gets JSON, as any client of the JSON door does.
  const isRawWanted = accept.includes(RAW_TYPE) && !accept.includes("application/json");
  return { path, query, body, once, isRawWanted };
}

/**
 * Reads and checks the query of a request that has nothing else.
 *
 * @throws ThrottrError `query_invalid`
 */
export function readQuery<Query extends Schema>(
  schema: Query,
  request: Request,
): v.InferOutput<Query> {
  return checked(schema, fieldsOf(parametersOf(new URL(request.url))), "query_invalid");
}

/**
 * The checked body; undefined for a route without one.
 *
 * @param rawFields the fields besides `value`, which is the raw body; null for a body in JSON
 * @throws ThrottrError `json_invalid`, `body_too_large`, `body_invalid`
 */
function bodyOf({ body }: Route, bytes: Uint8Array, rawFields: object | null): unknown {
  if (body === undefined) return undefined;
  if (rawFields !== null) return { ...rawFields, value: bytes };
  const json = parseJson(bytes);
  // For valibot a list is an object without the fields, and one with a field `at`: the method of lists.
  if (Array.isArray(json)) {
    refuseFields("body_invalid", [{ field: "", message: "expected an object, got a list" }]);
  }
  return checked(body, json, "body_invalid", bytes.length <= LISTED_BYTES_MAX);
}

/** Stands in a path for a name that is in the query: a route has the same number of segments either way. */
const ELSEWHERE = "-";

/**
 * The names of a path, by the words in braces of its pattern.
 *
 * URL parsers remove `.` and `..` from paths, even escaped, and an empty name makes no path segment. A parameter of the
 * query carries such names.
 */
function namesOf(
  pattern: string,
  path: string,
  parameters: Map<string, string>,
): Record<string, Uint8Array> {
  const parts = path.split("/");
  const names: Record<string, Uint8Array> = {};
  pattern.split("/").forEach((part, i) => {
    if (!part.startsWith("{")) return;
    const what = part.slice(1, -1) as "key" | "channel" | "name" | "lease";
    const elsewhere = parameters.get(what);
    if (elsewhere !== undefined && parts[i] !== ELSEWHERE) {
      refuseParameter(
        what,
        `the path already has a name; write ${ELSEWHERE} there to use the parameter`,
      );
    }
    parameters.delete(what);
    names[what] = binaryBytes(
      elsewhere === undefined ? escapedName(parts[i]!, what) : shortName(elsewhere, what),
    );
  });
  return names;
}

/**
 * The parameters of a query as binary strings; the ticket is not one of them. `URLSearchParams` is of no use here: it
 * decodes bytes that are not UTF-8 into replacement characters.
 *
 * @throws ThrottrError `query_invalid`
 */
function parametersOf({ search }: URL): Map<string, string> {
  const parameters = new Map<string, string>();
  for (const pair of search.slice(1).split("&")) {
    if (pair === "") continue;
    const [name, ...rest] = pair.replaceAll("+", " ").split("=");
    const value = unescaped(rest.join("="));
    const field = unescaped(name!) ?? name!;
    if (value === null) {
      refuseParameter(
        field,
        "a % must be followed by two hexadecimal digits; escape a plain % as %25",
      );
    }
    if (parameters.has(field)) refuseParameter(field, "the parameter was given twice");
    parameters.set(field, value);
  }
  parameters.delete("ticket");
  return parameters;
}

/**
 * The parameters as an object, as schemas check objects. `fromEntries` defines fields, so even `__proto__` is a plain
 * one.
 */
const fieldsOf = (parameters: Map<string, string>): object => Object.fromEntries(parameters);

function refuseParameter(field: string, message: string): never {
  return refuseFields("query_invalid", [{ field, message }]);
}

/** The content type without its parameters, in lower case; empty without one. */
function typeOf({ headers }: Request): string {
  return (headers.get("content-type") ?? "").split(";")[0]!.trim().toLowerCase();
}

/**
 * Reads `Idempotency-Key`: a string of structured fields (RFC 9651), or the same without quotes. A route that only
 * reads ignores it: its repetition is safe, and clients set the header for all their requests.
 *
 * @throws ThrottrError `idempotency_key_invalid`
 */
function onceOf({ once, method, scopes }: Route, header: string | null): Input["once"] {
  const isReading = method === "GET" || scopes.every((scope) => scope === "read");
  if (header === null || isReading) return {};
  if (once === undefined) {
    throw new ThrottrError(
      "idempotency_key_invalid",
      "Idempotency-Key: this route does not accept one, because a repeated request would be applied again",
    );
  }
  const quoted = /^"((?:[ !#-[\]-~]|\\["\\])*)"$/.exec(header)?.[1]?.replace(/\\(.)/g, "$1");
  const key = quoted ?? (/^[!#-~]+$/.test(header) ? header : "");
  if (key.length >= 1 && key.length <= IDEMPOTENCY_KEY_BYTES_MAX) return { idempotencyKey: key };
  throw new ThrottrError(
    "idempotency_key_invalid",
    `Idempotency-Key: expected 1 to ${IDEMPOTENCY_KEY_BYTES_MAX} ASCII characters, with or without quotes, got ${shown(header)}`,
  );
}

/**
 * The output of a schema for an input.
 *
 * @param isListed whether to list all errors, and not only the first
 * @throws ThrottrError `body_invalid`, `query_invalid`, with the fields
 */
function checked(
  schema: Schema | undefined,
  input: unknown,
  code: "body_invalid" | "query_invalid",
  isListed = true,
): unknown {
  const result = v.safeParse(schema!, input, { abortEarly: !isListed });
  if (result.success) return result.output;
  return refuseFields(code, fieldErrors(result.issues));
}

/** The errors to list, each once: a number that fails several checks of its range has an issue for each. */
function fieldErrors(issues: readonly v.BaseIssue<unknown>[]): FieldError[] {
  const errors = issues.slice(0, ERRORS_MAX).map(fieldError);
  return [...new Map(errors.map((error) => [error.field + error.message, error])).values()];
}

/** The error of an issue, with its field as a path such as `requests[3].strategy.burst`. */
function fieldError(issue: v.BaseIssue<unknown>): FieldError {
  const field = (issue.path ?? []).reduce(
    (path, { key }) =>
      typeof key === "number"
        ? `${path}[${key}]`
        : `${path}${path === "" ? "" : "."}${String(key).slice(0, FIELD_LENGTH_MAX)}`,
    "",
  );
  return { field, message: messageOf(issue) };
}

/** What was expected, and what came. valibot's own words for unknown and missing fields name types of TypeScript. */
function messageOf({ type, expected, message, input }: v.BaseIssue<unknown>): string {
  if (type === "strict_object") {
    if (expected === "Object") return `expected an object, got ${shown(input)}`;
    return expected === "never" ? "unknown field" : "missing field";
  }
  // A check of several fields has a complete message; the value of one of them would mislead.
  if (type === "raw_check") return message;
  // Neither JSON nor a query has undefined: it is the missing field that says which variant an object is of.
  return `${message}, got ${input === undefined ? "nothing" : shown(input)}`;
}
