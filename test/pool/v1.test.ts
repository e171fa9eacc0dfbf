/** The JSON door in detail: numbers, bytes, what is applied once, limits, listings, removal, errors. */
import { reset } from "cloudflare:test";
import { exports } from "cloudflare:workers";
import { afterEach, describe, expect, it, vi } from "vitest";
import { Hub } from "../../src/objects/hub/hub.ts";
import { binaryBytes } from "../../src/wire/bytes.ts";
import { hex, MINUTES, subscribe, U16, U8 } from "../support/frames/index.ts";
import { openSocket, post } from "../support/pool/doors.ts";
import { breakJournal, meterOf, shardStub } from "../support/pool/shards.ts";
import { bearerOf, nowS, tokenOf } from "../support/pool/tokens.ts";
import {
  calling,
  expectProblem,
  fieldsOf,
  freshNamespace,
  gotOf,
  type Got,
} from "../support/pool/v1-calls.ts";
import { withSettings } from "../support/pool/variables.ts";

const server = exports.default as unknown as Fetcher;
const call = calling({});
const TTL_MS = 60_000;
const U64_MAX = "18446744073709551615";
const SAFE_MAX = Number.MAX_SAFE_INTEGER;
const RAW = { "content-type": "application/octet-stream" };

afterEach(async () => {
  await reset();
});

const insert = async (key: string, quota: unknown): Promise<Got> =>
  await call("PUT", `/v1/counters/${key}`, { json: { quota, ttlMs: TTL_MS } });
const quotaOf = async (key: string): Promise<unknown> =>
  (await call("GET", `/v1/counters/${key}`)).json.quota;
const set = async (key: string, value: unknown): Promise<Got> =>
  await call("PUT", `/v1/buffers/${key}`, { json: { value, ttlMs: TTL_MS } });
const valueOf = async (key: string): Promise<unknown> =>
  (await call("GET", `/v1/buffers/${key}`)).json.value;

/** JSON with numbers that JavaScript would round. */
async function sendText(method: string, url: string, body: string): Promise<Got> {
  return await call(method, url, { body });
}

describe("quotas", () => {
  it.each([U64_MAX, "9007199254740993", "0", "00000000000000000001"])(
    "a quota of %s is exact",
    async (quota) => {
      expect((await insert("a", quota)).status).toBe(201);
      expect(await quotaOf("a")).toBe(String(BigInt(quota)));
    },
  );

  it.each([0, 1, SAFE_MAX])("a quota of the number %d is exact", async (quota) => {
    expect((await insert("a", quota)).status).toBe(201);
    expect(await quotaOf("a")).toBe(String(quota));
  });

  it.each([
    "18446744073709551615",
    "9007199254740993",
    "9007199254740992",
    "1e300",
    "1e999",
    "1.5",
    "-1",
    '"18446744073709551616"',
    '"99999999999999999999"',
    '"100000000000000000000"',
    '"-1"',
    '"1.5"',
    '"0x10"',
    '""',
    '" 1"',
    "true",
    "null",
    "[1]",
  ])("a quota of %s in JSON is refused, not rounded", async (quota) => {
    const got = await sendText("PUT", "/v1/counters/a", `{"quota":${quota},"ttlMs":1000}`);
    expectProblem(got, "body_invalid");
    expect(Object.keys(fieldsOf(got))).toEqual(["quota"]);
    expect(fieldsOf(got).quota).toMatch(/^expected an integer from 0 to 2\^64 - 1, .*got /);
    expect(got.json.detail).toBe(`quota: ${fieldsOf(got).quota}`);
    expectProblem(await call("GET", "/v1/counters/a"), "key_absent");
  });

  it("a quota stops at both ends", async () => {
    await insert("a", U64_MAX);
    const more = { json: { amount: 1 } };
    expect((await call("POST", "/v1/counters/a/increase", more)).json).toMatchObject({
      applied: false,
      quota: U64_MAX,
    });
    const got = await call("POST", "/v1/counters/a/increment", { json: { ttlMs: TTL_MS } });
    expectProblem(got, "quota_overflow");
    const all = { json: { amount: U64_MAX } };
    expect((await call("POST", "/v1/counters/a/decrease", all)).json).toMatchObject({
      applied: true,
      quota: "0",
    });
    expect((await call("POST", "/v1/counters/a/decrease", more)).json).toMatchObject({
      applied: false,
      quota: "0",
    });
  });

  it("an increment creates a counter with its TTL, and keeps that TTL", async () => {
    const by = (amount: unknown, ttlMs: number) => ({ json: { by: amount, ttlMs } });
    const first = await call("POST", "/v1/counters/a/increment", by(U64_MAX, TTL_MS));
    expect(first.json).toEqual({ quota: U64_MAX });
    await call("PATCH", "/v1/counters/a", { json: { quota: 5 } });
    expect((await call("POST", "/v1/counters/a/increment", by(2, 1))).json).toEqual({ quota: "7" });
    const { json } = await call("GET", "/v1/counters/a");
    expect(json.ttlMs).toBeGreaterThan(TTL_MS / 2);
    expect(Math.abs((json.expiresAtMs as number) - Date.now() - TTL_MS)).toBeLessThan(TTL_MS / 2);
  });

  it("an insert leaves an existing counter as it is", async () => {
    await insert("a", 1);
    expectProblem(await insert("a", 2), "exists");
    expect(await quotaOf("a")).toBe("1");
    await set("b", "text");
    expectProblem(await insert("b", 2), "exists");
    expect(await valueOf("b")).toBe("text");
  });
});

