/** The client over a connection: when it connects, sends, waits, pings, gives up and comes back. */
import { getEventListeners } from "node:events";
import { describe, expect, it } from "vitest";
import { ThrottrClient } from "../../src/client/client.ts";
import type { ClientOptions } from "../../src/client/options.ts";
import type { Message, Subscription } from "../../src/client/channels/subscription.ts";
import type { ThrottrError } from "../../src/wire/edge/error.ts";
import { RequestType } from "../../src/wire/throttr/requests.ts";
import { FakeClock, SuspendedClock, turn } from "../support/client/clock.ts";
import { FakeServer, framesOf, quotaOf } from "../support/client/server.ts";

const TTL = { ttlMs: 1000 };

function start(options: ClientOptions = {}) {
  const server = new FakeServer();
  const clock = new FakeClock();
  const client = new ThrottrClient(server, { clock, ...options });
  return { server, clock, client };
}

async function startOpen(options: ClientOptions = {}) {
  const started = start(options);
  const first = started.client.query("first");
  await turn();
  started.server.connection.open();
  started.server.connection.serve();
  await first;
  return started;
}

/** How a call ended: its result, or the code of its error. */
function outcome(call: Promise<unknown>): {
  readonly is: unknown;
  readonly error: ThrottrError | null;
} {
  const seen: { is: unknown; error: ThrottrError | null } = { is: "pending", error: null };
  call.then(
    (value) => (seen.is = value),
    (error: ThrottrError) => {
      seen.is = error.code;
      seen.error = error;
    },
  );
  return seen;
}

/** Reads a subscription to its end. */
function read(subscription: Subscription) {
  const seen: { messages: Message[]; ended: unknown } = { messages: [], ended: null };
  void (async () => {
    try {
      for await (const message of subscription) seen.messages.push(message);
      seen.ended = "done";
    } catch (error) {
      seen.ended = (error as ThrottrError).code;
    }
  })();
  return seen;
}

const texts = (messages: readonly Message[]): string[] => messages.map((message) => message.text());

