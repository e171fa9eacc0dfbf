/** The client: the operations as methods, and subscriptions. */
/// <reference lib="esnext.disposable" preserve="true" />
import { objectOf, type Text } from "../wire/edge/argument.ts";
import { ThrottrError } from "../wire/edge/error.ts";
import type { LimitResult } from "../wire/edge/limit.ts";
import type { Operation } from "../wire/edge/operation.ts";
import * as operations from "../wire/edge/operations.ts";
import type {
  BufferRecord,
  CompareAndSetOptions,
  CompareAndSetResult,
  CounterChange,
  CounterRecord,
  IncrementOptions,
  InsertOptions,
  LimitRequest,
  ListOptions,
  Once,
  RecordPage,
  Remaining,
  SetOptions,
  TtlOptions,
} from "../wire/edge/operations.ts";
import type {
  ExportOptions,
  ExportPage,
  RestoreOptions,
  RestoreResult,
  StoredRecord,
} from "../wire/edge/transfer.ts";
import type {
  AcquireOptions,
  HolderListOptions,
  HolderPage,
  Lease,
  RenewOptions,
  SemaphoreListOptions,
  SemaphorePage,
  SemaphoreState,
} from "../wire/edge/semaphores.ts";
import { shown } from "../wire/ratelimit/error.ts";
import type { InfoFigures } from "../wire/throttr/info.ts";
import type { CallOptions } from "./call.ts";
import { Connection } from "./connection.ts";
import { ExchangeLane } from "./exchange-lane.ts";
import { withRandomLeaseId } from "./lease-id.ts";
import { CALLS, checkOptions, LIMIT_REQUEST, RENEWAL } from "./known-options.ts";
import { Leases } from "./leases.ts";
import { settingsOf, type ClientOptions, type Settings } from "./options.ts";
import { Pipeline } from "./pipeline.ts";
import { LeasedSemaphore, SEMAPHORE, type Semaphore, type SemaphoreOptions } from "./semaphore.ts";
import { SUBSCRIPTION, type SubscribeOptions, type Subscription } from "./subscription.ts";
import type { Transport } from "./transport.ts";

/**
 * A client of a Throttr server.
 *
 * Calls that are made in one turn, without an `await` between them, travel as one message, and those
 * that concern one key are applied in the order in which they were made, but for those that are sent
 * again. Calls of different turns are, too, over a WebSocket; over HTTP and service bindings only if the
 * first was awaited.
 *
 * Each is settled once: with its result, or with a ThrottrError. Beside the codes of the server there are
 * `timeout`, `aborted`, `closed`, `queue_full`, `connection_failed`, `outcome_unknown`,
 * `argument_invalid` and `option_invalid`; messages of the first three say whether the call was sent. Nothing that may have
 * been applied is sent again, unless it only reads or has an idempotency key: it fails with
 * `outcome_unknown`. What a server refuses over HTTP or a service binding, it refuses for the whole
 * message: where a part of it may pass, it is sent again in halves, else all of its calls get the same
 * error.
 *
 * @example
 * const throttr = new ThrottrClient(http("https://throttr.example.com", { token }));
 * const [views, page] = await Promise.all([
 *   throttr.increment("views", { ttlMs: 60_000 }),
 *   throttr.get("page"),
 * ]);
 */
export class ThrottrClient {
  readonly #settings: Settings;
  readonly #pipeline: Pipeline;
  readonly #connection: Connection;
  readonly #leases = new Leases();

  /** @throws ThrottrError `option_invalid`, `argument_invalid` */
  constructor(transport: Transport, options: ClientOptions = {}) {
    objectOf(
      transport,
      "transport",
      "connect, as http(), webSocket() and serviceBinding() make it,",
    );
    const settings = settingsOf(options);
    this.#settings = settings;
    const exchange = transport.exchange?.bind(transport);
    this.#connection = new Connection(transport, settings, exchange === undefined);
    const lane = exchange === undefined ? this.#connection : new ExchangeLane(exchange, settings);
    this.#pipeline = new Pipeline(lane, settings);
  }

  /** {@link operations.insert} */
  insert(key: Text, options: InsertOptions & CallOptions): Promise<boolean> {
    return this.#call("insert", () => operations.insert(key, options), options);
  }

  /** {@link operations.query} */
  query(key: Text, options?: CallOptions): Promise<CounterRecord | null> {
    return this.#call("query", () => operations.query(key), options);
  }