describe("TTLs", () => {
  it.each([-1, 1.5, 2 ** 53, "1000", null, true])("a TTL of %j is refused", async (ttlMs) => {
    const got = await call("PUT", "/v1/counters/a", { json: { quota: 1, ttlMs } });
    expectProblem(got, "body_invalid");
    expect(fieldsOf(got)).toEqual({
      ttlMs: expect.stringMatching(`expected an integer from 1 to ${SAFE_MAX}, got`) as string,
    });
  });

  it("a TTL is set, extended and shortened until the record expires", async () => {
    await insert("a", 1);
    const change = async (ttlMs: number, how?: string): Promise<Got> =>
      await call("POST", "/v1/counters/a/ttl", {
        json: { ttlMs, ...(how === undefined ? {} : { change: how }) },
      });
    expect((await change(3_600_000)).json.ttlMs).toBe(3_600_000);
    expect((await change(3_600_000, "increase")).json.ttlMs).toBeGreaterThan(7_000_000);
    const { ttlMs } = (await change(7_000_000, "decrease")).json as { ttlMs: number };
    expect(ttlMs).toBeLessThanOrEqual(200_000);
    expectProblem(await change(7_000_000, "decrease"), "key_absent");
    expectProblem(await call("GET", "/v1/counters/a"), "key_absent");
  });

  it("a TTL is not changed in an unknown way", async () => {
    const got = await call("POST", "/v1/buffers/a/ttl", { json: { ttlMs: 1, change: "set" } });
    expectProblem(got, "body_invalid");
    expect(fieldsOf(got)).toEqual({
      change: 'expected one of patch, increase, decrease, got "set"',
    });
  });
});

describe("keys", () => {
  it.each([
    ["a%2Fb", "a/b"],
    ["%25", "%"],
    ["a+b", "a+b"],
    ["a%20b", "a b"],
    ["user:1", "user:1"],
    ["%E2%82%AC", "€"],
    ["€", "€"],
    ["%3F%23", "?#"],
    ["%0A", "\n"],
    ["increment", "increment"],
  ])("the key %s in a URL is %j", async (escaped, key) => {
    await insert(escaped, 1);
    const { json } = await call("GET", "/v1/records");
    expect(json.records).toEqual([
      { key, kind: "counter", quota: "1", expiresAtMs: expect.any(Number) },
    ]);
    await call("POST", `/v1/counters/${escaped}/increase`, { json: { amount: 1 } });
    expect(await quotaOf(escaped)).toBe("2");
    expect((await call("DELETE", `/v1/counters/${escaped}`)).status).toBe(204);
  });

  it("a key may be any bytes", async () => {
    await insert("%FF%00", 1);
    const { json } = await call("GET", "/v1/records");
    expect(json.records).toEqual([
      { keyBase64: btoa("\xff\0"), kind: "counter", quota: "1", expiresAtMs: expect.any(Number) },
    ]);
    expect(await quotaOf("%ff%00")).toBe("1");
    const frame = U8.query("\xff\0");
    const reply = new Uint8Array(await (await post("7.3", "uint8", frame)).arrayBuffer());
    expect(hex(reply).slice(0, 4)).toBe("0101");
  });

  it.each(["%", "%4", "%zz", "a%GGb"])(
    "the key %s has a broken escape and is refused",
    async (key) => {
      expectProblem(await call("GET", `/v1/counters/${key}`), "key_invalid");
      expectProblem(
        await call("POST", `/v1/channels/${key}`, { json: { payload: "" } }),
        "channel_invalid",
      );
      expectProblem(await call("DELETE", `/v1/limits/${key}/a?strategy=gcra`), "name_invalid");
    },
  );

  it("a key has 255 bytes at most", async () => {
    expect((await insert("%FF".repeat(255), 1)).status).toBe(201);
    const got = await call("GET", `/v1/counters/${"x".repeat(256)}`);
    expectProblem(got, "key_invalid");
    expect(got.json.detail).toContain("256 bytes, but may have at most 255");
  });

  it.each(["/v1/counters/", "/v1/counters/%2e%2e", "/v1/records/", "/v1/nothing", "/v1"])(
    "a key is not part of %s, which is not a route",
    async (url) => {
      expectProblem(await call("DELETE", url), "not_found");
    },
  );
});

describe("values", () => {
  it.each(["", "text", "€ \0 \u{1F600}", "\uFEFFwith a mark", "a\r\nb", '"quoted" \\'])(
    "the value %j is returned as it was set",
    async (value) => {
      expect((await set("a", value)).status).toBe(204);
      const { json } = await call("GET", "/v1/buffers/a");
      expect(json).toEqual({
        value,
        ttlMs: expect.any(Number),
        expiresAtMs: expect.any(Number),
      });
    },
  );

  it("a value that is not text goes both ways in base64", async () => {
    const valueBase64 = btoa("\xff\xfe\0");
    await call("PUT", "/v1/buffers/a", { json: { valueBase64, ttlMs: TTL_MS } });
    const { json } = await call("GET", "/v1/buffers/a");
    expect([json.value, json.valueBase64]).toEqual([undefined, valueBase64]);
    await call("PUT", "/v1/buffers/a", { json: { valueBase64: btoa("text"), ttlMs: TTL_MS } });
    expect(await valueOf("a")).toBe("text");
  });

  it("a raw value goes both ways as it is", async () => {
    const body = Uint8Array.from({ length: 100_000 }, (_, i) => i);
    const sent = { body, headers: RAW };
    expect((await call("PUT", "/v1/buffers/a?ttlMs=60000", sent)).status).toBe(204);
    const got = await call("GET", "/v1/buffers/a", {
      headers: { accept: "application/octet-stream" },
    });
    expect(got.headers.get("content-type")).toBe("application/octet-stream");
    expect(hex(got.bytes) === hex(body)).toBe(true);
    const inJson = await call("GET", "/v1/buffers/a", {
      headers: { accept: "application/json, application/octet-stream" },
    });
    expect(atob(inJson.json.valueBase64 as string).length).toBe(100_000);
  });

  it.each([
    ["", "missing field"],
    ["?ttlMs=", ', got ""'],
    ["?ttlMs=-1", ', got "-1"'],
    ["?ttlMs=1.5", ', got "1.5"'],
    ["?ttlMs=1e3", ', got "1e3"'],
    ["?ttlMs=9007199254740992", ", got"],
    ["?ttlMs=1&ttlMs=2", "the parameter was given twice"],
    ["?ttlMs=%", "a % must be followed by two hexadecimal digits"],
  ])("a raw value needs a TTL in the query: %j", async (query, message) => {
    const got = await call("PUT", `/v1/buffers/a${query}`, { body: "x", headers: RAW });
    expectProblem(got, "query_invalid");
    expect(fieldsOf(got).ttlMs).toContain(message);
  });

  it("a value in JSON has its TTL there, not in the query", async () => {
    const json = { value: "x", ttlMs: 1 };
    expectProblem(await call("PUT", "/v1/buffers/a?ttlMs=1", { json }), "query_invalid");
  });

  it.each([
    [{}, { value: "expected either value or valueBase64" }],
    [{ value: "a", valueBase64: "YQ==" }, { value: "expected either value or valueBase64" }],
    [{ value: 1 }, { value: expect.stringMatching(/^expected well-formed text; .*, got 1$/) }],
    [{ value: "\ud800" }, { value: expect.stringMatching(/^expected well-formed text/) }],
    [{ valueBase64: "*" }, { valueBase64: 'expected base64, got "*"' }],
    [{ valueBase64: "YQ=" }, { valueBase64: expect.stringMatching(/^expected base64/) }],
  ])("the value %j is refused", async (value, fields) => {
    const got = await call("PUT", "/v1/buffers/a", { json: { ...value, ttlMs: TTL_MS } });
    expectProblem(got, "body_invalid");
    expect(fieldsOf(got)).toEqual(fields);
  });

  it("a value too large for a frame is refused", async () => {
    expectProblem(await set("a", "x".repeat(1 << 20)), "frame_too_large");
    expectProblem(await set("a", "x".repeat(1_800_001)), "value_invalid");
    const valueBase64 = btoa("x".repeat(1_000_000));
    const sent = { json: { valueBase64, ttlMs: TTL_MS } };
    expect((await call("PUT", "/v1/buffers/a", sent)).status).toBe(204);
    expect(await valueOf("a")).toBe("x".repeat(1_000_000));
  });

  it("a value is set whatever the buffer held", async () => {
    await set("a", "one");
    await set("a", "two");
    expect(await valueOf("a")).toBe("two");
  });
});

