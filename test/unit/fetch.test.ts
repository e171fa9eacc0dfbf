/** The guard for frameworks that work with `Response`: what clients get, and the shapes that frameworks need. */
import { beforeEach, describe, expect, expectTypeOf, it } from "vitest";
import { guard, type Guarded, type GuardOptions } from "../../src/adapters/fetch/index.ts";
import {
  fixedWindow,
  RateLimitError,
  RateLimiter,
  tokenBucket,
  type RateLimiterOptions,
} from "../../src/ratelimit/index.ts";
import { FakeBackend, FakeClock } from "../support/rate-limits/backend.ts";

const BUCKET = tokenBucket({ burst: 2, rate: 1 });
const URL = "https://app.example/";

let clock: FakeClock;
let throttr: FakeBackend;

beforeEach(() => {
  clock = new FakeClock();
  throttr = new FakeBackend(clock);
});

function limiterOf(options: Partial<RateLimiterOptions> = {}): RateLimiter {
  return new RateLimiter({ throttr, name: "api", strategy: BUCKET, clock, ...options });
}

async function guarded(
  options: Partial<GuardOptions<Request>> = {},
  request = new Request(URL),
): Promise<Guarded> {
  return await guard(request, { limiter: limiterOf(), key: "ada", ...options });
}

describe("guard", () => {
  it("guard gives the header fields of an allowed request and no response, in one call", async () => {
    const { response, headers, result } = await guarded();
    expect(response).toBeNull();
    expect([...headers]).toEqual([
      ["ratelimit", '"api";r=1;t=1'],
      ["ratelimit-policy", '"api";q=2;w=2'],
    ]);
    expect(result).toMatchObject({ success: true, remaining: 1 });
    expect(throttr.calls.map(({ method }) => method)).toEqual(["limit"]);
  });

  it("guard gives a 429 response with problem details, Retry-After and the same fields", async () => {
    await guarded({ cost: 2 });
    const { response, headers, result } = await guarded();
    expect(result.success).toBe(false);
    expect(response!.status).toBe(429);
    expect(Object.fromEntries(response!.headers)).toEqual({
      "content-type": "application/problem+json",
      "retry-after": "1",
      ratelimit: '"api";r=0;t=1',
      "ratelimit-policy": '"api";q=2;w=2',
    });
    expect(Object.fromEntries(headers)).toEqual({
      ratelimit: '"api";r=0;t=1',
      "ratelimit-policy": '"api";q=2;w=2',
    });
    expect(await response!.json()).toEqual({
      type: "https://iana.org/assignments/http-problem-types#quota-exceeded",
      title: "Quota Exceeded",
      status: 429,
      detail: "the request is over the limit: try again in 1 s",
      code: "rate_limited",
      retryAfterMs: 1000,
      "violated-policies": ["api"],
    });
  });

  it("guard takes key and cost from the request, whatever type the framework gives it", async () => {
    const event = { user: "bob", size: 2 };
    const { response } = await guard(event, {
      limiter: limiterOf(),
      key: async ({ user }) => user,
      cost: ({ size }) => size,
    });
    expect(response).toBeNull();
    expect(throttr.calls[0]!.requests).toMatchObject([{ key: "bob", cost: 2 }]);
    expectTypeOf(guard<typeof event>)
      .parameter(1)
      .toEqualTypeOf<GuardOptions<{ user: string; size: number }>>();
  });

  it("guard answers 503 where the limit cannot be asked and onError is closed, and throws without onError", async () => {
    throttr.failure = new Error("outcome_unknown: a shard failed");
    const { response } = await guarded({ limiter: limiterOf({ onError: "closed" }) });
    expect(response!.status).toBe(503);
    expect(await response!.json()).toMatchObject({ code: "limit_unavailable", reason: "error" });
    const open = await guarded({ limiter: limiterOf({ onError: "open" }) });
    expect(open.response).toBeNull();
    expect(Object.fromEntries(open.headers)).toEqual({ "ratelimit-policy": '"api";q=2;w=2' });
    await expect(guarded()).rejects.toMatchObject({ code: "outcome_unknown" });
  });

  it("guard refuses nothing in shadow mode, and its fields show the decision", async () => {
    const limiter = limiterOf({ shadow: true });
    await guarded({ limiter, cost: 2 });
    const { response, headers, result } = await guarded({ limiter });
    expect(response).toBeNull();
    expect(result.shadow!.success).toBe(false);
    expect(headers.get("ratelimit")).toBe('"api";r=0;t=1');
  });

  it("guard has other styles of header fields, and none but Retry-After", async () => {
    const legacy = await guarded({ headers: "legacy", cost: 2 });
    expect([...legacy.headers.keys()]).toEqual([
      "x-ratelimit-limit",
      "x-ratelimit-remaining",
      "x-ratelimit-reset",
    ]);
    const { response } = await guarded({ headers: false });
    expect([...response!.headers.keys()]).toEqual(["content-type", "retry-after"]);
  });

  it("guard names no wait where none helps", async () => {
    const { response } = await guarded({ cost: 3 });
    expect(response!.status).toBe(429);
    expect(response!.headers.has("retry-after")).toBe(false);
  });

  it("guard refuses options that it does not know", async () => {
    const wrong: [object, RegExp][] = [
      [
        { kee: "ada" },
        /^configuration_invalid: kee: unknown option: expected one of limiter, key, cost, headers/,
      ],
      [{ key: 7 }, /^configuration_invalid: key: expected text or a function of the request/],
      [{ headers: "draft-9" }, /^configuration_invalid: headers: /],
      [{ limiter: undefined }, /^configuration_invalid: limiter: expected a RateLimiter, got unde/],
      [{ limiter: limiterOf }, /^configuration_invalid: limiter: expected a RateLimiter, got a fu/],
    ];
    for (const [options, message] of wrong) {
      const error: unknown = await guarded(options).catch((thrown: unknown) => thrown);
      expect(error).toBeInstanceOf(RateLimitError);
      expect((error as Error).message).toMatch(message);
    }
    expect(throttr.calls).toEqual([]);
  });
});

