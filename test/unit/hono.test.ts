/** The Hono middleware: what clients are told, byte by byte, and what each option does. */
import { Hono, type Context } from "hono";
import { beforeEach, describe, expect, expectTypeOf, it } from "vitest";
import {
  rateLimit,
  type HeaderStyle,
  type RateLimitOptions,
  type RateLimitVariables,
} from "../../src/hono/index.ts";
import {
  composite,
  fixedWindow,
  gcra,
  leakyBucket,
  RateLimiter,
  slidingWindow,
  tokenBucket,
  type LimitStrategy,
  type RateLimiterOptions,
  type RateLimitResult,
} from "../../src/ratelimit/index.ts";
import { FakeBackend, FakeClock, START_MS } from "../support/rate-limits/backend.ts";

const BUCKET = tokenBucket({ burst: 2, rate: 1 });
const QUOTAS = fixedWindow([
  { name: "burst", limit: 2, window: "10 s" },
  { name: "daily", limit: 5, window: "1 d" },
]);

let clock: FakeClock;
let throttr: FakeBackend;

beforeEach(() => {
  clock = new FakeClock();
  throttr = new FakeBackend(clock);
});

function limiterOf(options: Partial<RateLimiterOptions> = {}): RateLimiter {
  return new RateLimiter({ throttr, name: "api", strategy: BUCKET, clock, ...options });
}

type Variables = { Variables: RateLimitVariables };

/** An application of one limited path, which answers with its status code. */
function appOf(
  options: Partial<RateLimitOptions> = {},
  limiter: RateLimiter = limiterOf(),
): Hono<Variables> {
  const app = new Hono<Variables>();
  app.use(rateLimit({ limiter, key: () => "ada", ...options } as RateLimitOptions) as never);
  app.get("/:status", (c) => {
    const status = Number(c.req.param("status"));
    if (status === 599) throw new Error("broken");
    return c.json({ remaining: c.var.rateLimit?.remaining }, status as 200);
  });
  app.onError((error, c) => c.text(error.message, 500));
  return app;
}

/** Fields of a response that tell of limits. */
function fieldsOf(response: Response): Record<string, string> {
  const isTold = /^(?:x-)?ratelimit|^retry-after/;
  return Object.fromEntries([...response.headers].filter(([name]) => isTold.test(name)));
}

async function callsOf(use: () => unknown): Promise<number> {
  const before = throttr.calls.length;
  await use();
  return throttr.calls.length - before;
}

