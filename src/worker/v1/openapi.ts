/**
 * The OpenAPI document, made from the routes and their schemas.
 *
 * It is made at its first request and kept, so that no other request pays for converting the schemas.
 */
import { toJsonSchema, toJsonSchemaDefs, type ConversionConfig } from "@valibot/to-json-schema";
import { VERSION } from "../../base/version.ts";
import { PROBLEM_CODES, statusOf, titleOf, type ProblemCode } from "../../wire/edge/codes.ts";
import { codesOf, SHARED_CODES } from "./codes.ts";
import { DOORS } from "./doors.ts";
import { RAW_TYPE } from "./request.ts";
import {
  PROBLEM_TYPE,
  SCHEMA_REF,
  type DocumentOperation,
  type DocumentResponse,
  type JsonSchema,
  type OpenApiDocument,
  type Parameter,
  type ResponseReference,
} from "./document.ts";
import type { AnswerDescription, Route, Schema } from "./route.ts";
import { ROUTES } from "./routes.ts";
import { components } from "./schemas/components.ts";

/** The introduction of the document, a paragraph each, in Markdown. `/docs` shows it above the routes. */
const ABOUT: readonly string[] = [
  "Exact counters, expiring buffers, rate limits, semaphores and channels over HTTP. `/docs` shows this document as a page; `/openapi.json` is for programs.",
  "A token belongs to one namespace. Send it as `Authorization: Bearer …`, or as `?ticket=` if its lifetime is at most 300 s. A request that needs a scope the token lacks gets a 403.",
  "Quotas have 64 bits, so answers contain them as strings of digits. Times are in milliseconds.",
  "Keys, values and payloads are bytes. In a URL they are percent-encoded, byte by byte (`/` is `%2F`). In JSON they are text if they are UTF-8, otherwise base64 in a field whose name ends in `Base64`. A path cannot contain the empty name, `.` or `..`: write `-` there and put the name into the query, `/v1/counters/-?key=..`, `/v1/semaphores/-?name=..`.",
  "`Idempotency-Key` (1 to 64 characters) makes a retry safe: within `IDEMPOTENCY_TTL_MS` a repeated call is not applied again and returns the first answer.",
  "Errors are problem details (RFC 9457) with a stable `code`. Unknown fields and parameters are refused.",
];

/** All codes as a table in Markdown. `/docs#key_absent`, the `type` of a problem, leads to its row. */
function errorTable(): string {
  const rows = PROBLEM_CODES.map(
    (code) => `| \`${code}\` | ${statusOf(code)} | ${titleOf(code)} |`,
  );
  return ["## Errors\n", "| Code | Status | Meaning |", "| --- | --- | --- |", ...rows].join("\n");
}

/**
 * How schemas become JSON Schema: as requests have them, before numbers become `bigint` and texts bytes. Checks of
 * several fields have no JSON Schema; what can be said of them is in their metadata.
 */
const CONVERSION: ConversionConfig = {
  target: "draft-2020-12",
  typeMode: "input",
  ignoreActions: ["raw_check"],
  definitions: components,
  overrideRef: ({ referenceId }) => SCHEMA_REF + referenceId,
};

/** Kept for the life of the isolate. It depends on the release alone, so all callers may share it. */
let known: OpenApiDocument | null = null;
let knownText: string | null = null;

/** The document; made when it is first asked for. */
export function openApiDocument(): OpenApiDocument {
  return (known ??= documentOf(ROUTES));
}

/** The document as JSON, made once, as it is large and the same for all. */
export function documentText(): string {
  return (knownText ??= JSON.stringify(openApiDocument()));
}

/**
 * The document of some routes, with the other doors behind them. A tag is there if an operation has it, in the order of
 * their first use.
 */
function documentOf(routes: readonly Route[]): OpenApiDocument {
  const paths: Record<string, Record<string, DocumentOperation>> = {};
  const add = (path: string, method: string, operation: DocumentOperation): void => {
    (paths[path] ??= {})[method.toLowerCase()] = operation;
  };
  for (const route of routes) add(route.path, route.method, operationOf(route));
  for (const { path, method, ...operation } of DOORS) add(path, method, operation);
  const operations = Object.values(paths).flatMap((methods) => Object.values(methods));
  const tags = new Set(operations.flatMap(({ tags }) => tags));
  return {
    openapi: "3.1.1",
    info: {
      title: "Throttr Edge",
      version: VERSION,
      description: [...ABOUT, errorTable()].join("\n\n"),
    },
    servers: [{ url: "/" }],
    tags: [...tags].map((name) => ({ name })),
    paths,
    components: {
      schemas: toJsonSchemaDefs(components, CONVERSION) as unknown as Record<string, JsonSchema>,
      responses: SHARED_RESPONSES,
      securitySchemes: {
        bearer: { type: "http", scheme: "bearer", bearerFormat: "JWT" },
        ticket: { type: "apiKey", in: "query", name: "ticket" },
      },
    },
  };
}

/**
 * One route, as the document describes it. Absent fields are left out, not undefined: the document is also read as an
 * object.
 */
function operationOf(route: Route): DocumentOperation {
  const { id, tag, summary, description, scopes } = route;
  const requestBody = requestBodyOf(route);
  return {
    operationId: id,
    tags: [tag],
    summary,
    ...(description === undefined ? {} : { description }),
    security: [{ bearer: scopes }, { ticket: scopes }],
    parameters: parametersOf(route),
    ...(requestBody === null ? {} : { requestBody }),
    responses: responsesOf(route),
    "x-codeSamples": [{ lang: "Shell", source: curlOf(route) }],
  };
}

/**
 * What a name in a path may be, by what `subjectOf` says it is. A schema in the path could not say it: names are bytes.
 */
