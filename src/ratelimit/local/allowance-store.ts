/** What limiters that are created for each request share: the public handle of an isolate's allowances. */
import type { Clock } from "../../wire/clock.ts";
import { configurationInvalid } from "../../wire/ratelimit/error.ts";
import type { LimitBackend } from "../backend.ts";
import { optionsOf } from "../known-options.ts";
import { Allowances } from "./allowances.ts";

const KEYS_MAX = 10_000;

/** The allowances of a store: times of different clocks can't be compared, so each clock has its own. */
export let allowancesOf: (store: AllowanceStore, clock: Clock) => Allowances;

/**
 * Units that limiters with `local` have drawn and not spent, by limiter and key. Limiters that are created for each request
 * share one that lives as long as the isolate; those that share it must ask the same namespace. Limiters with another
 * name, strategy, `leaseMs` or `clock` have units of their own in it.
 *
 * It keeps at most `keysMax` keys of each clock; the one that was drawn for longest ago goes first, and its units are given back.
 *
 * @example
 * const store = new AllowanceStore({ keysMax: 50_000 });
 *
 * export default {
 *   async fetch(request: Request, env: Env, ctx: ExecutionContext) {
 *     const throttr = new ThrottrClient(serviceBinding(env.THROTTR));
 *     const limiter = new RateLimiter({ throttr, name: "api", strategy, local: { store } });
 *     const waitUntil = (work: Promise<unknown>) => ctx.waitUntil(work);
 *     const { success } = await limiter.limit(request.headers.get("cf-connecting-ip")!, { waitUntil });
 *     return new Response(null, { status: success ? 204 : 429 });
 *   },
 * };
 */
export class AllowanceStore {
  readonly #keysMax: number;
  readonly #allowances = new WeakMap<Clock, Allowances>();

  static {
    allowancesOf = (store, clock) => store.#of(clock);
  }

  /**
   * @param options.keysMax an integer above 0; 10,000 unless given, each of some 3,000 bytes
   * @throws RateLimitError `configuration_invalid`
   */
  constructor(options: { readonly keysMax?: number | undefined } = {}) {
    const { keysMax = KEYS_MAX } = optionsOf(options, { keysMax: true });
    if (!Number.isSafeInteger(keysMax) || keysMax < 1) {
      throw configurationInvalid("keysMax", "expected an integer above 0", keysMax);
    }
    this.#keysMax = keysMax;
  }

  #of(clock: Clock): Allowances {
    const known = this.#allowances.get(clock);
    if (known !== undefined) return known;
    const allowances = new Allowances(this.#keysMax);
    this.#allowances.set(clock, allowances);
    return allowances;
  }
}

const shared = new WeakMap<LimitBackend, AllowanceStore>();

/** The store of limiters that have no other: one for each server, by the client or binding that they are given. */
export function sharedStore(throttr: LimitBackend): AllowanceStore {
  const known = shared.get(throttr);
  if (known !== undefined) return known;
  const store = new AllowanceStore();
  shared.set(throttr, store);
  return store;
}
