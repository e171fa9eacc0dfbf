/**
 * A Worker that has the server inside it, a binding to a server beside it, and counter objects of its own: the three ways
 * to count, in one process.
 */
import { DurableObject } from "cloudflare:workers";
import { throttr } from "../../../src/embedded/throttr.ts";
import type { Throttr } from "../../../src/worker/rpc.ts";
import { BUCKET, requestOf, type CheckLoad } from "./check-load.ts";
import { serveDriver, type Ask } from "./check-calls.ts";
import type { Counter } from "./counter-worker.ts";

export { Shard } from "../../../src/objects/shard/shard.ts";
export { Counter } from "./counter-worker.ts";

interface EmbeddedEnv {
  readonly THROTTR: Service<typeof Throttr>;
  readonly COUNTER: DurableObjectNamespace<Counter>;
  readonly PUT: DurableObjectNamespace<PutCounter>;
}

/** The counter of the platform's documentation, word for word: a value that is read and put. */
export class PutCounter extends DurableObject {
  async increment(): Promise<number> {
    const value = ((await this.ctx.storage.get<number>("value")) ?? 0) + 1;
    await this.ctx.storage.put("value", value);
    return value;
  }
}

const embedded = throttr({ namespace: "default" });

function askOf({ THROTTR, COUNTER, PUT }: EmbeddedEnv, { check }: CheckLoad): Ask {
  const refused = (isGranted: boolean): number => (isGranted ? 0 : 1);
  switch (check) {
    case "embedded":
      return async ([key]) => refused((await embedded.limit(requestOf(key!))).success);
    case "limit":
      return async ([key]) => refused((await THROTTR.limit(requestOf(key!))).success);
    case "counter":
      return async ([key]) =>
        refused((await COUNTER.getByName(key!).limit(BUCKET.burst, BUCKET.ratePerS)).success);
    case "put":
      return async ([key]) => refused((await PUT.getByName(key!).increment()) > 0);
    default:
      throw new Error(`no check of this Worker: ${check}`);
  }
}

export default {
  fetch: (request, env) => serveDriver(request, (load) => askOf(env, load)) ?? new Response("ok"),
} satisfies ExportedHandler<EmbeddedEnv>;
