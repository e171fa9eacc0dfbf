/** The client: the operations as methods, and subscriptions. */
/// <reference lib="esnext.disposable" preserve="true" />
import { checkOptions, invalid, signalOption, type Text } from "../wire/edge/argument.ts";
import { operationsOf } from "../wire/edge/batch-call.ts";
import { ThrottrError } from "../wire/edge/error.ts";
import type { DrawRequest, DrawResult } from "../wire/edge/draw.ts";
import type { LimitResult } from "../wire/edge/limit.ts";
import type { LimitRequest } from "../wire/edge/limits.ts";
import { make, type Operation } from "../wire/edge/operation.ts";
import * as operations from "../wire/edge/operations.ts";
import type { OperationCalls } from "../wire/edge/operation-calls.ts";
import type {
  BatchCall,
  BatchOutcome,
  BatchOutcomes,
  OperationName,
} from "../wire/edge/service.ts";
import type { CallOptions } from "./calls/call.ts";
import * as checked from "./checked-operations.ts";
import { Connection } from "./lanes/connection.ts";
import { ExchangeLane } from "./lanes/exchange-lane.ts";
import { CALL, CALLS, optionsAt } from "./known-options.ts";
import { FlushedCounter, type FlushedCounterOptions } from "./flushed-counter.ts";
import { Leases } from "./semaphore/leases.ts";
import { settingsOf, timeoutOf, type ClientOptions, type Settings } from "./options.ts";
import { Pipeline } from "./calls/pipeline.ts";
import {
  LeasedSemaphore,
  SEMAPHORE,
  type Semaphore,
  type SemaphoreOptions,
} from "./semaphore/semaphore.ts";
import { SUBSCRIPTION, type SubscribeOptions, type Subscription } from "./channels/subscription.ts";
import type { Transport } from "./transport/transport.ts";

/** The operations as calls of a client: each takes the options of any call beside its own. */
type ClientCalls = OperationCalls<CallOptions, [options?: CallOptions]>;
/** Arguments of a call. */
type Given<Name extends OperationName> = Parameters<ClientCalls[Name]>;

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
 * been applied is sent again, unless it only reads, has an idempotency key, or names its lease or reservation by an ID
 * (`acquire`, `renew`, `release`, `reserve`, `settle`): it fails with `outcome_unknown`. What a server refuses over HTTP
 * or a service binding, it refuses for the whole message: where a part of it may pass, it is sent again in halves, else all
 * of its calls get the same error.
 *
 * @example
 * const throttr = new ThrottrClient(http("https://throttr.example.com", { token }));
 * const [views, page] = await Promise.all([
 *   throttr.increment("views", { ttlMs: 60_000 }),
 *   throttr.get("page"),
 * ]);
 */
export class ThrottrClient implements ClientCalls {
  /** For limiters: see `LimitBackend`. */
  readonly takesSignals = true;
  readonly #settings: Settings;
  readonly #pipeline: Pipeline;
  readonly #connection: Connection;
  readonly #leases = new Leases();

  /** @throws ThrottrError `option_invalid`, `argument_invalid` */
  constructor(transport: Transport, options: ClientOptions = {}) {
    if (typeof (transport as Partial<Transport> | null | undefined)?.connect !== "function") {
      const expected =
        "an object with connect, as http(), webSocket() and serviceBinding() make it";
      throw invalid("transport", expected, transport, "argument_invalid");
    }
    const settings = settingsOf(options);
    this.#settings = settings;
    const exchange = transport.exchange?.bind(transport);
    this.#connection = new Connection(transport, settings, exchange === undefined);
    const lane = exchange === undefined ? this.#connection : new ExchangeLane(exchange, settings);
    this.#pipeline = new Pipeline(lane, settings);
  }

  // Each is described in `OperationCalls`, where editors find it.
  insert(...given: Given<"insert">) {
    return this.#call("insert", operations.insert, given);
  }
  query(...given: Given<"query">) {
    return this.#call("query", operations.query, given);
  }
  increment(...given: Given<"increment">) {
    return this.#call("increment", operations.increment, given);
  }
  increase(...given: Given<"increase">) {
    return this.#call("increase", operations.increase, given);
  }
  decrease(...given: Given<"decrease">) {
    return this.#call("decrease", operations.decrease, given);
  }
  patch(...given: Given<"patch">) {
    return this.#call("patch", operations.patch, given);
  }
  ttl(...given: Given<"ttl">) {
    return this.#call("ttl", operations.ttl, given);
  }
  purge(...given: Given<"purge">) {
    return this.#call("purge", operations.purge, given);
  }
  set(...given: Given<"set">) {
    return this.#call("set", operations.set, given);
  }
  get(...given: Given<"get">) {
    return this.#call("get", operations.get, given);
  }
  compareAndSet(...given: Given<"compareAndSet">) {
    return this.#call("compareAndSet", operations.compareAndSet, given);
  }
  limit(...given: Given<"limit">) {
    return this.#call("limit", checked.limit, given);
  }
  peek(...given: Given<"peek">) {
    return this.#call("peek", checked.peek, given);
  }
  refund(...given: Given<"refund">) {
    return this.#call("refund", checked.refund, given);
  }
  draw(...given: Given<"draw">) {
    return this.#call("draw", checked.draw, given);
  }
  limitAll(...given: Given<"limitAll">) {
    return this.#call("limitAll", checked.limitAll, given);
  }
  reserve(...given: Given<"reserve">) {
    return this.#call("reserve", checked.reserve, given);
  }
  settle(...given: Given<"settle">) {
    return this.#call("settle", checked.settle, given);
  }
  reset(...given: Given<"reset">) {
    return this.#call("reset", checked.reset, given);
  }
  acquire(...given: Given<"acquire">) {
    return this.#call("acquire", checked.acquire, given);
  }
  renew(...given: Given<"renew">) {
    return this.#call("renew", checked.renew, given);
  }
  release(...given: Given<"release">) {
    return this.#call("release", operations.release, given);
  }
  inspectSemaphore(...given: Given<"inspectSemaphore">) {
    return this.#call("inspectSemaphore", operations.inspectSemaphore, given);
  }
  semaphores(...given: Given<"semaphores">) {
    return this.#call("semaphores", operations.semaphores, given);
  }
  holders(...given: Given<"holders">) {
    return this.#call("holders", operations.holders, given);
  }
  publish(...given: Given<"publish">) {
    return this.#call("publish", operations.publish, given);
  }
  list(...given: Given<"list">) {
    return this.#call("list", operations.list, given);
  }
  exportPage(...given: Given<"exportPage">) {
    return this.#call("exportPage", operations.exportPage, given);
  }
  restore(...given: Given<"restore">) {
    return this.#call("restore", operations.restore, given);
  }
  exportLeases(...given: Given<"exportLeases">) {
    return this.#call("exportLeases", operations.exportLeases, given);
  }
  restoreLease(...given: Given<"restoreLease">) {
    return this.#call("restoreLease", operations.restoreLease, given);
  }
  removeAll(...given: Given<"removeAll">) {
    return this.#call("removeAll", operations.removeAll, given);
  }
  info(...given: Given<"info">) {
    return this.#call("info", operations.info, given);
  }

