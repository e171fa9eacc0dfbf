/** What limits have decided, as the doors show it: `/v1/limits`, the overview and `/metrics`. */
import { evictDurableObject, reset, runInDurableObject } from "cloudflare:test";
import { afterEach, describe, expect, it } from "vitest";
import type { LimitFigures, OneLimitFigures } from "../../src/wire/limit-figures.ts";
import type { Overview } from "../../src/wire/overview.ts";
import { parseExposition } from "../support/text/exposition.ts";
import { get } from "../support/pool/doors.ts";
import { shardStub } from "../support/pool/shards.ts";
import { bearerOf } from "../support/pool/tokens.ts";
import { calling, expectProblem, freshNamespace, type Calling } from "../support/pool/v1-calls.ts";

const ONE_A_DAY = {
  strategy: "fixed_window",
  quotas: [{ name: "day", limit: 1, windowMs: 86_400_000 }],
};
const SHARDS = 4;

afterEach(async () => {
  await reset();
});

interface Space {
  readonly ns: string;
  readonly call: Calling;
}

async function newSpace(claims: Parameters<typeof bearerOf>[0] = {}, ns = freshNamespace()) {
  return { ns, call: calling(await bearerOf({ ns, ...claims })) };
}

/** Asks a limit for a key so many times. */
async function ask({ call }: Space, name: string, key: string, times = 1): Promise<void> {
  const requests = Array.from({ length: times }, () => ({ name, key, strategy: ONE_A_DAY }));
  expect((await call("POST", "/v1/limits", { json: { requests } })).status).toBe(200);
}

async function figuresOf({ call }: Space): Promise<LimitFigures> {
  return (await call("GET", "/v1/limits")).json as unknown as LimitFigures;
}

const rate = (total: number) => ({ total, perMinute: total });
const rates = (allowed: number, refused: number, errors = 0, local = 0) => ({
  allowed: rate(allowed),
  refused: rate(refused),
  errors: rate(errors),
  local: rate(local),
});

describe("GET /v1/limits", () => {
  it("figures of limits add up what all shards have decided, and rank the keys of all of them", async () => {
    const space = await newSpace();
    for (let user = 0; user < 20; user++) await ask(space, "api", `user${user}`, user + 1);
    await ask(space, "login", "ada");
    const { limits, others, hottest, mostRefused } = await figuresOf(space);
    expect(limits).toEqual([
      { name: "api", ...rates(20, 190) },
      { name: "login", ...rates(1, 0) },
    ]);
    expect(others).toBeNull();
    expect(hottest).toHaveLength(21);
    expect(hottest.slice(0, 2)).toEqual([
      { name: "api", key: "user19", count: 20, countErrorMax: 0 },
      { name: "api", key: "user18", count: 19, countErrorMax: 0 },
    ]);
    expect(mostRefused).toHaveLength(19);
    expect(mostRefused[0]).toEqual({ name: "api", key: "user19", count: 19, countErrorMax: 0 });
  });

  it("figures of one limiter have its keys only, and an unknown limiter is answered with limit_absent", async () => {
    const space = await newSpace();
    await ask(space, "api", "ada", 3);
    await ask(space, "login", "bob", 5);
    const got = await space.call("GET", "/v1/limits/api");
    const figures = got.json as unknown as OneLimitFigures;
    expect(figures).toMatchObject({ name: "api", ...rates(1, 2) });
    expect(figures.hottest).toEqual([{ key: "ada", count: 3, countErrorMax: 0 }]);
    expect(figures.mostRefused).toEqual([{ key: "ada", count: 2, countErrorMax: 0 }]);
    expectProblem(await space.call("GET", "/v1/limits/apis"), "limit_absent");
    expectProblem(await space.call("GET", "/v1/limits/a%20b"), "base_key_invalid");
  });

  it("figures of a limiter without a decision count its errors", async () => {
    const space = await newSpace();
    await space.call("PUT", "/v1/counters/api%3Aada", { json: { quota: 1, ttlMs: 60_000 } });
    await ask(space, "api", "ada", 2);
    const { limits, hottest } = await figuresOf(space);
    expect(limits).toEqual([{ name: "api", ...rates(0, 0, 2) }]);
    expect(hottest).toEqual([]);
  });

  it("a token with key prefixes sees only limiters and keys that they allow", async () => {
    const space = await newSpace();
    await ask(space, "api", "ada", 3);
    await ask(space, "api", "bob", 2);
    await ask(space, "login", "ada", 4);
    const narrow = await newSpace({ keyPrefixes: ["api:a"] }, space.ns);
    const { limits, hottest, mostRefused } = await figuresOf(narrow);
    expect(limits).toEqual([{ name: "api", ...rates(2, 3) }]);
    expect(hottest).toEqual([{ name: "api", key: "ada", count: 3, countErrorMax: 0 }]);
    expect(mostRefused).toEqual([{ name: "api", key: "ada", count: 2, countErrorMax: 0 }]);
    const { json } = await narrow.call("GET", "/v1/limits/api");
    expect(json).toMatchObject({ hottest: [{ key: "ada", count: 3, countErrorMax: 0 }] });
    expectProblem(await narrow.call("GET", "/v1/limits/login"), "prefix_missing");
    expectProblem(await narrow.call("GET", "/v1/limits/ap"), "prefix_missing");
    const wide = await newSpace({ keyPrefixes: ["ap"] }, space.ns);
    expect((await figuresOf(wide)).hottest.map(({ key }) => key)).toEqual(["ada", "bob"]);
  });

  it("figures of limits need the scope admin", async () => {
    const { call } = await newSpace({ scopes: ["read", "write"] });
    expectProblem(await call("GET", "/v1/limits"), "scope_missing");
    expectProblem(await call("GET", "/v1/limits/api"), "scope_missing");
  });

  it.each([
    [
      "runs the release before",
      () => Promise.reject(new Error('The RPC receiver does not implement "limitFigures".')),
    ],
    ["fails", () => Promise.reject(new Error("broken"))],
  ])("a shard that %s is named, and the others are added up", async (_, answer) => {
    const space = await newSpace();
    for (let user = 0; user < 20; user++) await ask(space, "api", `user${user}`);
    const whole = await figuresOf(space);
    const stub = shardStub(1, space.ns);
    await runInDurableObject(stub, (shard) => {
      shard.limitFigures = answer;
    });
    const { unreachableShards, limits } = await figuresOf(space);
    expect(unreachableShards).toEqual([1]);
    expect(limits[0]!.allowed.total).toBeLessThan(whole.limits[0]!.allowed.total);
    expect(limits[0]!.allowed.total).toBeGreaterThan(0);
    await evictDurableObject(stub);
  });
});