  /** {@link operations.increment} */
  increment(key: Text, options: IncrementOptions & CallOptions): Promise<bigint> {
    return this.#call("increment", () => operations.increment(key, options), options);
  }

  /** {@link operations.increase} */
  increase(
    key: Text,
    amount: bigint | number,
    options?: Once & CallOptions,
  ): Promise<CounterChange | null> {
    return this.#call("increase", () => operations.increase(key, amount, options), options);
  }

  /** {@link operations.decrease} */
  decrease(
    key: Text,
    amount: bigint | number,
    options?: Once & CallOptions,
  ): Promise<CounterChange | null> {
    return this.#call("decrease", () => operations.decrease(key, amount, options), options);
  }

  /** {@link operations.patch} */
  patch(
    key: Text,
    quota: bigint | number,
    options?: Once & CallOptions,
  ): Promise<CounterChange | null> {
    return this.#call("patch", () => operations.patch(key, quota, options), options);
  }

  /** {@link operations.ttl} */
  ttl(key: Text, options: TtlOptions & CallOptions): Promise<Remaining | null> {
    return this.#call("ttl", () => operations.ttl(key, options), options);
  }

  /** {@link operations.purge} */
  purge(key: Text, options?: Once & CallOptions): Promise<boolean> {
    return this.#call("purge", () => operations.purge(key, options), options);
  }

  /** {@link operations.set} */
  set(key: Text, value: Text, options: SetOptions & CallOptions): Promise<void> {
    return this.#call("set", () => operations.set(key, value, options), options);
  }

  /** {@link operations.get} */
  get(key: Text, options?: CallOptions): Promise<BufferRecord | null> {
    return this.#call("get", () => operations.get(key), options);
  }

  /** {@link operations.compareAndSet} */
  compareAndSet(
    key: Text,
    options: CompareAndSetOptions & CallOptions,
  ): Promise<CompareAndSetResult> {
    return this.#call("compareAndSet", () => operations.compareAndSet(key, options), options);
  }

  /** {@link operations.limit} */
  limit(request: LimitRequest, options?: CallOptions): Promise<LimitResult> {
    return this.#call("limit", () => operations.limit(known(request)), options);
  }