describe("header fields", () => {
  const refusedBucket = { "retry-after": "1" };
  type Row = [HeaderStyle, LimitStrategy, Record<string, string>[]];
  const table: Row[] = [
    [
      "draft-8",
      BUCKET,
      [
        { "ratelimit-policy": '"api";q=2;w=2', ratelimit: '"api";r=1;t=1' },
        { "ratelimit-policy": '"api";q=2;w=2', ratelimit: '"api";r=0;t=1' },
        { "ratelimit-policy": '"api";q=2;w=2', ratelimit: '"api";r=0;t=1', ...refusedBucket },
      ],
    ],
    [
      "draft-7",
      BUCKET,
      [
        { "ratelimit-policy": "2;w=2", ratelimit: "limit=2, remaining=1, reset=1" },
        { "ratelimit-policy": "2;w=2", ratelimit: "limit=2, remaining=0, reset=1" },
        {
          "ratelimit-policy": "2;w=2",
          ratelimit: "limit=2, remaining=0, reset=1",
          ...refusedBucket,
        },
      ],
    ],
    [
      "draft-6",
      BUCKET,
      [
        {
          "ratelimit-policy": "2;w=2",
          "ratelimit-limit": "2",
          "ratelimit-remaining": "1",
          "ratelimit-reset": "1",
        },
        {
          "ratelimit-policy": "2;w=2",
          "ratelimit-limit": "2",
          "ratelimit-remaining": "0",
          "ratelimit-reset": "1",
        },
        {
          "ratelimit-policy": "2;w=2",
          "ratelimit-limit": "2",
          "ratelimit-remaining": "0",
          "ratelimit-reset": "1",
          ...refusedBucket,
        },
      ],
    ],
    [
      "legacy",
      BUCKET,
      [
        {
          "x-ratelimit-limit": "2",
          "x-ratelimit-remaining": "1",
          "x-ratelimit-reset": "1761884056",
        },
        {
          "x-ratelimit-limit": "2",
          "x-ratelimit-remaining": "0",
          "x-ratelimit-reset": "1761884056",
        },
        {
          "x-ratelimit-limit": "2",
          "x-ratelimit-remaining": "0",
          "x-ratelimit-reset": "1761884056",
          ...refusedBucket,
        },
      ],
    ],
    [
      "draft-8",
      QUOTAS,
      [
        {
          "ratelimit-policy": '"burst";q=2;w=10, "daily";q=5;w=86400',
          ratelimit: '"burst";r=1;t=10, "daily";r=4;t=86400',
        },
        {
          "ratelimit-policy": '"burst";q=2;w=10, "daily";q=5;w=86400',
          ratelimit: '"burst";r=0;t=9, "daily";r=3;t=86399',
        },
        {
          "ratelimit-policy": '"burst";q=2;w=10, "daily";q=5;w=86400',
          ratelimit: '"burst";r=0;t=8, "daily";r=3;t=86398',
          "retry-after": "8",
        },
      ],
    ],
    [
      "draft-7",
      QUOTAS,
      [
        {
          "ratelimit-policy": "2;w=10, 5;w=86400",
          ratelimit: "limit=2, remaining=1, reset=10",
        },
        {
          "ratelimit-policy": "2;w=10, 5;w=86400",
          ratelimit: "limit=2, remaining=0, reset=9",
        },
        {
          "ratelimit-policy": "2;w=10, 5;w=86400",
          ratelimit: "limit=2, remaining=0, reset=8",
          "retry-after": "8",
        },
      ],
    ],
    [
      "legacy",
      fixedWindow({ limit: 1, windowMs: 1_500 }),
      [
        {
          "x-ratelimit-limit": "1",
          "x-ratelimit-remaining": "0",
          "x-ratelimit-reset": "1761884057",
        },
        {
          "x-ratelimit-limit": "1",
          "x-ratelimit-remaining": "0",
          "x-ratelimit-reset": "1761884057",
          "retry-after": "1",
        },
      ],
    ],
    [
      "draft-8",
      fixedWindow({ limit: 1, windowMs: 300 }),
      [{ "ratelimit-policy": '"api";q=1;w=1', ratelimit: '"api";r=0;t=1' }],
    ],
    [
      "draft-8",
      leakyBucket({ burst: 10, rate: 0.25 }),
      [{ "ratelimit-policy": '"api";q=10;w=40', ratelimit: '"api";r=9;t=4' }],
    ],
    [
      "draft-8",
      gcra({ burst: 10, rate: 1 }),
      [{ "ratelimit-policy": '"api";q=10;w=10', ratelimit: '"api";r=9;t=1' }],
    ],
    [
      "draft-8",
      slidingWindow({ limit: 1, window: "1 s" }),
      [
        { "ratelimit-policy": '"api";q=1;w=1', ratelimit: '"api";r=0;t=1' },
        // What came at the start of a bucket fades in the next one: 2 s after it, 1 s from now.
        {
          "ratelimit-policy": '"api";q=1;w=1',
          ratelimit: '"api";r=0;t=1',
          "retry-after": "1",
        },
      ],
    ],
    [
      "draft-8",
      composite({ primary: fixedWindow({ limit: 1, window: "1 h" }), secondary: BUCKET }),
      [
        {
          "ratelimit-policy": '"primary_default";q=1;w=3600, "secondary_default";q=2;w=2',
          ratelimit: '"primary_default";r=0;t=3600, "secondary_default";r=1;t=1',
        },
        {
          "ratelimit-policy": '"primary_default";q=1;w=3600, "secondary_default";q=2;w=2',
          ratelimit: '"primary_default";r=0;t=3599',
          "retry-after": "3599",
        },
      ],
    ],
    [
      "draft-8",
      fixedWindow([
        { name: "default", limit: 2, window: "1 s" },
        { name: "api", limit: 10, window: "1 h" },
      ]),
      [
        {
          "ratelimit-policy": '"default";q=2;w=1, "api";q=10;w=3600',
          ratelimit: '"default";r=1;t=1, "api";r=9;t=3600',
        },
      ],
    ],
    [
      "draft-7",
      tokenBucket({ burst: Number.MAX_SAFE_INTEGER, rate: 1e9 }),
      [
        {
          "ratelimit-policy": "999999999999999;w=9007200",
          ratelimit: "limit=999999999999999, remaining=999999999999999, reset=1",
        },
      ],
    ],
    [
      "draft-8",
      tokenBucket({ burst: Number.MAX_SAFE_INTEGER, rate: 1e9 }),
      [
        {
          "ratelimit-policy": '"api";q=999999999999999;w=9007200',
          ratelimit: '"api";r=999999999999999;t=1',
        },
      ],
    ],
  ];
  it.each(table)("header fields of %s, %o", async (headers, strategy, answers) => {
    const app = appOf({ headers }, limiterOf({ strategy }));
    const isBucket = strategy === BUCKET;
    for (const answer of answers) {
      expect(fieldsOf(await app.request("/200"))).toEqual(answer);
      // Windows go on; a bucket would fill.
      if (!isBucket) clock.timeMs += 1_000;
    }
  });

  it("the headers of a refusal say how long its cost must wait", async () => {
    const costs = [1, 2];
    const app = appOf({ cost: () => costs.shift()! });
    await app.request("/200");
    expect(fieldsOf(await app.request("/200")).ratelimit).toBe('"api";r=1;t=1');
    const full = appOf({ cost: 2 }, limiterOf({ name: "full" }));
    await full.request("/200");
    expect(fieldsOf(await full.request("/200")).ratelimit).toBe('"full";r=0;t=2');
  });

  it("headers of older drafts describe the first of two equal quotas, and the last that refuses", async () => {
    const strategy = fixedWindow([
      { name: "burst", limit: 4, window: "10 s" },
      { name: "daily", limit: 4, window: "1 d" },
    ]);
    const costs = [3, 1, 1];
    const app = appOf({ headers: "draft-6", cost: () => costs.shift()! }, limiterOf({ strategy }));
    expect(fieldsOf(await app.request("/200"))).toMatchObject({ "ratelimit-reset": "10" });
    await app.request("/200");
    expect(fieldsOf(await app.request("/200"))).toMatchObject({
      "ratelimit-remaining": "0",
      "ratelimit-reset": "86400",
      "retry-after": "86400",
    });
  });

  it("headers follow draft 8 by default, another draft on request, and can be turned off", async () => {
    expect(fieldsOf(await appOf().request("/200"))).toEqual({
      "ratelimit-policy": '"api";q=2;w=2',
      ratelimit: '"api";r=1;t=1',
    });
    const app = appOf({ headers: false });
    expect(fieldsOf(await app.request("/200"))).toEqual({});
    expect(fieldsOf(await app.request("/200"))).toEqual({ "retry-after": "1" });
  });

  it("a refusal that no wait helps has no Retry-After", async () => {
    const styles: [HeaderStyle, Record<string, string>][] = [
      ["draft-8", { "ratelimit-policy": '"api";q=2;w=2', ratelimit: '"api";r=2' }],
      ["draft-7", { "ratelimit-policy": "2;w=2", ratelimit: "limit=2, remaining=2, reset=2" }],
      [
        "draft-6",
        { "ratelimit-policy": "2;w=2", "ratelimit-limit": "2", "ratelimit-remaining": "2" },
      ],
      ["legacy", { "x-ratelimit-limit": "2", "x-ratelimit-remaining": "2" }],
    ];
    for (const [headers, fields] of styles) {
      const response = await appOf({ headers, cost: 3 }).request("/200");
      expect(response.status).toBe(429);
      expect(fieldsOf(response)).toEqual(fields);
    }
  });

  it("headers leave out what is unknown", async () => {
    throttr.failure = new Error("no network");
    const styles: [HeaderStyle, Record<string, string>][] = [
      ["draft-8", { "ratelimit-policy": '"api";q=2;w=2' }],
      ["draft-7", { "ratelimit-policy": "2;w=2" }],
      ["draft-6", { "ratelimit-policy": "2;w=2", "ratelimit-limit": "2" }],
      ["legacy", { "x-ratelimit-limit": "2" }],
    ];
    for (const [headers, fields] of styles) {
      const response = await appOf({ headers }, limiterOf({ onError: "open" })).request("/200");
      expect(response.status).toBe(200);
      expect(fieldsOf(response)).toEqual(fields);
    }
  });

  it("headers say nothing of a quota named constructor that could not be asked", async () => {
    throttr.failure = new Error("no network");
    const strategy = fixedWindow([{ name: "constructor", limit: 2, window: "10 s" }]);
    for (const headers of ["draft-8", "draft-7"] as const) {
      const app = appOf({ headers }, limiterOf({ strategy, onError: "open" }));
      expect(fieldsOf(await app.request("/200"))).not.toHaveProperty("ratelimit");
    }
  });

  it("headers tell the time by the server's clock where it is known, and never more than a window", async () => {
    throttr.skewMs = 3_600_000;
    const app = appOf({ headers: "draft-6" }, limiterOf({ strategy: QUOTAS }));
    expect(fieldsOf(await app.request("/200"))).toMatchObject({ "ratelimit-reset": "10" });
    await app.request("/200");
    clock.timeMs += 4_000;
    expect(fieldsOf(await app.request("/200"))).toMatchObject({
      "ratelimit-reset": "6",
      "retry-after": "6",
    });
    const current = appOf({}, limiterOf({ strategy: QUOTAS }));
    expect(fieldsOf(await current.request("/200")).ratelimit).toBe(
      '"burst";r=0;t=6, "daily";r=3;t=86396',
    );
    throttr.skewMs = -3_600_000;
    const early = await appOf({}, limiterOf({ strategy: QUOTAS, name: "e" })).request("/200");
    expect(fieldsOf(early).ratelimit).toBe('"burst";r=1;t=0, "daily";r=4;t=82800');
  });

  it("headers are set on responses that a handler made itself or that are immutable", async () => {
    for (const response of [new Response("raw"), Response.redirect("https://example.com/")]) {
      const app = new Hono();
      app.use(
        rateLimit({ limiter: limiterOf({ name: "raw" }), key: () => String(response.status) }),
      );
      app.get("/", () => response);
      const got = await app.request("/");
      expect(got.status).toBe(response.status);
      expect(fieldsOf(got).ratelimit).toBe('"raw";r=1;t=1');
    }
  });

  it("a response that switches protocols is left alone", async () => {
    const app = new Hono();
    app.use(rateLimit({ limiter: limiterOf(), key: () => "ada" }));
    const upgrade = Object.defineProperty(new Response(null), "status", { value: 101 });
    app.get("/", () => upgrade);
    expect(await app.request("/")).toBe(upgrade);
  });

  it("headers of several limiters add up, and older drafts show the innermost alone", async () => {
    const outer = limiterOf({ name: "outer", strategy: tokenBucket({ burst: 9, rate: 1 }) });
    const inner = limiterOf({ name: "inner" });
    const key = (): string => "ada";
    const app = new Hono();
    app.use("/new", rateLimit({ limiter: outer, key }), rateLimit({ limiter: inner, key }));
    const headers = "draft-6";
    app.use("/old", rateLimit({ limiter: outer, key, headers }));
    app.use("/old", rateLimit({ limiter: inner, key, headers }));
    app.get("/:any", (c) => c.text("ok"));
    expect(fieldsOf(await app.request("/new"))).toEqual({
      "ratelimit-policy": '"inner";q=2;w=2, "outer";q=9;w=9',
      ratelimit: '"inner";r=1;t=1, "outer";r=8;t=1',
    });
    await app.request("/new");
    const refused = await app.request("/old");
    expect(refused.status).toBe(429);
    expect(fieldsOf(refused)).toEqual({
      "ratelimit-policy": "2;w=2",
      "ratelimit-limit": "2",
      "ratelimit-remaining": "0",
      "ratelimit-reset": "1",
      "retry-after": "1",
    });
  });
});

