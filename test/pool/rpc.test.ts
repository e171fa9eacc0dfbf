/** The service binding: what other Workers call. */
import { reset } from "cloudflare:test";
import { afterEach, describe, expect, it } from "vitest";
import { throttrEdge } from "../../src/embedded/throttr-edge.ts";
import type { Throttr } from "../../src/worker/rpc.ts";
import { open, throttr, withProps } from "../support/pool/binding.ts";
import { get } from "../support/pool/doors.ts";
import { concat, read, U64 } from "../support/frames/index.ts";

const encoder = new TextEncoder();
const HOUR_MS = 3_600_000;
const MAX = 2n ** 64n - 1n;
const BUCKET = { strategy: "token_bucket", burst: 3, rate: 0.001 } as const;

afterEach(async () => {
  await reset();
});

async function codeOf(call: Promise<unknown>): Promise<string> {
  try {
    await call;
  } catch (error) {
    return (error as Error).message.split(":")[0]!;
  }
  return "none";
}

describe("counters", () => {
  it("counters are inserted once, and queried", async () => {
    expect(await throttr.insert("a", { quota: MAX, ttlMs: HOUR_MS })).toBe(true);
    expect(await throttr.insert("a", { quota: 1, ttlMs: HOUR_MS })).toBe(false);
    const counter = await throttr.query("a");
    expect(counter?.quota).toBe(MAX);
    expect(counter?.ttlMs).toBeGreaterThan(HOUR_MS - 60_000);
    expect(counter?.ttlMs).toBeLessThanOrEqual(HOUR_MS);
    expect(await throttr.query("b")).toBeNull();
  });

  it("increment creates a counter, and continues it", async () => {
    expect(await throttr.increment("views", { ttlMs: HOUR_MS })).toBe(1n);
    expect(await throttr.increment("views", { by: 41, ttlMs: 1 })).toBe(42n);
    expect(await throttr.increment(new Uint8Array([0xff, 0]), { by: 7n, ttlMs: 1000 })).toBe(7n);
    expect(await codeOf(throttr.increment("views", { by: MAX, ttlMs: 1 }))).toBe("quota_overflow");
    expect((await throttr.query("views"))?.quota).toBe(42n);
  });

  it("counters increase, decrease and are patched within 0 and 2^64 - 1", async () => {
    expect(await throttr.increase("a", 1)).toBeNull();
    await throttr.insert("a", { quota: 5, ttlMs: HOUR_MS });
    expect(await throttr.increase("a", 2n)).toMatchObject({ applied: true, quota: 7n });
    expect(await throttr.decrease("a", 8)).toMatchObject({ applied: false, quota: 7n });
    expect(await throttr.decrease("a", 7)).toMatchObject({ applied: true, quota: 0n });
    expect(await throttr.patch("a", MAX)).toMatchObject({ applied: true, quota: MAX });
    expect(await throttr.increase("a", 1)).toMatchObject({ applied: false, quota: MAX });
  });

  it("counters live as long as their TTL says", async () => {
    expect(await throttr.ttl("a", { ttlMs: 5 })).toBeNull();
    await throttr.insert("a", { quota: 5, ttlMs: 60_000 });
    const longer = await throttr.ttl("a", { ttlMs: HOUR_MS, change: "increase" });
    expect(longer!.ttlMs).toBeGreaterThan(HOUR_MS);
    // Now, and so the record expires at once; one that is created with 0 is refused.
    expect(await throttr.ttl("a", { ttlMs: 0 })).toBeNull();
    expect(await throttr.query("a")).toBeNull();
    await throttr.insert("b", { quota: 5, ttlMs: 60_000 });
    expect(await throttr.purge("b")).toBe(true);
    expect(await throttr.purge("b")).toBe(false);
  });
});