describe("compare-and-set", () => {
  const compareAndSet = async (json: object): Promise<Got> =>
    await call("POST", "/v1/buffers/a/compare-and-set", { json });

  it("compare-and-set creates an absent value, replaces the expected one, and removes it", async () => {
    const ttlMs = TTL_MS;
    const first = await compareAndSet({ expected: null, value: "one", ttlMs });
    expect(first.json).toEqual({ applied: true });
    const again = await compareAndSet({ expected: null, value: "two", ttlMs });
    expect(again.json).toEqual({ applied: false, current: "one" });
    const bytes = { expected: "one", valueBase64: btoa("\xff"), ttlMs };
    expect((await compareAndSet(bytes)).json).toEqual({ applied: true });
    expect((await compareAndSet(bytes)).json).toEqual({
      applied: false,
      currentBase64: btoa("\xff"),
    });
    const removal = { expectedBase64: btoa("\xff"), value: null };
    expect((await compareAndSet(removal)).json).toEqual({ applied: true });
    expect((await compareAndSet(removal)).json).toEqual({ applied: false, current: null });
    expect((await compareAndSet({ expected: null, value: null })).json).toEqual({ applied: true });
  });

  it.each([
    [{ value: "a", ttlMs: 1 }, "expected", "expected either expected or expectedBase64"],
    [{ expected: null, ttlMs: 1 }, "value", "expected either value or valueBase64"],
    [{ expected: "a", value: "b" }, "ttlMs", "expected a TTL, unless value is null"],
    [{ expected: "a", valueBase64: "YQ==" }, "ttlMs", "expected a TTL, unless value is null"],
  ])("compare-and-set refuses %j", async (json, field, message) => {
    const got = await compareAndSet(json);
    expectProblem(got, "body_invalid");
    expect(fieldsOf(got)).toEqual({ [field]: message });
  });
});

describe("idempotency keys", () => {
  const increase = async (key: string, amount: number, path = "a"): Promise<Got> =>
    await call("POST", `/v1/counters/${path}/increase`, {
      json: { amount },
      headers: { "idempotency-key": key },
    });

  it("an idempotency key in quotes is the same as without, and may have escapes in them", async () => {
    await insert("a", 0);
    expect((await increase("one-key", 1)).json.quota).toBe("1");
    expect((await increase('"one-key"', 1)).json.quota).toBe("1");
    expect((await increase('"with \\"quotes\\" and \\\\"', 1)).json.quota).toBe("2");
    expect((await increase('"with \\"quotes\\" and \\\\"', 1)).json.quota).toBe("2");
    expect((await increase("two-key", 1)).json.quota).toBe("3");
  });

  it("an idempotency key belongs to its record", async () => {
    await insert("a", 0);
    await insert("b", 0);
    expect((await increase("one-key", 1)).json.quota).toBe("1");
    expect((await increase("one-key", 1, "b")).json.quota).toBe("1");
  });

  it("the idempotency key of another call is refused", async () => {
    await insert("a", 0);
    await increase("one-key", 1);
    expectProblem(await increase("one-key", 2), "idempotency_conflict");
    const headers = { "idempotency-key": "one-key" };
    expectProblem(await call("DELETE", "/v1/counters/a", { headers }), "idempotency_conflict");
    expect(await quotaOf("a")).toBe("1");
  });

  it.each([
    "",
    " ",
    '""',
    '"a',
    'a"b',
    "a b",
    "a, b",
    "x".repeat(65),
    `"${"x".repeat(65)}"`,
    "\xe4",
  ])("the idempotency key %j is refused", async (key) => {
    await insert("a", 0);
    const got = await increase(key, 1);
    expectProblem(got, "idempotency_key_invalid");
    expect(got.json.detail).toContain("1 to 64 ASCII characters");
    expect(await quotaOf("a")).toBe("0");
  });

  it("an idempotency key may have 64 bytes", async () => {
    await insert("a", 0);
    expect((await increase("x".repeat(64), 1)).status).toBe(200);
  });

  it("an idempotency key does not matter to a read", async () => {
    await insert("a", 0);
    const headers = { "idempotency-key": "x".repeat(65) };
    expect((await call("GET", "/v1/counters/a", { headers })).status).toBe(200);
  });

  it("a call with an idempotency key and a long answer changes nothing, and is answered anew", async () => {
    await set("a", "x".repeat(70_000));
    const sent = {
      json: { expected: null, value: null },
      headers: { "idempotency-key": "one-key" },
    };
    const url = "/v1/buffers/a/compare-and-set";
    expect((await call("POST", url, sent)).json.applied).toBe(false);
    expect((await call("POST", url, sent)).json.applied).toBe(false);
  });
});