describe("a refused request", () => {
  it("a refused request is answered with problem details", async () => {
    const app = appOf({}, limiterOf({ strategy: QUOTAS }));
    await app.request("/200");
    await app.request("/200");
    clock.timeMs += 2_500;
    const response = await app.request("/200");
    expect(response.status).toBe(429);
    expect(response.headers.get("content-type")).toBe("application/problem+json");
    expect(response.headers.get("retry-after")).toBe("8");
    expect(await response.text()).toBe(
      JSON.stringify({
        type: "https://iana.org/assignments/http-problem-types#quota-exceeded",
        title: "Quota Exceeded",
        status: 429,
        detail: "the request is over the limit: try again in 8 s",
        code: "rate_limited",
        retryAfterMs: 7_500,
        "violated-policies": ["burst"],
      }),
    );
  });

  it("a refusal says when no wait helps", async () => {
    const response = await appOf({ cost: 3 }).request("/200");
    expect(response.status).toBe(429);
    expect(response.headers.has("retry-after")).toBe(false);
    expect(await response.json()).toEqual({
      type: "https://iana.org/assignments/http-problem-types#quota-exceeded",
      title: "Quota Exceeded",
      status: 429,
      detail: "the request costs more than the limit ever allows: waiting does not help",
      code: "rate_limited",
      retryAfterMs: null,
      reason: "cost_exceeds_limit",
      "violated-policies": ["api"],
    });
  });

  it("a request refused by a failing limiter is answered as the server's fault", async () => {
    throttr.failure = new Error("no network");
    const response = await appOf({}, limiterOf({ onError: "closed" })).request("/200");
    expect(response.status).toBe(503);
    expect(response.headers.get("content-type")).toBe("application/problem+json");
    expect(response.headers.has("retry-after")).toBe(false);
    expect(await response.json()).toEqual({
      title: "Service Unavailable",
      status: 503,
      detail: "the limit could not be checked: try again",
      code: "limit_unavailable",
      retryAfterMs: null,
      reason: "error",
    });
  });

  it("a refusal keeps the headers that outer middleware has set", async () => {
    const app = new Hono();
    app.use(async (c, next) => {
      c.header("x-request-id", "7");
      await next();
    });
    app.use(rateLimit({ limiter: limiterOf(), key: () => "ada", cost: 3 }));
    const response = await app.request("/");
    expect(response.status).toBe(429);
    expect(response.headers.get("x-request-id")).toBe("7");
  });

  it("a refused request can get an answer of the application's own", async () => {
    const handler = (c: Context, _: unknown, result: RateLimitResult): Response => {
      return c.text(`wait ${result.retryAfterMs}`, 420 as 429, { "Retry-After": "60" });
    };
    const app = appOf({ handler });
    await app.request("/200");
    await app.request("/200");
    const response = await app.request("/200");
    expect([response.status, await response.text()]).toEqual([420, "wait 1000"]);
    expect(fieldsOf(response)).toEqual({
      "ratelimit-policy": '"api";q=2;w=2',
      ratelimit: '"api";r=0;t=1',
      "retry-after": "60",
    });
    const plain = await appOf({ handler: async (c) => c.text("no") }).request("/200");
    expect(fieldsOf(plain)).toMatchObject({ "retry-after": "1" });
  });

  it("a refused request can be served all the same", async () => {
    const app = appOf({ cost: 3, handler: async (_, next) => await next() });
    const response = await app.request("/200");
    expect(response.status).toBe(200);
    expect(fieldsOf(response)).toEqual({
      "ratelimit-policy": '"api";q=2;w=2',
      ratelimit: '"api";r=2',
    });
  });
});

