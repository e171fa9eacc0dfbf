/** A Worker with Throttr inside it: each caller has 5 requests at once and one more each second, and all are counted. */
import { dashboard } from "throttr-edge/dashboard";
import { guard } from "throttr-edge/fetch";
import { RateLimiter, tokenBucket } from "throttr-edge/ratelimit";
import { routeThrottr, throttr } from "throttr-edge/worker";

// The objects that keep the data: wrangler.jsonc names them under "exports".
export { Channel, Directory, Hub, Shard } from "throttr-edge/worker";

const DAY_MS = 86_400_000;

const records = throttr({ namespace: "embedded" });
const limiter = new RateLimiter({
  throttr: records,
  name: "api",
  strategy: tokenBucket({ burst: 5, rate: 1 }),
});

export default {
  async fetch(request: Request, env: unknown, ctx: ExecutionContext): Promise<Response> {
    const response = await routeThrottr(request, env, ctx, { dashboard });
    return response ?? (await countVisit(request));
  },
};

async function countVisit(request: Request): Promise<Response> {
  const key = request.headers.get("cf-connecting-ip") ?? "local";
  const { response, addTo } = await guard(request, { limiter, key });
  if (response !== null) return response;
  const visits = await records.increment("visits", { ttlMs: DAY_MS });
  return addTo(Response.json({ visits: String(visits) }));
}