describe("limits", () => {
  const bucket = { strategy: "token_bucket", burst: 2, rate: 0.001 };
  const windows = (count: number) => ({
    strategy: "fixed_window",
    quotas: Array.from({ length: count }, (_, i) => ({
      name: `q${i}`,
      limit: i + 1,
      windowMs: 60_000,
    })),
  });
  const composite = { strategy: "composite", primary: windows(1), secondary: bucket };
  const limit = async (json: object, path = "api/user:1"): Promise<Got> =>
    await call("POST", `/v1/limits/${path}`, { json });

  it.each([
    [bucket, ["default"]],
    [{ ...bucket, strategy: "leaky_bucket" }, ["default"]],
    [{ ...bucket, strategy: "gcra" }, ["default"]],
    [windows(8), Array.from({ length: 8 }, (_, i) => `q${i}`)],
    [{ strategy: "sliding_window", limit: 2, windowMs: 60_000.5 }, ["default"]],
    [composite, ["primary_q0", "secondary_default"]],
  ])("a limit of %j names its quotas", async (strategy, names) => {
    const { json } = await limit({ strategy });
    expect(json.success).toBe(true);
    expect(Object.keys(json.quotas as object)).toEqual(names);
  });

  it("a refusal of a limit is a 200 that says when to come again", async () => {
    expect((await limit({ strategy: bucket, cost: 2 })).json.remaining).toBe(0);
    const { json } = await limit({ strategy: bucket });
    expect(json).toMatchObject({ success: false, remaining: 0 });
    expect(json.retryAfterMs).toBeGreaterThan(900_000);
    expect(json.retryAfterMs).toBeLessThanOrEqual(1_000_000);
  });

  it("a limit says when a cost can never pass", async () => {
    const { json } = await limit({ strategy: bucket, cost: 3 });
    expect(json).toMatchObject({
      success: false,
      reason: "cost_exceeds_limit",
      reset: null,
      retryAfterMs: null,
    });
  });

  it("a limit is reset where its strategy has its state", async () => {
    const url = "/v1/limits/api/user:1";
    await limit({ strategy: composite });
    expectProblem(await call("DELETE", `${url}?strategy=token_bucket`), "key_absent");
    expectProblem(await call("DELETE", `${url}?strategy=none`), "query_invalid");
    expectProblem(await call("DELETE", url), "query_invalid");
    expect((await call("DELETE", `${url}?strategy=composite`)).status).toBe(204);
    expectProblem(await call("DELETE", `${url}?strategy=composite`), "key_absent");
  });

  it.each([
    [{}, { strategy: "missing field" }],
    [{ strategy: "gcra" }, { strategy: 'expected an object with a field strategy, got "gcra"' }],
    [{ strategy: null }, { strategy: "expected an object with a field strategy, got null" }],
    [
      { strategy: {} },
      {
        "strategy.strategy": expect.stringMatching(
          /^expected one of token_bucket, .*, got nothing$/,
        ),
      },
    ],
    [
      { strategy: { ...bucket, strategy: "magic" } },
      { "strategy.strategy": expect.stringMatching(/got "magic"$/) },
    ],
    [
      { strategy: { ...bucket, burst: 0 } },
      { "strategy.burst": `expected an integer from 1 to ${SAFE_MAX}, got 0` },
    ],
    [{ strategy: { ...bucket, rate: 0 } }, { "strategy.rate": "expected a number above 0, got 0" }],
    [
      { strategy: { ...bucket, strategy: "gcra", rate: 1e10 } },
      { "strategy.rate": "expected a number above 0, at most 1000000000, got 10000000000" },
    ],
    [{ strategy: { ...bucket, limit: 1 } }, { "strategy.limit": "unknown field" }],
    [{ strategy: windows(0) }, { "strategy.quotas": "expected 1 to 8 quotas, got a list" }],
    [{ strategy: windows(9) }, { "strategy.quotas": "expected 1 to 8 quotas, got a list" }],
    [
      { strategy: { ...composite, secondary: windows(1) } },
      {
        "strategy.secondary.strategy": expect.stringMatching(
          /^expected one of token_bucket, leaky_bucket/,
        ),
      },
    ],
    [
      { strategy: { ...composite, primary: bucket } },
      expect.objectContaining({
        "strategy.primary.strategy": 'expected fixed_window, got "token_bucket"',
      }),
    ],
    [
      { strategy: { strategy: "fixed_window", quotas: [{ name: "a b", limit: 1, windowMs: 0 }] } },
      {
        "strategy.quotas[0].name":
          'expected 1 to 64 characters of A-Z a-z 0-9 _ - : . @ +, got "a b"',
        "strategy.quotas[0].windowMs": expect.stringMatching(
          /^expected a number above 0, at most .* got 0$/,
        ),
      },
    ],
    [{ strategy: bucket, cost: 0 }, { cost: `expected an integer from 1 to ${SAFE_MAX}, got 0` }],
  ])("a limit of %j is refused by its field", async (json, fields) => {
    const got = await limit(json);
    expectProblem(got, "body_invalid");
    expect(fieldsOf(got)).toEqual(fields);
  });

  it("a number that fails several checks of its range is one error, said once", async () => {
    const got = await limit({ strategy: bucket, cost: 1e300 });
    const message = `expected an integer from 1 to ${SAFE_MAX}, got 1e+300`;
    expect(got.json["errors"]).toEqual([{ field: "cost", message }]);
    expect(got.json["detail"]).toBe(`cost: ${message}`);
  });

  it("the name of a limit with other characters is refused as name", async () => {
    const got = await call("POST", "/v1/limits/a%20b/c", { json: { strategy: bucket } });
    expectProblem(got, "base_key_invalid");
    expect(got.json["detail"]).toMatch(/^name: expected 1 to 64 characters/);
  });

  it("a limit whose rate JSON cannot express is refused", async () => {
    const body = '{"strategy":{"strategy":"gcra","burst":1,"rate":1e999}}';
    expectProblem(await call("POST", "/v1/limits/a/b", { body }), "body_invalid");
  });

  it.each([
    ["quota_ratio_taken", [1, 60_000], [2, 120_000]],
    ["quota_name_taken", [1, 60_000, "a"], [5, 60_000, "a"]],
    // Above 0, but less than half a nanosecond.
    ["window_invalid", [1, 1e-7]],
  ] as const)("the invalid limit %s is refused with its code", async (code, ...quotas) => {
    const named = quotas.map(([limit, windowMs, name], i) => ({
      name: name ?? `q${i}`,
      limit,
      windowMs,
    }));
    expectProblem(await limit({ strategy: { strategy: "fixed_window", quotas: named } }), code);
  });

  it("costs whose sum is out of range are refused together with their code", async () => {
    const request = { name: "api", key: "user:1", strategy: bucket, cost: SAFE_MAX };
    const got = await call("POST", "/v1/limit-all", { json: { requests: [request, request] } });
    expectProblem(got, "cost_invalid");
  });

  it("names of limits have few characters", async () => {
    expectProblem(await limit({ strategy: bucket }, "a%20b/c"), "base_key_invalid");
    expectProblem(await limit({ strategy: bucket }, "a/%C3%A4"), "key_invalid");
    expectProblem(await limit({ strategy: bucket }, `a/${"x".repeat(65)}`), "key_invalid");
    expect((await limit({ strategy: bucket }, "a/b%2Bc%40d")).status).toBe(200);
  });

  it("a limit over a foreign state is an error", async () => {
    await set("api:user:1", "garbage");
    expectProblem(await limit({ strategy: bucket }), "state_invalid");
    expect(await valueOf("api:user:1")).toBe("garbage");
  });
});