describe("buffers", () => {
  it("buffers are set and read", async () => {
    await throttr.set("a", "hello", { ttlMs: HOUR_MS });
    const buffer = await throttr.get("a");
    expect(new TextDecoder().decode(buffer!.value)).toBe("hello");
    expect(await codeOf(throttr.query("a"))).toBe("kind_mismatch");
    await throttr.insert("c", { quota: 1, ttlMs: HOUR_MS });
    expect(await codeOf(throttr.get("c"))).toBe("kind_mismatch");
    expect(await codeOf(throttr.set("c", "x", { ttlMs: 1 }))).toBe("kind_mismatch");
  });

  it("buffers are compared and set", async () => {
    const set = (expected: string | null, value: string | null) =>
      throttr.compareAndSet("lock", { expected, value, ttlMs: HOUR_MS });
    expect(await set("x", "me")).toEqual({ applied: false, current: null });
    expect(await set(null, "me")).toEqual({ applied: true, current: null });
    const refused = await set(null, "you");
    expect(refused.applied).toBe(false);
    expect(new TextDecoder().decode(refused.current!)).toBe("me");
    expect(await set("me", "you")).toEqual({ applied: true, current: null });
    expect(await set("you", null)).toEqual({ applied: true, current: null });
    expect(await throttr.get("lock")).toBeNull();
  });
});

describe("limits", () => {
  it("limits grant, refuse, refund and reset", async () => {
    const request = { name: "api", key: "me", strategy: BUCKET };
    expect(await throttr.peek(request)).toMatchObject({ success: true, remaining: 3 });
    expect(await throttr.limit({ ...request, cost: 2 })).toMatchObject({
      success: true,
      limit: 3,
      remaining: 1,
      retryAfterMs: 0,
      quotas: { default: { allowed: true, limit: 3, remaining: 1 } },
    });
    const refused = await throttr.limit({ ...request, cost: 2 });
    expect(refused.success).toBe(false);
    expect(refused.retryAfterMs).toBeGreaterThan(900_000);
    expect(refused.retryAfterMs).toBeLessThanOrEqual(1_000_000);
    expect(await throttr.limit({ ...request, cost: 4 })).toMatchObject({
      success: false,
      reason: "cost_exceeds_limit",
      retryAfterMs: null,
    });
    expect(await throttr.refund({ ...request, cost: 1 })).toMatchObject({ remaining: 2 });
    expect(await throttr.reset(request)).toBe(true);
    expect(await throttr.peek(request)).toMatchObject({ remaining: 3 });
  });

  it("limitMany asks for many limits in one call", async () => {
    const requests = Array.from({ length: 100 }, (_, i) => ({
      name: "many",
      key: `k${i % 25}`,
      strategy: BUCKET,
    }));
    const results = await throttr.limitMany(requests);
    expect(results.filter(({ success }) => success)).toHaveLength(75);
  });

  it("limits continue a state that was written with SET, and GET reads their state", async () => {
    const nowNs = BigInt(Date.now()) * 1_000_000n;
    await throttr.set("api:moved", `12|1.5|${nowNs}`, { ttlMs: HOUR_MS });
    const request = { name: "api", key: "moved", strategy: BUCKET };
    expect(await throttr.limit(request)).toMatchObject({ success: true, remaining: 0 });
    const state = new TextDecoder().decode((await throttr.get("api:moved"))!.value);
    expect(state).toMatch(/^12\|0\.5\d*\|\d{19}$/);
    await throttr.set("api:moved", "nonsense", { ttlMs: HOUR_MS });
    expect(await codeOf(throttr.limit(request))).toBe("state_invalid");
  });
});

describe("idempotency keys", () => {
  it("an idempotency key lets a call be applied once", async () => {
    const once = { by: 5, ttlMs: HOUR_MS, idempotencyKey: "order-1" };
    expect(await throttr.increment("sum", once)).toBe(5n);
    expect(await throttr.increment("sum", once)).toBe(5n);
    expect(await throttr.increment("sum", { ...once, idempotencyKey: "order-2" })).toBe(10n);
    expect(await throttr.increment("sum", once)).toBe(5n);
    expect(await codeOf(throttr.increment("sum", { ...once, by: 6 }))).toBe("idempotency_conflict");
    expect((await throttr.query("sum"))?.quota).toBe(10n);
  });
});