describe("addTo", () => {
  it("addTo adds the fields to a copy of a response whose headers cannot be changed", async () => {
    const { addTo } = await guarded();
    const original = Response.redirect("https://app.example/login", 303);
    const response = addTo(original);
    expect(response.status).toBe(303);
    expect(response.headers.get("location")).toBe("https://app.example/login");
    expect(response.headers.get("ratelimit")).toBe('"api";r=1;t=1');
    expect(original.headers.has("ratelimit")).toBe(false);
  });

  it("addTo keeps body and cookies of the response", async () => {
    const { addTo } = await guarded();
    const headers = new Headers([
      ["set-cookie", "a=1"],
      ["set-cookie", "b=2"],
    ]);
    const response = addTo(new Response("hello", { status: 201, headers }));
    expect(await response.text()).toBe("hello");
    expect(response.headers.getSetCookie()).toEqual(["a=1", "b=2"]);
    expect(addTo(new Response(null, { status: 204 })).body).toBeNull();
  });

  it("addTo lists several guards with draft-8, and keeps the first with other styles", async () => {
    const daily = limiterOf({ name: "day", strategy: fixedWindow({ limit: 9, window: "1 d" }) });
    const both = [await guarded(), await guarded({ limiter: daily })];
    const listed = both.reduce((response, { addTo }) => addTo(response), new Response());
    expect(listed.headers.get("ratelimit-policy")).toBe('"api";q=2;w=2, "day";q=9;w=86400');
    const legacy = [
      await guarded({ headers: "legacy" }),
      await guarded({ headers: "legacy", limiter: daily }),
    ];
    const kept = legacy.reduce((response, { addTo }) => addTo(response), new Response());
    expect(kept.headers.get("x-ratelimit-limit")).toBe("2");
  });
});