  /**
   * Executes up to 10,000 operations in order, in one message, and gives the outcome of each; as `batch` of a service
   * binding. One that fails, fails by itself; a wrong argument rejects the call, and nothing was sent then.
   *
   * @example
   * const [views, page] = await throttr.batch([
   *   ["increment", "views", { ttlMs: 60_000 }],
   *   ["get", "page"],
   * ]);
   * if (views.ok) console.log(views.value);
   */
  batch<const Calls extends readonly BatchCall[]>(
    calls: Calls,
    options: CallOptions = {},
  ): Promise<BatchOutcomes<Calls>> {
    try {
      checkOptions(options, CALL, "batch");
      const asked = make(() => operationsOf("calls", calls, checked.batchCall));
      timeoutOf(options.timeoutMs, this.#settings.timeoutMs);
      signalOption(options.signal);
      const outcomes = asked.map((operation) => this.#outcomeOf(operation, options));
      return Promise.all(outcomes) as Promise<unknown> as Promise<BatchOutcomes<Calls>>;
    } catch (error) {
      return rejected(error);
    }
  }

  /**
   * Asks many limits in one message. It rejects with the first error, if there is one: the other limits
   * may have been charged. To tell them apart, call `limit` once for each of them, in one turn.
   */
  limitMany(requests: readonly LimitRequest[], options: CallOptions = {}): Promise<LimitResult[]> {
    return this.#callMany("limitMany", checked.limit, requests, options);
  }

  /** Draws units of many limits in one message; it rejects as `limitMany`. */
  drawMany(requests: readonly DrawRequest[], options: CallOptions = {}): Promise<DrawResult[]> {
    return this.#callMany("drawMany", checked.draw, requests, options);
  }

  /**
   * A semaphore: all callers together hold at most `maximum` of its resources at a time.
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

  /**
   * Counters for statistics: increments add up in memory, and are sent together every `flushMs`. See `FlushedCounter`; a
   * Worker makes one over its binding instead.
   *
   * @throws ThrottrError `name_invalid`, `option_invalid`, `ttl_invalid`
   *
   * @example
   * await using views = throttr.counter("views", { flushMs: 1_000, ttlMs: 86_400_000 });
   * views.increment("/pricing");
   */
  counter(name: string, options: FlushedCounterOptions): FlushedCounter {
    const { clock } = this.#settings;
    return new FlushedCounter(this, name, { ...options, clock: options?.clock ?? clock });
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
   * held are lost: they are not renewed any more.
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

  async #outcomeOf<Result>(
    operation: Operation<Result>,
    options: CallOptions,
  ): Promise<BatchOutcome<Result>> {
    try {
      return { ok: true, value: await this.#pipeline.call(operation, options) };
    } catch (error) {
      const { code, message } = ThrottrError.from(error);
      return { ok: false, error: { code, message } };
    }
  }

  #callMany<Request, Result>(
    name: string,
    operation: (request: Request) => Operation<Result>,
    requests: readonly Request[],
    options: CallOptions,
  ): Promise<Result[]> {
    try {
      checkOptions(options, CALL, name);
      const asked = make(() => operationsOf("requests", requests, operation, Infinity));
      return Promise.all(asked.map((one) => this.#pipeline.call(one, options)));
    } catch (error) {
      return rejected(error);
    }
  }

  #call<Name extends OperationName, Result>(
    name: Name,
    operation: (...given: Given<Name>) => Operation<Result>,
    given: Given<Name>,
  ): Promise<Result> {
    try {
      const options = given[optionsAt(name)] as CallOptions | undefined;
      checkOptions(options, CALLS[name], name);
      const asked = make(() => operation(...given));
      return this.#pipeline.call(asked, options ?? {});
    } catch (error) {
      return rejected(error);
    }
  }
}

/** A call never throws: its promise rejects. */
function rejected(error: unknown): Promise<never> {
  return Promise.reject(ThrottrError.from(error));
}
