/** An API that allows each caller 5 requests at once and one a second, and 20 logins a minute in all. */
import { env } from "cloudflare:workers";
import { Hono } from "hono";
import { rateLimit } from "throttr-edge/hono";
import { RateLimiter, slidingWindow, tokenBucket } from "throttr-edge/ratelimit";

const requests = new RateLimiter({
  throttr: env.THROTTR,
  name: "api",
  strategy: tokenBucket({ burst: 5, rate: 1 }),
  onError: "open",
});
const logins = new RateLimiter({
  throttr: env.THROTTR,
  name: "login",
  strategy: slidingWindow({ limit: 20, window: "1 m" }),
  onError: "closed",
});

const app = new Hono();

app.use(
  "/api/*",
  rateLimit({ limiter: requests, key: (c) => c.req.header("cf-connecting-ip") ?? "local" }),
);

app.get("/api/time", (c) => c.json({ now: new Date().toISOString() }));

app.post("/login", async (c) => {
  const { success, retryAfterMs } = await logins.limit("everybody");
  return success ? c.text("welcome") : c.json({ retryAfterMs }, 429);
});

export default app;
