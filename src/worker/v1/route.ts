/**
 * A route of the JSON door: what it is asked, what it answers, and who answers it.
 *
 * The router, the OpenAPI document and the page are made from routes, so there is none that is not
 * described.
 */
import type * as v from "valibot";
import type { ScopeName } from "../../wire/throttr/requests.ts";
import { ThrottrError } from "../../wire/edge/error.ts";
import type { Caller } from "../caller.ts";
import { FieldsInvalid, type FieldError } from "../problem.ts";
import type { ProblemCode } from "../../wire/edge/codes.ts";

export type Schema = v.GenericSchema;

/** Names in braces. */
type PathNames<Path extends string> = Path extends `${string}{${infer Name}}${infer Rest}`
  ? Name | PathNames<Rest>
  : never;

/** A request, checked. */
export interface Call<Path extends string, Query extends Schema, Body extends Schema | undefined> {
  readonly caller: Caller;
  /** Names in the path: bytes, as they were escaped. */
  readonly path: Readonly<Record<PathNames<Path>, Uint8Array>>;
  readonly query: v.InferOutput<Query>;
  readonly body: Body extends Schema ? v.InferOutput<Body> : undefined;
  /** What `Idempotency-Key` says, as options of operations. */
  readonly once: { readonly idempotencyKey?: string };
  /** The caller accepts a value as it is. */
  readonly isRawWanted: boolean;
}

export interface Answer {
  readonly status: 200 | 201 | 204;
  /** What is sent as JSON. */
  readonly json?: unknown;
  /** What is sent as it is. */
  readonly bytes?: Uint8Array;
}

/** What an answer with a status is. */
export interface AnswerDescription {
  readonly description: string;
  /** Of its JSON; none for an empty answer. */
  readonly schema?: Schema;
  /** It may be bytes, too. */
  readonly isRaw?: boolean;
}

interface Description {
  readonly method: "GET" | "PUT" | "POST" | "PATCH" | "DELETE";
  /** Names the route in the document; what clients call their method. */
  readonly id: string;
  readonly tag: string;
  readonly summary: string;
  readonly description?: string;
  /** All of them are needed. */
  readonly scopes: readonly ScopeName[];
  /** It takes `Idempotency-Key`, for the one record that it is about, or for each of many. */
  readonly once?: "one" | "each";
  readonly answers: Readonly<Partial<Record<Answer["status"], AnswerDescription>>>;
  /** Codes beyond those that follow from scope, path, query and body. */
  readonly errors: readonly ProblemCode[];
  readonly example: {
    /** Path and query. */
    readonly url: string;
    readonly body?: unknown;
  };
}

interface Definition<
  Path extends string,
  Query extends Schema,
  Body extends Schema | undefined,
> extends Description {
  readonly path: Path;
  readonly query: Query;
  readonly body: Body;
  /** The body may be the field `value` itself, as application/octet-stream; this query has the others. */
  readonly rawQuery?: Schema;
  readonly answer: (call: Call<Path, Query, Body>) => Promise<Answer>;
}

export interface Route extends Description {
  readonly path: string;
  readonly query: Schema;
  readonly body: Schema | undefined;
  readonly rawQuery?: Schema;
  readonly answer: (call: Call<string, Schema, Schema | undefined>) => Promise<Answer>;
}

/** A route, with what its call has checked against its path and schemas. */
export function route<
  const Path extends string,
  Query extends Schema,
  Body extends Schema | undefined = undefined,
>(definition: Definition<Path, Query, Body>): Route {
  return definition as unknown as Route;
}

export const ok = (json: unknown): Answer => ({ status: 200, json });
export const created: Answer = { status: 201 };
export const nothing: Answer = { status: 204 };

/**
 * What is not null.
 *
 * @throws ThrottrError `key_absent`
 */
export function present<Value>(value: Value | null, what: string): Value {
  if (value !== null) return value;
  throw new ThrottrError("key_absent", `there is no ${what} under the key`);
}

/** @throws ThrottrError that names the fields */
export function refuseFields(
  code: "body_invalid" | "query_invalid",
  errors: readonly FieldError[],
): never {
  throw new FieldsInvalid(code, errors);
}