describe("calls", () => {
  it("the first call connects, and calls made together travel in one message", async () => {
    const { server, client } = start();
    await turn();
    expect(server.connections).toHaveLength(0);
    const calls = ["a", "b", "c"].map((key) => client.increment(key, TTL));
    await turn();
    server.connection.open();
    expect(server.connection.messages).toHaveLength(1);
    expect(framesOf(server.connection.messages[0]!).map(({ name }) => name)).toEqual([
      "a",
      "b",
      "c",
    ]);
    const later = client.query("d");
    await turn();
    expect(server.connection.messages).toHaveLength(2);
    server.connection.serve();
    expect(await Promise.all(calls)).toEqual(["a", "b", "c"].map(quotaOf));
    expect((await later)?.quota).toBe(quotaOf("d"));
    expect(server.connections).toHaveLength(1);
  });

  it("an invalid call rejects its promise and sends nothing", async () => {
    const { server, client } = start();
    await expect(client.insert("a", { quota: -1, ttlMs: 1 })).rejects.toThrow(/^quota_invalid: /);
    await expect(client.query("a", { timeoutMs: 0 })).rejects.toThrow(/^option_invalid: timeoutMs/);
    const requests = [{ name: "" }] as never;
    await expect(client.limitMany(requests)).rejects.toThrow(/^strategy_unknown: /);
    await turn();
    expect(server.connections).toHaveLength(0);
  });

  it("calls wait while 1 MiB is unanswered, and larger calls go alone", async () => {
    const { server, client } = await startOpen();
    const value = new Uint8Array(400_000);
    const sent = ["a", "b", "c", "d"].map((key) => client.set(key, value, TTL));
    const large = client.set("large", new Uint8Array(1_500_000), TTL);
    const last = client.query("last");
    await turn();
    const names = (): string[] => server.connection.frames.map(({ name }) => name);
    expect(names()).toEqual(["a", "b"]);
    server.connection.push("*", "anything");
    server.connection.deliver();
    expect(names()).toEqual(["a", "b"]);
    server.connection.answer(1);
    server.connection.deliver();
    expect(names()).toEqual(["b", "c"]);
    server.connection.serve();
    expect(names()).toEqual(["d"]);
    server.connection.serve();
    expect(names()).toEqual(["large"]);
    server.connection.serve();
    expect(names()).toEqual(["last"]);
    server.connection.serve();
    await Promise.all([...sent, large, last]);
  });

  it("calls beyond the queue's length fail with queue_full", async () => {
    const { server, client } = start({ queueMax: 2, queueBytesMax: 100 });
    const seen = ["a", "b", "c"].map((key) => outcome(client.increment(key, TTL)));
    await turn();
    expect(seen.map(({ is }) => is)).toEqual(["pending", "pending", "queue_full"]);
    server.connection.open();
    server.connection.serve();
    await turn();
    expect(seen.map(({ is }) => is)).toEqual([quotaOf("a"), quotaOf("b"), "queue_full"]);
  });

  it("calls beyond the queue's bytes fail with queue_full", async () => {
    const { client } = start({ queueBytesMax: 100 });
    const seen = [60, 60, 10].map((bytes) => outcome(client.set("a", new Uint8Array(bytes), TTL)));
    await turn();
    expect(seen.map(({ is }) => is)).toEqual(["pending", "queue_full", "queue_full"]);
    const alone = start({ queueBytesMax: 100 });
    const large = outcome(alone.client.set("a", new Uint8Array(1000), TTL));
    await turn();
    expect(large.is).toBe("pending");
  });

  it("calls that leave the queue give their bytes back", async () => {
    const { client } = start({ queueBytesMax: 100 });
    void client.query("waits");
    for (let i = 0; i < 5; i++) {
      const aborter = new AbortController();
      const set = client.set("a", new Uint8Array(50), { ...TTL, signal: aborter.signal });
      const seen = outcome(set);
      await turn();
      expect(seen.is).toBe("pending");
      aborter.abort();
    }
  });

  it("settled calls stop listening to their signal", async () => {
    const { server, client } = await startOpen();
    const { signal } = new AbortController();
    const call = client.query("a", { signal });
    const news = client.subscribe("news", { signal });
    expect(getEventListeners(signal, "abort")).toHaveLength(2);
    await turn();
    server.connection.serve();
    await call;
    await news.return();
    expect(getEventListeners(signal, "abort")).toHaveLength(0);
  });

  it("calls of one signal share a listener, and each of them ends with it", async () => {
    const { client } = start();
    const aborter = new AbortController();
    const { signal } = aborter;
    const batch = client.batch(
      Array.from({ length: 11 }, (_, i) => ["get", `key ${i}`] as const),
      { signal },
    );
    const call = outcome(client.query("a", { signal }));
    expect(getEventListeners(signal, "abort")).toHaveLength(1);
    aborter.abort();
    const aborted = { ok: false, error: { code: "aborted" } };
    expect(await batch).toMatchObject(Array.from({ length: 11 }, () => aborted));
    expect(call.is).toBe("aborted");
    expect(getEventListeners(signal, "abort")).toHaveLength(0);
  });

  it("the queue does not bound calls that can be sent at once", async () => {
    const { server, client } = await startOpen({ queueMax: 2 });
    const calls = Array.from({ length: 10 }, (_, i) => client.query(`key ${i}`));
    await turn();
    server.connection.serve();
    await Promise.all(calls);
  });

  it("aborted calls leave the queue and make room", async () => {
    const { server, client } = start({ queueMax: 1 });
    const aborter = new AbortController();
    const aborted = outcome(client.increment("a", { ...TTL, signal: aborter.signal }));
    await turn();
    aborter.abort("enough");
    await turn();
    expect(aborted.error?.message).toBe(
      "aborted: the signal of the call was aborted: the call was not sent, so nothing was applied",
    );
    expect(aborted.error?.cause).toBe("enough");
    const other = client.increment("b", TTL);
    await turn();
    server.connection.open();
    expect(server.connection.frames.map(({ name }) => name)).toEqual(["b"]);
    server.connection.serve();
    expect(await other).toBe(quotaOf("b"));
  });

  it("calls aborted before they are made are not sent", async () => {
    const { server, client } = start();
    const call = client.query("a", { signal: AbortSignal.abort() });
    await expect(call).rejects.toThrow(/^aborted: /);
    expect(server.connections).toHaveLength(0);
  });

  it("calls aborted after they were sent fail at once, and their replies are skipped", async () => {
    const { server, client } = await startOpen();
    const aborter = new AbortController();
    const aborted = outcome(client.increment("a", { ...TTL, signal: aborter.signal }));
    const other = client.increment("b", TTL);
    await turn();
    aborter.abort();
    await turn();
    expect(aborted.error?.message).toContain("was sent and may have been applied");
    server.connection.serve();
    expect(await other).toBe(quotaOf("b"));
  });

  it("one timer ends all late calls, sent or not", async () => {
    const { server, clock, client } = start();
    const slow = outcome(client.increment("slow", { ...TTL, timeoutMs: 700 }));
    const seen = outcome(client.increment("a", { ...TTL, timeoutMs: 500 }));
    await turn();
    expect(clock.pendingMs).toHaveLength(2); // of the calls, and of the connection
    await clock.pass(499);
    expect(seen.is).toBe("pending");
    await clock.pass(1);
    expect(seen.error?.message).toBe(
      "timeout: no answer within 500 ms: the call was not sent, so nothing was applied",
    );
    expect(slow.is).toBe("pending");
    await clock.pass(150);
    server.connection.open();
    expect(server.connection.frames.map(({ name }) => name)).toEqual(["slow"]);
    await clock.pass(50);
    expect(slow.error?.message).toContain("timeout: no answer within 700 ms: the call was sent");
    server.connection.serve();
    const later = client.increment("b", TTL);
    await turn();
    server.connection.serve();
    expect(await later).toBe(quotaOf("b"));
  });
});

