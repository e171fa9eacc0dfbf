/** What is true of every route of the JSON door: each is asked from the one table of them. */
import { createExecutionContext, reset } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, describe, expect, it } from "vitest";
import worker from "../../src/worker/index.ts";
import { Scope, type ScopeName } from "../../src/wire/throttr/requests.ts";
import type { Route } from "../../src/worker/v1/route.ts";
import { ROUTES } from "../../src/worker/v1/routes.ts";
import {
  calling,
  expectProblem,
  fieldsOf,
  freshNamespace,
  gotOf,
  routeOf,
  type Calling,
  type Got,
} from "../support/pool/v1-calls.ts";
import { bearerOf } from "../support/pool/tokens.ts";

const ALL_SCOPES = Object.keys(Scope) as ScopeName[];
const TTL_MS = 60_000;

afterEach(async () => {
  await reset();
});

const insertVisits = ["PUT", "/v1/counters/visits", { quota: "100", ttlMs: TTL_MS }] as const;
const setVisits = ["PUT", "/v1/buffers/visits", { value: "hello", ttlMs: TTL_MS }] as const;
const setPage = ["PUT", "/v1/buffers/page", { value: "hello", ttlMs: TTL_MS }] as const;
const strategy = { strategy: "token_bucket", burst: 10, rate: 2 };
const charge = ["POST", "/v1/limits/api/user:42", { strategy, cost: 3 }] as const;
const reserve = [
  "POST",
  "/v1/limits/api/user:42/reserve",
  { strategy, cost: 8, id: "6ba7b810-9dad-41d1-80b4-00c04fd430c8" },
] as const;
const ttl = { ttlMs: expect.any(Number), expiresAtMs: expect.any(Number) };
const leaseId = "0d9c8f52-6a0e-4d5c-9d2b-3f6a1c7e8b40";
const acquireGpu = [
  "POST",
  "/v1/semaphores/gpu/leases",
  { resources: 2, maximum: 4, ttlMs: TTL_MS, leaseId },
] as const;
const lease = { leaseId, name: "gpu", resources: 2, ...ttl };
const limited = (remaining: number) => ({
  success: true,
  limit: 10,
  remaining,
  reset: expect.any(Number),
  retryAfterMs: 0,
  quotas: { default: { allowed: true, limit: 10, remaining, reset: expect.any(Number) } },
});

const shardOf = (index: number) => ({
  shard: String(index),
  from: index * 2 ** 30,
  to: (index + 1) * 2 ** 30,
  records: expect.any(Number),
  bytes: expect.any(Number),
  bytesMax: expect.any(Number),
  callsPerSecond: 0,
  isHot: false,
  split: null,
  splitProblem: null,
  reportedAtMs: null,
});

const none = { total: 0, perMinute: 0 };
const granted = { allowed: { total: 1, perMinute: 1 }, refused: none, errors: none, local: none };

type Before = readonly (readonly [method: string, url: string, body: unknown])[];

/** By route: what is there before its example is sent, and what it answers then. */
const SUCCESSES: Readonly<
  Record<string, readonly [before: Before, status: number, json: unknown]>
