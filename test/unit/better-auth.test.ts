/** The storages of better-auth: their interfaces, and better-auth itself on top of them. */
import type { BetterAuthOptions, SecondaryStorage as Interface } from "better-auth";
import { betterAuth } from "better-auth";
import { memoryAdapter } from "better-auth/adapters/memory";
import { beforeEach, describe, expect, expectTypeOf, it, vi } from "vitest";
import {
  rateLimitStorage,
  secondaryStorage,
  type SecondaryStorage,
} from "../../src/adapters/better-auth/index.ts";
import type { ThrottrService } from "../../src/client/index.ts";
import { RateLimitError, ThrottrError } from "../../src/ratelimit/index.ts";
import { EngineServer } from "../support/client/engine-client.ts";
import { FakeClock } from "../support/rate-limits/backend.ts";

const ORIGIN = "http://localhost:3000";
const DAY_MS = 86_400_000;

let server: EngineServer;

beforeEach(() => {
  server = new EngineServer();
});

type Storage = NonNullable<NonNullable<BetterAuthOptions["rateLimit"]>["customStorage"]>;

describe("the interfaces", () => {
  it("the storages implement the interfaces of better-auth", () => {
    expectTypeOf(rateLimitStorage).returns.toExtend<Storage>();
    expectTypeOf<SecondaryStorage>().toExtend<Interface>();
    expectTypeOf<ThrottrService>().toExtend<Parameters<typeof secondaryStorage>[0]["throttr"]>();
    expectTypeOf<ThrottrService>().toExtend<Parameters<typeof rateLimitStorage>[0]["throttr"]>();
  });
});

describe("rateLimitStorage", () => {
  it("consume allows exactly the maximum under concurrency, each decision in one call", async () => {
    const storage = rateLimitStorage({ throttr: server.client });
    const rule = { window: 10, max: 3 };
    const messages = await server.messagesOf(async () => {
      for (let i = 0; i < 3; i++) await storage.consume("a|/sign-in", rule);
    });
    expect(messages).toBe(3);
    const decisions = await Promise.all(
      Array.from({ length: 20 }, () => storage.consume("b|/sign-in", rule)),
    );
    expect(decisions.filter(({ allowed }) => allowed)).toHaveLength(3);
    expect(await storage.consume("c|/sign-in", rule)).toEqual({ allowed: true, retryAfter: null });
  });

  it("consume says in seconds, rounded up, when the window ends, and then counts anew", async () => {
    const storage = rateLimitStorage({ throttr: server.client });
    const rule = { window: 10, max: 1 };
    await storage.consume("a", rule);
    server.advance(2_500);
    expect(await storage.consume("a", rule)).toEqual({ allowed: false, retryAfter: 8 });
    server.advance(7_500);
    expect(await storage.consume("a", rule)).toEqual({ allowed: true, retryAfter: null });
  });

  it("consume takes a rule that changes, and one that allows nothing", async () => {
    const storage = rateLimitStorage({ throttr: server.client });
    await storage.consume("a", { window: 10, max: 2 });
    await storage.consume("a", { window: 10, max: 2 });
    expect((await storage.consume("a", { window: 10, max: 3 })).allowed).toBe(true);
    expect((await storage.consume("a", { window: 10, max: 2 })).allowed).toBe(false);
    const messages = await server.messagesOf(async () => {
      const decision = await storage.consume("b", { window: 10, max: 0 });
      expect(decision).toEqual({ allowed: false, retryAfter: 10 });
    });
    expect(messages).toBe(0);
  });

  it.each([
    ["an endless maximum", { window: 60, max: Infinity }],
    ["a maximum above any count", { window: 60, max: 1e300 }],
    ["an endless window", { window: Infinity, max: 2 }],
    ["a window above 58 years", { window: 1e10, max: 2 }],
    ["no bound at all", { window: Infinity, max: Infinity }],
  ])("consume takes a rule with %s", async (_, rule) => {
    const storage = rateLimitStorage({ throttr: server.client });
    const decisions = [1, 2, 3].map(async () => (await storage.consume("a", rule)).allowed);
    expect(await Promise.all(decisions)).toEqual([true, true, rule.max > 2]);
    server.advance(50 * 365 * DAY_MS);
    expect((await storage.consume("a", rule)).allowed).toBe(rule.max > 2);
  });

  it("consume answers by onError where the server fails, and rejects without it", async () => {
    server.fate = "lost";
    const rule = { window: 10, max: 3 };
    const throttr = server.client;
    await expect(rateLimitStorage({ throttr }).consume("a", rule)).rejects.toMatchObject({
      code: "outcome_unknown",
    });
    const open = rateLimitStorage({ throttr, onError: "open" });
    expect(await open.consume("a", rule)).toEqual({ allowed: true, retryAfter: null });
    const closed = rateLimitStorage({ throttr, onError: "closed" });
    expect(await closed.consume("a", rule)).toEqual({ allowed: false, retryAfter: null });
  });

  it("with cache, repeated refusals need no call", async () => {
    const storage = rateLimitStorage({ throttr: server.client, cache: true });
    const rule = { window: 10, max: 1 };
    await storage.consume("a", rule);
    await storage.consume("a", rule);
    const messages = await server.messagesOf(async () => {
      expect((await storage.consume("a", rule)).allowed).toBe(false);
    });
    expect(messages).toBe(0);
  });

  it("rateLimitStorage and secondaryStorage count the same key in records of their own", async () => {
    const limits = rateLimitStorage({ throttr: server.client });
    const storage = secondaryStorage({ throttr: server.client });
    const rule = { window: 10, max: 1 };
    await storage.increment("counted first", 10);
    expect((await limits.consume("counted first", rule)).allowed).toBe(true);
    await limits.consume("limited first", rule);
    expect(await storage.increment("limited first", 10)).toBe(1);
  });

  it("rateLimitStorage checks its options when it is made", () => {
    const throttr = server.client;
    expect(() => rateLimitStorage({ throttr, name: "a b" })).toThrow(RateLimitError);
    expect(() => rateLimitStorage({ throttr, prefix: "a" } as never)).toThrow(/^configuration_inv/);
    expect(() => rateLimitStorage({} as never)).toThrow(/^configuration_invalid: throttr: /);
  });
});

