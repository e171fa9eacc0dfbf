/**
 * A route of the JSON door: its request, its answers, and the function that answers.
 *
 * The router and the OpenAPI document are both made from routes, so a route without a description cannot exist, and a
 * description cannot differ from what is checked.
 */
import * as v from "valibot";
import type { ScopeName } from "../../wire/throttr/requests.ts";
import { ThrottrError } from "../../wire/edge/error.ts";
import type { Caller } from "../caller.ts";
import { FieldsInvalid, type FieldError } from "../problem.ts";
import type { Reach } from "../token.ts";
import type { ProblemCode } from "../../wire/edge/codes.ts";

/** What checks a part of a request, or describes an answer. */
export type Schema = v.GenericSchema;

/**
 * For routes without parameters. An unknown one is refused there too: it is most often a misspelt option of another
 * route.
 */
const NO_QUERY = v.strictObject({});

/** The names in braces of a path, as types: `/v1/counters/{key}` has `key`. */
type PathNames<Path extends string> = Path extends `${string}{${infer Name}}${infer Rest}`
  ? Name | PathNames<Rest>
  : never;

/** A checked request. */
export interface Call<Path extends string, Query extends Schema, Body extends Schema | undefined> {
  readonly caller: Caller;
  /** Names in the path, decoded from percent escapes into bytes. */
  readonly path: Readonly<Record<PathNames<Path>, Uint8Array>>;
  readonly query: v.InferOutput<Query>;
  readonly body: Body extends Schema ? v.InferOutput<Body> : undefined;
  /** The `Idempotency-Key`, as options of operations; empty without one. */
  readonly once: { readonly idempotencyKey?: string };
  /** Whether the caller wants a value as raw bytes instead of JSON. */
  readonly isRawWanted: boolean;
}

/** What a route answers with: `json`, `bytes`, or neither. Failures are thrown, and become problems in the router. */
export interface Answer {
  readonly status: 200 | 201 | 204;
  /** Sent as JSON. */
  readonly json?: unknown;
  /** Sent as it is. */
  readonly bytes?: Uint8Array;
}

/** Describes the answer with a status. */
export interface AnswerDescription {
  readonly description: string;
  /** Schema of its JSON; missing for an empty answer. */
  readonly schema?: Schema;
  /** Whether it can be raw bytes, too. */
  readonly isRaw?: boolean;
}

interface Description {
  readonly method: "GET" | "PUT" | "POST" | "PATCH" | "DELETE";
  /** `operationId` of the document: generated clients name their method by it. */
  readonly id: string;
  readonly tag: string;
  readonly summary: string;
  readonly description?: string;
  /** What the route is about; missing: a namespace. */
  readonly reach?: Reach;
  /** The token needs all of them. They are checked before the body is read. */
  readonly scopes: readonly ScopeName[];
  /** Set if the route accepts `Idempotency-Key`: for its one record, or for each of many. */
  readonly once?: "one" | "each";
  /** The successful answers by status; the document adds the problems. */
  readonly answers: Readonly<Partial<Record<Answer["status"], AnswerDescription>>>;
  /** Codes besides those that follow from scope, path, query and body. */
  readonly errors?: readonly ProblemCode[];
  readonly example: {
    /** Path and query. A test sends each example and checks the answer against the schema. */
    readonly url: string;
    readonly body?: unknown;
  };
}

/** What `route` is given: types of the path and of the schemas flow into `answer`. */
interface Definition<
  Path extends string,
  Query extends Schema,
  Body extends Schema | undefined,
> extends Description {
  readonly path: Path;
  /** Missing: the route has no parameters, and refuses any. */
  readonly query?: Query;
  readonly body?: Body;
  /** The body may be the field `value` alone, as application/octet-stream; the other fields are in this query then. */
  readonly rawQuery?: Schema;
  /** Answers a checked request whose token has the scopes; a thrown ThrottrError becomes a problem. */
  readonly answer: (call: Call<Path, Query, Body>) => Promise<Answer>;
}

/**
 * A route of which only the shape is known. The router checks a request by its schemas, and so may give `answer` what
 * these yield.
 */
export interface Route extends Description {
  readonly path: string;
  readonly errors: readonly ProblemCode[];
  readonly query: Schema;
  readonly body?: Schema;
  readonly rawQuery?: Schema;
  readonly answer: (call: Call<string, Schema, Schema | undefined>) => Promise<Answer>;
}

/** Makes a route. `answer` gets path, query and body with the types of the route's own path and schemas. */
export function route<
  const Path extends string,
  Query extends Schema = typeof NO_QUERY,
  Body extends Schema | undefined = undefined,
>(definition: Definition<Path, Query, Body>): Route {
  return { query: NO_QUERY, errors: [], ...definition } as unknown as Route;
}

/** 200 with JSON. `bigint` and bytes must be turned into text before: JSON has neither. */
export const ok = (json: unknown): Answer => ({ status: 200, json });
/** 201 without a body: the caller knows what it has created. */
export const created: Answer = { status: 201 };
/** 204. */
export const nothing: Answer = { status: 204 };

/**
 * Returns a value that is not null.
 *
 * @throws ThrottrError `key_absent`
 */
export function present<Value>(value: Value | null, what: string): Value {
  if (value !== null) return value;
  throw new ThrottrError("key_absent", `there is no ${what} under the key`);
}

/**
 * Refuses a request because of its fields.
 *
 * @throws ThrottrError that names the fields
 */
export function refuseFields(
  code: "body_invalid" | "query_invalid",
  errors: readonly FieldError[],
): never {
  throw new FieldsInvalid(code, errors);
}
