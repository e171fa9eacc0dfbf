/** Reservations of a limiter: what its callers hold, and what failures, shadow mode and caches make of it. */
import { describe, expect, it } from "vitest";
import { ThrottrClient } from "../../src/client/client.ts";
import { Engine } from "../../src/engine/engine.ts";
import type { LimitBackend } from "../../src/ratelimit/backend.ts";
import type { RateLimiterOptions } from "../../src/ratelimit/limiter-options.ts";
import { RateLimiter } from "../../src/ratelimit/rate-limiter.ts";
import { RefusalCache } from "../../src/ratelimit/refusals.ts";
import { tokenBucket } from "../../src/ratelimit/strategies.ts";
import { ThrottrError } from "../../src/wire/edge/error.ts";
import { pause } from "../../src/wire/clock.ts";
import { FakeClock } from "../support/client/clock.ts";
import { EngineTransport, type Fate } from "../support/client/engine-transport.ts";

const NOW_MS = 1_700_000_040_000;
const STRANGE_KEY = "/a path of ä stranger";
/** Stored as it is, escaped and hashed. */
const KEYS = ["ada", STRANGE_KEY, "x".repeat(65)];

/** A limiter, on an engine whose messages have fates. */
class Desk {
  readonly transport: EngineTransport;
  readonly client: ThrottrClient;
  readonly limiter: RateLimiter;
  /** By the number of the message. */
  readonly fates = new Map<number, Fate>();

  constructor(options: Partial<RateLimiterOptions> = {}) {
    const engine = new Engine({
      hashKey: { low: 1, high: 2 },
      bytesMax: 1 << 22,
      isCounting: false,
    });
    this.transport = new EngineTransport(
      engine,
      NOW_MS,
      (message) => this.fates.get(message) ?? "through",
    );
    this.client = new ThrottrClient(this.transport);
    this.limiter = this.other(options);
  }

  /** Another limiter of the same name, as another Worker has it. */
  other(options: Partial<RateLimiterOptions> = {}): RateLimiter {
    return new RateLimiter({
      throttr: this.client,
      name: "tokens",
      strategy: tokenBucket({ burst: 1000, rate: 0.001 }),
      ...options,
    });
  }

  /** The next message has a fate. */
  next(fate: Fate): void {
    this.fates.set(this.transport.messages, fate);
  }

  async remaining(key = "ada"): Promise<number> {
    const { remaining } = await this.limiter.peek(key);
    return remaining;
  }
}