> = {
  insertCounter: [[], 201, null],
  queryCounter: [[insertVisits], 200, { quota: "100", ...ttl }],
  patchCounter: [[insertVisits], 200, { applied: true, quota: "7", ...ttl }],
  purgeCounter: [[insertVisits], 204, null],
  expireCounter: [[insertVisits], 200, ttl],
  incrementCounter: [[insertVisits], 200, { quota: "101" }],
  increaseCounter: [[insertVisits], 200, { applied: true, quota: "105", ...ttl }],
  decreaseCounter: [[insertVisits], 200, { applied: true, quota: "95", ...ttl }],
  setBuffer: [[], 204, null],
  getBuffer: [[setPage], 200, { value: "hello", ...ttl }],
  purgeBuffer: [[setPage], 204, null],
  expireBuffer: [[setPage], 200, ttl],
  compareAndSetBuffer: [[setPage], 200, { applied: true }],
  limit: [[], 200, limited(8)],
  peekLimit: [[charge], 200, limited(7)],
  refundLimit: [[charge], 200, limited(9)],
  drawLimit: [
    [],
    200,
    { ...limited(8), units: 2, draw: expect.any(Number), lifeMs: 500, pauseMs: 0 },
  ],
  limitAll: [
    [],
    200,
    { success: true, refusedBy: null, retryAfterMs: 0, results: [limited(9), limited(8)] },
  ],
  reserveLimit: [[], 200, { ...limited(2), id: expect.stringMatching(/^[\da-f-]{36}$/) }],
  settleLimit: [[reserve], 200, { ...limited(5), settled: 5 }],
  resetLimit: [[charge], 204, null],
  limitMany: [[], 200, { results: [{ result: limited(9) }] }],
  listSemaphores: [
    [acquireGpu],
    200,
    { semaphores: [{ name: "gpu", consumption: 2, mostHeld: 2, maximum: 2 }], cursor: null },
  ],
  inspectSemaphore: [[acquireGpu], 200, { consumption: 2, mostHeld: 2, maximum: 2 }],
  listHolders: [
    [acquireGpu],
    200,
    {
      holders: [{ kind: "lease", id: leaseId, resources: 2, expiresAtMs: expect.any(Number) }],
      cursor: null,
    },
  ],
  acquireLease: [
    [acquireGpu],
    201,
    { ...lease, resources: 1, leaseId: expect.stringMatching(/^[\da-f-]{36}$/) },
  ],
  renewLease: [[acquireGpu], 200, lease],
  releaseLease: [[acquireGpu], 204, null],
  publish: [[], 200, { delivered: 0, sequence: null }],
  listChannels: [[], 200, { channels: [], cursor: null }],
  listConnections: [[], 200, { connections: [], cursor: null }],
  listRecords: [
    [["PUT", "/v1/counters/user:1", { quota: 5, ttlMs: TTL_MS }], insertVisits],
    200,
    {
      records: [{ key: "user:1", kind: "counter", quota: "5", expiresAtMs: expect.any(Number) }],
      cursor: null,
    },
  ],
  info: [[insertVisits, setPage], 200, expect.objectContaining({ keys: 2, counterBytes: 8 })],
  overview: [
    [insertVisits, setPage],
    200,
    expect.objectContaining({ records: { counters: 1, buffers: 1, bufferBytes: 5 } }),
  ],
  access: [
    [],
    200,
    {
      namespace: expect.stringMatching(/./),
      scopes: ALL_SCOPES,
      keyPrefixes: [],
      channelPrefixes: [],
      isForAllNamespaces: false,
      hasReference: true,
      atMs: expect.any(Number),
      expiresAtMs: expect.any(Number),
    },
  ],
  history: [[insertVisits], 200, { minutes: [], unavailable: null }],
  limitFigures: [
    [charge],
    200,
    {
      atMs: expect.any(Number),
      limits: [{ name: "api", ...granted }],
      others: null,
      hottest: [{ name: "api", key: "user:42", count: 1, countErrorMax: 0 }],
      mostRefused: [],
      unreachableShards: [],
    },
  ],
  oneLimitFigures: [
    [charge],
    200,
    {
      atMs: expect.any(Number),
      name: "api",
      ...granted,
      hottest: [{ key: "user:42", count: 1, countErrorMax: 0 }],
      mostRefused: [],
      unreachableShards: [],
    },
  ],
  shards: [[insertVisits], 200, { shards: [0, 1, 2, 3].map(shardOf) }],
  splitShard: [[insertVisits], 200, { shard: "0", newShard: "20000000", at: 2 ** 29 }],
  overviewNamespaces: [
    [],
    200,
    { atMs: expect.any(Number), namespaces: expect.any(Array), cursor: null },
  ],
  revokeTokens: [[], 204, null],
  listRevocations: [[], 200, { issuedBeforeMs: null, tokens: [] }],
  listNamespaces: [[], 200, { namespaces: expect.any(Array), cursor: null }],
  removeRecords: [
    [["PUT", "/v1/counters/session:1", { quota: 5, ttlMs: TTL_MS }], insertVisits],
    200,
    { removed: 1 },
  ],
  flush: [[insertVisits, setPage], 200, { removed: 2 }],
  setClockBack: [
    [insertVisits],
    200,
    { shards: [0, 1, 2, 3].map((index) => ({ index, setBackMs: 0 })) },
  ],
};

/** The body of a route's example; one that names the namespace names that of the caller. */
function bodyOf({ example }: Route, ns: string): unknown {
  const isConfirmed = example.body !== undefined && "namespace" in (example.body as object);
  return isConfirmed ? { ...(example.body as object), namespace: ns } : example.body;
}

async function send(call: Calling, route: Route, ns: string, more: object = {}): Promise<Got> {
  const body = bodyOf(route, ns);
  const json = body === undefined ? {} : { json: { ...body, ...more } };
  return await call(route.method, route.example.url, json);
}

/** Calls with a token of a new namespace, and routes about the deployment with a token for all. */
async function newcomer(
  claims: Parameters<typeof bearerOf>[0] = {},
): Promise<{ ns: string; call: Calling }> {
  const ns = freshNamespace();
  const call = calling(await bearerOf({ ns, ...claims }));
  const callDeployment = calling(await bearerOf({ ...claims, ns: "*" }));
  const callingFor = (method: string, url: string): Calling =>
    routeOf(method, url)?.reach === "deployment" ? callDeployment : call;
  return { ns, call: (method, url, sent) => callingFor(method, url)(method, url, sent) };
}