describe("the middleware", () => {
  it("the middleware returns the response to composed handlers", async () => {
    const middleware = rateLimit({ limiter: limiterOf(), key: () => "ada", cost: 3 });
    let returned: unknown = null;
    const app = new Hono();
    app.use(async (c, next) => {
      returned = await middleware(c as never, next);
      return returned as Response;
    });
    const response = await app.request("/");
    expect(returned).toBe(response);
    expect(response.status).toBe(429);
  });

  it("the middleware makes no response when no handler does", async () => {
    const app = new Hono();
    app.use(rateLimit({ limiter: limiterOf(), key: () => "ada", cost: 3, handler: () => {} }));
    app.get("/", (c) => c.text("served"));
    app.onError((error, c) => c.text(error.message, 500));
    const response = await app.request("/");
    expect(await response.text()).toMatch(/^Context is not finalized/);
  });
});

describe("errors", () => {
  it("errors of a limiter are rethrown", async () => {
    throttr.failure = new Error("outcome_unknown: the shard failed");
    const response = await appOf().request("/200");
    expect([response.status, await response.text()]).toEqual([
      500,
      "outcome_unknown: the shard failed",
    ]);
  });

  it("errors of a refund are rethrown unless the limiter's policy is another", async () => {
    const fail = {
      skipSuccessfulRequests: true,
      requestWasSuccessful: () => {
        throttr.failure = new Error("outcome_unknown: the shard failed");
        return true;
      },
    };
    expect((await appOf(fail).request("/200")).status).toBe(500);
    throttr.failure = null;
    expect((await appOf(fail, limiterOf({ onError: "open" })).request("/200")).status).toBe(200);
  });

  it("empty keys and invalid costs are errors", async () => {
    const empty = await appOf({ key: () => "" }, limiterOf({ onError: "open" })).request("/200");
    expect([empty.status, await empty.text()]).toEqual([
      500,
      'key_invalid: key: expected text that is not empty, got ""',
    ]);
    const free = await appOf({ cost: () => 0 }).request("/200");
    expect(await free.text()).toMatch(/^cost_invalid: /);
  });

  it("unknown header formats are errors", () => {
    const headers = "draft-9" as HeaderStyle;
    expect(() => rateLimit({ limiter: limiterOf(), key: () => "ada", headers })).toThrow(
      /^configuration_invalid: headers: expected false or one of draft-8, draft-7, draft-6, legacy, got /,
    );
  });

  it("options without a key or a limiter are errors", () => {
    const limiter = limiterOf();
    const key = (): string => "ada";
    expect(() => rateLimit({ limiter })).toThrow(/^configuration_invalid: key: /);
    expect(() => rateLimit({ limiter, key, keyGenerator: key })).toThrow(/^configuration_invalid/);
    expect(() => rateLimit({ limiter, key: "ada" as never })).toThrow(
      /^configuration_invalid: key: expected a function, either as key or as keyGenerator, got "ada"/,
    );
    for (const wrong of [undefined, null, BUCKET]) {
      expect(() => rateLimit({ limiter: wrong as never, key })).toThrow(
        /^configuration_invalid: limiter: expected a RateLimiter, or a function of the context/,
      );
    }
  });

  it("options that should be functions are errors when the middleware is made, and not of the first request that is refused", () => {
    const limiter = limiterOf();
    const key = (): string => "ada";
    for (const name of ["skip", "requestWasSuccessful", "onLimited", "handler"]) {
      expect(() => rateLimit({ limiter, key, [name]: true })).toThrow(
        `configuration_invalid: ${name}: expected a function, got true`,
      );
    }
  });

  it("a function that returns no limiter is named", async () => {
    const app = appOf({ limiter: () => undefined as never });
    expect(await (await app.request("/200")).text()).toBe(
      "configuration_invalid: limiter: expected a RateLimiter, got undefined",
    );
  });
});

