/**
 * A Worker that can decide in all ways there are: limiters over a service binding and inside it, counter objects of its
 * own, and a `Map`. All in one process, so that they can be measured in turns.
 */
import { DurableObject, waitUntil } from "cloudflare:workers";
import { throttr } from "../../../src/embedded/throttr.ts";
import { RateLimiter } from "../../../src/ratelimit/index.ts";
import type { RateLimiterOptions } from "../../../src/ratelimit/limiter-options.ts";
import type { Throttr } from "../../../src/worker/rpc.ts";
import { BUCKET, METER_PATH, type CheckLoad, type CheckName } from "./check-load.ts";
import { serveDriver, type Ask } from "./check-calls.ts";
import type { Counter } from "./counter-worker.ts";
import { MapBuckets } from "./map-buckets.ts";
import type { Meter } from "./metered-worker.ts";

export { Shard } from "../../../src/objects/shard/shard.ts";
export { Counter } from "./counter-worker.ts";

interface LocalEnv {
  readonly THROTTR: Service<typeof Throttr>;
  readonly METER: Service<typeof Meter>;
  readonly COUNTER: DurableObjectNamespace<Counter>;
  readonly PUT: DurableObjectNamespace<PutCounter>;
  readonly EMPTY: DurableObjectNamespace<Empty>;
}

/** The counter of the platform's documentation, word for word: a value that is read and put. */
export class PutCounter extends DurableObject {
  async increment(): Promise<number> {
    const value = ((await this.ctx.storage.get<number>("value")) ?? 0) + 1;
    await this.ctx.storage.put("value", value);
    return value;
  }
}

/** An object that does nothing: the least that a call to an object takes. */
export class Empty extends DurableObject {
  nothing(): boolean {
    return true;
  }
}

/** Never refuses, however many decisions a second an isolate makes. The longest allowance of it lasts a second. */
const LARGE = { strategy: "token_bucket", burst: 1e10, rate: 1e9 } as const;

/** Units are drawn ahead and given back beside requests. */
const local = { waitUntil: (work: Promise<unknown>) => waitUntil(work) };
const embedded = throttr({ namespace: "default" });
const map = new MapBuckets(LARGE.burst, LARGE.rate);
/** By way: allowances live as long as their limiter. */
const limiters = new Map<CheckName, RateLimiter>();

function limiterOf(check: CheckName, options: Omit<RateLimiterOptions, "name" | "strategy">) {
  const limiter =
    limiters.get(check) ?? new RateLimiter({ name: check, strategy: LARGE, ...options });
  limiters.set(check, limiter);
  return limiter;
}

/** What asks for the decision on one key; true where it is granted. */
type Decide = (key: string) => Promise<boolean>;

function decideOf(env: LocalEnv, check: CheckName): Decide {
  const byLimiter = (options: Omit<RateLimiterOptions, "name" | "strategy">): Decide => {
    const limiter = limiterOf(check, options);
    return async (key) => (await limiter.limit(key)).success;
  };
  switch (check) {
    case "limit":
      return byLimiter({ throttr: env.THROTTR });
    case "embedded":
      return byLimiter({ throttr: embedded });
    case "relaxed":
      return byLimiter({ throttr: env.THROTTR, durability: "relaxed" });
    case "relaxedEmbedded":
      return byLimiter({ throttr: embedded, durability: "relaxed" });
    case "local":
      return byLimiter({ throttr: env.THROTTR, local });
    case "localEmbedded":
      return byLimiter({ throttr: embedded, local });
    case "counter": {
      const { burst, ratePerS } = BUCKET;
      return async (key) => (await env.COUNTER.getByName(key).limit(burst, ratePerS)).success;
    }
    case "put":
      return async (key) => (await env.PUT.getByName(key).increment()) > 0;
    case "empty":
      return async (key) => await env.EMPTY.getByName(key).nothing();
    case "map":
      return async (key) => (await map.limit(key)).success;
    default:
      throw new Error(`no check of this Worker: ${check}`);
  }
}

/** A call decides on its keys one after the other; with `limitMany`, on all of them at once. */
function askOf(env: LocalEnv, { check }: CheckLoad): Ask {
  if (check === "limitMany" || check === "localMany") {
    const mode = check === "localMany" ? { local } : {};
    const limiter = limiterOf(check, { throttr: env.THROTTR, ...mode });
    return async (keys) => {
      const results = await limiter.limitMany(keys);
      return results.filter(({ success }) => !success).length;
    };
  }
  const decide = decideOf(env, check);
  return async (keys) => {
    let refused = 0;
    for (const key of keys) if (!(await decide(key))) refused++;
    return refused;
  };
}

export default {
  async fetch(request, env) {
    if (new URL(request.url).pathname === METER_PATH) return Response.json(await env.METER.read());
    return serveDriver(request, (load) => askOf(env, load)) ?? new Response("ok");
  },
} satisfies ExportedHandler<LocalEnv>;
