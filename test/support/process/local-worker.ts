/** A Worker whose limiters decide in their isolate, each created for its request: over a service binding. */
import { Hono } from "hono";
import { rateLimit } from "../../../src/hono/index.ts";
import { fixedWindow, RateLimiter, type LimitBackend } from "../../../src/ratelimit/index.ts";

interface Env {
  readonly THROTTR: LimitBackend;
}

const strategy = fixedWindow({ limit: 10_000, window: "1 h" });
const limiterOf = ({ THROTTR }: Env): RateLimiter =>
  new RateLimiter({ throttr: THROTTR, name: "api", strategy, local: { leaseMs: 3_000 } });

const app = new Hono<{ Bindings: Env }>();

/** Decides, and answers with the result. */
app.get("/limit/:key", async (c) => {
  const cost = Number(c.req.query("cost") ?? "1");
  const waitUntil = (work: Promise<unknown>): void => c.executionCtx.waitUntil(work);
  return c.json(await limiterOf(c.env).limit(c.req.param("key"), { cost, waitUntil }));
});

/** Ends before the answer of its draw has come, so that the runtime cancels it. */
app.get("/forget/:key", (c) => {
  void limiterOf(c.env).limit(c.req.param("key"));
  return c.text("forgotten");
});

app.use(
  "/hono/:key",
  rateLimit<{ Bindings: Env }>({
    limiter: (c) => limiterOf(c.env),
    key: (c) => c.req.param("key")!,
  }),
);
app.get("/hono/:key", (c) => c.json((c.get as (name: string) => unknown)("rateLimit")));

export default app;