const PATH_DESCRIPTIONS: Readonly<Record<string, string>> = {
  key: "1 to 255 bytes, percent-encoded.",
  channel: "1 to 255 bytes, percent-encoded.",
  name: "Name of the limit: 1 to 64 characters of `A-Z a-z 0-9 _ - : . @ +`.",
  limited: "Key of the limit, such as a user, of the same characters.",
  semaphore: "Name of the semaphore: 1 to 255 bytes, percent-encoded.",
  lease: "A UUID.",
};

/**
 * The parameters of a route: path, query, and `Idempotency-Key`. The example of a name is read from the example of the
 * route.
 */
function parametersOf({ path, query, rawQuery, once, example }: Route): Parameter[] {
  const names = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name!);
  const pathPattern = new RegExp(`^${path.replace(/\{\w+\}/g, "([^/?]+)")}`);
  const examples = pathPattern.exec(example.url)?.slice(1) ?? [];
  const parameters = names.map((name, i): Parameter => ({
    name,
    in: "path",
    required: true,
    description: PATH_DESCRIPTIONS[subjectOf(name, path)]!,
    schema: { type: "string" },
    example: examples[i]!,
  }));
  parameters.push(...queryParameters(query, true));
  if (rawQuery !== undefined) parameters.push(...queryParameters(rawQuery, false));
  if (once !== undefined) {
    parameters.push({
      name: "Idempotency-Key",
      in: "header",
      required: false,
      description: "1 to 64 ASCII characters, with or without quotes.",
      schema: { type: "string" },
    });
  }
  return parameters;
}

/** The kind of a name in a path: `key` and `name` mean different things in different routes. */
function subjectOf(name: string, path: string): string {
  if (name === "key" && path.includes("{name}")) return "limited";
  return name === "name" && path.startsWith("/v1/semaphores/") ? "semaphore" : name;
}

/**
 * The parameters of a query, from the JSON Schema of its object.
 *
 * @param isAlways false if the query belongs to some bodies only: then no parameter is required
 */
function queryParameters(schema: Schema, isAlways: boolean): Parameter[] {
  const { properties = {}, required = [] } = jsonSchemaOf(schema);
  return Object.entries(properties).map(([name, { description, ...property }]) => ({
    name,
    in: "query",
    required: isAlways && required.includes(name),
    ...(description === undefined ? {} : { description }),
    schema: property,
  }));
}

/** The body of a request; null for a route without one. */
function requestBodyOf({
  body,
  rawQuery,
  example,
}: Route): NonNullable<DocumentOperation["requestBody"]> | null {
  if (body === undefined) return null;
  const content = {
    "application/json": { schema: jsonSchemaOf(body), example: example.body },
    ...(rawQuery === undefined ? {} : { [RAW_TYPE]: {} }),
  };
  return { required: true, content };
}

/**
 * Problems that any route may answer with, by status. They stand among the components once: each route would repeat
 * them.
 */
const SHARED_RESPONSES = problemsOf(SHARED_CODES);
/** The references to them that each route has. */
const SHARED_REFERENCES = Object.fromEntries(
  Object.keys(SHARED_RESPONSES).map((status): [string, ResponseReference] => [
    status,
    { $ref: `#/components/responses/${status}` },
  ]),
);

/**
 * Answers and problems by status. A route's own problems never have the status of a shared one, so nothing is
 * overwritten.
 */
function responsesOf(route: Route): DocumentOperation["responses"] {
  const answers = Object.entries(route.answers).map(
    ([status, answer]): [string, DocumentResponse] => [status, responseOf(answer)],
  );
  return { ...Object.fromEntries(answers), ...problemsOf(codesOf(route)), ...SHARED_REFERENCES };
}

/** Problems by status. OpenAPI allows a status one response, so codes of one status share it. */
function problemsOf(codes: readonly ProblemCode[]): Record<string, DocumentResponse> {
  const problems: Record<string, DocumentResponse> = {};
  for (const [status, same] of Map.groupBy(codes, (code) => statusOf(code))) {
    problems[status] = {
      description: same.map((code) => `\`${code}\`: ${titleOf(code)}.`).join("\n\n"),
      content: { [PROBLEM_TYPE]: { schema: problemOf(same) } },
    };
  }
  return problems;
}

/** One answer: empty, JSON, or JSON beside raw bytes. */
function responseOf({ description, schema, isRaw }: AnswerDescription): DocumentResponse {
  if (schema === undefined) return { description };
  const content = {
    "application/json": { schema: jsonSchemaOf(schema) },
    ...(isRaw === true ? { [RAW_TYPE]: {} } : {}),
  };
  return { description, content };
}

/** The schema of a problem that has one of some codes: generated clients then know which to expect. */
function problemOf(codes: readonly ProblemCode[]): JsonSchema {
  return {
    allOf: [{ $ref: `${SCHEMA_REF}Problem` }, { properties: { code: { enum: codes } } }],
  };
}

/** A schema as JSON Schema. What has a name among the components becomes a reference, so `$defs` would repeat it. */
function jsonSchemaOf(schema: Schema): JsonSchema {
  const { $schema: _, $defs: __, ...converted } = toJsonSchema(schema, CONVERSION);
  return converted as unknown as JsonSchema;
}

/** The example as a command for a shell with `SERVER` and `TOKEN`. The body of an example has no single quote. */
function curlOf({ method, example: { url, body } }: Route): string {
  const lines = [
    `curl${method === "GET" ? "" : ` -X ${method}`} "$SERVER${url}"`,
    `-H "Authorization: Bearer $TOKEN"`,
  ];
  if (body !== undefined) lines.push(`-d '${JSON.stringify(body)}'`);
  return lines.join(" \\\n  ");
}