describe("a lost connection", () => {
  it("a lost connection leaves the outcome of sent calls unknown, and repeats those that may be repeated", async () => {
    const { server, clock, client } = await startOpen();
    const increment = outcome(client.increment("a", TTL));
    const query = outcome(client.query("b"));
    const once = outcome(client.increment("c", { ...TTL, idempotencyKey: "1" }));
    await turn();
    server.connection.end();
    const unsent = outcome(client.increment("d", TTL));
    await turn();
    expect(increment.error?.message).toMatch(
      /^outcome_unknown: the connection was lost before the answer: connection_failed: /,
    );
    await clock.pass(200);
    server.connection.open();
    expect(server.connection.frames.map(({ name }) => name)).toEqual(["b", "c", "d"]);
    server.connection.serve();
    await turn();
    expect(query.is).toMatchObject({ quota: quotaOf("b") });
    expect([once.is, unsent.is]).toEqual([quotaOf("c"), quotaOf("d")]);
  });

  it("a call on a lost connection is not sent again when its time is over by the wall clock", async () => {
    const clock = new SuspendedClock();
    const server = new FakeServer();
    const client = new ThrottrClient(server, { clock, timeoutMs: 10_000 });
    const first = client.query("first");
    await turn();
    server.connection.open();
    server.connection.serve();
    await first;
    const late = outcome(client.increment("a", { ...TTL, idempotencyKey: "1" }));
    await turn();
    clock.suspendedMs = 9_000;
    const fresh = outcome(client.increment("b", { ...TTL, idempotencyKey: "2" }));
    await turn();
    server.connection.end();
    clock.suspendedMs = 10_000;
    await clock.pass(200);
    server.connection.open();
    expect(server.connection.frames.map(({ name }) => name)).toEqual(["b"]);
    server.connection.serve();
    await turn();
    expect(late.error?.message).toMatch(/^timeout: .* may have been applied$/);
    expect(fresh.is).toBe(quotaOf("b"));
  });

  it("a draw on a lost connection may have been applied, so the next one does not carry it", async () => {
    const { server, clock, client } = await startOpen();
    const strategy = { strategy: "gcra", burst: 5, rate: 1 } as const;
    const drawn = outcome(client.draw({ name: "api", key: "a", strategy }));
    void client.query("b");
    await turn();
    server.connection.end();
    await clock.pass(1_000);
    server.connection.open();
    expect(drawn.is).toBe("outcome_unknown");
    expect(server.connections).toHaveLength(2);
    expect(server.connection.frames.map(({ name }) => name)).toEqual(["b"]);
  });

  it("a lost connection keeps the order of sent calls and of those behind them", async () => {
    const { server, clock, client } = await startOpen();
    const once = (idempotencyKey: string) => ({ ...TTL, idempotencyKey });
    const value = new Uint8Array(700_000);
    const calls = ["a", "b", "c"].map((key) => client.set(key, value, once(key)));
    await turn();
    expect(server.connection.frames.map(({ name }) => name)).toEqual(["a"]);
    server.connection.end();
    await clock.pass(200);
    server.connection.open();
    const names: string[] = [];
    for (let i = 0; i < 3; i++) {
      names.push(...server.connection.frames.map(({ name }) => name));
      server.connection.serve();
    }
    await Promise.all(calls);
    expect(names).toEqual(["a", "b", "c"]);
  });

  it("a call fails after three lost connections in a row", async () => {
    const { server, clock, client } = await startOpen();
    const query = outcome(client.query("b"));
    await turn();
    for (let attempt = 0; attempt < 3; attempt++) {
      expect(query.is).toBe("pending");
      server.connection.end();
      await clock.pass(1000);
      if (attempt < 2) server.connection.open();
    }
    expect(query.is).toBe("outcome_unknown");
    expect(server.connections).toHaveLength(3);
  });

  it("calls that an expired token left unanswered were not applied, and are sent again", async () => {
    const { server, clock, client } = await startOpen();
    const calls = ["a", "b"].map((key) => client.increment(key, TTL));
    await turn();
    server.connection.answer(1);
    server.connection.deliver();
    server.connection.end("token_expired");
    await clock.pass(200);
    server.connection.open();
    expect(server.connection.frames.map(({ name }) => name)).toEqual(["b"]);
    server.connection.serve();
    expect(await Promise.all(calls)).toEqual([quotaOf("a"), quotaOf("b")]);
  });

  it("a call that times out after an orderly close was not applied, and says so", async () => {
    const { server, clock, client } = await startOpen();
    const call = outcome(client.increment("a", { ...TTL, timeoutMs: 100 }));
    await turn();
    server.connection.end("token_expired");
    await clock.pass(100);
    expect(call.error?.message).toMatch(/^timeout: .* nothing was applied$/);
  });

  it("a connection closed because of one frame fails only the call of that frame", async () => {
    const { server, clock, client } = await startOpen();
    const [first, large, last] = ["a", "b", "c"].map((key) => outcome(client.increment(key, TTL)));
    await turn();
    server.connection.answer(1);
    server.connection.deliver();
    server.connection.end("frame_too_large");
    await clock.pass(200);
    server.connection.open();
    server.connection.serve();
    await turn();
    expect([first!.is, large!.is, last!.is]).toEqual([
      quotaOf("a"),
      "frame_too_large",
      quotaOf("c"),
    ]);
  });

  it("a connection closed for good fails all calls with the server's code", async () => {
    const { server, clock, client } = await startOpen();
    const seen = read(client.subscribe("news"));
    await turn();
    server.connection.serve();
    const call = outcome(client.increment("a", TTL));
    await turn();
    server.connection.end("token_expired", true);
    await turn();
    expect(call.is).toBe("token_expired");
    expect(seen.ended).toBe("token_expired");
    await clock.pass(60_000);
    expect(server.connections).toHaveLength(1);
    const later = client.increment("b", TTL);
    await turn();
    expect(server.connections).toHaveLength(2);
    server.connection.open();
    server.connection.serve();
    expect(await later).toBe(quotaOf("b"));
  });

  it("a transport that throws where it should connect is tried again, and its error is that of the calls", async () => {
    const clock = new FakeClock();
    let connects = 0;
    const connect = (): never => {
      connects++;
      throw new Error("no sockets here");
    };
    const client = new ThrottrClient({ connect }, { clock });
    const call = outcome(client.query("a"));
    const seen = read(client.subscribe("news"));
    await clock.pass(10_000);
    expect([connects, call.is, seen.ended]).toEqual([3, "connection_failed", "connection_failed"]);
    expect(call.error!.message).toContain("no sockets here");
    expect(clock.pendingMs).toEqual([]);
  });

  it("a lost connection is not replaced before it is needed", async () => {
    const { server, clock, client } = await startOpen();
    server.connection.end();
    await clock.pass(60_000);
    expect(server.connections).toHaveLength(1);
    void client.query("a");
    await turn();
    expect(server.connections).toHaveLength(2);
  });

  it("a connection can fail when something is sent", async () => {
    const { server, clock, client } = await startOpen();
    const old = server.connection;
    old.isBroken = true;
    const increment = outcome(client.increment("a", TTL));
    const query = client.query("b");
    await turn();
    expect(increment.is).toBe("outcome_unknown");
    expect(old.state).toBe("closed");
    await clock.pass(200);
    server.connection.open();
    server.connection.serve();
    expect((await query)?.quota).toBe(quotaOf("b"));
  });

  it("a connection fails when a reply cannot be parsed", async () => {
    const { server, client } = await startOpen();
    const call = outcome(client.increment("a", TTL));
    await turn();
    server.connection.queue(Uint8Array.of(7));
    server.connection.deliver();
    await turn();
    expect(call.error?.message).toContain("reply_invalid");
    expect(server.connection.state).toBe("closed");
  });

  it("a connection that was given up reports nothing", async () => {
    const { server, clock, client } = await startOpen();
    const old = server.connection;
    const call = client.query("a");
    await turn();
    old.answer();
    old.end();
    await clock.pass(200);
    server.connection.open();
    old.deliver();
    old.open();
    old.end();
    await turn();
    expect(server.connection.state).toBe("open");
    server.connection.serve();
    expect((await call)?.quota).toBe(quotaOf("a"));
    expect(server.connection.state).toBe("open");
  });
});

