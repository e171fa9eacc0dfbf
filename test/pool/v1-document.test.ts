/** The OpenAPI document of the JSON door is complete and true. */
import { reset } from "cloudflare:test";
import { exports } from "cloudflare:workers";
import * as v from "valibot";
import { afterEach, describe, expect, it } from "vitest";
import { PROBLEM_CODES, statusOf, titleOf, type ProblemCode } from "../../src/wire/edge/codes.ts";
import { isProblem } from "../../src/worker/problem.ts";
import { ThrottrError } from "../../src/wire/edge/error.ts";
import { codesOf, SHARED_CODES } from "../../src/worker/v1/codes.ts";
import type {
  DocumentOperation,
  DocumentResponse,
  OpenApiDocument,
} from "../../src/worker/v1/document.ts";
import { DOORS } from "../../src/worker/v1/doors.ts";
import { ROUTES } from "../../src/worker/v1/routes.ts";
import { readRequest } from "../../src/worker/v1/request.ts";
import { calling, gotOf, routeOf } from "../support/pool/v1-calls.ts";

const server = exports.default as unknown as Fetcher;

afterEach(async () => {
  await reset();
});

const fetchText = async (path: string): Promise<Response> =>
  await server.fetch(`http://localhost${path}`);
const documentOf = async (): Promise<OpenApiDocument> =>
  await (await fetchText("/openapi.json")).json();

function operationsOf({ paths }: OpenApiDocument): [string, string, DocumentOperation][] {
  return Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]): [string, string, DocumentOperation] => [
      method.toUpperCase(),
      path,
      operation,
    ]),
  );
}

/** All values of a key, wherever in a document. */
function valuesOf(key: string, within: unknown): unknown[] {
  if (typeof within !== "object" || within === null) return [];
  return Object.entries(within).flatMap(([name, value]) => [
    ...(name === key ? [value] : []),
    ...valuesOf(key, value),
  ]);
}

function at(document: unknown, reference: string): unknown {
  return reference
    .slice(2)
    .split("/")
    .reduce((value, name) => (value as Record<string, unknown> | undefined)?.[name], document);
}