describe("many limits", () => {
  const strategy = { strategy: "token_bucket", burst: 2, rate: 0.001 };
  const request = (key: string, more: object = {}) => ({ name: "api", key, strategy, ...more });
  const limitMany = async (requests: unknown, headers = {}, by = call): Promise<Got> =>
    await by("POST", "/v1/limits", { json: { requests }, headers });

  it("many limits are answered in their order, errors included", async () => {
    await insert("api:counter", 1);
    const ratios = {
      strategy: "fixed_window",
      quotas: [
        { name: "a", limit: 1, windowMs: 1 },
        { name: "b", limit: 2, windowMs: 2 },
      ],
    };
    const { json } = await limitMany([
      request("a"),
      request("counter"),
      request("a"),
      request("b", { strategy: ratios }),
      request("a"),
    ]);
    expect(json.results).toMatchObject([
      { result: { success: true, remaining: 1 } },
      { error: { code: "kind_mismatch", detail: "the record under the key is a counter" } },
      { result: { success: true, remaining: 0 } },
      { error: { code: "quota_ratio_taken" } },
      { result: { success: false } },
    ]);
  });

  it("forbidden ones of many limits are refused one by one", async () => {
    const by = calling(await bearerOf({ ns: freshNamespace(), keyPrefixes: ["api:a"] }));
    const { json } = await limitMany([request("a"), request("b")], {}, by);
    expect(json.results).toMatchObject([
      { result: { success: true } },
      { error: { code: "prefix_missing" } },
    ]);
  });

  it("a thousand limits are one row to each shard", async () => {
    const ns = freshNamespace();
    const by = calling(await bearerOf({ ns }));
    await limitMany(
      Array.from({ length: 100 }, (_, i) => request(`warm-${i}`)),
      {},
      by,
    );
    const meters = await Promise.all([0, 1, 2, 3].map((i) => meterOf(shardStub(i, ns))));
    const requests = Array.from({ length: 1000 }, (_, i) => request(`key-${i}`));
    const { json } = await limitMany(requests, {}, by);
    expect((json.results as { result: object }[]).every(({ result }) => result)).toBe(true);
    expect(meters.map(({ rows }) => rows)).toEqual([1, 1, 1, 1]);
  });

  it.each([0, 1001])("a message of %d limits is refused", async (count) => {
    const got = await limitMany(Array.from({ length: count }, () => request("a")));
    expectProblem(got, "body_invalid");
    expect(fieldsOf(got)).toEqual({ requests: "expected 1 to 1000 requests, got a list" });
  });

  it("an invalid request of many limits is named", async () => {
    const got = await limitMany([request("a"), request("b", { cost: -1 }), request("ä"), 5]);
    expectProblem(got, "body_invalid");
    expect(Object.keys(fieldsOf(got))).toEqual([
      "requests[1].cost",
      "requests[2].key",
      "requests[3]",
    ]);
    expect(fieldsOf(got)["requests[3]"]).toBe("expected an object, got 5");
  });

  it("the named errors of many limits are bounded", async () => {
    const got = await limitMany(Array.from({ length: 1000 }, () => ({})));
    expectProblem(got, "body_invalid");
    expect((got.json.errors as unknown[]).length).toBe(20);
  });

  it("many limits with an idempotency key are applied once, though some are the same", async () => {
    const requests = [request("a"), request("a"), request("a")];
    const headers = { "idempotency-key": "x".repeat(60) };
    const first = await limitMany(requests, headers);
    expect(first.json.results).toMatchObject([
      { result: { remaining: 1 } },
      { result: { remaining: 0 } },
      { result: { success: false } },
    ]);
    expect((await limitMany(requests, headers)).json).toEqual(first.json);
    const { json } = await limitMany([request("b")], headers);
    expect(json.results).toMatchObject([{ result: { success: true } }]);
    const longer = { "idempotency-key": "x".repeat(61) };
    expectProblem(await limitMany(requests, longer), "idempotency_key_invalid");
  });
});

