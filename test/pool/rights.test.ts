/** What a token does not give, nobody gets on a detour. */
import { reset } from "cloudflare:test";
import { exports } from "cloudflare:workers";
import { afterEach, describe, expect, it } from "vitest";
import { ThrottrError } from "../../src/wire/edge/error.ts";
import { messageOf, settle, type Operation } from "../../src/wire/edge/operation.ts";
import * as operations from "../../src/wire/edge/operations.ts";
import { hex } from "../support/frames/index.ts";
import { open, type Stub, withProps } from "../support/pool/binding.ts";
import { tokenOf } from "../support/pool/tokens.ts";

const server = exports.default as unknown as Fetcher;
const HOUR = { ttlMs: 3_600_000 };
const SECRET = "a secret that is long enough to be seen";
const BUCKET = { strategy: "token_bucket", burst: 3, rate: 1 } as const;

afterEach(async () => {
  await reset();
});

/** The reply to an operation of a token that may only write. */
async function written(operation: Operation<unknown>): Promise<Uint8Array> {
  const token = await tokenOf({ ns: "rights", scopes: ["write"] });
  const response = await server.fetch("http://localhost/throttr/edge", {
    method: "POST",
    headers: { authorization: `Bearer ${token}` },
    body: messageOf([operation]),
  });
  return new Uint8Array(await response.arrayBuffer());
}

const owner = (): Stub => open("rights");

describe("write access alone", () => {
  it.each([
    ["insert", () => operations.insert("a", { quota: 1, ...HOUR })],
    ["ttl", () => operations.ttl("a", { ttlMs: 0, change: "increase" })],
    ["compareAndSet", () => operations.compareAndSet("a", { expected: null, value: null })],
    ["limit", () => operations.limit({ name: "app", key: "a", strategy: BUCKET })],
    ["increment", () => operations.increment("a", HOUR)],
  ])("a token with write alone learns nothing of a buffer by %s", async (_, make) => {
    await owner().set("a", SECRET, HOUR);
    await owner().set("app:a", SECRET, HOUR);
    const reply = await written(make());
    expect(new TextDecoder().decode(reply)).not.toContain("secret");
    expect(hex(reply)).not.toContain(hex(new TextEncoder().encode("secret")));
  });

  it("a token with write alone may not compare", async () => {
    const reply = await written(operations.compareAndSet("a", { expected: null, value: null }));
    expect(new TextDecoder().decode(reply)).toContain("scope_missing");
    expect(new TextDecoder().decode(reply)).toContain("read and write");
  });
});

describe("read access alone", () => {
  it("a token with read alone cannot leave answers behind", async () => {
    const token = await tokenOf({ ns: "rights", scopes: ["read"] });
    const read = operations.query("a");
    const frame = new Uint8Array(read.frame.length + 2);
    frame.set(read.frame);
    frame[1] = 1;
    frame[3] = 2;
    frame.set([1, 0x69], read.frame.length);
    const response = await server.fetch("http://localhost/throttr/edge", {
      method: "POST",
      headers: { authorization: `Bearer ${token}` },
      body: frame,
    });
    const [settled] = settle([read], new Uint8Array(await response.arrayBuffer()));
    expect(settled).toMatchObject({ ok: false, error: { code: "flags_invalid" } });
  });
});

describe("unknown callers", () => {
  it.each(["/throttr/edge", "/throttr/7.3/uint16", "/v1/limits", "/channels/news"])(
    "an unknown caller is refused before the body has come: %s",
    async (path) => {
      const endless = new ReadableStream<Uint8Array>({
        start: (controller) => controller.enqueue(new Uint8Array(1000)),
      });
      const response = await server.fetch(`http://localhost${path}`, {
        method: "POST",
        headers: { authorization: "Bearer nonsense" },
        body: endless,
      });
      expect(response.status).toBe(401);
      await response.body?.cancel();
    },
  );
});

describe("a flush", () => {
  it("a flush forgets kept answers, too", async () => {
    const once = { ...HOUR, by: 5, idempotencyKey: "x" };
    expect(await owner().increment("a", once)).toBe(5n);
    await owner().removeAll("");
    expect(await owner().query("a")).toBeNull();
    expect(await owner().increment("a", once)).toBe(5n);
    expect((await owner().query("a"))!.quota).toBe(5n);
  });
});

describe("unchecked arguments", () => {
  const wrong = (call: (stub: Stub) => unknown) => async (): Promise<string> => {
    try {
      await call(owner());
    } catch (error) {
      return ThrottrError.from(error).code;
    }
    return "none";
  };
  it.each([
    ["argument_invalid", wrong((stub) => stub.batch(null as never))],
    ["argument_invalid", wrong((stub) => stub.limitMany({} as never))],
    ["argument_invalid", wrong((stub) => stub.batch([null] as never))],
    ["argument_invalid", wrong((stub) => stub.insert("k", undefined as never))],
    ["operation_unknown", wrong((stub) => stub.batch([["constructor", "k"]] as never))],
    ["change_invalid", wrong((stub) => stub.ttl("k", { ttlMs: 1, change: ["patch"] as never }))],
    [
      "window_invalid",
      wrong((stub) =>
        stub.limit({
          name: "a",
          key: "k",
          strategy: { strategy: "sliding_window", limit: 1, windowMs: 1.7e308 },
        }),
      ),
    ],
    ["props_invalid", wrong(() => withProps(["a"]).query("k"))],
  ])("an invalid argument is refused: %s", async (code, call) => {
    expect(await call()).toBe(code);
  });

  it("a long invalid argument is refused in few words", async () => {
    const long = "9".repeat(1 << 20);
    const call = owner().insert("k", { quota: long as never, ...HOUR });
    const error = await Promise.resolve(call).then(
      () => null,
      (reason: unknown) => reason as Error,
    );
    expect(error!.message.length).toBeLessThan(300);
  });

  it("a quota may have any name that fits", async () => {
    const strategy = {
      strategy: "fixed_window",
      quotas: [{ name: "__proto__", limit: 1, windowMs: 1000 }],
    } as const;
    const result = await owner().limit({ name: "a", key: "k", strategy });
    expect(result.success).toBe(true);
  });
});