describe("a reservation of a limiter", () => {
  it("a reservation settles with its real cost, and releases all of it", async () => {
    const desk = new Desk();
    const held = await desk.limiter.reserve("ada", { cost: 800, ttlMs: 60_000 });
    expect(held).toMatchObject({ success: true, remaining: 200, id: expect.any(String) });
    expect(await held.settle(523)).toMatchObject({ success: true, remaining: 477, settled: 523 });
    expect(await held.release()).toMatchObject({ remaining: 477, settled: 523 });
    const other = await desk.limiter.reserve("ada", { cost: 400 });
    expect(await other.release()).toMatchObject({ remaining: 477, settled: 0 });
  });

  it("a refused reservation settles nothing, without a call", async () => {
    const desk = new Desk();
    const held = await desk.limiter.reserve("ada", { cost: 1001 });
    expect(held).toMatchObject({ success: false, id: null, reason: "cost_exceeds_limit" });
    const { messages } = desk.transport;
    expect(await held.settle(5)).toMatchObject({ success: false, settled: null });
    expect(await held.release()).toMatchObject({ settled: null });
    expect(desk.transport.messages).toBe(messages);
  });

  it.each(KEYS)("the id of a reservation of %s settles it from another Worker", async (key) => {
    const desk = new Desk();
    const { id } = await desk.limiter.reserve(key, { cost: 800 });
    expect(await desk.other().settle(id!, 900)).toMatchObject({ remaining: 100, settled: 900 });
    expect(await desk.remaining(key)).toBe(100);
  });

  it("a lost reply to a reservation or a settlement is asked for again, and counts once", async () => {
    const desk = new Desk();
    desk.next("lost");
    const held = await desk.limiter.reserve("ada", { cost: 800 });
    expect(held).toMatchObject({ success: true, remaining: 200 });
    desk.next("lost");
    expect(await held.settle(523)).toMatchObject({ remaining: 477, settled: 523 });
    expect(await desk.remaining()).toBe(477);
  });

  it.each(["a call", "a call of a batch"])(
    "%s that reserves is not sent again once its first reservation may have ended",
    async (how) => {
      const { transport } = new Desk();
      const clock = new FakeClock();
      /** The first reply is lost after 2 s. */
      const exchange = async (message: Uint8Array<ArrayBuffer>): Promise<Uint8Array> => {
        const replies = await transport.exchange(message);
        if (transport.messages > 1) return replies;
        await pause(2_000, clock, []);
        transport.nowMs += 2_000;
        throw new ThrottrError("outcome_unknown", "cut");
      };
      const client = new ThrottrClient({ exchange, connect: () => transport.connect() }, { clock });
      const strategy = tokenBucket({ burst: 1000, rate: 0.001 });
      const limit = { name: "tokens", key: "ada", strategy };
      const request = { ...limit, cost: 400, ttlMs: 1_000 };
      const call =
        how === "a call"
          ? client.reserve(request, { timeoutMs: 10_000 })
          : client.batch([["reserve", request]], { timeoutMs: 10_000 });
      const outcome = call.then(
        (value) => JSON.stringify(value),
        (error: unknown) => String(error),
      );
      await clock.pass(10_000);
      expect(await outcome).toMatch(/timeout: no answer within 1000 ms/);
      expect(transport.messages).toBe(1);
      expect((await client.peek(limit)).remaining).toBe(600);
    },
  );

  it("an unsettled reservation counts as spent when its time is over", async () => {
    const desk = new Desk();
    const held = await desk.limiter.reserve("ada", { cost: 800, ttlMs: 1000 });
    desk.transport.nowMs += 1000;
    await expect(held.settle(1)).rejects.toMatchObject({ code: "reservation_ended" });
    expect(await desk.remaining()).toBe(200);
  });

  const caches: [string, string, Partial<RateLimiterOptions>][] = KEYS.flatMap((key) => [
    ["cached", key, { cache: new RefusalCache() }],
    ["local", key, { local: { leaseMs: 10_000 } }],
  ]);

  it.each(caches)(
    "a settlement ends a %s refusal of %s, also by the id",
    async (by, key, options) => {
      const desk = new Desk(options);
      for (const settle of ["held", "id"]) {
        const held = await desk.limiter.reserve(key, { cost: 900 });
        expect(await desk.limiter.limit(key, { cost: 200 })).toMatchObject({ success: false });
        expect(await desk.limiter.limit(key, { cost: 200 })).toMatchObject({
          success: false,
          [by]: true,
        });
        if (settle === "held") await held.release();
        else await desk.limiter.settle(held.id!, 0);
        expect(await desk.limiter.limit(key, { cost: 200 })).toMatchObject({ success: true });
        await desk.limiter.reset(key);
      }
    },
  );
});

