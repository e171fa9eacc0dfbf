/** Operations as a client makes them: unknown options are refused, and leases and reservations get an id. */
import { checkOptions, type Text } from "../wire/edge/argument.ts";
import { batchCallMaker, listOf } from "../wire/edge/batch-call.ts";
import type { Operation } from "../wire/edge/operation.ts";
import * as operations from "../wire/edge/operations.ts";
import { withReservationId } from "../wire/edge/reservations.ts";
import type { AcquireOptions, RenewOptions } from "../wire/edge/semaphores.ts";
import type { BatchCall } from "../wire/edge/service.ts";
import {
  CALL,
  CALLS,
  DRAW_REQUEST,
  LIMIT_REQUEST,
  optionsAt,
  RENEWAL,
  RESERVE_REQUEST,
  SETTLE_REQUEST,
} from "./known-options.ts";
import { fillRandom, withRandomLeaseId } from "./semaphore/lease-id.ts";

type Made<Name extends keyof typeof operations> = ReturnType<(typeof operations)[Name]>;

export const limit = (request: operations.LimitRequest): Made<"limit"> =>
  operations.limit(known(request));

export const peek = (request: operations.LimitRequest): Made<"peek"> =>
  operations.peek(known(request));

export const refund = (request: operations.LimitRequest): Made<"refund"> =>
  operations.refund(known(request));

export const reset = (request: Parameters<typeof operations.reset>[0]): Made<"reset"> =>
  operations.reset(known(request));

export const draw = (request: operations.DrawRequest): Made<"draw"> =>
  operations.draw(known(request, DRAW_REQUEST));

/** It knows its names itself. */
export const limitAll = (request: operations.LimitAllRequest): Made<"limitAll"> =>
  operations.limitAll(request);

/** A caller that names no reservation gets a random id, so that the call can be sent again. */
export const reserve = (request: operations.ReserveRequest): Made<"reserve"> =>
  operations.reserve(withReservationId(known(request, RESERVE_REQUEST), fillRandom));

export const settle = (request: operations.SettleRequest): Made<"settle"> =>
  operations.settle(known(request, SETTLE_REQUEST));

/** A caller that names no lease gets a random one, so that the call can be sent again. */
export const acquire = (name: Text, options: AcquireOptions): Made<"acquire"> =>
  operations.acquire(name, withRandomLeaseId(options));

export function renew(name: Text, leaseId: string, renewal: RenewOptions): Made<"renew"> {
  checkOptions(renewal, RENEWAL, "a renewal");
  return operations.renew(name, leaseId, renewal);
}

const makeCall = batchCallMaker({
  limit,
  peek,
  refund,
  reset,
  draw,
  limitAll,
  reserve,
  settle,
  acquire,
  renew,
});

/** By operation: where the options are among the arguments of a call in a batch, and the names that they may have. */
const IN_BATCH = new Map<unknown, { readonly at: number; readonly known: object }>(
  Object.entries(CALLS).map(([name, known]) => {
    const own = Object.entries(known).filter(([option]) => !Object.hasOwn(CALL, option));
    return [name, { at: optionsAt(name as keyof typeof CALLS), known: Object.fromEntries(own) }];
  }),
);

/**
 * Makes the operation of a call in a batch. The batch as a whole has signal and timeout.
 *
 * @throws ThrottrError `argument_invalid`, `operation_unknown`, `option_invalid`, or that of an argument
 */
export function batchCall(call: BatchCall): Operation<unknown> {
  const [name, ...given] = listOf(call);
  const options = IN_BATCH.get(name);
  if (options !== undefined) checkOptions(given[options.at], options.known, `${name} in a batch`);
  return makeCall(call);
}

/** @throws ThrottrError `option_invalid` */
function known<Request extends object>(request: Request, names: object = LIMIT_REQUEST): Request {
  checkOptions(request, names, "a request");
  return request;
}
