/** The Worker: Throttr's doors and dashboard below /throttr-edge, a limit for each caller, and Next.js for all else. */
import { dashboard } from "throttr-edge/dashboard";
import { guard } from "throttr-edge/fetch";
import { RateLimiter, tokenBucket } from "throttr-edge/ratelimit";
import { routeThrottr, throttr } from "throttr-edge/worker";
// @ts-ignore OpenNext writes it
import next from "./.open-next/worker.js";

// The objects that keep Throttr's data: wrangler.jsonc names them under "exports".
export { Channel, Directory, Hub, Shard } from "throttr-edge/worker";

const limiter = new RateLimiter({
  throttr: throttr({ namespace: "opennext" }),
  name: "page",
  strategy: tokenBucket({ burst: 5, rate: 1 }),
});

export default {
  async fetch(request, env, ctx) {
    const answer = await routeThrottr(request, env, ctx, { dashboard });
    if (answer !== null) return answer;
    const key = request.headers.get("cf-connecting-ip") ?? "local";
    const { response, addTo } = await guard(request, { limiter, key });
    return response ?? addTo(await next.fetch(request, env, ctx));
  },
} satisfies ExportedHandler;
