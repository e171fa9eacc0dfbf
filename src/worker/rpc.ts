/**
 * Throttr over a service binding: what other Workers of the account call.
 *
 * Only the account's owner can bind to it, so there is no token: the `props` of a binding say what its calls may do.
 * `OperationCalls` and `ThrottrService` in `wire/edge` describe the calls.
 */
import { variableName } from "../base/deployment.ts";
import { WorkerEntrypoint } from "cloudflare:workers";
import type { Environment } from "../base/environment.ts";
import { batchCallMaker, operationsOf } from "../wire/edge/batch-call.ts";
import { ThrottrError } from "../wire/edge/error.ts";
import type { LimitResult } from "../wire/edge/limit.ts";
import { make, type Operation } from "../wire/edge/operation.ts";
import * as operations from "../wire/edge/operations.ts";
import type { OperationCalls } from "../wire/edge/operation-calls.ts";
import type {
  BatchCall,
  BatchOutcome,
  BatchOutcomes,
  OperationName,
  ThrottrService,
} from "../wire/edge/service.ts";
import type { Text } from "../wire/edge/argument.ts";
import type { AcquireOptions } from "../wire/edge/semaphores.ts";
import { callerOf, type Caller } from "./caller.ts";
import { exchange, execute, executeOne } from "./execute.ts";
import { withNewLeaseId } from "./lease-id.ts";
import { router } from "./router.ts";
import { accessOfProps, trust } from "./trust.ts";

/** A caller that names no lease gets a new one. */
function acquireByNewLease(
  name: Text,
  options: AcquireOptions,
): ReturnType<typeof operations.acquire> {
  return operations.acquire(name, withNewLeaseId(options));
}

const batchCall = batchCallMaker(acquireByNewLease);

/** Arguments of a call. */
type Given<Name extends OperationName> = Parameters<OperationCalls[Name]>;

/**
 * The entrypoint that other Workers bind to. The runtime makes one for each call, so it has no state of its own: what
 * lasts is in the isolate's modules and in the objects.
 */
export class Throttr extends WorkerEntrypoint<Environment> implements ThrottrService {
  /**
   * HTTP over the binding, with the rights of its props in place of a token. The context is marked, not the request: a
   * request can be rebuilt with any header by the Worker that sends it.
   */
  override async fetch(request: Request): Promise<Response> {
    trust(this.ctx, accessOfProps(this.ctx.props));
    return await router.fetch(request, this.env, this.ctx);
  }

  /**
   * A message of frames of the edge dialect; see `ThrottrService`. Types do not exist at run time: a caller in plain
   * JavaScript may pass anything.
   */
  async exchange(frames: Uint8Array): Promise<Uint8Array> {
    if (!(frames instanceof Uint8Array)) {
      throw new ThrottrError("frames_invalid", "frames: expected a Uint8Array");
    }
    const caller = this.#caller();
    const bytesMax = caller.settings.BODY_BYTES_MAX;
    if (frames.length > bytesMax) {
      throw new ThrottrError(
        "body_too_large",
        `a message may have at most ${bytesMax} bytes (${variableName("BODY_BYTES_MAX")}), got ${frames.length}`,
      );
    }
    return await this.#failing(async () => await exchange(caller, frames));
  }

