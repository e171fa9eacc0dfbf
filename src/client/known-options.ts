/**
 * The names of all options of calls. An option with another name is refused: it is most likely misspelled, and would be
 * ignored without a word. The options of clients, transports, semaphores and subscriptions are listed beside their types.
 */
import type { FieldNames } from "../wire/edge/argument.ts";
import type * as operations from "../wire/edge/operations.ts";
import type * as semaphores from "../wire/edge/semaphores.ts";
import type { LeaseExportOptions } from "../wire/edge/lease-transfer.ts";
import type { ExportOptions, RestoreOptions } from "../wire/edge/transfer.ts";
import type { CallOptions } from "./calls/call.ts";

export const CALL = { signal: true, timeoutMs: true } as const satisfies FieldNames<CallOptions>;
const ONCE = { idempotencyKey: true, ...CALL } as const;
const PAGE = { limit: true, cursor: true, ...CALL } as const;

/** Of the calls of a client. */
export const CALLS = {
  insert: { quota: true, ttlMs: true, ...ONCE } satisfies FieldNames<
    operations.InsertOptions & CallOptions
  >,
  query: CALL,
  increment: { by: true, ttlMs: true, ...ONCE } satisfies FieldNames<
    operations.IncrementOptions & CallOptions
  >,
  increase: ONCE,
  decrease: ONCE,
  patch: ONCE,
  ttl: { ttlMs: true, change: true, ...ONCE } satisfies FieldNames<
    operations.TtlOptions & CallOptions
  >,
  purge: ONCE,
  set: { ttlMs: true, ...ONCE } satisfies FieldNames<operations.SetOptions & CallOptions>,
  get: CALL,
  compareAndSet: { expected: true, value: true, ttlMs: true, ...ONCE } satisfies FieldNames<
    operations.CompareAndSetOptions & CallOptions
  >,
  limit: CALL,
  peek: CALL,
  refund: CALL,
  draw: CALL,
  limitAll: CALL,
  reserve: CALL,
  settle: CALL,
  reset: CALL,
  acquire: {
    resources: true,
    maximum: true,
    ttlMs: true,
    leaseId: true,
    ...CALL,
  } satisfies FieldNames<semaphores.AcquireOptions & CallOptions>,
  renew: CALL,
  release: CALL,
  inspectSemaphore: CALL,
  semaphores: { prefix: true, ...PAGE } satisfies FieldNames<
    semaphores.SemaphoreListOptions & CallOptions
  >,
  holders: PAGE satisfies FieldNames<semaphores.HolderListOptions & CallOptions>,
  publish: CALL,
  list: { prefix: true, ...PAGE } satisfies FieldNames<operations.ListOptions & CallOptions>,
  exportPage: { prefix: true, pairs: true, bytesMax: true, ...PAGE } satisfies FieldNames<
    ExportOptions & CallOptions
  >,
  restore: { policy: true, ...CALL } satisfies FieldNames<RestoreOptions & CallOptions>,
  exportLeases: { prefix: true, bytesMax: true, ...PAGE } satisfies FieldNames<
    LeaseExportOptions & CallOptions
  >,
  restoreLease: { policy: true, ...CALL } satisfies FieldNames<RestoreOptions & CallOptions>,
  removeAll: CALL,
  info: CALL,
} as const;

/** Which argument of a call has its options, from 0, where that is not the second. */
const OPTIONS_AT: { readonly [Name in keyof typeof CALLS]?: 0 | 2 | 3 } = {
  increase: 2,
  decrease: 2,
  patch: 2,
  set: 2,
  renew: 3,
  release: 2,
  semaphores: 0,
  publish: 2,
  list: 0,
  exportPage: 0,
  exportLeases: 0,
  info: 0,
};

/** Which argument of a call has its options, from 0. */
export const optionsAt = (name: keyof typeof CALLS): 0 | 1 | 2 | 3 => OPTIONS_AT[name] ?? 1;

export const LIMIT_REQUEST: FieldNames<operations.LimitRequest> = {
  name: true,
  key: true,
  strategy: true,
  cost: true,
  durability: true,
  idempotencyKey: true,
};

export const DRAW_REQUEST: FieldNames<operations.DrawRequest> = {
  name: true,
  key: true,
  strategy: true,
  cost: true,
  wanted: true,
  leaseMs: true,
  returns: true,
  granted: true,
  refused: true,
};

export const RESERVE_REQUEST: FieldNames<operations.ReserveRequest> = {
  name: true,
  key: true,
  strategy: true,
  cost: true,
  ttlMs: true,
  id: true,
};

export const SETTLE_REQUEST: FieldNames<operations.SettleRequest> = {
  name: true,
  key: true,
  strategy: true,
  id: true,
  cost: true,
};

export const RENEWAL: FieldNames<semaphores.RenewOptions> = { ttlMs: true };