/** Calls the Worker as a deployment with other variables would be called. */
async function fetchWith(
  variables: Record<string, unknown>,
  path: string,
  init: RequestInit,
): Promise<Got> {
  const request = new Request(`http://localhost${path}`, init) as Parameters<
    typeof worker.fetch
  >[0];
  const changed = { ...env, ...variables } as Env;
  return await gotOf(await worker.fetch(request, changed, createExecutionContext()));
}

const idOf = ({ id }: Route): [string, Route] => [id, ROUTES.find((route) => route.id === id)!];
const withBody = ROUTES.filter(({ body }) => body !== undefined);
const writing = ROUTES.filter(
  ({ method, scopes }) => method !== "GET" && !scopes.every((scope) => scope === "read"),
);

describe("examples of routes", () => {
  it("the example of each route is in the table of answers, by its id", () => {
    expect(Object.keys(SUCCESSES).toSorted()).toEqual(ROUTES.map(({ id }) => id).toSorted());
  });

  it.each(ROUTES.map(idOf))("the example of %s is answered", async (id, route) => {
    const { ns, call } = await newcomer();
    const [before, status, json] = SUCCESSES[id]!;
    for (const [method, url, body] of before) {
      expect((await call(method, url, { json: body })).status).toBeLessThan(300);
    }
    const got = await send(call, route, ns);
    expect([got.status, got.json]).toEqual([status, json]);
  });
});

describe("without a record", () => {
  it.each(ROUTES.filter(({ errors }) => errors.includes("key_absent")).map(idOf))(
    "%s answers key_absent without a record",
    async (_, route) => {
      const { ns, call } = await newcomer();
      expectProblem(await send(call, route, ns), "key_absent");
    },
  );
});

describe("without a lease", () => {
  it.each(ROUTES.filter(({ errors }) => errors.includes("lease_absent")).map(idOf))(
    "%s answers lease_absent without a lease",
    async (_, route) => {
      const { ns, call } = await newcomer();
      await call("POST", "/v1/semaphores/cpu/leases", { json: acquireGpu[2] });
      expectProblem(await send(call, route, ns), "lease_absent");
    },
  );
});

describe("on a record of the other kind", () => {
  it.each(ROUTES.filter(({ errors }) => errors.includes("kind_mismatch")).map(idOf))(
    "%s answers kind_mismatch on a record of the other kind, and changes nothing",
    async (_, route) => {
      const { ns, call } = await newcomer();
      const isCounter = route.tag === "counters";
      const key = isCounter ? "visits" : route.tag === "limits" ? "api%3Auser%3A42" : "page";
      const [, , body] = isCounter ? setVisits : insertVisits;
      const url = `/v1/${isCounter ? "buffers" : "counters"}/${key}`;
      await call("PUT", url, { json: body });
      expectProblem(await send(call, route, ns), "kind_mismatch");
      const { json } = await call("GET", url);
      expect(json).toMatchObject(isCounter ? { value: "hello" } : { quota: "100" });
    },
  );
});

describe("unknown fields", () => {
  it.each(withBody.map(idOf))(
    "an unknown field in the body of %s is refused by name",
    async (_, route) => {
      const { ns, call } = await newcomer();
      const got = await send(call, route, ns, { typo: 1 });
      expectProblem(got, "body_invalid");
      expect(fieldsOf(got)).toEqual({ typo: "unknown field" });
    },
  );

  it.each(ROUTES.map(idOf))(
    "an unknown field in the query of %s is refused by name",
    async (_, route) => {
      const { ns, call } = await newcomer();
      const { method, example } = route;
      const url = `${example.url}${example.url.includes("?") ? "&" : "?"}typo=1`;
      const body = bodyOf(route, ns);
      const got = await call(method, url, body === undefined ? {} : { json: body });
      expectProblem(got, "query_invalid");
      expect(fieldsOf(got)).toEqual({ typo: "unknown field" });
    },
  );
});