describe("channels", () => {
  const open = async (ns: string, ...names: string[]) => {
    const door = await openSocket("/throttr/7.3/uint16", await bearerOf({ ns }));
    for (const name of names) {
      expect(hex(await door.exchange(subscribe(new TextEncoder().encode(name)), 1))).toBe("01");
    }
    return door;
  };

  it("channels carry text and bytes to their subscribers", async () => {
    const ns = freshNamespace();
    const by = calling(await bearerOf({ ns }));
    const door = await open(ns, "a/b");
    const publish = async (json: object): Promise<Got> =>
      await by("POST", "/v1/channels/a%2Fb", { json });
    expect((await publish({ payload: "€" })).json).toEqual({ delivered: 1, sequence: null });
    expect(hex(await door.inbox.take(10))).toBe(hex(U16.push("a/b", "\xe2\x82\xac")));
    await publish({ payloadBase64: btoa("\xff") });
    expect(hex(await door.inbox.take(8))).toBe(hex(U16.push("a/b", "\xff")));
    expectProblem(await publish({}), "body_invalid");
    expectProblem(await publish({ payload: "a", payloadBase64: "" }), "body_invalid");
    await door.close();
  });

  it("channels refuse a message above FRAME_BYTES_MAX", async () => {
    const sent = { json: { payload: "x".repeat((1 << 20) + 1) } };
    expectProblem(await call("POST", "/v1/channels/a", sent), "frame_too_large");
  });

  it("channels are listed in pages, in the order of their names", async () => {
    const ns = freshNamespace();
    const by = calling(await bearerOf({ ns }));
    // So long that the rows of a page come in several fragments.
    const nameOf = (i: number): string => `room:${String(i).padStart(2, "0")}${"x".repeat(200)}`;
    const names = Array.from({ length: 25 }, (_, i) => nameOf(i));
    const doors = [await open(ns, ...names, "other"), await open(ns, names[0]!)];
    const publish = U16.publish(names[0]!, "1234");
    expect((await doors[1]!.exchange(publish, publish.length + 1)).at(-1)).toBe(1);
    const asked = vi.spyOn(Hub.prototype, "channelsPage");
    const seen: Record<string, unknown>[] = [];
    let cursor: unknown = "";
    for (let pages = 0; cursor !== null; pages++) {
      const query = cursor === "" ? "" : `&cursor=${cursor as string}`;
      const { json } = await by("GET", `/v1/channels?prefix=room:&limit=10${query}`);
      // Names without the prefix are not sent: of 24 MiB and more there would be no answer.
      expect(asked.mock.lastCall?.[2]).toEqual([binaryBytes("room:")]);
      seen.push(...(json.channels as Record<string, unknown>[]));
      cursor = json.cursor;
      expect(pages).toBeLessThan(3);
    }
    asked.mockRestore();
    expect(seen.map(({ channel }) => channel)).toEqual(names);
    expect(seen[0]).toEqual({
      channel: names[0],
      publishedBytes: 4,
      deliveredBytes: 8,
      subscriptions: 2,
    });
    const { json } = await by("GET", "/v1/channels");
    const listed = json.channels as Record<string, unknown>[];
    expect(listed.map(({ channel }) => channel)).toEqual(
      expect.arrayContaining(["*", "other", ...names]),
    );
    for (const door of doors) await door.close();
  });
});

