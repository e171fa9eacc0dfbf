/** What a service binding to the entrypoint `Throttr` offers: the operations, as calls. */
import type { DrawRequest, DrawResult } from "./draw.ts";
import type { LimitResult } from "./limit.ts";
import type { LimitRequest } from "./limits.ts";
import type { OperationCalls } from "./operation-calls.ts";
import type { Operation } from "./operation.ts";
import type * as operations from "./operations.ts";

type Operations = typeof operations;

/** Name of an operation. */
export type OperationName = keyof Operations;

/** The result of an operation. */
export type ResultOf<Name extends OperationName> =
  ReturnType<Operations[Name]> extends Operation<infer Result> ? Result : never;

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
   * Executes up to 10,000 operations of at most 24 MiB in order, in one call to each shard, and gives the outcome of each.
   *
   * Rejects with the code of a wrong argument, `argument_invalid`, `operation_unknown` or `batch_too_large`: nothing
   * was applied then. An operation that fails, or that the caller has no right to, fails by itself.
   *
   * @example
   * const [views, page] = await env.THROTTR.batch([
   *   ["increment", "views", { ttlMs: 60_000 }],
   *   ["get", "page"],
   * ]);
   * if (views.ok) console.log(views.value);
   */
  batch<const Calls extends readonly BatchCall[]>(calls: Calls): Promise<BatchOutcomes<Calls>>;

  /**
   * Asks up to 10,000 limits in order, in one call to each shard.
   *
   * Rejects with the first error, if any: the others may have been charged. `batch` tells them apart.
   *
   * @example
   * const results = await env.THROTTR.limitMany(ids.map((key) => ({ name: "api", key, strategy })));
   */
  limitMany(requests: readonly LimitRequest[]): Promise<LimitResult[]>;

  /**
   * Draws units of up to 10,000 limits in order, in one call to each shard, as `draw`.
   *
   * Rejects with the first error, if any: the others may have been charged. `batch` tells them apart.
   *
   * @example
   * const drawn = await env.THROTTR.drawMany(ids.map((key) => ({ name: "api", key, strategy, wanted: 10 })));
   */
  drawMany(requests: readonly DrawRequest[]): Promise<DrawResult[]>;

  /**
   * Executes frames of the edge dialect, back to back, and gives their replies: what `serviceBinding()` of the client
   * sends. A message has at most `BODY_BYTES_MAX` bytes, its replies 24 MiB.
   *
   * Rejects with `frames_invalid`, `body_too_large`, or the code of the first frame that can't be read or is not
   * allowed: nothing was applied then. After `reply_too_large` it is not known what was applied.
   *
   * @example
   * const replies = await env.THROTTR.exchange(frames);
   */
  exchange(frames: Uint8Array): Promise<Uint8Array>;

  /**
   * HTTP and WebSocket as the server itself speaks them, with the rights of the binding instead of a token.
   *
   * @example
   * const response = await env.THROTTR.fetch(new Request("https://throttr/v1/info"));
   */
  fetch(request: Request): Promise<Response>;
}
