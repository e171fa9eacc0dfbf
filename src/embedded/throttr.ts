/**
 * Throttr in the code of the Worker that it is part of: the calls of a service binding, made to the shards directly.
 *
 * Environment, exports and `waitUntil` come from the platform's module, and not from a handler: so it works in fetch
 * handlers, Durable Objects, queues, crons and Workflows alike.
 */
import { env, waitUntil } from "cloudflare:workers";
import type { Access } from "../base/access.ts";
import { classesMissing, exportedClass } from "../base/exports.ts";
import { accessOfGrant, GrantError, type Grant } from "../base/grant.ts";
import { FlushedCounter, type FlushedCounterOptions } from "../client/flushed-counter.ts";
import { semaphoreOver } from "../client/semaphore/over-exchange.ts";
import type { Semaphore, SemaphoreOptions } from "../client/semaphore/semaphore.ts";
import type { Text } from "../wire/edge/argument.ts";
import { ThrottrError } from "../wire/edge/error.ts";
import type { ThrottrService } from "../wire/edge/service.ts";
import { callerOf } from "../worker/caller.ts";
import { defineCalls, type ServiceCalls } from "../worker/calls.ts";

/** Which namespace, and what may be done there: all of it unless given. */
export type ThrottrOptions = Grant;

/**
 * The calls of a service binding, and semaphores.
 *
 * `fetch` speaks HTTP and WebSocket with the same rights. It needs the Worker's doors: the main module must export
 * `Throttr`, else it rejects with `class_missing`. No other call needs them.
 */
export interface EmbeddedThrottr extends ThrottrService {
  /**
   * A semaphore: all callers together hold at most `maximum` of its resources at a time. It waits, renews what is held
   * as long as the request or the object lives, and gives it back. Make one for each request: a semaphore at module level
   * keeps what requests leave behind that end without releasing their leases.
   *
   * @throws ThrottrError `name_invalid`, `maximum_invalid`, `option_invalid`
   *
   * @example
   * const gpu = throttr().semaphore("gpu", 4);
   * const image = await gpu.with(({ signal }) => render(scene, { signal }));
   */
  semaphore(name: Text, maximum: number, options?: SemaphoreOptions): Semaphore;

  /**
   * Counters for statistics: increments add up in the memory of the isolate, and are sent together every `flushMs`. Make
   * it once, at module level. See `FlushedCounter` of `throttr-edge/client`.
   *
   * @throws ThrottrError `name_invalid`, `option_invalid`, `ttl_invalid`
   *
   * @example
   * const views = throttr().counter("views", { flushMs: 1_000, ttlMs: 86_400_000 });
   * views.increment("/pricing");
   */
  counter(name: string, options: FlushedCounterOptions): FlushedCounter;
}

/**
 * Throttr for the code of this Worker. It costs nothing until it is called, and may be made at module level or for each
 * request.
 *
 * @throws ThrottrError `option_invalid`
 *
 * @example
 * import { throttr } from "throttr-edge/worker";
 * export { Shard } from "throttr-edge/worker";
 *
 * const { success } = await throttr({ namespace: "my-app" }).limit({ name: "api", key: "user:1", strategy });
 */
export function throttr(options: ThrottrOptions = {}): EmbeddedThrottr {
  return new Local(options);
}

/** The calls, which `defineCalls` makes: a method for each operation, with the types of `OperationCalls`. */
// oxlint-disable-next-line typescript/no-unsafe-declaration-merging -- methods of the prototype, not fields
interface Local extends ServiceCalls {}

class Local implements EmbeddedThrottr {
  readonly #grant: Grant;
  readonly #access: Access;

  static {
    defineCalls(Local.prototype, (local) => callerOf(env, CONTEXT, local.#access));
  }

  /** @throws ThrottrError `option_invalid` */
  constructor(grant: Grant) {
    this.#grant = grant;
    try {
      this.#access = accessOfGrant(grant);
    } catch (error) {
      if (!(error instanceof GrantError)) throw error;
      throw new ThrottrError("option_invalid", error.message);
    }
  }

  /** By way of the entrypoint: a Worker that does not export it has no doors in its bundle. */
  async fetch(request: Request): Promise<Response> {
    const entrypoint = exportedClass("Throttr") as Entrypoint | undefined;
    if (entrypoint === undefined) throw classesMissing(["Throttr"]);
    return await entrypoint({ props: this.#grant }).fetch(request);
  }

  semaphore(name: Text, maximum: number, options: SemaphoreOptions = {}): Semaphore {
    return semaphoreOver((frames) => this.exchange(frames), name, maximum, options);
  }

  counter(name: string, options: FlushedCounterOptions): FlushedCounter {
    const given = { ...options, waitUntil: options?.waitUntil ?? waitUntil };
    return new FlushedCounter(this, name, given);
  }
}

/** An entrypoint of this Worker, as the platform gives it to the Worker's own code. */
type Entrypoint = (options: { readonly props: Grant }) => Pick<Fetcher, "fetch">;

/** What calls use of the context of an event. */
const CONTEXT = { waitUntil };