describe("bodies", () => {
  it.each(withBody.map(idOf))("a body of %s that is not JSON is refused", async (_, route) => {
    const { call } = await newcomer();
    const { method, example } = route;
    for (const body of ["", "{", "[1,]", "hello", new Uint8Array([0x22, 0xff, 0x22])]) {
      expectProblem(await call(method, example.url, { body }), "json_invalid");
    }
  });

  it.each(withBody.map(idOf))("a body of %s that is not an object is refused", async (_, route) => {
    const { call } = await newcomer();
    const { method, example } = route;
    for (const json of [null, 1, "text", true, []]) {
      expectProblem(await call(method, example.url, { json }), "body_invalid");
    }
  });

  it.each(withBody.map(idOf))("a list as the body of %s is called a list", async (_, route) => {
    const { call } = await newcomer();
    const got = await call(route.method, route.example.url, { json: [] });
    expectProblem(got, "body_invalid");
    expect(fieldsOf(got)).toEqual({ "": "expected an object, got a list" });
  });

  it.each(withBody.map(idOf))("a body of %s needs its fields", async (_, route) => {
    const { call } = await newcomer();
    const got = await call(route.method, route.example.url, { json: {} });
    expectProblem(got, "body_invalid");
    expect(Object.values(fieldsOf(got)).join()).toMatch(/missing field|either \w+ or \w+/);
  });

  it.each(withBody.map(idOf))("a body of %s above BODY_BYTES_MAX is refused", async (_, route) => {
    const body = JSON.stringify({ typo: "x".repeat(1024) });
    const init = { method: route.method, body };
    expectProblem(
      await fetchWith({ BODY_BYTES_MAX: "1024" }, route.example.url, init),
      "body_too_large",
    );
  });
});

describe("tokens", () => {
  const needing = ROUTES.filter(({ scopes }) => scopes.length > 0);
  it.each(needing.map(idOf))("a token without the scope of %s is refused", async (_, route) => {
    const scopes = ALL_SCOPES.filter((scope) => scope !== route.scopes.at(-1));
    const { ns, call } = await newcomer({ scopes });
    const got = await send(call, route, ns);
    expectProblem(got, "scope_missing");
    expect(got.json.detail).toContain(route.scopes.join(" and "));
  });

  it.each(ROUTES.map(idOf))("a token with the scope of %s alone is enough", async (_, route) => {
    const { ns, call } = await newcomer({ scopes: [...route.scopes] });
    expect((await send(call, route, ns)).status).not.toBe(403);
  });

  it.each(ROUTES.filter(({ path }) => /\{(key|channel|name)\}/.test(path)).map(idOf))(
    "a token whose prefixes do not match the name in %s is refused",
    async (_, route) => {
      const prefixes = { keyPrefixes: ["other:"], channelPrefixes: ["other:"] };
      const { ns, call } = await newcomer(prefixes);
      expectProblem(await send(call, route, ns), "prefix_missing");
    },
  );

  it.each(ROUTES.map(idOf))("%s needs a token unless access is open", async (_, route) => {
    const body = route.example.body === undefined ? {} : { body: "{" };
    const init = { method: route.method, ...body };
    expectProblem(await fetchWith({ ACCESS: "token" }, route.example.url, init), "token_missing");
  });
});

describe("idempotency keys", () => {
  it.each(writing.filter(({ once }) => once === undefined).map(idOf))(
    "%s refuses an idempotency key, because it would be applied again",
    async (_, route) => {
      const { ns, call } = await newcomer();
      const body = bodyOf(route, ns);
      const got = await call(route.method, route.example.url, {
        ...(body === undefined ? {} : { json: body }),
        headers: { "idempotency-key": "a" },
      });
      expectProblem(got, "idempotency_key_invalid");
    },
  );

  it.each(writing.filter(({ once }) => once !== undefined).map(idOf))(
    "%s with an idempotency key is applied once, and answered the same again",
    async (id, route) => {
      const { ns, call } = await newcomer();
      const [before, status, json] = SUCCESSES[id]!;
      for (const [method, url, body] of before) await call(method, url, { json: body });
      const body = bodyOf(route, ns);
      const sent = {
        ...(body === undefined ? {} : { json: body }),
        headers: { "idempotency-key": '"a key"' },
      };
      const first = await call(route.method, route.example.url, sent);
      expect([first.status, first.json]).toEqual([status, json]);
      const second = await call(route.method, route.example.url, sent);
      expect([second.status, second.json]).toEqual([first.status, first.json]);
    },
  );
});

describe("methods", () => {
  it.each([...new Set(ROUTES.map(({ path }) => path))])(
    "%s answers an unknown method with the methods that it has",
    async (path) => {
      const { call } = await newcomer();
      const methods = ROUTES.filter((route) => route.path === path).map(({ method }) => method);
      const url = path.replace(/\{\w+\}/g, "x");
      const got = await call("PROPFIND", url);
      expectProblem(got, "method_not_allowed");
      expect(got.headers.get("allow")).toBe(methods.join(", "));
      expect(got.json.detail).toBe(`Allowed methods: ${methods.join(", ")}`);
    },
  );
});
