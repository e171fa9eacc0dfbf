/** Calls of adapters whose caller is gone: what was not sent by then is never sent. */
import { beforeEach, describe, expect, it } from "vitest";
import { secondaryStorage } from "../../src/adapters/better-auth/index.ts";
import { ThrottrStore } from "../../src/adapters/express-rate-limit/index.ts";
import { KeyvThrottr } from "../../src/adapters/keyv/index.ts";
import { ThrottrStorage } from "../../src/adapters/nestjs/index.ts";
import { RateLimiterThrottr } from "../../src/adapters/rate-limiter-flexible/index.ts";
import { throttrDriver } from "../../src/adapters/unstorage/index.ts";
import { ThrottrClient, type ThrottrService } from "../../src/client/index.ts";
import { FakeServer } from "../support/client/server.ts";
import { FakeClock, settle } from "../support/rate-limits/backend.ts";

const TIMEOUT_MS = 7;

let clock: FakeClock;

beforeEach(() => {
  clock = new FakeClock();
});

/** A store with a window, as a middleware leaves it. */
function storeOf(throttr: ThrottrService): ThrottrStore {
  const store = new ThrottrStore({ throttr, clock, timeoutMs: TIMEOUT_MS });
  store.init({ windowMs: 60_000 });
  return store;
}

const optionsOf = (throttr: ThrottrService) => ({ throttr, clock, timeoutMs: TIMEOUT_MS });
/** The library knows no clock: its limiter waits for the platform's. */
const pointsOf = (storeClient: ThrottrService): RateLimiterThrottr =>
  new RateLimiterThrottr({ storeClient, points: 5, duration: 60, timeoutMs: TIMEOUT_MS });

const WRITES: readonly [string, (throttr: ThrottrService) => Promise<unknown>][] = [
  ["express-rate-limit", (throttr) => storeOf(throttr).increment("k")],
  ["nestjs", (throttr) => new ThrottrStorage(optionsOf(throttr)).increment("k", 1, 1, 1, "n")],
  ["rate-limiter-flexible", (throttr) => pointsOf(throttr).consume("k")],
  ["rate-limiter-flexible, block", (throttr) => pointsOf(throttr).block("k", 60)],
  ["better-auth, set", (throttr) => secondaryStorage(optionsOf(throttr)).set("k", "v")],
  ["better-auth, increment", (throttr) => secondaryStorage(optionsOf(throttr)).increment("k", 1)],
  ["better-auth, take", (throttr) => secondaryStorage(optionsOf(throttr)).getAndDelete("k")],
  ["keyv", (throttr) => new KeyvThrottr(optionsOf(throttr)).set("k", "v")],
  ["unstorage", (throttr) => throttrDriver(optionsOf(throttr)).setItem("k", "v")],
];

describe.each(WRITES)("a write of an adapter: %s", (_, write) => {
  it("a write that timed out before a client has sent it is never sent", async () => {
    const server = new FakeServer();
    const client = new ThrottrClient(server);
    const failed = write(client as never).catch((error: unknown) => error);
    await settle();
    await clock.advance(TIMEOUT_MS);
    expect(await failed).toMatchObject({ code: "timeout" });
    server.connection.open();
    await settle();
    expect(server.connection.messages).toEqual([]);
    await client.close();
  });

  it("a binding gets no signal, as RPC cannot carry one", async () => {
    const given: unknown[] = [];
    const call = (...all: unknown[]): Promise<never> => {
      given.push(...all);
      return Promise.reject(new Error("broken"));
    };
    // A stub has any property.
    await write(new Proxy({}, { get: () => call }) as ThrottrService).catch(() => {});
    expect(given.length).toBeGreaterThan(0);
    expect(given.flatMap((one) => Object.keys(one as object))).not.toContain("signal");
  });
});
