/** Allows each caller five pages at once and one more each second. */
import { defineMiddleware } from "astro:middleware";
import { guard } from "throttr-edge/fetch";
import { RateLimiter, tokenBucket } from "throttr-edge/ratelimit";
import { throttr } from "throttr-edge/worker";

const limiter = new RateLimiter({
  throttr: throttr({ namespace: "astro" }),
  name: "page",
  strategy: tokenBucket({ burst: 5, rate: 1 }),
});

export const onRequest = defineMiddleware(async ({ request }, next) => {
  const key = request.headers.get("cf-connecting-ip") ?? "local";
  const { response, addTo } = await guard(request, { limiter, key });
  return response ?? addTo(await next());
});
