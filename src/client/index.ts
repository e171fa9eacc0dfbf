/**
 * The client of Throttr Edge: for Workers, Node 20 and newer, Deno, Bun and browsers.
 *
 * @example
 * import { http, ThrottrClient } from "throttr-edge/client";
 *
 * const throttr = new ThrottrClient(http("https://throttr.example.com", { token }));
 * await throttr.increment("views", { ttlMs: 60_000 });
 */
export { serviceBinding, type ThrottrBinding } from "./transport/binding.ts";
export type { CallOptions } from "./calls/call.ts";
export { ThrottrClient } from "./client.ts";
export type { Clock } from "../wire/clock.ts";
export {
  FlushedCounter,
  type CounterBackend,
  type FlushedCounterOptions,
} from "./flushed-counter.ts";
export type { Token } from "./transport/door.ts";
export { http, type HttpOptions } from "./transport/http.ts";
export type { ClientOptions } from "./options.ts";
export type { Fetch, PlatformSocketConstructor, Signal } from "./platform.ts";
export type { HeldLease } from "./semaphore/leases.ts";
export type { HoldOptions, Semaphore, SemaphoreOptions } from "./semaphore/semaphore.ts";
export type { Message, SubscribeOptions, Subscription } from "./channels/subscription.ts";
export type { Ending, Socket, SocketEvents, Transport } from "./transport/transport.ts";
export { webSocket, type WebSocketOptions } from "./transport/web-socket.ts";
export type { Text } from "../wire/edge/argument.ts";
export { ThrottrError } from "../wire/edge/error.ts";
export type {
  BucketStrategy,
  CompositeStrategy,
  FixedWindowStrategy,
  LimitResult,
  LimitStrategy,
  Quota,
  QuotaResult,
  SlidingWindowStrategy,
} from "../wire/edge/limit.ts";
export type { DrawRequest, DrawResult, DrawReturn } from "../wire/edge/draw.ts";
export type { LimitAllEntry, LimitAllRequest, LimitAllResult } from "../wire/edge/limit-all.ts";
export type {
  BufferRecord,
  ChangeName,
  CompareAndSetOptions,
  CompareAndSetResult,
  CounterChange,
  CounterRecord,
  IncrementOptions,
  InsertOptions,
  LimitDurability,
  LimitRequest,
  ListedRecord,
  ListOptions,
  Once,
  RecordPage,
  Remaining,
  ReserveRequest,
  ReserveResult,
  SetOptions,
  SettleRequest,
  SettleResult,
  TtlOptions,
} from "../wire/edge/operations.ts";
export type {
  ExportedKey,
  ExportedRecord,
  ExportOptions,
  ExportPage,
  RecordEnd,
  RecordKey,
  RestoreOptions,
  RestorePolicyName,
  RestoreResult,
  StoredBuffer,
  StoredCounter,
  StoredRecord,
  TtlUnit,
} from "../wire/edge/transfer.ts";
export type {
  ExportedLease,
  LeaseExportOptions,
  LeasePage,
  StoredLease,
} from "../wire/edge/lease-transfer.ts";
export type {
  AcquireOptions,
  Holder,
  HolderListOptions,
  HolderPage,
  Lease,
  ListedSemaphore,
  RenewOptions,
  SemaphoreListOptions,
  SemaphorePage,
  SemaphoreState,
} from "../wire/edge/semaphores.ts";
export type { InfoFigures } from "../wire/throttr/info.ts";
export type {
  BatchCall,
  BatchOutcome,
  BatchOutcomes,
  ThrottrService,
} from "../wire/edge/service.ts";
