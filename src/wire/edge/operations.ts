/**
 * The table of operations that callers know, by name. Each checks its arguments and makes an `Operation`.
 *
 * RPC, the JSON door and the client offer the same ones: `OperationCalls` describes them for all three. A new one is
 * written beside its family, listed here, and described there; the compiler finds what is missing.
 */
export { compareAndSet, get, set } from "./buffers.ts";
export { decrease, increase, increment, insert, patch, purge, query, ttl } from "./counters.ts";
export { draw } from "./draw.ts";
export { limitAll } from "./limit-all.ts";
export { limit, peek, refund, reset } from "./limits.ts";
export { info, list, publish, removeAll } from "./namespace.ts";
export { reserve, settle } from "./reservations.ts";
export { acquire, holders, inspectSemaphore, release, renew, semaphores } from "./semaphores.ts";
export { exportLeases, restoreLease } from "./lease-transfer.ts";
export { exportPage, restore } from "./transfer.ts";
export type * from "./buffers.ts";
export type * from "./counters.ts";
export type * from "./draw.ts";
export type * from "./limit-all.ts";
export type * from "./limits.ts";
export type * from "./namespace.ts";
export type { Once } from "./on-key.ts";
export type { BufferRecord, CounterRecord, Remaining } from "./records.ts";
export type { ReserveRequest, ReserveResult, SettleRequest, SettleResult } from "./reservations.ts";