describe("connecting", () => {
  it("connecting is tried three times for calls, after growing pauses", async () => {
    const { server, clock, client } = start();
    const call = outcome(client.increment("a", TTL));
    await turn();
    for (const waitMs of [199, 399]) {
      server.connection.end();
      await turn();
      expect(call.is).toBe("pending");
      expect(Math.min(...clock.pendingMs)).toBe(waitMs);
      await clock.pass(waitMs);
    }
    server.connection.end();
    await turn();
    expect(call.error?.message).toBe("connection_failed: the test ends it");
    expect(server.connections).toHaveLength(3);
  });

  it("a connection that lasted resets the count of attempts", async () => {
    const { server, clock, client } = start();
    const first = client.query("a");
    await turn();
    for (let attempt = 0; attempt < 2; attempt++) {
      server.connection.end();
      await clock.pass(1000);
    }
    server.connection.open();
    server.connection.serve();
    await first;
    server.connection.end();
    expect(clock.pendingMs).toEqual([]); // nobody needs another one
    const call = outcome(client.query("b", { timeoutMs: 60_000 }));
    await turn();
    for (const waitMs of [199, 399]) {
      server.connection.end();
      await turn();
      expect([call.is, clock.pendingMs[0]]).toEqual(["pending", waitMs]);
      await clock.pass(waitMs);
    }
    server.connection.open();
    for (let attempt = 0; attempt < 3; attempt++) {
      server.connection.end();
      await clock.pass(5000);
    }
    expect(call.is).toBe("pending");
    server.connection.open();
    server.connection.serve();
    await turn();
    expect(call.is).toMatchObject({ quota: quotaOf("b") });
  });

  it("a refused connection fails calls with the server's code", async () => {
    const { server, clock, client } = start({ attemptsMax: 2 });
    const call = outcome(client.increment("a", TTL));
    await turn();
    server.connection.end("connections_max");
    await clock.pass(1000);
    server.connection.end("connections_max");
    await turn();
    expect(call.is).toBe("connections_max");
  });

  it("connecting is given up when the server refuses for good", async () => {
    const { server, client } = start();
    const call = outcome(client.increment("a", TTL));
    await turn();
    server.connection.end("token_missing", true);
    await turn();
    expect(call.is).toBe("token_missing");
    expect(server.connections).toHaveLength(1);
  });

  it("connecting goes on for existing subscriptions, at most 30 s apart", async () => {
    const { server, clock, client } = await startOpen();
    const news = client.subscribe("news");
    const seen = read(news);
    await turn();
    server.connection.serve();
    await news.ready;
    await clock.pass(10_000); // no deadline is left
    server.connection.end();
    for (let attempt = 1; attempt <= 20; attempt++) {
      const [waitMs = NaN] = clock.pendingMs;
      expect(waitMs).toBe(Math.floor(Math.min(30_000, 200 * 2 ** (attempt - 1)) * 0.999_999));
      await clock.pass(waitMs);
      server.connection.end();
    }
    const late = client.subscribe("late", { timeoutMs: 100_000 });
    await clock.pass(30_000);
    server.connection.end();
    await expect(late.ready).rejects.toThrow(/^connection_failed: /);
    await clock.pass(30_000);
    server.connection.open();
    server.connection.answer();
    server.connection.push("news", "hello");
    server.connection.deliver();
    await turn();
    expect(texts(seen.messages)).toEqual(["hello"]);
  });

  it("pauses shrink again after a connection that lasted, and only then", async () => {
    const { server, clock, client } = await startOpen();
    read(client.subscribe("news"));
    await turn();
    const waits: number[] = [];
    for (const lastsMs of [0, 4999, 5000, 0]) {
      server.connection.serve();
      await clock.pass(lastsMs);
      server.connection.end();
      waits.push(Math.min(...clock.pendingMs));
      await clock.pass(waits.at(-1)!);
      server.connection.open();
    }
    expect(waits).toEqual([199, 399, 199, 399]);
  });

  it("connecting may take as long as a call", async () => {
    const { server, clock, client } = start({ timeoutMs: 1000 });
    const call = outcome(client.increment("a", { ...TTL, timeoutMs: 60_000 }));
    await turn();
    for (let attempt = 0; attempt < 3; attempt++) await clock.pass(1000 + 200 * 2 ** attempt);
    expect(call.error?.message).toBe("connection_failed: no connection within 1000 ms");
    expect(server.connections.map(({ state }) => state)).toEqual(["closed", "closed", "closed"]);
  });
});