describe("batches", () => {
  it("a batch returns the result of each call", async () => {
    const outcomes = await throttr.batch([
      ["increment", "a", { ttlMs: HOUR_MS }],
      ["get", "a"],
      ["set", "b", "text", { ttlMs: HOUR_MS }],
      ["get", "b"],
      ["publish", "news", "hello"],
    ]);
    expect(outcomes[0]).toEqual({ ok: true, value: 1n });
    expect(outcomes[1]).toMatchObject({ ok: false, error: { code: "kind_mismatch" } });
    expect(outcomes[3]).toMatchObject({ ok: true, value: { value: encoder.encode("text") } });
    expect(outcomes[4]).toEqual({ ok: true, value: false });
    expect(await codeOf(throttr.batch([["nothing", "a"]] as never))).toBe("operation_unknown");
  });
});

it("a batch with too many bytes is refused, and nothing of it is applied", async () => {
  const value = new Uint8Array(1_000_000);
  const call = (i: number) => ["set", `large:${i}`, value, { ttlMs: HOUR_MS }] as const;
  const calls = Array.from({ length: 26 }, (_, i) => call(i));
  expect(await codeOf(throttr.batch(calls))).toBe("batch_too_large");
  expect(await throttr.get("large:0")).toBeNull();
});

describe("records", () => {
  it("records are listed by prefix, page by page, and removed", async () => {
    const keys = Array.from({ length: 30 }, (_, i) => `user:${String(i).padStart(2, "0")}`);
    await throttr.batch(keys.map((key) => ["increment", key, { ttlMs: HOUR_MS }] as const));
    await throttr.set("other", "x", { ttlMs: HOUR_MS });
    const listed: string[] = [];
    let cursor: Uint8Array | null = null;
    do {
      const page: Awaited<ReturnType<Throttr["list"]>> = await throttr.list({
        prefix: "user:",
        limit: 7,
        ...(cursor === null ? {} : { cursor }),
      });
      listed.push(...page.records.map(({ key }) => new TextDecoder().decode(key)));
      cursor = page.cursor;
    } while (cursor !== null);
    expect(listed).toEqual(keys);
    expect(await throttr.removeAll("user:")).toBe(30);
    const { records } = await throttr.list();
    expect(records).toHaveLength(1);
    expect(records[0]).toMatchObject({ kind: "buffer", bytes: 1, quota: null });
    expect((await throttr.info()).keys).toBe(1);
  });
});

describe("props of the binding", () => {
  it("props of the binding choose the namespace and the rights", async () => {
    const other = withProps({ namespace: "other", scopes: ["read"], keyPrefixes: ["a"] });
    expect(await codeOf(other.increment("a", { ttlMs: 1 }))).toBe("scope_missing");
    expect(await codeOf(other.query("b"))).toBe("prefix_missing");
    expect(await other.query("a")).toBeNull();
    const bad = open("no/slash");
    expect(await codeOf(bad.query("a"))).toBe("props_invalid");
  });

  it.each([
    { namespace: "" },
    { namespace: "n".repeat(65) },
    { namespace: 5 },
    { scopes: ["root"] },
    { scopes: "read" },
    { keyPrefixes: "a" },
    { keyPrefixes: ["k".repeat(256)] },
    { keyPrefixes: Array.from({ length: 17 }, (_, i) => `${i}`) },
    { channelPrefixes: [5] },
    { nameSpace: "misspelt" },
  ])("invalid props of the binding are refused: %j", async (props) => {
    const bad = withProps(props);
    expect(await codeOf(bad.query("a"))).toBe("props_invalid");
    expect(await codeOf(bad.exchange(new Uint8Array(0)))).toBe("props_invalid");
    expect(await codeOf(bad.fetch("http://localhost/health"))).toBe("props_invalid");
  });

  it("props of the binding replace a token over WebSocket", async () => {
    const bound = open("other", { keyPrefixes: ["a"] });
    const response = await bound.fetch("http://localhost/throttr/edge", {
      headers: { upgrade: "websocket" },
    });
    const socket = response.webSocket!;
    socket.binaryType = "arraybuffer";
    const received: number[] = [];
    socket.addEventListener("message", ({ data }) => {
      received.push(...new Uint8Array(data as ArrayBuffer));
    });
    socket.accept();
    // The QUERY of "b" is refused.
    socket.send(concat([U64.query("b"), read("a")]));
    await expect.poll(() => received).toEqual([0, 1, 1, 0, 0, 0, 0]);
    socket.close(1000);
  });

  it("props of the binding replace a token over HTTP", async () => {
    const other = open("other", { scopes: [] });
    const response = await other.fetch("http://localhost/throttr/7.3/uint16", {
      method: "POST",
      body: new Uint8Array([0x02, 1, 0x61]),
    });
    expect(response.status).toBe(403);
    await response.body?.cancel();
    expect((await get("/health")).status).toBe(200);
  });
});