describe("secondaryStorage", () => {
  let storage: SecondaryStorage;

  beforeEach(() => {
    storage = secondaryStorage({ throttr: server.client });
  });

  it("a value keeps a byte order mark at the beginning of its text", async () => {
    await storage.set("token", "\uFEFFx");
    expect(await storage.get("token")).toBe("\uFEFFx");
  });

  it("values are set, read and deleted, each in one call", async () => {
    const messages = await server.messagesOf(async () => {
      expect(await storage.get("token")).toBeNull();
      await storage.set("token", '{"user":"é"}', 60);
      expect(await storage.get("token")).toBe('{"user":"é"}');
      await storage.set("token", "other");
      expect(await storage.get("token")).toBe("other");
      await storage.delete("token");
      expect(await storage.get("token")).toBeNull();
    });
    expect(messages).toBe(7);
  });

  it("a TTL of null is none, and one that is not a number is refused", async () => {
    await storage.set("kept", "a", null as never);
    server.advance(86_400_000);
    expect(await storage.get("kept")).toBe("a");
    await expect(storage.set("kept", "b", NaN)).rejects.toThrow(/^ttl_invalid: /);
    await expect(storage.increment("counted", NaN)).rejects.toThrow(/^ttl_invalid: /);
  });

  it("a TTL is in seconds, and a value without one stays", async () => {
    await storage.set("short", "a", 60);
    await storage.set("fraction", "a", 0.5);
    await storage.set("none", "a");
    server.advance(499);
    expect(await storage.get("fraction")).toBe("a");
    server.advance(1);
    expect(await storage.get("fraction")).toBeNull();
    server.advance(59_499);
    expect(await storage.get("short")).toBe("a");
    server.advance(1);
    expect(await storage.get("short")).toBeNull();
    server.advance(50 * 365 * DAY_MS);
    expect(await storage.get("none")).toBe("a");
  });

  it("a TTL of 0, or below, is the rest of a second that better-auth rounded down", async () => {
    await storage.set("zero", "a", 0);
    await storage.set("below", "a", -1);
    await storage.increment("count", 0);
    server.advance(999);
    expect(await storage.get("zero")).toBe("a");
    server.advance(1);
    for (const key of ["zero", "below", "count"]) expect(await storage.get(key)).toBeNull();
  });

  it("increment counts exactly, and its TTL begins with the first", async () => {
    const counts = await Promise.all(Array.from({ length: 9 }, () => storage.increment("c", 10)));
    expect(counts.toSorted((a, b) => a - b)).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9]);
    server.advance(9_999);
    const messages = await server.messagesOf(async () => {
      expect(await storage.increment("c", 10)).toBe(10);
    });
    expect(messages).toBe(1);
    server.advance(1);
    expect(await storage.increment("c", 10)).toBe(1);
  });

  it("getAndDelete gives a value to one of many callers, in one call", async () => {
    await storage.set("otp", "123456", 60);
    await storage.increment("count", 60);
    const taken = await Promise.all(Array.from({ length: 8 }, () => storage.getAndDelete("otp")));
    expect(taken.filter((value) => value !== null)).toEqual(["123456"]);
    await storage.set("otp", "2", 60);
    const messages = await server.messagesOf(async () => {
      expect(await storage.getAndDelete("otp")).toBe("2");
    });
    expect(messages).toBe(1);
    expect(await storage.getAndDelete("count")).toBe("1");
    expect(await storage.getAndDelete("count")).toBeNull();
  });

  it("getAndDelete gives nothing to a caller whose record another one has removed", async () => {
    const value = new TextEncoder().encode("123456");
    const outcomes = [
      { ok: true, value: { value } },
      { ok: false, error: { code: "kind_mismatch", message: "kind_mismatch: a buffer" } },
      { ok: true, value: false },
    ];
    const throttr = { batch: async () => outcomes } as never;
    expect(await secondaryStorage({ throttr }).getAndDelete("otp")).toBeNull();
  });

  it("a counter reads as its digits, and is neither overwritten nor made of text", async () => {
    await storage.increment("a", 60);
    expect(await storage.get("a")).toBe("1");
    await expect(storage.set("a", "text", 60)).rejects.toMatchObject({ code: "kind_mismatch" });
    await storage.set("b", "text", 60);
    await expect(storage.increment("b", 60)).rejects.toMatchObject({ code: "kind_mismatch" });
  });

  it("two storages of different prefixes share nothing, and any key is accepted", async () => {
    const other = secondaryStorage({ throttr: server.client, prefix: "other:" });
    for (const key of ["", "a/b c", "x".repeat(500), "verification:sign-in-otp-a@b.example"]) {
      await storage.set(key, key, 60);
      expect(await storage.get(key)).toBe(key);
      expect(await other.get(key)).toBeNull();
    }
  });

  it("a call that is not answered in time fails with timeout", async () => {
    const clock = new FakeClock();
    const throttr = { batch: null, get: () => new Promise<never>(() => {}) } as never;
    const hanging = secondaryStorage({ throttr, timeoutMs: 100, clock }).get("a");
    const caught = hanging.catch((error: unknown) => error);
    await clock.advance(100);
    expect(await caught).toMatchObject({ code: "timeout" });
    expect(await caught).toBeInstanceOf(ThrottrError);
    expect(clock.timers).toBe(0);
  });

  it("secondaryStorage refuses wrong options", () => {
    const throttr = server.client;
    expect(() => secondaryStorage({} as never)).toThrow(/^configuration_invalid: throttr: /);
    expect(() => secondaryStorage({ throttr, prefix: "" })).toThrow(/^configuration_inv.*prefix/);
    expect(() => secondaryStorage({ throttr, timeoutMs: 0 })).toThrow(/^option_inv.*timeoutMs/);
    expect(() => secondaryStorage({ throttr, clock: {} } as never)).toThrow(/^option_inv.*clock/);
    expect(() => secondaryStorage({ throttr, ttl: 5 } as never)).toThrow(/^configuration_inv.*ttl/);
  });
});