describe("pings", () => {
  it("the client pings every 15 s, and gives up a server that does not answer", async () => {
    const { server, clock, client } = await startOpen();
    const old = server.connection;
    await clock.pass(14_999);
    expect(old.pings).toBe(0);
    await clock.pass(1);
    expect(old.pings).toBe(1);
    old.pong();
    await clock.pass(15_000);
    expect(old.pings).toBe(2);
    old.push("*", "anything");
    old.deliver();
    await clock.pass(15_000);
    expect([old.pings, old.state]).toEqual([3, "open"]);
    const call = outcome(client.increment("a", { ...TTL, timeoutMs: 60_000 }));
    await clock.pass(15_000);
    expect(old.state).toBe("closed");
    expect(call.error?.message).toContain("the server has sent nothing for 15000 ms");
  });

  it("the client pings whenever the server has sent 64 KiB", async () => {
    const { server } = await startOpen();
    const push = (): void => {
      server.connection.push("*", new Uint8Array(10_000));
      server.connection.deliver();
    };
    for (let i = 0; i < 6; i++) push();
    expect(server.connection.pings).toBe(0);
    push();
    expect(server.connection.pings).toBe(1);
    for (let i = 0; i < 7; i++) push();
    expect(server.connection.pings).toBe(2);
  });

  it("a ping that cannot be sent ends the connection", async () => {
    const { server, clock } = await startOpen({ pingIntervalMs: 100 });
    server.connection.isBroken = true;
    await clock.pass(100);
    expect(server.connection.state).toBe("closed");
    expect(clock.pendingMs).toEqual([]);
  });
});