describe("bad input", () => {
  it.each([
    ["key_invalid", () => throttr.query("k".repeat(256))],
    ["key_invalid", () => throttr.query("a\ud800")],
    ["key_invalid", () => throttr.query(5 as never)],
    ["value_invalid", () => throttr.set("a", "\udc00", { ttlMs: 1 })],
    ["channel_invalid", () => throttr.publish("\ud800\ud800", "x")],
    ["prefix_invalid", () => throttr.list({ prefix: "\udfff" })],
    ["after_invalid", () => throttr.list({ cursor: "k".repeat(256) })],
    ["ttl_invalid", () => throttr.increment("a", { ttlMs: 1.5 })],
    ["ttl_invalid", () => throttr.increment("a", { ttlMs: 0 })],
    ["ttl_invalid", () => throttr.insert("a", { quota: 1, ttlMs: 0 })],
    ["ttl_invalid", () => throttr.set("a", "x", { ttlMs: 0 })],
    ["ttl_invalid", () => throttr.compareAndSet("a", { expected: null, value: "x", ttlMs: 0 })],
    ["ttl_invalid", () => throttr.insert("a", { quota: 1 } as never)],
    ["quota_invalid", () => throttr.insert("a", { quota: -1, ttlMs: 1 })],
    ["quota_invalid", () => throttr.insert("a", { quota: MAX + 1n, ttlMs: 1 })],
    ["by_invalid", () => throttr.increment("a", { by: 2 ** 60, ttlMs: 1 })],
    ["change_invalid", () => throttr.ttl("a", { ttlMs: 1, change: "grow" as never })],
    ["value_invalid", () => throttr.set("a", 5 as never, { ttlMs: 1 })],
    ["limit_invalid", () => throttr.list({ limit: 1001 })],
    ["strategy_unknown", () => throttr.limit({ name: "a", key: "b" } as never)],
    ["base_key_invalid", () => throttr.limit({ name: "", key: "b", strategy: BUCKET })],
    ["cost_invalid", () => throttr.limit({ name: "a", key: "b", strategy: BUCKET, cost: 0 })],
    [
      "idempotency_key_invalid",
      () => throttr.increment("a", { ttlMs: 1, idempotencyKey: "i".repeat(65) }),
    ],
    ["request_type_unknown", () => throttr.exchange(new Uint8Array([0xee]))],
  ])("an invalid argument is refused: %s", async (code, call) => {
    expect(await codeOf(call())).toBe(code);
  });
});

it("throttrEdge refuses ports that can't be read when the module is loaded", () => {
  expect(() => throttrEdge({ settings: { TCP_PORTS: "9000=9" } })).toThrow(
    /^config_invalid: TCP_PORTS: 9000=9: /,
  );
});

it("throttrEdge refuses a setting that is given beside its settings, and does not ignore it", () => {
  const options = { DURABILITY: "relaxed" } as object;
  expect(() => throttrEdge(options)).toThrow(
    "option_invalid: DURABILITY: throttrEdge has no such option; its options are settings, classes",
  );
});