describe("better-auth", () => {
  function authOf(options: Partial<BetterAuthOptions>) {
    const tables = { user: [], session: [], account: [], verification: [] };
    return betterAuth({
      baseURL: ORIGIN,
      secret: "a secret that is long enough for a test of better-auth",
      database: memoryAdapter(tables),
      emailAndPassword: {
        enabled: true,
        // The real hash takes a tenth of a second of the processor.
        password: {
          hash: async (password) => `hash of ${password}`,
          verify: async ({ hash, password }) => hash === `hash of ${password}`,
        },
      },
      telemetry: { enabled: false },
      ...options,
    });
  }
  type Auth = ReturnType<typeof authOf>;

  async function post(auth: Auth, path: string, body: object, address: string): Promise<Response> {
    return await auth.handler(
      new Request(`${ORIGIN}/api/auth${path}`, {
        method: "POST",
        headers: {
          "content-type": "application/json",
          "x-forwarded-for": address,
          origin: ORIGIN,
        },
        body: JSON.stringify(body),
      }),
    );
  }

  const ada = { email: "ada@example.com", password: "correct horse", name: "Ada" };

  it("better-auth limits sign-ins exactly, however many come at once", async () => {
    const auth = authOf({
      rateLimit: { enabled: true, customStorage: rateLimitStorage({ throttr: server.client }) },
    });
    await post(auth, "/sign-up/email", ada, "203.0.113.1");
    const guesses = await Promise.all(
      Array.from({ length: 12 }, () => post(auth, "/sign-in/email", ada, "203.0.113.7")),
    );
    const statuses = guesses.map(({ status }) => status);
    expect(statuses.filter((status) => status === 200)).toHaveLength(3);
    expect(statuses.filter((status) => status === 429)).toHaveLength(9);
    const refused = guesses.find(({ status }) => status === 429)!;
    expect(refused.headers.get("x-retry-after")).toBe("10");
    server.advance(10_000);
    expect((await post(auth, "/sign-in/email", ada, "203.0.113.7")).status).toBe(200);
  });

  it("better-auth rejects a request whose limit can't be asked, and goes on with onError", async () => {
    const throttr = server.client;
    const signIn = async (customStorage: Storage): Promise<number> => {
      const auth = authOf({ rateLimit: { enabled: true, customStorage } });
      return (await post(auth, "/sign-in/email", ada, "203.0.113.7")).status;
    };
    server.fate = "lost";
    await expect(signIn(rateLimitStorage({ throttr }))).rejects.toMatchObject({
      code: "outcome_unknown",
    });
    expect(await signIn(rateLimitStorage({ throttr, onError: "open" }))).toBe(401);
    expect(await signIn(rateLimitStorage({ throttr, onError: "closed" }))).toBe(429);
  });

  it("better-auth limits by the counters of the secondary storage, too", async () => {
    const auth = authOf({
      rateLimit: { enabled: true, storage: "secondary-storage" },
      secondaryStorage: secondaryStorage({ throttr: server.client }),
    });
    await post(auth, "/sign-up/email", ada, "203.0.113.1");
    const guesses = await Promise.all(
      Array.from({ length: 12 }, () => post(auth, "/sign-in/email", ada, "203.0.113.7")),
    );
    expect(guesses.filter(({ status }) => status === 200)).toHaveLength(3);
  });

  it("better-auth keeps sessions in the secondary storage until they end or are signed out", async () => {
    const storage = { secondaryStorage: secondaryStorage({ throttr: server.client }) };
    const auth = authOf({ rateLimit: { enabled: false }, ...storage });
    const signedUp = await post(auth, "/sign-up/email", ada, "203.0.113.1");
    const cookie = signedUp.headers.getSetCookie()[0]!.split(";")[0]!;
    const headers = new Headers({ cookie, origin: ORIGIN });
    expect((await auth.api.getSession({ headers }))!.user.email).toBe(ada.email);
    // Another instance, as in another isolate: its memory has no session.
    const other = authOf({ rateLimit: { enabled: false }, ...storage });
    expect((await other.api.getSession({ headers }))!.user.email).toBe(ada.email);
    await other.api.signOut({ headers });
    expect(await auth.api.getSession({ headers })).toBeNull();
  });

  it("a session of better-auth ends with the TTL of its record", async () => {
    const storage = { secondaryStorage: secondaryStorage({ throttr: server.client }) };
    const auth = authOf({ rateLimit: { enabled: false }, ...storage, session: { expiresIn: 60 } });
    const signedUp = await post(auth, "/sign-up/email", ada, "203.0.113.1");
    const headers = new Headers({ cookie: signedUp.headers.getSetCookie()[0]!.split(";")[0]! });
    expect(await auth.api.getSession({ headers })).not.toBeNull();
    // The clock of better-auth stands still: only the server's record has ended.
    server.advance(60_000);
    expect(await auth.api.getSession({ headers })).toBeNull();
  });

  it("a session of better-auth that is refreshed in its last second ends", async () => {
    vi.useFakeTimers({ toFake: ["Date"] });
    try {
      const storage = { secondaryStorage: secondaryStorage({ throttr: server.client }) };
      const session = { expiresIn: 60 };
      const auth = authOf({ rateLimit: { enabled: false }, ...storage, session });
      const signedUp = await post(auth, "/sign-up/email", ada, "203.0.113.1");
      const headers = new Headers({ cookie: signedUp.headers.getSetCookie()[0]!.split(";")[0]! });
      vi.advanceTimersByTime(59_500);
      server.advance(59_500);
      await auth.api.updateUser({ body: { name: "Countess" }, headers });
      expect((await auth.api.getSession({ headers }))!.user.name).toBe("Countess");
      // The clock of better-auth stands still: only the server's record has ended.
      server.advance(1_000);
      expect(await auth.api.getSession({ headers })).toBeNull();
    } finally {
      vi.useRealTimers();
    }
  });
});