describe("subscriptions", () => {
  it("subscriptions share one SUBSCRIBE, and the last one to end sends UNSUBSCRIBE", async () => {
    const { server, client } = await startOpen();
    const [first, second] = [client.subscribe("news"), client.subscribe("news")];
    const seen = [read(first), read(second)];
    await turn();
    const types = (): number[] => server.connection.frames.map(({ type }) => type);
    expect(types()).toEqual([RequestType.subscribe]);
    server.connection.serve();
    await Promise.all([first.ready, second.ready]);
    const third = client.subscribe("news");
    await third.ready;
    server.connection.push("news", "hello");
    server.connection.push("other", "not asked for");
    server.connection.deliver();
    await turn();
    for (const { messages } of seen) {
      expect(messages).toMatchObject([{ channel: "news", missed: 0 }]);
      expect(texts(messages)).toEqual(["hello"]);
    }
    expect((await third.next()).value?.text()).toBe("hello");
    await first.return();
    await third.return();
    await turn();
    expect(types()).toEqual([]);
    await second.return();
    await turn();
    expect(types()).toEqual([RequestType.unsubscribe]);
    expect(seen.map(({ ended }) => ended)).toEqual(["done", "done"]);
    server.connection.serve();
    expect(server.connection.state).toBe("open");
  });

  it("a subscription keeps the bytes of its channel, also if the caller uses the buffer again", async () => {
    const { server, clock, client } = await startOpen();
    const buffer = Buffer.from("news");
    const news = client.subscribe(buffer);
    buffer.fill(0x78);
    await turn();
    server.connection.serve();
    await news.ready;
    server.connection.end();
    await clock.pass(clock.pendingMs[0]!);
    server.connection.open();
    await turn();
    const names = (): string[] => server.connection.frames.map(({ name }) => name);
    expect(names()).toEqual(["news"]);
    server.connection.serve();
    await news.return();
    await turn();
    expect(names()).toEqual(["news"]);
  });

  it("subscriptions are sent before the calls that follow", async () => {
    const { server, client } = await startOpen();
    const seen = read(client.subscribe("news"));
    void client.publish("news", "hello");
    await turn();
    expect(server.connection.frames.map(({ type }) => type)).toEqual([
      RequestType.subscribe,
      RequestType.publish,
    ]);
    expect(seen.ended).toBeNull();
  });

  it("subscriptions open a connection of their own when calls use another transport, and close it at the end", async () => {
    const server = new FakeServer();
    const clock = new FakeClock();
    const exchange = (): Promise<never> => Promise.reject(new Error("not used"));
    const transport = { exchange, connect: server.connect.bind(server) };
    const client = new ThrottrClient(transport, { clock });
    for (let i = 0; i < 2; i++) {
      const [news, other] = [client.subscribe("news"), client.subscribe("other")];
      await turn();
      server.connection.open();
      server.connection.serve();
      await Promise.all([news.ready, other.ready]);
      await news.return();
      await turn();
      expect(server.connection.frames.map(({ type }) => type)).toEqual([RequestType.unsubscribe]);
      await other.return();
      await turn();
      expect(server.connection.state).toBe("closed");
      expect(clock.pendingMs).toEqual([]);
    }
    expect(server.connections).toHaveLength(2);
  });

  it("every subscription gets its own copy of a message", async () => {
    const { server, client } = await startOpen();
    const [first, second] = [client.subscribe("news"), client.subscribe("news")];
    await turn();
    server.connection.answer();
    server.connection.push("news", "hello");
    server.connection.deliver();
    const [one, other] = [await first.next(), await second.next()];
    one.value?.payload.fill(0);
    expect(other.value?.text()).toBe("hello");
  });

  it("subscriptions resume after a lost connection, and report it", async () => {
    const { server, clock, client } = await startOpen();
    let reconnects = 0;
    const onReconnect = (): void => void reconnects++;
    const news = client.subscribe("news", { onReconnect });
    const seen = read(news);
    await turn();
    server.connection.serve();
    await news.ready;
    server.connection.end();
    const call = client.query("a");
    const joined = client.subscribe("news", { onReconnect });
    await clock.pass(200);
    server.connection.open();
    expect(server.connection.frames.map(({ name }) => name)).toEqual(["news", "a"]);
    expect(reconnects).toBe(0);
    server.connection.serve();
    await call;
    expect(reconnects).toBe(1);
    await joined.ready;
    server.connection.push("news", "hello");
    server.connection.deliver();
    await turn();
    expect(texts(seen.messages)).toEqual(["hello"]);
  });

  it.each([5, "reload", {}])("a subscription refuses onReconnect: %j", async (onReconnect) => {
    const { server, client } = start();
    const options = { onReconnect } as never;
    expect(() => client.subscribe("news", options)).toThrow(
      /^option_invalid: onReconnect: expected a function, got /,
    );
    await turn();
    expect(server.connections).toHaveLength(0);
  });

  it("refused subscriptions throw subscribe_refused", async () => {
    const { server, client } = await startOpen();
    const news = client.subscribe("news");
    const seen = read(news);
    await turn();
    server.connection.frames.length = 0;
    server.connection.queue(Uint8Array.of(0));
    server.connection.deliver();
    await expect(news.ready).rejects.toThrow(/^subscribe_refused: .*news/);
    expect(seen.ended).toBe("subscribe_refused");
  });

  it("unconfirmed subscriptions throw timeout", async () => {
    const { server, clock, client } = await startOpen();
    const seen = read(client.subscribe("news", { timeoutMs: 300 }));
    await clock.pass(299);
    expect(seen.ended).toBeNull();
    await clock.pass(1);
    expect(seen.ended).toBe("timeout");
    expect(server.connection.frames.map(({ type }) => type)).toEqual([
      RequestType.subscribe,
      RequestType.unsubscribe,
    ]);
  });

  it("confirmed subscriptions never time out", async () => {
    const { server, clock, client } = await startOpen({ pingIntervalMs: 1_000_000 });
    const seen = read(client.subscribe("news"));
    await turn();
    server.connection.serve();
    await clock.pass(600_000);
    expect(seen.ended).toBeNull();
  });

  it("subscriptions throw connection_failed when the first connection fails", async () => {
    const { server, clock, client } = start({ attemptsMax: 1 });
    const seen = read(client.subscribe("news"));
    await turn();
    server.connection.end();
    await clock.pass(1000);
    expect(seen.ended).toBe("connection_failed");
    expect(server.connections).toHaveLength(1);
  });

  it("subscriptions end with their signal", async () => {
    const { server, client } = await startOpen();
    const aborter = new AbortController();
    const seen = read(client.subscribe("news", { signal: aborter.signal }));
    await turn();
    server.connection.serve();
    aborter.abort();
    await turn();
    expect(seen.ended).toBe("done");
    expect(server.connection.frames.map(({ type }) => type)).toEqual([RequestType.unsubscribe]);
    const late = client.subscribe("news", { signal: aborter.signal });
    expect(await late.next()).toEqual({ done: true, value: undefined });
    await expect(late.ready).rejects.toThrow(/^aborted: /);
  });

  it("subscriptions end when their loop is left", async () => {
    const { server, client } = await startOpen();
    const seen: string[] = [];
    const loop = (async () => {
      for await (const message of client.subscribe("news")) {
        if (seen.push(message.text()) === 2) break;
      }
    })();
    await turn();
    server.connection.answer();
    for (const text of ["a", "b", "c"]) server.connection.push("news", text);
    server.connection.deliver();
    await loop;
    expect(seen).toEqual(["a", "b"]);
    await turn();
    expect(server.connection.frames.map(({ type }) => type)).toEqual([RequestType.unsubscribe]);
  });

  it("channels may be bytes, 255 at most", async () => {
    const { server, client } = await startOpen();
    const seen = read(client.subscribe(new TextEncoder().encode("é")));
    await turn();
    server.connection.answer();
    server.connection.push("é", "hello");
    server.connection.deliver();
    await turn();
    expect(seen.messages).toMatchObject([{ channel: "é" }]);
    expect(() => client.subscribe("n".repeat(256))).toThrow(/^channel_invalid: /);
    expect(() => client.subscribe("a", { overflow: "ignore" as never })).toThrow(
      /^option_invalid: overflow/,
    );
  });
});