  /**
   * Asks many limits in one message. It rejects with the first error, if there is one: the other limits
   * may have been charged. Whoever wants to tell them apart calls `limit` as often, in one turn.
   */
  limitMany(requests: readonly LimitRequest[], options?: CallOptions): Promise<LimitResult[]> {
    return this.#calls(
      () => listOf(requests).map((request) => operations.limit(known(request))),
      options,
    );
  }

  /** {@link operations.peek} */
  peek(request: LimitRequest, options?: CallOptions): Promise<LimitResult> {
    return this.#call("peek", () => operations.peek(known(request)), options);
  }

  /** {@link operations.refund} */
  refund(request: LimitRequest, options?: CallOptions): Promise<LimitResult> {
    return this.#call("refund", () => operations.refund(known(request)), options);
  }

  /** {@link operations.reset} */
  reset(request: Omit<LimitRequest, "cost">, options?: CallOptions): Promise<boolean> {
    return this.#call("reset", () => operations.reset(known(request)), options);
  }

  /** {@link operations.acquire} */
  acquire(name: Text, options: AcquireOptions & CallOptions): Promise<Lease | null> {
    return this.#call(
      "acquire",
      () => operations.acquire(name, withRandomLeaseId(options)),
      options,
    );
  }

  /** {@link operations.renew} */
  renew(
    name: Text,
    leaseId: string,
    renewal: RenewOptions,
    options?: CallOptions,
  ): Promise<Lease | null> {
    return this.#call(
      "renew",
      () => {
        checkOptions(renewal, RENEWAL, "a renewal");
        return operations.renew(name, leaseId, renewal);
      },
      options,
    );
  }

  /** {@link operations.release} */
  release(name: Text, leaseId: string, options?: CallOptions): Promise<boolean> {
    return this.#call("release", () => operations.release(name, leaseId), options);
  }

  /** {@link operations.inspectSemaphore} */
  inspectSemaphore(name: Text, options?: CallOptions): Promise<SemaphoreState | null> {
    return this.#call("inspectSemaphore", () => operations.inspectSemaphore(name), options);
  }

  /** {@link operations.semaphores} */
  semaphores(options?: SemaphoreListOptions & CallOptions): Promise<SemaphorePage> {
    return this.#call("semaphores", () => operations.semaphores(options), options);
  }

  /** {@link operations.holders} */
  holders(name: Text, options?: HolderListOptions & CallOptions): Promise<HolderPage> {
    return this.#call("holders", () => operations.holders(name, options), options);
  }

  /**
   * A semaphore: of what it stands for, no more than `maximum` is held at a time, by all callers together.
   * It waits, renews what is held, and gives it back.
   *
   * @throws ThrottrError `name_invalid`, `maximum_invalid`, `option_invalid`
   *
   * @example
   * const gpu = throttr.semaphore("gpu", 4);
   * const image = await gpu.with(({ signal }) => render(scene, { signal }));
   */
  semaphore(name: Text, maximum: number, options: SemaphoreOptions = {}): Semaphore {
    checkOptions(options, SEMAPHORE, "semaphore");
    return new LeasedSemaphore(name, maximum, options, this, this.#settings, this.#leases);
  }

  /** {@link operations.publish} */
  publish(channel: Text, payload: Text, options?: CallOptions): Promise<boolean> {
    return this.#call("publish", () => operations.publish(channel, payload), options);
  }

  /** {@link operations.list} */
  list(options?: ListOptions & CallOptions): Promise<RecordPage> {
    return this.#call("list", () => operations.list(options), options);
  }

  /** {@link operations.exportPage} */
  exportPage(options?: ExportOptions & CallOptions): Promise<ExportPage> {
    return this.#call("exportPage", () => operations.exportPage(options), options);
  }

  /** {@link operations.restore} */
  restore(record: StoredRecord, options?: RestoreOptions & CallOptions): Promise<RestoreResult> {
    return this.#call("restore", () => operations.restore(record, options), options);
  }

  /** {@link operations.removeAll} */
  removeAll(prefix: Text, options?: CallOptions): Promise<number> {
    return this.#call("removeAll", () => operations.removeAll(prefix), options);
  }

  /** {@link operations.info} */
  info(options?: CallOptions): Promise<InfoFigures> {
    return this.#call("info", () => operations.info(), options);
  }

  /**
   * Subscribes to a channel, over a WebSocket whatever calls go over. It comes back by itself when the
   * connection was lost.
   *
   * @throws ThrottrError `channel_invalid`, `option_invalid`, `closed`
   */
  subscribe(channel: Text, options: SubscribeOptions = {}): Subscription {
    if (this.#pipeline.isClosed) throw new ThrottrError("closed", "the client was closed");
    checkOptions(options, SUBSCRIPTION, "subscribe");
    return this.#connection.subscribe(channel, options);
  }

  /**
   * Closes the connection, ends subscriptions, and fails what is under way with `closed`. Leases that are
   * held are lost: nobody renews them.
   */
  close(): Promise<void> {
    this.#leases.close();
    this.#pipeline.close();
    this.#connection.close();
    return Promise.resolve();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  #call<Result>(
    name: keyof typeof CALLS,
    make: () => Operation<Result>,
    options: CallOptions | undefined,
  ): Promise<Result> {
    try {
      checkOptions(options, CALLS[name], name);
      return this.#pipeline.call(made(make), options ?? {});
    } catch (error) {
      return rejected(error);
    }
  }

  #calls<Result>(
    make: () => readonly Operation<Result>[],
    options: CallOptions = {},
  ): Promise<Result[]> {
    try {
      checkOptions(options, CALLS.limit, "limitMany");
      return Promise.all(made(make).map((operation) => this.#pipeline.call(operation, options)));
    } catch (error) {
      return rejected(error);
    }
  }
}

/** What is asked for; what its maker trips over, because no type has kept it out, is a wrong argument. */
function made<Asked>(make: () => Asked): Asked {
  try {
    return make();
  } catch (error) {
    if (error instanceof ThrottrError) throw error;
    throw new ThrottrError("argument_invalid", String(error), { cause: error });
  }
}

/** Whatever is wrong with a call, its promise says it. */
function rejected(error: unknown): Promise<never> {
  return Promise.reject(ThrottrError.from(error));
}

/** @throws ThrottrError `option_invalid` */
function known<Request extends Omit<LimitRequest, "cost">>(request: Request): Request {
  checkOptions(request, LIMIT_REQUEST, "a request");
  return request;
}

/** @throws ThrottrError `argument_invalid` */
function listOf(requests: readonly LimitRequest[]): readonly LimitRequest[] {
  if (Array.isArray(requests)) return requests;
  throw new ThrottrError(
    "argument_invalid",
    `requests: a list is expected, got ${shown(requests)}`,
  );
}