describe("options", () => {
  it("key, cost and limiter may depend on the request", async () => {
    type AppEnv = { Bindings: { THROTTR: FakeBackend } };
    const app = new Hono<AppEnv>();
    app.use(
      rateLimit<AppEnv>({
        limiter: async (c) => limiterOf({ throttr: c.env.THROTTR, name: c.req.header("plan")! }),
        keyGenerator: async (c) => c.req.header("user")!,
        cost: async (c) => Number(c.req.header("cost")),
      }),
    );
    app.get("/", (c) => c.text("ok"));
    const headers = { plan: "free", user: "ada/1", cost: "2" };
    const response = await app.request("/", { headers }, { THROTTR: throttr });
    expect(fieldsOf(response).ratelimit).toBe('"free";r=0;t=1');
    expect(throttr.calls).toEqual([
      {
        method: "limit",
        requests: [{ name: "free", key: ".ada+2F1", strategy: BUCKET, cost: 2 }],
      },
    ]);
  });

  it("a limiter gets the waitUntil of the request, and none where the platform has none", async () => {
    const given: ((work: Promise<unknown>) => void)[] = [];
    const limiter = limiterOf();
    const limit = limiter.limit.bind(limiter);
    limiter.limit = async (key, options) => {
      given.push(options!.waitUntil!);
      return await limit(key, options);
    };
    const app = appOf({}, limiter);
    const kept: Promise<unknown>[] = [];
    const context = {
      waitUntil: (work: Promise<unknown>) => void kept.push(work),
      passThroughOnException: () => {},
      props: {},
    };
    await app.request("/200", {}, {}, context);
    await app.request("/200");
    const work = Promise.resolve();
    for (const waitUntil of given) waitUntil(work);
    expect(kept).toEqual([work]);
  });

  it("skipped requests are not counted", async () => {
    const app = appOf({ skip: async (c) => c.req.query("free") === "1" });
    const calls = await callsOf(async () => {
      const response = await app.request("/200?free=1");
      expect([response.status, await response.json()]).toEqual([200, {}]);
      expect(fieldsOf(response)).toEqual({});
    });
    expect(calls).toBe(0);
    expect(await callsOf(async () => await app.request("/200"))).toBe(1);
  });

  type Row = [string, Partial<RateLimitOptions>, Record<number, boolean>];
  const refunds: Row[] = [
    ["none", {}, { 200: false, 302: false, 404: false, 500: false, 599: false }],
    [
      "skipFailedRequests",
      { skipFailedRequests: true },
      { 200: false, 302: false, 400: true, 404: true, 500: true, 599: true },
    ],
    [
      "skipSuccessfulRequests",
      { skipSuccessfulRequests: true },
      { 200: true, 302: true, 399: true, 400: false, 500: false, 599: false },
    ],
    [
      "both",
      { skipFailedRequests: true, skipSuccessfulRequests: true },
      { 200: true, 404: true, 599: true },
    ],
    [
      "requestWasSuccessful",
      { skipFailedRequests: true, requestWasSuccessful: async (c) => c.res.status === 404 },
      { 200: true, 404: false },
    ],
  ];
  it.each(refunds)(
    "a request is charged or refunded by its outcome: %s",
    async (_, options, given) => {
      for (const [status, isGivenBack] of Object.entries(given)) {
        const limiter = limiterOf({ name: `s${status}` });
        const response = await appOf({ cost: 2, ...options }, limiter).request(`/${status}`);
        expect(response.status).toBe(status === "599" ? 500 : Number(status));
        expect((await limiter.peek("ada")).remaining).toBe(isGivenBack ? 2 : 0);
        expect(fieldsOf(response).ratelimit).toBe(`"s${status}";r=${isGivenBack ? 2 : 0};t=1`);
      }
    },
  );

  it("a request that was not charged is not refunded", async () => {
    const skipping = { skipFailedRequests: true, skipSuccessfulRequests: true };
    const app = appOf({ ...skipping, cost: 3 });
    expect(await callsOf(async () => await app.request("/200"))).toBe(1);
    const shadow = limiterOf({ shadow: true });
    await shadow.limit("ada", { cost: 2 });
    for (const cost of [1, 3]) {
      const shadowed = appOf({ ...skipping, cost }, shadow);
      expect(await callsOf(async () => await shadowed.request("/200"))).toBe(1);
    }
    throttr.failure = new Error("no network");
    const open = appOf(skipping, limiterOf({ onError: "open" }));
    expect(await callsOf(async () => await open.request("/200"))).toBe(1);
  });

  it("a request whose handler threw past Hono is refunded", async () => {
    const app = new Hono();
    const limiter = limiterOf();
    app.use(rateLimit({ limiter, key: () => "ada", skipFailedRequests: true }));
    app.get("/", () => {
      throw "no error";
    });
    await expect(async () => await app.request("/")).rejects.toBe("no error");
    expect((await limiter.peek("ada")).remaining).toBe(2);
  });

  it("what a handler threw past Hono stays, also where the refund fails", async () => {
    const app = new Hono();
    app.use(rateLimit({ limiter: limiterOf(), key: () => "ada", skipFailedRequests: true }));
    app.get("/", () => {
      throttr.failure = new Error("no network");
      throw "no error";
    });
    await expect(async () => await app.request("/")).rejects.toBe("no error");
  });

  it("onLimited gets refusals, real ones and those of shadow mode", async () => {
    const told: [string, boolean][] = [];
    const onLimited = async (c: Context, { success }: RateLimitResult): Promise<void> => {
      told.push([c.req.path, success]);
    };
    const app = appOf({ onLimited });
    await app.request("/200");
    expect(told).toEqual([]);
    expect((await appOf({ onLimited, cost: 3 }).request("/201")).status).toBe(429);
    const shadow = appOf({ onLimited, cost: 3 }, limiterOf({ shadow: true }));
    expect((await shadow.request("/202")).status).toBe(202);
    expect(told).toEqual([
      ["/201", false],
      ["/202", true],
    ]);
  });

  it("shadow mode serves requests, and shows what would have been refused", async () => {
    const app = appOf({}, limiterOf({ shadow: true }));
    await app.request("/200");
    await app.request("/200");
    const response = await app.request("/200");
    expect([response.status, await response.json()]).toEqual([200, { remaining: 0 }]);
    expect(fieldsOf(response)).toEqual({
      "ratelimit-policy": '"api";q=2;w=2',
      ratelimit: '"api";r=0;t=1',
    });
  });

  it("the result is in the context under the chosen name", async () => {
    const limiter = limiterOf();
    const key = (): string => "ada";
    const app = new Hono().use("/a", rateLimit({ limiter, key })).get("/a", (c) => {
      expectTypeOf(c.var.rateLimit).toEqualTypeOf<RateLimitResult>();
      expect(c.get("rateLimit")).toBe(c.var.rateLimit);
      return c.json(c.var.rateLimit);
    });
    expect(await (await app.request("/a")).json()).toEqual({
      success: true,
      limit: 2,
      remaining: 1,
      reset: START_MS,
      retryAfterMs: 0,
      quotas: { default: { allowed: true, limit: 2, remaining: 1, reset: START_MS } },
    });
    const named = new Hono()
      .use(rateLimit({ limiter, key, requestPropertyName: "first", skip: () => false }))
      .get("/b", (c) => {
        expectTypeOf(c.var.first).toEqualTypeOf<RateLimitResult | undefined>();
        return c.text(String(c.var.first?.remaining));
      });
    expect(await (await named.request("/b")).text()).toBe("0");
  });
});
