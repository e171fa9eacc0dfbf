/**
 * The calls of `ThrottrService`, for callers whose rights are known: of a service binding, and of the Worker's own code.
 *
 * Each operation becomes a method by its name, so an operation that is added to `wire/edge/operations.ts` is a call for
 * both kinds of callers.
 */
import { variableName } from "../base/deployment.ts";
import type { Text } from "../wire/edge/argument.ts";
import { batchCallMaker, operationsOf } from "../wire/edge/batch-call.ts";
import { ThrottrError } from "../wire/edge/error.ts";
import { make, type Operation } from "../wire/edge/operation.ts";
import type { OperationCalls } from "../wire/edge/operation-calls.ts";
import * as operations from "../wire/edge/operations.ts";
import type { AcquireOptions } from "../wire/edge/semaphores.ts";
import type {
  BatchCall,
  BatchOutcome,
  OperationName,
  ResultOf,
  ThrottrService,
} from "../wire/edge/service.ts";
import type { Caller } from "./caller.ts";
import { exchange, execute, executeOne } from "./execute.ts";
import { inOrder } from "./in-order.ts";
import { withNewLeaseId, withNewReservationId } from "./new-ids.ts";

/** All calls but HTTP. */
export type ServiceCalls = Omit<ThrottrService, "fetch">;

/** A caller that names no lease gets a new one. */
function acquireByNewLease(
  name: Text,
  options: AcquireOptions,
): ReturnType<typeof operations.acquire> {
  return operations.acquire(name, withNewLeaseId(options));
}

/** A caller that names no reservation gets a new id. */
const reserveByNewId = (
  request: operations.ReserveRequest,
): ReturnType<typeof operations.reserve> => operations.reserve(withNewReservationId(request));

const naming = { acquire: acquireByNewLease, reserve: reserveByNewId };

/** Makes an operation for each call; the type fails where a call has none. */
const makers: {
  readonly [Name in OperationName]: (
    ...given: Parameters<OperationCalls[Name]>
  ) => Operation<ResultOf<Name>>;
} = { ...operations, ...naming };

const batchCall = batchCallMaker(naming);

/** One call. Its arguments are unknown: types do not exist at run time, and the call may come from another Worker. */
type AnyCall = (caller: Caller, ...given: never[]) => Promise<unknown>;

/**
 * Gives a class the calls as methods of its prototype: the runtime lets other Workers call nothing else, no fields and no
 * own properties.
 *
 * @param callerOf who calls a method of an instance
 */
export function defineCalls<Instance extends object>(
  prototype: Instance,
  callerOf: (instance: Instance) => Caller,
): void {
  const define = (name: string, call: AnyCall): void => {
    const value = async function (this: Instance, ...given: never[]): Promise<unknown> {
      try {
        const caller = callerOf(this);
        return await inOrder(caller.ctx, call(caller, ...given));
      } catch (error) {
        // An error whose message begins with the code: the runtime may carry nothing but the message to another Worker.
        throw ThrottrError.from(error);
      }
    };
    Object.defineProperty(prototype, name, { value, configurable: true, writable: true });
  };
  for (const [name, maker] of Object.entries(makers)) {
    const operation = maker as (...given: never[]) => Operation<unknown>;
    // `make` gives a wrong argument its code, and nothing is sent then.
    define(name, (caller, ...given) =>
      executeOne(
        caller,
        make(() => operation(...given)),
      ),
    );
  }
  define("exchange", exchangeFrames);
  define("limitMany", manyOf(operations.limit));
  define("drawMany", manyOf(operations.draw));
  define("batch", batch);
}

/** A message of frames of the edge dialect. */
async function exchangeFrames(caller: Caller, frames: unknown): Promise<Uint8Array> {
  if (!(frames instanceof Uint8Array)) {
    throw new ThrottrError("frames_invalid", "frames: expected a Uint8Array");
  }
  const bytesMax = caller.settings.BODY_BYTES_MAX;
  if (frames.length > bytesMax) {
    throw new ThrottrError(
      "body_too_large",
      `a message may have at most ${bytesMax} bytes (${variableName("BODY_BYTES_MAX")}), got ${frames.length}`,
    );
  }
  return await exchange(caller, frames);
}

/**
 * Operations of one kind, each by itself. The first failure rejects the call, as a list of results has no place for an
 * error; `batch` has one.
 */
function manyOf<Request, Result>(
  operation: (request: Request) => Operation<Result>,
): (caller: Caller, requests: readonly Request[]) => Promise<Result[]> {
  return async (caller, requests) => {
    const asked = make(() => operationsOf("requests", requests, operation));
    const settled = await execute(caller, asked);
    return settled.map((result) => {
      if (!result.ok) throw result.error;
      return result.value;
    });
  };
}

/**
 * Operations in order. A failure becomes a plain object, as an `Error` may lose its `code` on the way to another
 * Worker.
 */
async function batch(
  caller: Caller,
  calls: readonly BatchCall[],
): Promise<BatchOutcome<unknown>[]> {
  const asked = make(() => operationsOf("calls", calls, batchCall));
  const settled = await execute(caller, asked);
  return settled.map((result) => {
    if (result.ok) return result;
    const { code, message } = result.error;
    return { ok: false, error: { code, message } };
  });
}
