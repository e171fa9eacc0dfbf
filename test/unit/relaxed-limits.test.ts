/** Limits whose callers don't wait for the disk: which batches need no wait, and what limiters ask. */
import { describe, expect, it } from "vitest";
import { ThrottrClient } from "../../src/client/client.ts";
import { Engine } from "../../src/engine/engine.ts";
import type { LimitBackend } from "../../src/ratelimit/backend.ts";
import type { RateLimiterOptions } from "../../src/ratelimit/limiter-options.ts";
import { RateLimiter } from "../../src/ratelimit/rate-limiter.ts";
import { tokenBucket } from "../../src/ratelimit/strategies.ts";
import { Command, Flag } from "../../src/wire/edge/command.ts";
import { ThrottrError } from "../../src/wire/edge/error.ts";
import * as operations from "../../src/wire/edge/operations.ts";
import type { LimitRequest } from "../../src/wire/edge/operations.ts";
import { protocolByName } from "../../src/wire/throttr/protocol.ts";
import { EngineTransport } from "../support/client/engine-transport.ts";
import {
  batchIn,
  commandFrame,
  commandReplies,
  configurationBytes,
  EDGE,
  edgeBatch,
  FOREVER,
  hex,
  increment,
  insert,
  limit,
  partsOf,
  peek,
  read,
  refund,
} from "../support/frames/index.ts";

const NOW_MS = 1_700_000_000_000;
const BUCKET = configurationBytes({ strategy: "token_bucket", burst: 3, rate: 0.001 });
const strategy = tokenBucket({ burst: 3, rate: 0.001 });
const relaxed = { relaxed: true };
const limitRelaxed = limit("a", BUCKET, 1, relaxed);

const newEngine = (): Engine =>
  new Engine({ hashKey: { low: 1, high: 2 }, bytesMax: 1 << 22, isCounting: true });

/** The replies to frames in one batch. */
const send = (engine: Engine, ...frames: Uint8Array[]) =>
  commandReplies(partsOf(engine.apply(edgeBatch(frames), NOW_MS))[0]!.replies);

/** QUERY of the key `a` in 7.3 with values of 8 bytes. */
const QUERY = Uint8Array.of(0x02, 1, 0x61);
const protocol73 = protocolByName("7.3", "uint64")!;

describe("a batch", () => {
  it.each<[string, Uint8Array[], boolean]>([
    ["a relaxed LIMIT", [limitRelaxed], true],
    ["a relaxed PEEK", [peek("a", BUCKET, relaxed)], true],
    ["a relaxed REFUND", [refund("a", BUCKET, 1, relaxed)], true],
    [
      "a relaxed LIMIT with an idempotency key",
      [limit("a", BUCKET, 1, { once: "x", relaxed: true })],
      true,
    ],
    ["a relaxed LIMIT that is refused", [limit("a", BUCKET, 9, relaxed)], true],
    ["a relaxed LIMIT that is wrong", [limit("a", BUCKET, 0.5, relaxed)], true],
    ["a LIMIT", [limit("a", BUCKET, 1)], false],
    ["a PEEK", [peek("a", BUCKET)], false],
    ["a relaxed LIMIT behind a READ", [read("a"), limitRelaxed], false],
    ["a relaxed LIMIT before an INSERT", [limitRelaxed, insert("b", 1n, FOREVER)], false],
    ["a relaxed LIMIT before one that is not", [limitRelaxed, limit("a", BUCKET, 1)], false],
    ["an INCREMENT with the flag", [increment("b", 1n, FOREVER, relaxed)], false],
  ])(
    "a batch with %s waits for the disk as its most careful caller does",
    (_, frames, isRelaxed) => {
      const engine = newEngine();
      send(engine, ...frames);
      expect(engine.isRelaxed).toBe(isRelaxed);
    },
  );

  it("a batch of several callers is relaxed only if all of them are", () => {
    const engine = newEngine();
    const callers = (...protocols: [typeof EDGE, Uint8Array][]): boolean => {
      const sections = protocols.map(([protocol, frame]) => ({ protocol, frames: [frame] }));
      engine.apply(batchIn(sections), NOW_MS);
      return engine.isRelaxed;
    };
    expect(callers([EDGE, limitRelaxed], [EDGE, limitRelaxed])).toBe(true);
    expect(callers([EDGE, limitRelaxed], [protocol73, QUERY])).toBe(false);
    expect(callers([protocol73, QUERY], [EDGE, limitRelaxed])).toBe(false);
    expect(callers([EDGE, limitRelaxed])).toBe(true);
  });

  it("limits that are charged together wait for the disk, also after a relaxed batch", () => {
    const engine = newEngine();
    send(engine, limitRelaxed);
    expect(engine.isRelaxed).toBe(true);
    const { frame } = operations.limitAll({ requests: [{ name: "api", key: "ada", strategy }] });
    engine.limitAll(frame.subarray(7), null, NOW_MS);
    expect(engine.isRelaxed).toBe(false);
  });

  it.each([
    ["INCREMENT", increment("a", 1n, FOREVER, relaxed)],
    ["READ", read("a", relaxed)],
    ["DRAW", commandFrame(Command.draw, "a", new Uint8Array(60), relaxed)],
    ["PEEK with an idempotency key", peek("a", BUCKET, { once: "x", relaxed: true })],
    ["LIMIT with an unknown flag", limit("a", BUCKET, 1, { flags: Flag.isRelaxed | 4 })],
  ])("%s with the flag of relaxed limits is refused, and waits for the disk", (_, frame) => {
    const engine = newEngine();
    expect(send(engine, frame)[0]!.code).toBe("flags_invalid");
    expect(engine.isRelaxed).toBe(false);
    expect(engine.isDirty).toBe(false);
  });

  it("a relaxed LIMIT that is refused changes nothing, so nothing waits for a row", () => {
    const engine = newEngine();
    send(engine, limit("a", BUCKET, 3, relaxed));
    engine.takeCommit(1 << 20);
    expect(send(engine, limitRelaxed)[0]!.code).toBe("");
    expect(engine.isDirty).toBe(false);
  });

  it("a call with an idempotency key is the same call whether it is relaxed or strict", () => {
    const engine = newEngine();
    const once = { once: "x" };
    const [first] = send(engine, limit("a", BUCKET, 1, { ...once, relaxed: true }));
    const [again] = send(engine, limit("a", BUCKET, 1, once));
    expect(hex(again!.bytes)).toBe(hex(first!.bytes));
    expect(send(engine, limit("a", BUCKET, 2, once))[0]!.code).toBe("idempotency_conflict");
    const strict = send(engine, limit("b", BUCKET, 1, once))[0]!;
    const relaxedAgain = send(engine, limit("b", BUCKET, 1, { ...once, relaxed: true }))[0]!;
    expect(hex(relaxedAgain.bytes)).toBe(hex(strict.bytes));
  });
});

