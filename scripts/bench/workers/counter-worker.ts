/**
 * A yardstick for rate limits: the counter object that the platform's documentation builds. There is one
 * for each key, asked by its name, which reads its value, decides, and writes one row per call.
 *
 * The value is a token bucket here, like ours. It lies in SQL, which the platform meters, and which takes
 * less time than `storage.get` and `storage.put`.
 */
import { DurableObject } from "cloudflare:workers";
import { BUCKET, METER_PATH, type CheckLoad } from "./check-load.ts";
import { serveDriver, type Ask } from "./check-calls.ts";
import { meterRequest, meterRows, readMeter } from "./meter.ts";

interface CounterEnv {
  readonly COUNTER: DurableObjectNamespace<Counter>;
}

interface Verdict {
  readonly success: boolean;
  readonly remaining: number;
}

export class Counter extends DurableObject<CounterEnv> {
  readonly #sql: SqlStorage;

  constructor(ctx: DurableObjectState, env: CounterEnv) {
    super(ctx, env);
    meterRows(ctx.storage);
    this.#sql = ctx.storage.sql;
    this.#sql.exec(
      "CREATE TABLE IF NOT EXISTS bucket (id INTEGER PRIMARY KEY, tokens REAL, atMs REAL)",
    );
  }

  limit(burst: number, ratePerS: number): Verdict {
    meterRequest();
    const nowMs = Date.now();
    const { tokens, atMs } = this.#bucket() ?? { tokens: burst, atMs: nowMs };
    const left = Math.min(burst, tokens + ((nowMs - atMs) * ratePerS) / 1000) - 1;
    if (left < 0) return { success: false, remaining: 0 };
    this.#sql.exec("INSERT OR REPLACE INTO bucket VALUES (0, ?, ?)", left, nowMs);
    return { success: true, remaining: Math.floor(left) };
  }

  #bucket(): { tokens: number; atMs: number } | undefined {
    const rows = this.#sql.exec<{ tokens: number; atMs: number }>(
      "SELECT tokens, atMs FROM bucket WHERE id = 0",
    );
    return rows.toArray()[0];
  }
}

function askOf({ COUNTER }: CounterEnv, { check }: CheckLoad): Ask {
  if (check !== "counter") throw new Error(`no check of this Worker: ${check}`);
  const { burst, ratePerS } = BUCKET;
  return async ([key]) => {
    const { success } = await COUNTER.getByName(key!).limit(burst, ratePerS);
    return success ? 0 : 1;
  };
}

export default {
  fetch(request, env) {
    const { pathname } = new URL(request.url);
    if (pathname === METER_PATH) return Response.json(readMeter());
    return serveDriver(request, (load) => askOf(env, load)) ?? new Response("ok");
  },
} satisfies ExportedHandler<CounterEnv>;
