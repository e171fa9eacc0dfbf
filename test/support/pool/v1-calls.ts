/** Calls of the JSON door: every answer is held against what its route says that it answers. */
import { exports } from "cloudflare:workers";
import * as v from "valibot";
import { expect } from "vitest";
import { statusOf, titleOf, type ProblemCode } from "../../../src/wire/edge/codes.ts";
import { codesOf, SHARED_CODES } from "../../../src/worker/v1/codes.ts";
import type { Route } from "../../../src/worker/v1/route.ts";
import { ROUTES } from "../../../src/worker/v1/routes.ts";
import { components } from "../../../src/worker/v1/schemas/components.ts";

const server = exports.default as unknown as Fetcher;

/** A number of names: each test has a namespace of its own. */
let namespaces = 0;
export const freshNamespace = (): string => `v1-${++namespaces}`;

export interface Sent {
  readonly json?: unknown;
  /** A body as it is. */
  readonly body?: BodyInit;
  readonly headers?: Record<string, string>;
}

export interface Got {
  readonly status: number;
  readonly headers: Headers;
  readonly bytes: Uint8Array;
  /** Of an answer in JSON, problems included; null for any other. */
  readonly json: Record<string, unknown>;
}

export type Calling = (method: string, url: string, sent?: Sent) => Promise<Got>;

/** The route behind a method and a URL. */
export function routeOf(method: string, url: string): Route | undefined {
  const { pathname } = new URL(url, "http://localhost");
  const parts = pathname.split("/");
  return ROUTES.find((route) => {
    const pattern = route.path.split("/");
    return (
      route.method === method &&
      pattern.length === parts.length &&
      pattern.every((part, i) => (part.startsWith("{") ? parts[i] !== "" : part === parts[i]))
    );
  });
}

/** Calls with the given headers. */
export function calling(always: Record<string, string>): Calling {
  return async (method, url, { json, body, headers = {} } = {}) => {
    const response = await server.fetch(`http://localhost${url}`, {
      method,
      headers: { ...always, ...headers },
      ...(json === undefined ? {} : { body: JSON.stringify(json) }),
      ...(body === undefined ? {} : { body }),
    });
    const got = await gotOf(response);
    const route = routeOf(method, url);
    if (route !== undefined) expectDescribed(route, got);
    return got;
  };
}

export async function gotOf(response: Response): Promise<Got> {
  const bytes = new Uint8Array(await response.arrayBuffer());
  const isJson =
    bytes.length > 0 && response.headers.get("content-type")?.includes("json") === true;
  return {
    status: response.status,
    headers: response.headers,
    bytes,
    json: isJson
      ? (JSON.parse(new TextDecoder().decode(bytes)) as Record<string, unknown>)
      : (null as never),
  };
}

/** The answer is one of those that the document tells of, to the field. */
function expectDescribed(route: Route, got: Got): void {
  const { status, headers, bytes, json } = got;
  expect(headers.get("cache-control")).toBe("no-store");
  if (status >= 400) {
    expectProblem(got, json.code as string);
    const codes: readonly string[] = [...codesOf(route), ...SHARED_CODES];
    expect(codes).toContain(json.code);
    return;
  }
  const answer = route.answers[status as 200];
  expect(answer).toBeDefined();
  expect(headers.get("x-content-type-options")).toBe("nosniff");
  if (answer!.schema === undefined) {
    expect(bytes.length).toBe(0);
  } else if (headers.get("content-type") === "application/octet-stream") {
    expect(answer!.isRaw).toBe(true);
  } else {
    const { issues } = v.safeParse(answer!.schema, json);
    expect(issues?.map(({ message, path }) => [message, path?.map(({ key }) => key)])).toBe(
      undefined,
    );
  }
}

/** The answer is a problem with this code, and its status. */
export function expectProblem({ status, headers, json }: Got, code: string): void {
  expect(json).toMatchObject({ code, type: `/docs#${code}`, status });
  expect(headers.get("content-type")).toBe("application/problem+json");
  expect(v.safeParse(components.Problem, json).issues).toBe(undefined);
  const problemCode = code as ProblemCode;
  expect([json.status, json.title]).toEqual([statusOf(problemCode), titleOf(problemCode)]);
  expect(json.detail).not.toBe("");
}

/** The fields that a problem names, with what it says of each. */
export function fieldsOf({ json }: Got): Record<string, string> {
  const errors = (json.errors ?? []) as { field: string; message: string }[];
  return Object.fromEntries(errors.map(({ field, message }) => [field, message]));
}