describe("records", () => {
  it("records are listed in pages, in the order of their keys", async () => {
    for (let i = 0; i < 12; i++) await insert(`k%FF${i < 10 ? "0" : ""}${i}`, i);
    await set("k", "value");
    await insert("other", 1);
    const seen: Record<string, unknown>[] = [];
    let cursor: unknown = "";
    while (cursor !== null) {
      const query = cursor === "" ? "" : `&cursor=${cursor as string}`;
      const { json } = await call("GET", `/v1/records?prefix=k&limit=5${query}`);
      expect((json.records as unknown[]).length).toBeLessThanOrEqual(5);
      seen.push(...(json.records as Record<string, unknown>[]));
      cursor = json.cursor;
    }
    expect(seen[0]).toEqual({
      key: "k",
      kind: "buffer",
      bytes: 5,
      expiresAtMs: expect.any(Number),
    });
    expect(seen.slice(1).map(({ quota }) => quota)).toEqual(
      Array.from({ length: 12 }, (_, i) => String(i)),
    );
    expect(atob(seen[1]!.keyBase64 as string)).toBe("k\xff00");
  });

  it.each([
    ["PUT", "/v1/counters/a", { quota: 1, ttlMs: 0 }],
    ["POST", "/v1/counters/a/increment", { ttlMs: 0 }],
    ["PUT", "/v1/buffers/a", { value: "text", ttlMs: 0 }],
    ["POST", "/v1/buffers/a/compare-and-set", { expected: null, value: "text", ttlMs: 0 }],
  ])(
    "%s %s with a TTL of 0 is refused, because the record would expire at once",
    async (method, url, json) => {
      const got = await call(method, url, { json });
      expectProblem(got, "body_invalid");
      expect(fieldsOf(got)).toEqual({
        ttlMs: `expected an integer from 1 to ${Number.MAX_SAFE_INTEGER}, got 0`,
      });
    },
  );

  it("a record whose TTL is patched to 0 expires at once", async () => {
    await insert("a", 1);
    expectProblem(await call("POST", "/v1/counters/a/ttl", { json: { ttlMs: 0 } }), "key_absent");
    expectProblem(await call("GET", "/v1/counters/a"), "key_absent");
  });

  it.each(["", ".", "..", "-", "a/b"])(
    "a record of the key %j, which a path cannot have, is named in the query behind - in its place",
    async (key) => {
      const url = `/v1/counters/-?key=${encodeURIComponent(key)}`;
      const json = { quota: 7, ttlMs: TTL_MS };
      expect((await call("PUT", url, { json })).status).toBe(201);
      expect((await call("GET", url)).json).toMatchObject({ quota: "7" });
      const increment = url.replace("?", "/increment?");
      expect((await call("POST", increment, { json: { ttlMs: TTL_MS } })).json.quota).toBe("8");
      const raw = { headers: { "content-type": "application/octet-stream" }, body: "text" };
      await call("DELETE", url);
      const buffer = `${url.replace("counters", "buffers")}&ttlMs=60000`;
      expect((await call("PUT", buffer, raw)).status).toBe(204);
      const { records } = (await call("GET", "/v1/records")).json;
      expect(records).toMatchObject([{ key, kind: "buffer" }]);
    },
  );

  it("a name is in the query only where the path leaves it out, and as short as in a path", async () => {
    const twice = await call("GET", "/v1/counters/a?key=b");
    expectProblem(twice, "query_invalid");
    expect(Object.keys(fieldsOf(twice))).toEqual(["key"]);
    expectProblem(await call("GET", "/v1/counters/-?name=b"), "query_invalid");
    expectProblem(await call("GET", `/v1/counters/-?key=${"a".repeat(256)}`), "key_invalid");
    const { json } = await call("GET", "/v1/semaphores/-?name=..");
    expect(json).toMatchObject({ code: "semaphore_absent" });
  });

  it("records are listed behind the empty key", async () => {
    await post("7.3", "uint8", U8.insert("", 7, MINUTES, 100n));
    await insert("a", 1);
    const first = await call("GET", "/v1/records?limit=1");
    expect(first.json).toMatchObject({ records: [{ key: "", quota: "7" }], cursor: "" });
    const second = await call("GET", "/v1/records?limit=1&cursor=");
    expect(second.json).toMatchObject({ records: [{ key: "a" }], cursor: null });
  });

  it("records are listed by a prefix of any bytes", async () => {
    await insert("%FFa", 1);
    await insert("%FEa", 2);
    await insert("a%20b", 3);
    const listed = async (prefix: string): Promise<unknown[]> =>
      ((await call("GET", `/v1/records?prefix=${prefix}`)).json.records as { quota: string }[]).map(
        ({ quota }) => quota,
      );
    expect(await listed("%FF")).toEqual(["1"]);
    expect(await listed("a+")).toEqual(["3"]);
    expect(await listed("a%20")).toEqual(["3"]);
    expect(await listed("")).toEqual(["3", "2", "1"]);
  });

  it.each([
    ["limit=0", "limit", 'expected an integer from 1 to 1000, got "0"'],
    ["limit=1001", "limit", 'expected an integer from 1 to 1000, got "1001"'],
    ["limit=ten", "limit", 'expected an integer from 1 to 1000, got "ten"'],
    ["cursor=*", "cursor", 'expected the cursor of a page, got "*"'],
    [`cursor=${"a".repeat(1400)}`, "cursor", "expected the cursor of a page, got"],
    [`prefix=${"a".repeat(256)}`, "prefix", "expected 0 to 255 bytes, got"],
  ])("records are not listed by %s", async (query, field, message) => {
    for (const path of ["/v1/records", "/v1/channels"]) {
      const got = await call("GET", `${path}?${query}`);
      expectProblem(got, "query_invalid");
      expect(fieldsOf(got)[field]).toContain(message);
    }
  });

  it("records are not listed by a cursor that the server has not given", async () => {
    const got = await call("GET", `/v1/records?cursor=${"a".repeat(350)}`);
    expectProblem(got, "after_invalid");
  });

  it("a token lists and removes only records of its prefixes", async () => {
    const ns = freshNamespace();
    const all = calling(await bearerOf({ ns }));
    const some = calling(await bearerOf({ ns, keyPrefixes: ["mine:"] }));
    for (const key of ["mine:1", "mine:2", "theirs:1"]) {
      await all("PUT", `/v1/counters/${key}`, { json: { quota: 1, ttlMs: TTL_MS } });
    }
    expect((await some("GET", "/v1/records")).json.records).toHaveLength(2);
    expect((await some("DELETE", "/v1/records?prefix=theirs:")).json).toEqual({ removed: 0 });
    expect((await some("POST", "/v1/admin/flush", { json: { namespace: ns } })).json).toEqual({
      removed: 2,
    });
    expect((await all("GET", "/v1/records")).json.records).toHaveLength(1);
  });

  it("records are not removed without a prefix", async () => {
    await insert("a", 1);
    expectProblem(await call("DELETE", "/v1/records"), "query_invalid");
    const got = await call("DELETE", "/v1/records?prefix=");
    expectProblem(got, "query_invalid");
    expect(fieldsOf(got)).toEqual({ prefix: 'expected 1 to 255 bytes, got ""' });
    expect(await quotaOf("a")).toBe("1");
  });

  it("records of another namespace than the caller's are not removed, and the refusal names both", async () => {
    await insert("a", 1);
    for (const namespace of ["other", "", "DEFAULT"]) {
      const got = await call("POST", "/v1/admin/flush", { json: { namespace } });
      expectProblem(got, "namespace_mismatch");
      expect(got.json.detail).toBe(
        `namespace: expected default, the caller's, got "${namespace}"; nothing was changed`,
      );
    }
    expect(await quotaOf("a")).toBe("1");
    const { json } = await call("POST", "/v1/admin/flush", { json: { namespace: "default" } });
    expect(json).toEqual({ removed: 1 });
  });
});

describe("JSON bodies", () => {
  const url = "/v1/counters/a";

  it.each([
    ["nested deeply", "[".repeat(17)],
    ["nested deeply, and whole", `${"[".repeat(1000)}${"]".repeat(1000)}`],
    ["of many lists", `[${"[],".repeat(60_000)}0]`],
    ["of many numbers", `[${"0,".repeat(100_001)}0]`],
    ["of many fields", `{"a":0${',"b":0'.repeat(100_001)}}`],
  ])("the JSON body %s is refused before it is parsed", async (_, body) => {
    const got = await call("PUT", url, { body });
    expectProblem(got, "body_too_large");
    expect(got.json.detail).toBe(
      "JSON may have at most 100000 values in 16 levels of objects and lists",
    );
  });

  it.each([
    "[".repeat(100),
    ",".repeat(200_000),
    `"${"[".repeat(100)}`,
    `\\"${"{".repeat(100)}\\`,
    `"\\"${"[".repeat(100)}"`,
  ])("a JSON body may have any characters in its texts", async (value) => {
    expect((await set("a", value)).status).toBe(204);
    expect(await valueOf("a")).toBe(value);
  });

  it("a JSON body of a thousand composites of eight quotas is accepted", async () => {
    const quotas = Array.from({ length: 8 }, (_, i) => ({
      name: `quota-${i}`,
      limit: i + 1,
      windowMs: 1000,
    }));
    const strategy = {
      strategy: "composite",
      primary: { strategy: "fixed_window", quotas },
      secondary: { strategy: "gcra", burst: 1, rate: 1 },
    };
    const requests = Array.from({ length: 1000 }, (_, i) => ({
      name: "api",
      key: `key-${i}`,
      strategy,
      cost: 1,
    }));
    const { json } = await call("POST", "/v1/limits", { json: { requests } });
    expect(json.results).toHaveLength(1000);
  });

  it("a JSON body with many wrong fields is refused with the first one", async () => {
    const requests = Array.from({ length: 30_000 }, () => 1);
    const got = await call("POST", "/v1/limits", {
      json: { requests, filler: "x".repeat(10_000) },
    });
    expectProblem(got, "body_invalid");
    expect(fieldsOf(got)).toEqual({ "requests[0]": "expected an object, got 1" });
  });

  it("a streamed JSON body is refused when it is too large", async () => {
    const chunk = new Uint8Array(1 << 20).fill(0x20);
    let chunks = 0;
    const body = new ReadableStream<Uint8Array>({
      pull: (controller) => (chunks++ < 9 ? controller.enqueue(chunk) : controller.close()),
    });
    expectProblem(await call("PUT", url, { body }), "body_too_large");
  });
});