it("a message keeps a byte order mark at the beginning of its text", async () => {
  const { server, client } = await startOpen();
  const seen = read(client.subscribe("news"));
  await turn();
  server.connection.answer();
  server.connection.push("news", "\uFEFFhello");
  server.connection.deliver();
  await turn();
  expect(texts(seen.messages)).toEqual(["\uFEFFhello"]);
});

describe("unread messages", () => {
  async function startListening(options: object) {
    const started = await startOpen();
    const news = started.client.subscribe("news", options);
    await turn();
    started.server.connection.serve();
    const push = (...payloads: (string | Uint8Array)[]): void => {
      for (const payload of payloads) started.server.connection.push("news", payload);
      started.server.connection.deliver();
    };
    return { ...started, news, push };
  }

  it("too many unread messages end the subscription, behind those that were kept", async () => {
    const { server, news, push } = await startListening({ queueMax: 2 });
    push("a", "b", "c", "d");
    await turn();
    expect(server.connection.frames.map(({ type }) => type)).toEqual([RequestType.unsubscribe]);
    expect((await news.next()).value?.text()).toBe("a");
    expect((await news.next()).value?.text()).toBe("b");
    await expect(news.next()).rejects.toThrow(/^queue_full: 2 messages of channel news/);
    expect(await news.next()).toEqual({ done: true, value: undefined });
  });

  it("a subscription keeps 1,000 unread messages by default", async () => {
    const { news, push } = await startListening({});
    push(...Array.from({ length: 1000 }, (_, i) => String(i)));
    expect((await news.next()).value?.text()).toBe("0");
    push("1000", "1001");
    for (let i = 1; i <= 1000; i++) expect((await news.next()).value?.text()).toBe(String(i));
    await expect(news.next()).rejects.toThrow(/^queue_full: /);
  });

  it("unread messages are dropped on request, the oldest first, and counted", async () => {
    const { news, push } = await startListening({ queueMax: 2, overflow: "drop_oldest" });
    const next = async (): Promise<unknown> => {
      const { value } = await news.next();
      return value === undefined ? null : [value.text(), value.missed];
    };
    push("a", "b", "c", "d", "e");
    expect([await next(), await next()]).toEqual([
      ["d", 3],
      ["e", 0],
    ]);
    push("f", "g");
    expect(await next()).toEqual(["f", 0]);
    push("h", "i");
    expect([await next(), await next()]).toEqual([
      ["h", 1],
      ["i", 0],
    ]);
  });

  it("unread messages have bounded bytes, but a single one may exceed them", async () => {
    const { news, push } = await startListening({
      queueBytesMax: 1000,
      overflow: "drop_oldest",
    });
    push(new Uint8Array(600), new Uint8Array(400), new Uint8Array(5000));
    expect((await news.next()).value).toMatchObject({ missed: 2, payload: { length: 5000 } });
    push(new Uint8Array(600), new Uint8Array(400), new Uint8Array(1));
    expect((await news.next()).value).toMatchObject({ missed: 1, payload: { length: 400 } });
  });

  it("an ended subscription forgets its unread messages", async () => {
    const { news, push } = await startListening({});
    push("a");
    await news[Symbol.asyncDispose]();
    expect(await news.next()).toEqual({ done: true, value: undefined });
  });
});

