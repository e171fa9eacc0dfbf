/** What a service binding to the entrypoint `Throttr` offers: the operations, as calls. */
import type { LimitResult } from "./limit.ts";
import type { Operation } from "./operation.ts";
import type * as operations from "./operations.ts";

type Operations = typeof operations;

/** Name of an operation. */
export type OperationName = keyof Operations;

/** The result of an operation. */
export type ResultOf<Name extends OperationName> =
  ReturnType<Operations[Name]> extends Operation<infer Result> ? Result : never;

/** Each operation as a call of the same name and arguments. */
export type OperationCalls = {
  [Name in OperationName]: (...parameters: Parameters<Operations[Name]>) => Promise<ResultOf<Name>>;
};

/** One operation of a batch: its name, and its arguments. */
export type BatchCall = {
  [Name in OperationName]: readonly [name: Name, ...parameters: Parameters<Operations[Name]>];
}[OperationName];

/** What became of one operation of a batch. */
export type BatchOutcome<Result> =
  | { readonly ok: true; readonly value: Result }
  | { readonly ok: false; readonly error: { readonly code: string; readonly message: string } };

/** What became of the operations of a batch, in their order. */
export type BatchOutcomes<Calls extends readonly BatchCall[]> = {
  -readonly [I in keyof Calls]: BatchOutcome<ResultOf<Calls[I][0]>>;
};

/**
 * A service binding to Throttr: a call is one request to the shard that has the record.
 *
 * A failed call is rejected with an error whose message begins with a stable code and a colon;
 * `ThrottrError.from` reads it.
 *
 * @example
 * interface Env {
 *   THROTTR: ThrottrService;
 * }
 * const views = await env.THROTTR.increment("views", { ttlMs: 60_000 });
 */
export interface ThrottrService extends OperationCalls {
  /**
   * Executes operations in order, in one call to each shard.
   *
   * Rejected with the error of an argument: then nothing was applied.
   *
   * @example
   * const [views, page] = await env.THROTTR.batch([
   *   ["increment", "views", { ttlMs: 60_000 }],
   *   ["get", "page"],
   * ]);
   */
  batch<const Calls extends readonly BatchCall[]>(calls: Calls): Promise<BatchOutcomes<Calls>>;

  /**
   * Asks many limits in one call to each shard.
   *
   * Rejected with the first error, if any: the others may have been charged. `batch` tells them apart.
   */
  limitMany(requests: readonly operations.LimitRequest[]): Promise<LimitResult[]>;

  /** Executes frames of the edge dialect, back to back, and gives their replies. */
  exchange(frames: Uint8Array): Promise<Uint8Array>;

  /** HTTP and WebSocket as the server itself speaks them, with the rights of the binding. */
  fetch(request: Request): Promise<Response>;
}