describe("figures", () => {
  it("figures count requests over the JSON door", async () => {
    await insert("a", 1);
    await insert("b", 1);
    await set("c", "12345");
    const { json } = await call("GET", "/v1/info");
    expect(json).toMatchObject({ keys: 3, counters: 2, buffers: 1, bufferBytes: 5 });
    expect(json.readBytes).toBeGreaterThan(0);
  });

  it("figures count calls by name, and their sum is the total", async () => {
    await insert("a", 1);
    for (let i = 0; i < 3; i++) {
      await call("POST", "/v1/counters/b/increment", { json: { ttlMs: TTL_MS } });
    }
    await call("POST", "/v1/limits/api/ada", {
      json: { strategy: { strategy: "token_bucket", burst: 2, rate: 1 } },
    });
    await call("GET", "/v1/counters/a");
    const { json } = await call("GET", "/v1/info");
    const byType = json.requestsByType as Record<string, { total: number }>;
    const totals = Object.entries(byType).map(([name, { total }]) => [name, total] as const);
    expect(Object.fromEntries(totals.filter(([, total]) => total > 0))).toEqual({
      insert: 1,
      increment: 3,
      limit: 1,
      read: 1,
      info: 1,
    });
    expect(totals.reduce((sum, [, total]) => sum + total, 0)).toBe(json.requests);
  });
});

describe("failures", () => {
  it("a failed shard leaves it open what was applied", async () => {
    const ns = freshNamespace();
    const by = calling(await bearerOf({ ns }));
    await Promise.all([0, 1, 2, 3].map((i) => breakJournal(shardStub(i, ns))));
    const sent = { json: { quota: 1, ttlMs: TTL_MS } };
    expectProblem(await by("PUT", "/v1/counters/a", sent), "outcome_unknown");
  });

  it("a lack of space is reported as such", async () => {
    await withSettings({ SHARD_BYTES_MAX: 1 << 20, SHARDS_MAX: 1 }, async () => {
      const by = calling(await bearerOf({ ns: freshNamespace() }));
      const value = "x".repeat(500_000);
      let got: Got | null = null;
      for (let i = 0; i < 20 && got?.status !== 507; i++) {
        got = await by("PUT", `/v1/buffers/${i}`, { json: { value, ttlMs: TTL_MS } });
      }
      expectProblem(got!, "shard_full");
    });
  });
});

describe("callers", () => {
  it("callers are told their namespace, scopes and prefixes, even without any scope", async () => {
    const [ns, exp] = [freshNamespace(), nowS() + 60];
    const claims = { ns, exp, scopes: ["write", "read"] as ("read" | "write")[] };
    const limited = { ...claims, keyPrefixes: ["müller:"], channelPrefixes: ["news:"] };
    const grant = {
      namespace: ns,
      expiresAtMs: exp * 1000,
      isForAllNamespaces: false,
      hasReference: true,
      atMs: expect.closeTo(Date.now(), -5) as number,
    };
    expect((await calling(await bearerOf(limited))("GET", "/v1/access")).json).toEqual({
      ...grant,
      scopes: ["read", "write"],
      keyPrefixes: ["müller:"],
      channelPrefixes: ["news:"],
    });
    const powerless = await calling(await bearerOf({ ...claims, scopes: [] }))("GET", "/v1/access");
    expect(powerless.json).toMatchObject({ ...grant, scopes: [] });
  });

  it("callers may send a ticket in the URL", async () => {
    const ticket = await tokenOf({ ns: freshNamespace(), iat: nowS(), exp: nowS() + 60 });
    expect((await call("GET", `/v1/records?limit=1&ticket=${ticket}`)).status).toBe(200);
    expectProblem(await call("GET", "/v1/records?ticket=none"), "token_invalid");
  });

  it("callers may send HEAD", async () => {
    await insert("a", 1);
    for (const [path, status] of [
      ["/v1/counters/a", 200],
      ["/v1/counters/b", 404],
      ["/openapi.json", 200],
    ] as const) {
      const got = await gotOf(await server.fetch(`http://localhost${path}`, { method: "HEAD" }));
      expect([got.status, got.bytes.length]).toEqual([status, 0]);
    }
  });

  it("callers of another origin are told what they may send, and refused unless listed", async () => {
    const origin = "https://example.com";
    const url = "http://localhost/v1/counters/a";
    const preflight = await server.fetch(url, {
      method: "OPTIONS",
      headers: { origin, "access-control-request-method": "PATCH" },
    });
    const methods = preflight.headers.get("access-control-allow-methods")!.split(",");
    expect(methods).toEqual(["GET", "POST", "PUT", "PATCH", "DELETE"]);
    expect(preflight.headers.get("access-control-allow-headers")).toContain("idempotency-key");
    expect(preflight.headers.get("access-control-allow-origin")).toBe(null);
    const got = await gotOf(await server.fetch(url, { method: "DELETE", headers: { origin } }));
    expectProblem(got, "origin_not_allowed");
  });
});