describe("the document", () => {
  it("the document is OpenAPI 3.1, needs no token, and may be cached", async () => {
    const response = await fetchText("/openapi.json");
    expect(response.status).toBe(200);
    expect(response.headers.get("content-type")).toBe("application/json");
    expect(response.headers.get("cache-control")).toContain("max-age");
    const { openapi, info, servers } = (await response.json()) as OpenApiDocument;
    expect(openapi).toBe("3.1.1");
    expect(info).toMatchObject({ title: "Throttr Edge", version: expect.stringMatching(/^\d/) });
    expect(servers).toEqual([{ url: "/" }]);
  });

  it("the document describes every route and door, and no other", async () => {
    const told = operationsOf(await documentOf()).map(([method, path]) => `${method} ${path}`);
    const served = [...ROUTES, ...DOORS].map(({ method, path }) => `${method} ${path}`);
    expect(told.toSorted()).toEqual(served.toSorted());
    expect(new Set(told).size).toBe(told.length);
  });

  it("operations of the document have unique ids, listed tags and all their path parameters", async () => {
    const document = await documentOf();
    const operations = operationsOf(document);
    const ids = operations.map(([, , { operationId }]) => operationId);
    expect(new Set(ids).size).toBe(ids.length);
    const tags = document.tags.map(({ name }) => name);
    for (const [, path, operation] of operations) {
      for (const tag of operation.tags) expect(tags).toContain(tag);
      const names = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name);
      const parameters = operation.parameters.filter((parameter) => parameter.in === "path");
      expect(parameters.map(({ name }) => name)).toEqual(names);
      expect(parameters.every(({ required }) => required)).toBe(true);
      const all = operation.parameters.map((parameter) => `${parameter.in} ${parameter.name}`);
      expect(new Set(all).size).toBe(all.length);
    }
  });

  it("every reference of the document leads to a schema, and every schema is used", async () => {
    const document = await documentOf();
    const references = valuesOf("$ref", document) as string[];
    expect(references.length).toBeGreaterThan(50);
    expect(references.filter((reference) => at(document, reference) === undefined)).toEqual([]);
    const schemas = Object.keys(document.components.schemas);
    expect(schemas.filter((name) => !references.includes(`#/components/schemas/${name}`))).toEqual(
      [],
    );
  });

  it("the document describes what each route takes, from body to scope", async () => {
    const document = await documentOf();
    for (const route of ROUTES) {
      const operation = document.paths[route.path]![route.method.toLowerCase()]!;
      expect(operation.security).toEqual([{ bearer: route.scopes }, { ticket: route.scopes }]);
      expect(operation.requestBody !== undefined).toBe(route.body !== undefined);
      const headers = operation.parameters.filter((parameter) => parameter.in === "header");
      expect(headers.map(({ name }) => name)).toEqual(
        route.once === undefined ? [] : ["Idempotency-Key"],
      );
    }
  });

  it("the document says which parameters of a query are required", async () => {
    const needed = operationsOf(await documentOf()).flatMap(([, , { operationId, parameters }]) =>
      parameters
        .filter((parameter) => parameter.in === "query" && parameter.required)
        .map(({ name }) => `${operationId} ${name}`),
    );
    expect(needed).toEqual(["resetLimit strategy", "removeRecords prefix"]);
  });

  it("the document has every answer and code of each route, under its status", async () => {
    const document = await documentOf();
    for (const route of ROUTES) {
      const { responses } = document.paths[route.path]![route.method.toLowerCase()]!;
      const codes = [...codesOf(route), ...SHARED_CODES];
      const statuses = [
        ...Object.keys(route.answers),
        ...codes.map((code) => String(statusOf(code))),
      ];
      expect(Object.keys(responses).toSorted()).toEqual([...new Set(statuses)].toSorted());
      for (const code of codes) {
        const response = responses[statusOf(code)]!;
        const resolved = ("$ref" in response ? at(document, response.$ref) : response) as
          DocumentResponse | undefined;
        expect(valuesOf("enum", resolved).flat()).toContain(code);
      }
    }
  });

  it("the document says that a route without a body may refuse one", async () => {
    const response = await server.fetch("http://localhost/v1/counters/visits", {
      method: "DELETE",
      body: new Uint8Array((8 << 20) + 1),
    });
    expect(response.status).toBe(413);
    await response.body?.cancel();
    const { responses } = (await documentOf()).paths["/v1/counters/{key}"]!["delete"]!;
    expect(Object.keys(responses)).toContain("413");
  });

  it("the document has examples that the routes accept", async () => {
    const document = await documentOf();
    for (const route of ROUTES) {
      const { method, example } = route;
      expect(routeOf(method, example.url)).toBe(route);
      const body = example.body === undefined ? "" : JSON.stringify(example.body);
      const request = new Request(`http://localhost${example.url}`, { method });
      expect(readRequest(route, request, new TextEncoder().encode(body))).toBeDefined();
      const operation = document.paths[route.path]![method.toLowerCase()]!;
      const [sample] = operation["x-codeSamples"];
      expect(sample!.source).toContain(`$SERVER${example.url}"`);
      if (method !== "GET") expect(sample!.source).toContain(`-X ${method}`);
      if (example.body !== undefined) {
        expect(JSON.parse(/-d '(.*)'$/.exec(sample!.source)![1]!)).toEqual(example.body);
      }
    }
  });

  it("the document describes all other doors", async () => {
    const call = calling({});
    expect((await call("GET", "/health")).json).toEqual({ status: "ok" });
    const posted = await call("POST", "/channels/a%2Fb", { body: "message" });
    expect(posted.json).toEqual({ delivered: 0, sequence: null });
    const listening = await server.fetch("http://localhost/channels/a/b");
    expect(listening.headers.get("content-type")).toContain("text/event-stream");
    await listening.body!.cancel();
    expect((await call("GET", "/metrics")).status).toBe(200);
    const watching = await server.fetch("http://localhost/v1/overview/live");
    expect(watching.headers.get("content-type")).toContain("text/event-stream");
    await watching.body!.cancel();
    expect(DOORS).toHaveLength(5);
  });
});

describe("the description", () => {
  it("the description has a table of all codes, each with status and title", async () => {
    const { description } = (await documentOf()).info;
    const rows = [...description.matchAll(/^\| `(\w+)` \| (\d+) \| (.+) \|$/gm)];
    expect(rows.map(([, code]) => code)).toEqual(PROBLEM_CODES);
    for (const [, code, status, title] of rows) {
      const known = code as ProblemCode;
      expect([Number(status), title]).toEqual([statusOf(known), titleOf(known)]);
    }
  });

  it("the description gives each name in a path an example, from the example of its route", async () => {
    for (const [, path, operation] of operationsOf(await documentOf())) {
      if (!path.startsWith("/v1/")) continue;
      const named = operation.parameters.filter((parameter) => parameter.in === "path");
      const filled = named.reduce(
        (text, { name, example }) => text.replace(`{${name}}`, example!),
        path,
      );
      expect(operation["x-codeSamples"][0]!.source).toContain(`$SERVER${filled}`);
    }
  });
});

describe("/docs of a server without assets", () => {
  it("/docs of a server without assets says so, and links to the OpenAPI document", async () => {
    const response = await server.fetch("http://localhost/docs", { redirect: "manual" });
    expect([response.status, response.headers.get("location")]).toEqual([302, "/openapi.json"]);
    expect(await response.text()).toContain("This server has no reference pages.");
  });
});

describe("the codes of errors", () => {
  it("every code answers a request, except for faults of the server, whose text is for its log", () => {
    expect(isProblem(ThrottrError.from(new Error("inner matters")))).toBe(false);
    expect(isProblem(new ThrottrError("unheard_of", "inner matters"))).toBe(false);
    expect(isProblem(new ThrottrError("shard_full", "why"))).toBe(true);
  });

  it("unknown routes are answered with their code", async () => {
    const got = await gotOf(await fetchText("/v1/none"));
    expect(got.json).toMatchObject({ code: "not_found", type: "/docs#not_found" });
    expect(v.is(v.string(), got.json.title)).toBe(true);
  });
});
