/**
 * Throttr over a service binding: what other Workers of the account call.
 *
 * Whoever may bind is trusted; `props` of the binding say what it is given. What the calls do is
 * described where the operations are, in `wire/edge`.
 */
import { WorkerEntrypoint } from "cloudflare:workers";
import { ThrottrError } from "../wire/edge/error.ts";
import { shown } from "../wire/ratelimit/error.ts";
import type { LimitResult } from "../wire/edge/limit.ts";
import type { Operation } from "../wire/edge/operation.ts";
import * as operations from "../wire/edge/operations.ts";
import type {
  BatchCall,
  BatchOutcome,
  BatchOutcomes,
  OperationCalls,
  ThrottrService,
} from "../wire/edge/service.ts";
import type { Text } from "../wire/edge/argument.ts";
import type { AcquireOptions } from "../wire/edge/semaphores.ts";
import { callerOf, type Caller } from "./caller.ts";
import { exchange, execute, executeOne } from "./execute.ts";
import { withNewLeaseId } from "./lease-id.ts";
import { router } from "./router.ts";
import { accessOfProps, trust } from "./trust.ts";

/** Operations of one batch. */
const BATCH_MAX = 10_000;

type AnyOperation = (...parameters: unknown[]) => Operation<unknown>;

const table = new Map(
  Object.entries({ ...operations, acquire: acquireByNewLease }) as [string, AnyOperation][],
);

/** Whoever names no lease gets a new one. */
function acquireByNewLease(
  name: Text,
  options: AcquireOptions,
): ReturnType<typeof operations.acquire> {
  return operations.acquire(name, withNewLeaseId(options));
}

/** The calls of operations are added below, from their table. */
const Entrypoint = WorkerEntrypoint<Env> as unknown as new (
  ...parameters: ConstructorParameters<typeof WorkerEntrypoint<Env>>
) => WorkerEntrypoint<Env> & OperationCalls;

export class Throttr extends Entrypoint implements ThrottrService {
  static {
    for (const [name, operation] of table) {
      const call = async function (this: Throttr, ...parameters: unknown[]): Promise<unknown> {
        return await this.#failing(async () => {
          return await executeOne(
            this.#caller(),
            made(() => operation(...parameters)),
          );
        });
      };
      Object.defineProperty(this.prototype, name, { value: call });
    }
  }

  override async fetch(request: Request): Promise<Response> {
    trust(this.ctx, accessOfProps(this.ctx.props));
    return await router.fetch(request, this.env, this.ctx);
  }

  async exchange(frames: Uint8Array): Promise<Uint8Array> {
    if (!(frames instanceof Uint8Array)) {
      throw new ThrottrError("frames_invalid", "frames: a Uint8Array is expected");
    }
    const caller = this.#caller();
    const bytesMax = caller.settings.BODY_BYTES_MAX;
    if (frames.length > bytesMax) {
      throw new ThrottrError(
        "body_too_large",
        `a message may have ${bytesMax} bytes (BODY_BYTES_MAX), got ${frames.length}`,
      );
    }
    return await this.#failing(async () => await exchange(caller, frames));
  }

  async limitMany(requests: readonly operations.LimitRequest[]): Promise<LimitResult[]> {
    const settled = await this.#failing(async () => {
      return await execute(this.#caller(), listOf(requests, operations.limit));
    });
    return settled.map((result) => {
      if (!result.ok) throw result.error;
      return result.value;
    });
  }

  async batch<const Calls extends readonly BatchCall[]>(
    calls: Calls,
  ): Promise<BatchOutcomes<Calls>> {
    const settled = await this.#failing(async () => {
      return await execute(this.#caller(), listOf(calls, operationOf));
    });
    const outcomes = settled.map((result): BatchOutcome<unknown> => {
      if (result.ok) return result;
      const { code, message } = result.error;
      return { ok: false, error: { code, message } };
    });
    return outcomes as BatchOutcomes<Calls>;
  }

  /** Whatever fails is an error with a code. */
  async #failing<Result>(run: () => Promise<Result>): Promise<Result> {
    try {
      return await run();
    } catch (error) {
      throw ThrottrError.from(error);
    }
  }

  #caller(): Caller {
    return callerOf(this.env, this.ctx, accessOfProps(this.ctx.props));
  }
}

/** @throws ThrottrError `argument_invalid`, `batch_too_large`, or that of an argument */
function listOf<Item, Result>(
  items: readonly Item[],
  operation: (item: Item) => Operation<Result>,
): Operation<Result>[] {
  if (!Array.isArray(items)) throw new ThrottrError("argument_invalid", "a list is expected");
  if (items.length > BATCH_MAX) {
    throw new ThrottrError(
      "batch_too_large",
      `at most ${BATCH_MAX} operations are possible, got ${items.length}`,
    );
  }
  return items.map((item: Item) => made(() => operation(item)));
}

/** An operation; what its maker trips over, because no type has kept it out, is a wrong argument. */
function made<Result>(make: () => Operation<Result>): Operation<Result> {
  try {
    return make();
  } catch (error) {
    if (error instanceof ThrottrError) throw error;
    throw new ThrottrError("argument_invalid", String(error));
  }
}

function operationOf([name, ...parameters]: BatchCall): Operation<unknown> {
  const operation = table.get(name);
  if (operation !== undefined) return operation(...parameters);
  throw new ThrottrError("operation_unknown", `there is no operation ${shown(name)}`);
}