describe("closing", () => {
  it("closing ends all calls and says what is known of them", async () => {
    const { server, clock, client } = await startOpen();
    const seen = read(client.subscribe("news"));
    const sent = outcome(client.increment("a", TTL));
    await turn();
    const unsent = outcome(client.increment("b", TTL));
    await client.close();
    await turn();
    expect(sent.error?.message).toMatch(/^closed: .* and may have been applied$/);
    expect(unsent.error?.message).toMatch(/^closed: .* nothing was applied$/);
    expect(seen.ended).toBe("done");
    expect(server.connection.state).toBe("closed");
    await expect(client.query("c")).rejects.toThrow(/^closed: /);
    expect(() => client.subscribe("news")).toThrow(/^closed: /);
    await turn();
    expect(clock.pendingMs).toEqual([]);
    expect(server.connections).toHaveLength(1);
  });

  it("leaving a scope closes the client", async () => {
    const { server, client } = await startOpen();
    {
      await using scoped = client;
      expect(scoped).toBe(client);
    }
    expect(server.connection.state).toBe("closed");
  });

  it("closing ends attempts to connect, and waits for them", async () => {
    for (const isWaiting of [false, true]) {
      const { server, clock, client } = start();
      const call = outcome(client.query("a"));
      await turn();
      if (isWaiting) server.connection.end();
      await client.close();
      await clock.pass(60_000);
      expect(call.is).toBe("closed");
      expect(server.connections).toHaveLength(1);
      expect(server.connection.state).toBe("closed");
    }
  });
});

describe("options", () => {
  it.each([
    ["timeoutMs", 2 ** 31],
    ["attemptsMax", 0],
    ["queueMax", 1.5],
    ["queueBytesMax", -1],
    ["pingIntervalMs", Number.NaN],
    ["backoffBaseMs", "5"],
    ["backoffMaxMs", Infinity],
  ])("the client option %s is refused with %s", (name, value) => {
    expect(() => new ThrottrClient(new FakeServer(), { [name]: value })).toThrow(
      new RegExp(`^option_invalid: ${name}: expected an integer from 1 to`),
    );
  });
});
