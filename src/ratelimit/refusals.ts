/**
 * A cache of refusals: until the reset of one, the same request needs no call to the server.
 *
 * A refusal of a cost refuses every greater one too. Grants are not cached: each has to be counted by the server.
 */
import { configurationInvalid } from "../wire/ratelimit/error.ts";
import { optionsOf } from "./known-options.ts";
import type { RateLimitResult } from "./result.ts";

const ENTRIES_MAX = 10_000;

/** A refusal, and how long it is valid. */
export interface Refusal {
  readonly cost: number;
  readonly decision: RateLimitResult;
  /** Its id by the stored key, by which it is invalidated. */
  readonly storedId: string;
  /** When the answer came, by the caller's clock. */
  readonly atMs: number;
  /** When the cost would be granted again without further requests, by the caller's clock. */
  readonly untilMs: number;
}

/**
 * A bounded cache of refusals. Limiters that are created for each request share one that lives as long as the isolate;
 * those that share it must ask the same namespace.
 *
 * It keeps one refusal for each key, name and strategy, and removes the oldest ones when it is full.
 *
 * @example
 * const cache = new RefusalCache({ entriesMax: 50_000 });
 *
 * export default {
 *   async fetch(request: Request, env: Env) {
 *     const limiter = new RateLimiter({ throttr: env.THROTTR, name: "api", strategy, cache });
 *     const { success } = await limiter.limit(request.headers.get("cf-connecting-ip")!);
 *     return new Response(null, { status: success ? 204 : 429 });
 *   },
 * };
 */
export class RefusalCache {
  readonly #entriesMax: number;
  /** By the caller's key. */
  readonly #refusals = new Map<string, Refusal>();
  /** The id of each refusal, by the stored key. */
  readonly #ids = new Map<string, string>();
  /** Goes up with each refund, reset or settlement, of any key. */
  #version = 0;
  /** At which version each stored key was refunded, reset or settled last. */
  readonly #changedAt = new Map<string, number>();
  /** Keys that changed up to this version may be missing in `#changedAt`, which is bounded. */
  #forgottenUpTo = 0;

  /**
   * @param options.entriesMax an integer above 0; 10,000 unless given, each of some 500 bytes
   * @throws RateLimitError `configuration_invalid`
   */
  constructor(options: { readonly entriesMax?: number | undefined } = {}) {
    const { entriesMax = ENTRIES_MAX } = optionsOf(options, { entriesMax: true });
    if (!Number.isSafeInteger(entriesMax) || entriesMax < 1) {
      throw configurationInvalid("entriesMax", "expected an integer above 0", entriesMax);
    }
    this.#entriesMax = entriesMax;
  }

  /** The refusal that answers a cost now; null where the limit must be asked. */
  find(id: string, cost: number, nowMs: number): Refusal | null {
    const refusal = this.#refusals.get(id);
    if (refusal === undefined) return null;
    const isOver = nowMs >= refusal.untilMs || nowMs < refusal.atMs;
    if (isOver) this.remove(id);
    return isOver || cost < refusal.cost ? null : refusal;
  }

  /** Read it before the server is asked, and give it to `add` with the answer. */
  get version(): number {
    return this.#version;
  }

  /**
   * Adds a refusal, unless the key was refunded, reset or settled after the server was asked: the refusal may be older than
   * that.
   *
   * @param askedAt `version` of when the server was asked
   */
  add(id: string, askedAt: number, refusal: Refusal): void {
    const { storedId } = refusal;
    if (askedAt < Math.max(this.#forgottenUpTo, this.#changedAt.get(storedId) ?? 0)) return;
    putLast(this.#refusals, id, refusal);
    this.#ids.set(storedId, id);
    if (this.#refusals.size > this.#entriesMax)
      this.#ids.delete(takeFirst(this.#refusals).storedId);
  }

  /** Removes the refusal of a key that was granted something since: what it says of the rest is out of date. */
  remove(id: string): void {
    const refusal = this.#refusals.get(id);
    if (refusal === undefined) return;
    this.#refusals.delete(id);
    this.#ids.delete(refusal.storedId);
  }

  /** Removes the refusal of a key that is refunded, reset or settled, and keeps out those that are on their way. */
  invalidate(storedId: string): void {
    const id = this.#ids.get(storedId);
    if (id !== undefined) this.remove(id);
    this.#version++;
    putLast(this.#changedAt, storedId, this.#version);
    if (this.#changedAt.size > this.#entriesMax) this.#forgottenUpTo = takeFirst(this.#changedAt);
  }
}

function putLast<Value>(map: Map<string, Value>, id: string, value: Value): void {
  map.delete(id);
  map.set(id, value);
}

function takeFirst<Value>(map: Map<string, Value>): Value {
  const [id, value] = map.entries().next().value!;
  map.delete(id);
  return value;
}