describe("decisions of limits elsewhere", () => {
  it("the overview adds up the decisions of all limiters", async () => {
    const space = await newSpace();
    await ask(space, "api", "ada", 3);
    await ask(space, "login", "bob", 2);
    const { limits } = (await space.call("GET", "/v1/overview")).json as unknown as Overview;
    expect(limits).toEqual(rates(2, 3));
  });

  it("decisions that callers made from allowances are shown as local, and among the allowed and refused", async () => {
    const space = await newSpace();
    await ask(space, "login", "bob");
    const strategy = { strategy: "token_bucket", burst: 100, rate: 1 };
    const draw = { strategy, cost: 1, wanted: 20, granted: 15, refused: 2 };
    expect((await space.call("POST", "/v1/limits/api/ada/draw", { json: draw })).status).toBe(200);
    const { limits } = await figuresOf(space);
    expect(limits).toEqual([
      { name: "api", ...rates(16, 2, 0, 17) },
      { name: "login", ...rates(1, 0) },
    ]);
    const overview = (await space.call("GET", "/v1/overview")).json as unknown as Overview;
    expect(overview.limits).toEqual(rates(17, 2, 0, 17));
    const text = await (await get("/metrics", await bearerOf({ ns: space.ns }))).text();
    const { samples, type } = parseExposition(text).get("throttr_limit_local_total")!;
    expect(type).toBe("counter");
    const local = (limit: string): number[] =>
      samples.filter(({ labels }) => labels["limit"] === limit).map(({ value }) => value);
    expect([local("api"), local("login")]).toEqual([[17], [0]]);
    expect(local("")).toEqual(Array.from({ length: SHARDS }, () => 0));
  });

  it("the metrics have decisions by shard, limiter and outcome, and no keys", async () => {
    const space = await newSpace();
    for (let user = 0; user < 20; user++) await ask(space, "api", `user${user}`, 3);
    await ask(space, "login", "bob");
    const response = await get("/metrics", await bearerOf({ ns: space.ns }));
    const text = await response.text();
    const { samples, type } = parseExposition(text).get("throttr_limit_decisions_total")!;
    expect(type).toBe("counter");
    const sum = (limit: string, outcome: string): number =>
      samples
        .filter(({ labels }) => labels["limit"] === limit && labels["outcome"] === outcome)
        .reduce((total, { value }) => total + value, 0);
    expect([sum("api", "allowed"), sum("api", "refused"), sum("api", "error")]).toEqual([
      20, 40, 0,
    ]);
    expect([sum("login", "allowed"), sum("login", "refused")]).toEqual([1, 0]);
    expect(new Set(samples.map(({ labels }) => labels["shard"])).size).toBe(SHARDS);
    expect(new Set(samples.flatMap(({ labels }) => Object.keys(labels)))).toEqual(
      new Set(["namespace", "shard", "limit", "outcome"]),
    );
    expect(text).not.toContain("user7");
  });
});
