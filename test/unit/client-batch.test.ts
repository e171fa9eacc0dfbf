/** Batches of a client: operations by name, in one message, with the outcome of each. */
import { beforeEach, describe, expect, expectTypeOf, it } from "vitest";
import { ThrottrClient } from "../../src/client/client.ts";
import { Engine } from "../../src/engine/engine.ts";
import { batchCallMaker } from "../../src/wire/edge/batch-call.ts";
import * as operations from "../../src/wire/edge/operations.ts";
import type { BatchCall, BatchOutcome } from "../../src/wire/edge/service.ts";
import type { CounterChange } from "../../src/wire/edge/operations.ts";
import { EngineTransport, type Fate } from "../support/client/engine-transport.ts";

const TTL = { ttlMs: 60_000 };
const LEASE_ID = "0b7c9a4e-3f13-4d43-9d4b-111111111111";
const LIMIT = {
  name: "api",
  key: "a",
  strategy: { strategy: "token_bucket", burst: 2, rate: 1 },
} as const;
const NOW_MS = 1_700_000_000_000;

let fate: Fate;
let transport: EngineTransport;
let client: ThrottrClient;

beforeEach(() => {
  fate = "through";
  const hashKey = { low: 1, high: 2 };
  const engine = new Engine({ hashKey, bytesMax: 1 << 20, isCounting: false });
  transport = new EngineTransport(engine, NOW_MS, () => fate);
  client = new ThrottrClient(transport);
});

describe("batch of a client", () => {
  it("a batch executes its calls in order, in one message", async () => {
    const outcomes = await client.batch([
      ["insert", "stock", { quota: 5, ...TTL }],
      ["decrease", "stock", 2],
      ["get", "stock"],
      ["acquire", "gpu", { maximum: 1, ...TTL }],
    ]);
    expectTypeOf(outcomes[1]).toEqualTypeOf<BatchOutcome<CounterChange | null>>();
    expect(outcomes).toEqual([
      { ok: true, value: true },
      {
        ok: true,
        value: { applied: true, quota: 3n, ttlMs: 60_000, expiresAtMs: NOW_MS + 60_000 },
      },
      {
        ok: false,
        error: {
          code: "kind_mismatch",
          message: "kind_mismatch: the record under the key is a counter",
        },
      },
      { ok: true, value: expect.objectContaining({ leaseId: expect.any(String) }) },
    ]);
    expect(transport.messages).toBe(1);
  });

  it.each<[string, unknown, string]>([
    [
      "a call with a wrong argument",
      [
        ["purge", "a"],
        ["increment", "b"],
      ],
      "argument_invalid",
    ],
    [
      "an unknown operation",
      [
        ["purge", "a"],
        ["constructor", "b"],
      ],
      "operation_unknown",
    ],
    ["something else than a list", "purge", "argument_invalid"],
    ["something else than calls", [7], "argument_invalid"],
    ["a hole", Object.assign(Array(2), { 1: ["purge", "a"] }), "argument_invalid"],
    ["too many calls", Array.from({ length: 10_001 }, () => ["purge", "a"]), "batch_too_large"],
  ])("a batch with %s is rejected, and sends nothing", async (_, calls, code) => {
    await expect(client.batch(calls as never)).rejects.toMatchObject({ code });
    expect(transport.messages).toBe(0);
  });

  it("a batch over a binding names what is not a call", () => {
    const makeCall = batchCallMaker(operations);
    expect(() => makeCall(undefined as never)).toThrow(
      "argument_invalid: call: expected a list of a name and arguments, got undefined",
    );
  });

  it("a batch refuses unknown options", async () => {
    const options = { timeout: 5 } as never;
    await expect(client.batch([["purge", "a"]], options)).rejects.toMatchObject({
      code: "option_invalid",
    });
  });

  it.each<[option: string, call: BatchCall]>([
    ["amount", ["increment", "a", { ...TTL, amount: 5 } as never]],
    ["ttl", ["increment", "a", { ttl: 5 } as never]],
    ["idempotencykey", ["decrease", "a", 1, { idempotencykey: "x" } as never]],
    ["ttl", ["acquire", "a", { maximum: 1, ...TTL, ttl: 5 } as never]],
    ["prefixes", ["list", { prefixes: "a" } as never]],
    ["ttl", ["renew", "a", LEASE_ID, { ...TTL, ttl: 5 } as never]],
    ["amount", ["limit", { ...LIMIT, amount: 5 } as never]],
    ["requests[0].amount", ["limitAll", { requests: [{ ...LIMIT, amount: 5 } as never] }]],
    ["amount", ["reserve", { ...LIMIT, amount: 5 } as never]],
  ])("a batch refuses the unknown option %s of a call, and sends nothing", async (option, call) => {
    const asked = client.batch([["purge", "a"], call]);
    await expect(asked).rejects.toThrow(`option_invalid: ${option}: `);
    expect(transport.messages).toBe(0);
  });

  it.each<BatchCall>([
    ["increment", "a", { ...TTL, timeoutMs: 5 } as never],
    ["get", "a", { signal: AbortSignal.abort() }] as never,
    ["renew", "a", LEASE_ID, TTL, { timeoutMs: 5 }] as never,
  ])("a batch refuses the options of a call by itself in %j", async (...call) => {
    const asked = client.batch([call as never]);
    await expect(asked).rejects.toMatchObject({ code: "option_invalid" });
    expect(transport.messages).toBe(0);
  });

  it("a batch with a timeout that is none is rejected, and sends nothing", async () => {
    const asked = client.batch([["purge", "a"]], { timeoutMs: 0 });
    await expect(asked).rejects.toMatchObject({ code: "option_invalid" });
    expect(transport.messages).toBe(0);
  });

  it("a batch whose answer is lost says of each write that its outcome is unknown", async () => {
    fate = "lost";
    const outcomes = await client.batch([
      ["insert", "a", { quota: 1, ...TTL }],
      ["increase", "a", 1],
    ]);
    expect(outcomes).toMatchObject([
      { ok: false, error: { code: "outcome_unknown" } },
      { ok: false, error: { code: "outcome_unknown" } },
    ]);
    expect(transport.messages).toBe(1);
  });

  it("limitMany has no limit of a batch", async () => {
    const strategy = { strategy: "token_bucket", burst: 2, rate: 1 } as const;
    const requests = Array.from({ length: 10_001 }, () => ({ name: "api", key: "a", strategy }));
    expect(await client.limitMany(requests)).toHaveLength(10_001);
  });
});