describe("a reservation where the server can't be asked", () => {
  const failure = new ThrottrError("internal", "down");

  it("a limiter that is open lets it pass without an id, and settling does nothing", async () => {
    const desk = new Desk({ onError: "open" });
    desk.next(failure);
    const held = await desk.limiter.reserve("ada", { cost: 800 });
    expect(held).toMatchObject({ success: true, id: null, reason: "error" });
    const { messages } = desk.transport;
    expect(await held.settle(5)).toMatchObject({ success: true, settled: null });
    expect(desk.transport.messages).toBe(messages);
    expect(await desk.remaining()).toBe(1000);
  });

  it("a limiter that is closed refuses it, and a failed settlement says why", async () => {
    const desk = new Desk({ onError: "closed" });
    desk.next(failure);
    expect(await desk.limiter.reserve("ada")).toMatchObject({ success: false, id: null });
    const held = await desk.limiter.reserve("ada", { cost: 800 });
    desk.next(failure);
    const settled = await held.settle(5);
    expect(settled).toMatchObject({ success: false, settled: null, reason: "error" });
    expect(settled.error).toBe(failure);
    expect(await held.settle(5)).toMatchObject({ settled: 5, remaining: 995 });
  });

  it("without onError the failure is thrown", async () => {
    const desk = new Desk();
    desk.next(failure);
    await expect(desk.limiter.reserve("ada")).rejects.toBe(failure);
  });

  it("an aborted reservation is not sent", async () => {
    const desk = new Desk({ onError: "open" });
    const signal = AbortSignal.abort(new Error("gone"));
    await expect(desk.limiter.reserve("ada", { signal })).rejects.toThrow("gone");
    expect(desk.transport.messages).toBe(0);
  });

  it.each([
    ["has no such method", {}],
    [
      "does not know the call",
      {
        reserve: () =>
          Promise.reject(new TypeError('The RPC receiver does not implement "reserve"')),
        settle: () => Promise.reject(new ThrottrError("request_type_unknown", "0x38")),
      },
    ],
  ])("a server before 0.5, which %s, is named", async (_, calls) => {
    const throttr = { limit: null, ...calls } as unknown as LimitBackend;
    const limiter = new Desk().other({ throttr });
    const expected = { code: "request_type_unknown", message: expect.stringContaining("0.5") };
    await expect(limiter.reserve("ada")).rejects.toMatchObject(expected);
    const id = "6ba7b810-9dad-41d1-80b4-00c04fd430c8.ada";
    await expect(limiter.settle(id, 1)).rejects.toMatchObject(expected);
  });
});

it("a wrong cost of a settlement throws, also where nothing was reserved", async () => {
  const desk = new Desk();
  const granted = await desk.limiter.reserve("ada");
  const refused = await desk.limiter.reserve("ada", { cost: 5000 });
  for (const held of [granted, refused]) {
    await expect(held.settle(-1)).rejects.toThrow(/^cost_invalid: cost: /);
    await expect(held.settle(1, { cost: 1 } as never)).rejects.toThrow(/^option_invalid: cost: /);
  }
});

describe("a reservation in shadow mode", () => {
  it("a limiter in shadow mode charges, settles and never refuses", async () => {
    const desk = new Desk({ shadow: true });
    const held = await desk.limiter.reserve("ada", { cost: 800 });
    const refused = await desk.limiter.reserve("ada", { cost: 800 });
    expect(refused).toMatchObject({ success: true, id: null, shadow: { success: false } });
    expect(await refused.settle(5000)).toMatchObject({ success: true, settled: null });
    expect(await held.settle(1200)).toMatchObject({
      success: true,
      settled: 1200,
      shadow: { success: false, remaining: 0 },
    });
  });
});

describe("wrong arguments of a reservation", () => {
  const { limiter } = new Desk({ onError: "open" });

  it.each([
    [{ cost: 0 }, "cost_invalid"],
    [{ ttlMs: 999 }, "ttl_invalid"],
    [{ ttlMs: 86_400_001 }, "ttl_invalid"],
    [{ ttl: 5 }, "option_invalid"],
  ])("reserve with %j is refused, whatever onError is", async (options, code) => {
    await expect(limiter.reserve("ada", options as object)).rejects.toMatchObject({ code });
  });

  it.each([
    ["", 1, "reservation_invalid"],
    [undefined, 1, "reservation_invalid"],
    ["6ba7b810-9dad-41d1-80b4-00c04fd430c8", 1, "reservation_invalid"],
    ["6ba7b810-9dad-41d1-80b4-00c04fd430c8.", 1, "reservation_invalid"],
    ["6ba7b810-9dad-41d1-80b4-00c04fd430c8.a b", 1, "reservation_invalid"],
    ["6ba7b810x9dad-41d1-80b4-00c04fd430c8.ada", 1, "reservation_invalid"],
    ["6ba7b810-9dad-41d1-80b4-00c04fd430c8.ada", -1, "cost_invalid"],
    ["6ba7b810-9dad-41d1-80b4-00c04fd430c8.ada", 0.5, "cost_invalid"],
  ])("settle of %s with %d is refused, whatever onError is", async (id, cost, code) => {
    await expect(limiter.settle(id as string, cost)).rejects.toMatchObject({ code });
  });
});