describe("a limiter", () => {
  /** A limiter with a server in this process, and the flags of each request that it sent. */
  function limiterOf(options: Pick<RateLimiterOptions, "durability" | "local">): {
    limiter: RateLimiter;
    flags: () => number[];
  } {
    const sent: number[] = [];
    const transport = new EngineTransport(newEngine(), NOW_MS);
    const throttr = new ThrottrClient({
      connect: () => transport.connect(),
      exchange: async (message) => {
        for (let at = 0; at < message.length;) {
          sent.push(message[at + 1]!);
          at +=
            7 +
            message[at + 2]! +
            new DataView(message.buffer, message.byteOffset + at).getUint32(3, true);
        }
        return await transport.exchange(message);
      },
    });
    const limiter = new RateLimiter({ throttr, name: "api", strategy, ...options });
    return { limiter, flags: () => sent.splice(0) };
  }

  it("a relaxed limiter asks all but resets without a wait for the disk", async () => {
    const { limiter, flags } = limiterOf({ durability: "relaxed" });
    expect(await limiter.limit("ada")).toMatchObject({ success: true, remaining: 2 });
    await limiter.limit("ada", { idempotencyKey: "x" });
    await limiter.limitMany(["ada", "bob"]);
    await limiter.peek("ada");
    await limiter.refund("ada");
    expect(flags()).toEqual([2, 3, 2, 2, 2, 2]);
    expect(await limiter.reset("ada")).toBe(true);
    expect(flags()).toEqual([0]);
  });

  it("draws of a relaxed limiter with local are strict, and its exact calls are relaxed", async () => {
    const { limiter, flags } = limiterOf({ durability: "relaxed", local: true });
    expect(await limiter.limit("ada")).toMatchObject({ success: true });
    expect(flags()).toEqual([0]);
    await limiter.limit("ada", { idempotencyKey: "x" });
    await limiter.peek("ada");
    expect(flags()).toEqual([3, 2]);
  });

  it("a limiter is strict unless it says otherwise", async () => {
    for (const options of [{}, { durability: "strict" }] as const) {
      const { limiter, flags } = limiterOf(options);
      await limiter.limit("ada");
      await limiter.peek("ada");
      expect(flags()).toEqual([0, 0]);
    }
  });

  it("a relaxed limiter asks strictly where a shard of an earlier release refuses the flag", async () => {
    const client = new ThrottrClient(new EngineTransport(newEngine(), NOW_MS));
    const asked: (string | undefined)[] = [];
    /** Refuses as release 0.4 does. */
    const refuseRelaxed = ({ durability }: LimitRequest): void => {
      asked.push(durability);
      if (durability === "relaxed") {
        throw new ThrottrError(
          "flags_invalid",
          "expected 0 or, for commands that accept an …, got 2",
        );
      }
    };
    const throttr: LimitBackend = {
      limit: async (request) => (refuseRelaxed(request), await client.limit(request)),
      limitMany: async (requests) => (
        requests.forEach(refuseRelaxed),
        await client.limitMany(requests)
      ),
      peek: async (request) => (refuseRelaxed(request), await client.peek(request)),
      refund: async (request) => (refuseRelaxed(request), await client.refund(request)),
      reset: async (request) => await client.reset(request),
    };
    const limiter = new RateLimiter({ throttr, name: "api", strategy, durability: "relaxed" });
    expect(await limiter.limit("ada")).toMatchObject({ success: true, remaining: 2 });
    expect(asked.splice(0)).toEqual(["relaxed", undefined]);
    expect(await limiter.limitMany(["ada"])).toMatchObject([{ remaining: 1 }]);
    expect(await limiter.peek("ada")).toMatchObject({ remaining: 1 });
    expect(await limiter.refund("ada")).toMatchObject({ remaining: 2 });
  });

  it("a relaxed limiter does not ask again after any other refusal", async () => {
    const asked: LimitRequest[] = [];
    const throttr = {
      limit: async (request: LimitRequest) => {
        asked.push(request);
        throw new ThrottrError("shard_full", "no memory");
      },
    } as unknown as LimitBackend;
    const limiter = new RateLimiter({ throttr, name: "api", strategy, durability: "relaxed" });
    await expect(limiter.limit("ada")).rejects.toThrow("shard_full");
    expect(asked).toHaveLength(1);
  });
});
