/** An API that allows each caller 5 requests at once and one more each second. Throttr is a part of the same Worker. */
import { Hono } from "hono";
import { dashboard } from "throttr-edge/dashboard";
import { rateLimit } from "throttr-edge/hono";
import { RateLimiter, tokenBucket } from "throttr-edge/ratelimit";
import { routeThrottr, throttr } from "throttr-edge/worker";

// The objects that keep the data: wrangler.jsonc names them under "exports".
export { Channel, Directory, Hub, Shard } from "throttr-edge/worker";

const limiter = new RateLimiter({
  throttr: throttr({ namespace: "embedded-hono" }),
  name: "api",
  strategy: tokenBucket({ burst: 5, rate: 1 }),
});

const app = new Hono();

app.use("/throttr-edge/*", async (c, next) => {
  const response = await routeThrottr(c.req.raw, c.env, c.executionCtx, { dashboard });
  if (response === null) return await next();
  return response;
});

app.use("/api/*", rateLimit({ limiter, key: (c) => c.req.header("cf-connecting-ip") ?? "local" }));

app.get("/api/time", (c) => c.json({ now: new Date().toISOString() }));

export default app;
