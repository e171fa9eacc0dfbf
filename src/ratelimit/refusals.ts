/**
 * Refusals that are remembered until their reset, so that nobody need ask again before.
 *
 * A refusal of a cost refuses every greater one too. Only refusals are remembered: a grant is never
 * given from here.
 */
import { RateLimitError } from "../wire/ratelimit/error.ts";
import { optionsOf } from "./known-options.ts";
import type { Decision } from "./result.ts";

const ENTRIES_MAX = 10_000;

/** A refusal, and for how long it is one. */
export interface Refusal {
  readonly cost: number;
  readonly decision: Decision;
  /** When it was answered, by the caller's clock. */
  readonly atMs: number;
  /** When the cost is granted again if nobody else comes, by the caller's clock. */
  readonly untilMs: number;
}

/**
 * A bounded memory of refusals. Limiters that are made anew for each request share one that lives as long
 * as the isolate; those that share it must ask the same namespace.
 *
 * What is kept is the refusal of a key by a name and a strategy; of too many, the oldest go first.
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
  readonly #refusals = new Map<string, Refusal>();
  /** When what has been given back lately was: a number of `#changes`. */
  readonly #changedAt = new Map<string, number>();
  /** How often anything was given back. */
  #changes = 0;
  /** What had been given back up to here may be missing in `#changedAt`. */
  #changedBefore = 0;

  /**
   * @param options.entriesMax an integer above 0; 10,000 unless given, each of some 500 bytes
   * @throws RateLimitError `configuration_invalid`
   */
  constructor(options: { readonly entriesMax?: number } = {}) {
    const { entriesMax = ENTRIES_MAX } = optionsOf(options, { entriesMax: true });
    if (!Number.isSafeInteger(entriesMax) || entriesMax < 1) {
      const expected = "an integer above 0 is expected";
      throw new RateLimitError("configuration_invalid", "entriesMax", expected, entriesMax);
    }
    this.#entriesMax = entriesMax;
  }

  /** The refusal that answers a cost now; null where the limit must be asked. */
  find(id: string, cost: number, nowMs: number): Refusal | null {
    const refusal = this.#refusals.get(id);
    if (refusal === undefined) return null;
    const isOver = nowMs >= refusal.untilMs || nowMs < refusal.atMs;
    if (isOver) this.#refusals.delete(id);
    return isOver || cost < refusal.cost ? null : refusal;
  }

  /** To be taken before a limit is asked, and given to `remember` with its answer. */
  get moment(): number {
    return this.#changes;
  }

  /** Remembers a refusal, unless something was given back since the limit was asked. */
  remember(id: string, askedAt: number, refusal: Refusal): void {
    if (askedAt < Math.max(this.#changedBefore, this.#changedAt.get(id) ?? 0)) return;
    putLast(this.#refusals, id, refusal);
    if (this.#refusals.size > this.#entriesMax) takeFirst(this.#refusals);
  }

  /** Something was granted: what the refusal said of the rest is not true any more. */
  drop(id: string): void {
    this.#refusals.delete(id);
  }

  /** Something was given back: what is refused, or being refused just now, may be granted. */
  forget(id: string): void {
    this.#refusals.delete(id);
    this.#changes++;
    putLast(this.#changedAt, id, this.#changes);
    if (this.#changedAt.size > this.#entriesMax) this.#changedBefore = takeFirst(this.#changedAt);
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
