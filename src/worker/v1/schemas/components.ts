/** The schemas that have a name of their own in the OpenAPI document. */
import { Buffer } from "./buffers.ts";
import { ListedChannel } from "./channels.ts";
import { Counter, CounterChange } from "./counters.ts";
import {
  BucketStrategy,
  CompositeStrategy,
  DrawResult,
  FixedWindowStrategy,
  GcraStrategy,
  LimitAllResult,
  LimitResult,
  Quota,
  QuotaResult,
  ReserveResult,
  SettleResult,
  SlidingWindowStrategy,
  Strategy,
} from "./limits.ts";
import { Info, Problem } from "./namespace.ts";
import { U64, U64Text } from "./parts.ts";
import { ListedRecord, Remaining } from "./records.ts";
import { Holder, Lease, ListedSemaphore, Semaphore } from "./semaphores.ts";

/** What has a name in the document. */
export const components = {
  U64,
  U64Text,
  Counter,
  CounterChange,
  Buffer,
  Remaining,
  Strategy,
  BucketStrategy,
  GcraStrategy,
  FixedWindowStrategy,
  Quota,
  SlidingWindowStrategy,
  CompositeStrategy,
  LimitResult,
  DrawResult,
  LimitAllResult,
  ReserveResult,
  SettleResult,
  QuotaResult,
  ListedRecord,
  ListedChannel,
  Lease,
  Semaphore,
  ListedSemaphore,
  Holder,
  Info,
  Problem,
} as const;
