/** A Worker whose limiters decide in their isolate, each created for its request: over a service binding. */
import { Hono, type Context } from "hono";
import { rateLimit } from "../../../src/hono/index.ts";
import {
  AllowanceStore,
  fixedWindow,
  RateLimiter,
  type Clock,
  type LimitBackend,
} from "../../../src/ratelimit/index.ts";

interface Env {
  readonly THROTTR: LimitBackend;
}

const POLL_MS = 2;

/** Passes when a test says so: no lease ends because a machine is slow. */
let heldMs = 0;
const heldClock: Clock = {
  nowMs: () => heldMs,
  setTimer: (run, delayMs) => {
    const endMs = heldMs + delayMs;
    // A request has to look for itself: it can't run what another one wakes.
    const timer = setInterval(() => {
      if (heldMs < endMs) return;
      clearInterval(timer);
      run();
    }, POLL_MS);
    return timer;
  },
  clearTimer: (timer) => {
    clearInterval(timer as number);
  },
};
const heldStore = new AllowanceStore();

const strategy = fixedWindow({ limit: 10_000, window: "1 h" });

/** By the clock of the platform, or, for a request with `?held`, by the one that tests move. */
function limiterOf(c: Context<{ Bindings: Env }>): RateLimiter {
  const { THROTTR: throttr } = c.env;
  const options = { throttr, name: "api", strategy };
  if (c.req.query("held") === undefined) return new RateLimiter({ ...options, local: true });
  const local = { store: heldStore, leaseMs: 10_000 };
  return new RateLimiter({ ...options, clock: heldClock, local });
}

const app = new Hono<{ Bindings: Env }>();

/** Decides, and answers with the result. */
app.get("/limit/:key", async (c) => {
  const cost = Number(c.req.query("cost") ?? "1");
  const waitUntil = (work: Promise<unknown>): void => c.executionCtx.waitUntil(work);
  return c.json(await limiterOf(c).limit(c.req.param("key"), { cost, waitUntil }));
});

/** Ends before the answer of its draw has come, so that the runtime cancels it. */
app.get("/forget/:key", (c) => {
  void limiterOf(c).limit(c.req.param("key"));
  return c.text("forgotten");
});

app.use(
  "/hono/:key",
  rateLimit<{ Bindings: Env }>({ limiter: limiterOf, key: (c) => c.req.param("key")! }),
);
app.get("/hono/:key", (c) => c.json((c.get as (name: string) => unknown)("rateLimit")));

/** Lets the held time pass. */
app.get("/pass/:ms", (c) => {
  heldMs += Number(c.req.param("ms"));
  return c.body(null, 204);
});

export default app;
