/** Answers with refusals of a `RefusalCache`, and asks for the rest. */
import type { DrawReturn } from "../wire/edge/draw.ts";
import type { Clock } from "../wire/clock.ts";
import type { LimitStrategy } from "../wire/edge/limit.ts";
import type { Decider, ExactDecider, Wish } from "./decider.ts";
import type { RefusalCache } from "./refusals.ts";
import type { RateLimitResult } from "./result.ts";
import { limitMinOf } from "./strategies.ts";

export class CachedDecider implements Decider {
  readonly #exact: ExactDecider;
  readonly #cache: RefusalCache;
  readonly #clock: Clock;
  /** Prefix of keys in a cache that limiters share: another strategy may grant what this one refuses. */
  readonly #scope: string;
  readonly #limitMin: number;

  constructor(
    exact: ExactDecider,
    cache: RefusalCache,
    { name, strategy, clock }: { name: string; strategy: LimitStrategy; clock: Clock },
  ) {
    this.#exact = exact;
    this.#cache = cache;
    this.#clock = clock;
    this.#scope = `${name}\n${JSON.stringify(strategy)}\n`;
    this.#limitMin = limitMinOf(strategy);
  }

  decide(key: string, cost: number): RateLimitResult | null {
    // Wrong arguments are refused where the server is asked.
    if (typeof key !== "string" || !Number.isSafeInteger(cost)) return null;
    if (cost > this.#limitMin) return null;
    const nowMs = this.#clock.nowMs();
    const refusal = this.#cache.find(this.#scope + key, cost, nowMs);
    if (refusal === null) return null;
    const retryAfterMs = Math.ceil(refusal.untilMs - nowMs);
    return { ...refusal.decision, retryAfterMs, cached: true };
  }

  async ask(wishes: readonly Wish[], gone: AbortSignal): Promise<RateLimitResult[]> {
    const askedAt = this.#cache.version;
    const decisions = await this.#exact.ask(wishes, gone);
    for (const [i, decision] of decisions.entries()) this.#note(wishes[i]!, askedAt, decision);
    return decisions;
  }

  takeReturns(): DrawReturn[] {
    return [];
  }

  noteRefund(storedKey: string): void {
    this.#cache.invalidate(this.#scope + storedKey);
  }

  noteReset(storedKey: string): void {
    this.noteRefund(storedKey);
  }

  #note({ key, request }: Wish, askedAt: number, decision: RateLimitResult): void {
    const { cost = 1, idempotencyKey } = request;
    // The answer to a repeated call may have been decided long ago.
    if (idempotencyKey !== undefined) return;
    const id = this.#scope + key;
    const { success, retryAfterMs } = decision;
    if (success) {
      this.#cache.remove(id);
    } else if (retryAfterMs !== null) {
      const atMs = this.#clock.nowMs();
      const untilMs = atMs + retryAfterMs;
      const storedId = this.#scope + request.key;
      this.#cache.add(id, askedAt, { cost, decision, storedId, atMs, untilMs });
    }
  }
}
