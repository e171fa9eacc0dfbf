/** A Worker that is bound to the server, as those are that ask it for rate limits. */
import type { Throttr } from "../../../src/worker/rpc.ts";
import { METER_PATH, requestOf, type CheckLoad } from "./check-load.ts";
import { serveDriver, type Ask } from "./check-calls.ts";
import type { Bare, Meter } from "./metered-worker.ts";

interface ChecksEnv {
  readonly THROTTR: Service<typeof Throttr>;
  readonly BARE: Service<typeof Bare>;
  readonly METER: Service<typeof Meter>;
}

function askOf({ THROTTR, BARE }: ChecksEnv, { check }: CheckLoad): Ask {
  if (check === "limit" || check === "bare") {
    const bound = check === "limit" ? THROTTR : BARE;
    return async ([key]) => ((await bound.limit(requestOf(key!))).success ? 0 : 1);
  }
  if (check === "limitMany") {
    return async (keys) => {
      const results = await THROTTR.limitMany(keys.map(requestOf));
      return results.filter(({ success }) => !success).length;
    };
  }
  throw new Error(`no check of this Worker: ${check}`);
}

export default {
  async fetch(request, env) {
    const { pathname } = new URL(request.url);
    if (pathname === METER_PATH) return Response.json(await env.METER.read());
    return serveDriver(request, (load) => askOf(env, load)) ?? new Response("ok");
  },
} satisfies ExportedHandler<ChecksEnv>;