  /**
   * Limits, each decided by itself. The first failure rejects the call, as a list of results has no place for an error;
   * `batch` has one.
   */
  async limitMany(requests: readonly operations.LimitRequest[]): Promise<LimitResult[]> {
    const settled = await this.#failing(async () => {
      return await execute(this.#caller(), limitsOf(requests));
    });
    return settled.map((result) => {
      if (!result.ok) throw result.error;
      return result.value;
    });
  }

  /**
   * Operations in order; see `ThrottrService`. A failure becomes a plain object, as an `Error` may lose its `code` on
   * the way to the caller.
   */
  async batch<const Calls extends readonly BatchCall[]>(
    calls: Calls,
  ): Promise<BatchOutcomes<Calls>> {
    const settled = await this.#failing(async () => {
      return await execute(this.#caller(), callsOf(calls));
    });
    const outcomes = settled.map((result): BatchOutcome<unknown> => {
      if (result.ok) return result;
      const { code, message } = result.error;
      return { ok: false, error: { code, message } };
    });
    return outcomes as BatchOutcomes<Calls>;
  }

  // Methods of the class, as the runtime lets other Workers call nothing else: no fields, no own properties.
  insert(...given: Given<"insert">) {
    return this.#call(operations.insert, given);
  }
  query(...given: Given<"query">) {
    return this.#call(operations.query, given);
  }
  increment(...given: Given<"increment">) {
    return this.#call(operations.increment, given);
  }
  increase(...given: Given<"increase">) {
    return this.#call(operations.increase, given);
  }
  decrease(...given: Given<"decrease">) {
    return this.#call(operations.decrease, given);
  }
  patch(...given: Given<"patch">) {
    return this.#call(operations.patch, given);
  }
  ttl(...given: Given<"ttl">) {
    return this.#call(operations.ttl, given);
  }
  purge(...given: Given<"purge">) {
    return this.#call(operations.purge, given);
  }
  set(...given: Given<"set">) {
    return this.#call(operations.set, given);
  }
  get(...given: Given<"get">) {
    return this.#call(operations.get, given);
  }
  compareAndSet(...given: Given<"compareAndSet">) {
    return this.#call(operations.compareAndSet, given);
  }
  limit(...given: Given<"limit">) {
    return this.#call(operations.limit, given);
  }
  peek(...given: Given<"peek">) {
    return this.#call(operations.peek, given);
  }
  refund(...given: Given<"refund">) {
    return this.#call(operations.refund, given);
  }
  reset(...given: Given<"reset">) {
    return this.#call(operations.reset, given);
  }
  acquire(...given: Given<"acquire">) {
    return this.#call(acquireByNewLease, given);
  }
  renew(...given: Given<"renew">) {
    return this.#call(operations.renew, given);
  }
  release(...given: Given<"release">) {
    return this.#call(operations.release, given);
  }
  inspectSemaphore(...given: Given<"inspectSemaphore">) {
    return this.#call(operations.inspectSemaphore, given);
  }
  semaphores(...given: Given<"semaphores">) {
    return this.#call(operations.semaphores, given);
  }
  holders(...given: Given<"holders">) {
    return this.#call(operations.holders, given);
  }
  publish(...given: Given<"publish">) {
    return this.#call(operations.publish, given);
  }
  list(...given: Given<"list">) {
    return this.#call(operations.list, given);
  }
  exportPage(...given: Given<"exportPage">) {
    return this.#call(operations.exportPage, given);
  }
  restore(...given: Given<"restore">) {
    return this.#call(operations.restore, given);
  }
  removeAll(...given: Given<"removeAll">) {
    return this.#call(operations.removeAll, given);
  }
  info(...given: Given<"info">) {
    return this.#call(operations.info, given);
  }

  /**
   * Makes an operation of the arguments and executes it. `make` gives a wrong argument its code, and nothing is sent
   * then.
   */
  async #call<Given extends unknown[], Result>(
    operation: (...given: Given) => Operation<Result>,
    given: Given,
  ): Promise<Result> {
    return await this.#failing(async () => {
      const asked = make(() => operation(...given));
      return await executeOne(this.#caller(), asked);
    });
  }

  /**
   * Runs a call; whatever it fails with becomes an error whose message begins with the code. The runtime may carry
   * nothing but the message of an error to the other Worker.
   */
  async #failing<Result>(run: () => Promise<Result>): Promise<Result> {
    try {
      return await run();
    } catch (error) {
      throw ThrottrError.from(error);
    }
  }

  /** Who calls. The platform fills in `props` from the configuration of the binding; a call cannot change them. */
  #caller(): Caller {
    return callerOf(this.env, this.ctx, accessOfProps(this.ctx.props));
  }
}

/** @throws ThrottrError `argument_invalid`, `batch_too_large`, or that of an argument */
function limitsOf(requests: readonly operations.LimitRequest[]): Operation<LimitResult>[] {
  return make(() => operationsOf("requests", requests, operations.limit));
}

/** @throws ThrottrError `argument_invalid`, `batch_too_large`, `operation_unknown`, or that of an argument */
function callsOf(calls: readonly BatchCall[]): Operation<unknown>[] {
  return make(() => operationsOf("calls", calls, batchCall));
}
