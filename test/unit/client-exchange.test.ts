/** Calls over transports that carry a message at a time: HTTP and RPC. */
import fc from "fast-check";
import { describe, expect, inject, it } from "vitest";
import { serviceBinding } from "../../src/client/transport/binding.ts";
import { ThrottrClient } from "../../src/client/client.ts";
import { http, type HttpOptions } from "../../src/client/transport/http.ts";
import type { FetchResponse } from "../../src/client/platform.ts";
import { ThrottrError } from "../../src/wire/edge/error.ts";
import { FakeClock, SuspendedClock, turn } from "../support/client/clock.ts";
import {
  FakeHttp,
  failure,
  problem,
  responseOf,
  success,
  type Answer,
} from "../support/client/http.ts";
import { framesOf, quotaOf, replyTo } from "../support/client/server.ts";
import { concat } from "../support/frames/index.ts";
import { runs } from "../support/runs.ts";

const seed = inject("seed");
const URL = "https://throttr.example.com";
const TTL = { ttlMs: 1000 };

function start(answers: readonly Answer[] = [], options: HttpOptions = {}) {
  const server = new FakeHttp(answers);
  const clock = new FakeClock();
  const client = new ThrottrClient(http(URL, { fetch: server.fetch, ...options }), { clock });
  return { server, clock, client };
}

const never: Answer = () => new Promise<FetchResponse>(() => {});

/** A body of chunks, which says whether its reader has given it up. */
function pageOf(chunk: string, chunks: number) {
  const value = new TextEncoder().encode(chunk);
  const page = {
    isCancelled: false,
    getReader: () => ({
      read: async () => (chunks-- > 0 ? { done: false, value } : { done: true }),
      cancel: async () => {
        page.isCancelled = true;
      },
    }),
  };
  return page;
}

/** Answers when it is told to. */
function held() {
  let release!: () => void;
  const released = new Promise<void>((resolve) => (release = resolve));
  const answer: Answer = async (request) => {
    await released;
    return await success(request);
  };
  return { answer, release };
}

async function codesOf(calls: readonly Promise<unknown>[]): Promise<unknown[]> {
  return await Promise.all(
    calls.map((call) =>
      call.then(
        (value) => value,
        (error: ThrottrError) => error.code,
      ),
    ),
  );
}

/** Message of the error that a call fails with. */
async function messageOf(call: Promise<unknown>): Promise<string> {
  return await call.then(
    () => "none",
    (error: ThrottrError) => error.message,
  );
}

describe("a turn", () => {
  it("the calls of one turn are one request, with the token that is valid then", async () => {
    let tokens = 0;
    const { server, client } = start([], { token: async () => `token-${++tokens}` });
    const calls = ["a", "b"].map((key) => client.increment(key, TTL));
    expect(await Promise.all(calls)).toEqual([quotaOf("a"), quotaOf("b")]);
    expect((await client.query("c"))?.quota).toBe(quotaOf("c"));
    expect(server.names).toEqual([["a", "b"], ["c"]]);
    expect(server.requests.map(({ headers }) => headers["authorization"])).toEqual([
      "Bearer token-1",
      "Bearer token-2",
    ]);
    expect(server.requests[0]).toMatchObject({
      url: "https://throttr.example.com/throttr/edge",
      method: "POST",
    });
  });

  it.each<[string, HttpOptions]>([
    ["", {}],
    [", as its function returns none,", { token: (() => undefined) as never }],
  ])("a request without a token%s has no authorization header", async (_, options) => {
    const { server, client } = start([], options);
    await client.query("a");
    expect(server.requests[0]!.headers).toEqual({ "content-type": "application/octet-stream" });
  });

  it("limitMany is one request, and no request without keys", async () => {
    const { server, client } = start([problem(403, "scope_missing")]);
    expect(await client.limitMany([])).toEqual([]);
    expect(server.requests).toHaveLength(0);
    const strategy = { strategy: "gcra", burst: 1, rate: 1 } as const;
    const request = { name: "api", key: "a", strategy };
    await expect(client.limitMany([request])).rejects.toThrow(/^scope_missing: /);
  });

  it("too many calls for one message go in several messages, one after the other", async () => {
    const first = held();
    const { server, client } = start([first.answer]);
    const value = new Uint8Array(300_000);
    const calls = Array.from({ length: 8 }, (_, i) => client.set(`key ${i}`, value, TTL));
    await turn();
    expect(server.names).toHaveLength(1);
    first.release();
    await Promise.all(calls);
    expect(server.names.map(({ length }) => length)).toEqual([3, 3, 2]);
    expect(server.names.flat()).toEqual(Array.from({ length: 8 }, (_, i) => `key ${i}`));
  });

  it("the calls of a turn are split in order and within the limits, whatever they are", async () => {
    const kinds = fc.array(fc.constantFrom("key", "channel", "namespace", "large"), {
      minLength: 1,
      maxLength: 1000,
      size: "max",
    });
    await fc.assert(
      fc.asyncProperty(kinds, fc.integer({ min: 1, max: 300 }), async (kinds, repeats) => {
        const { server, client } = start();
        const large = new Uint8Array(200_000);
        const runs = kinds
          .slice(0, 200)
          .flatMap((kind) =>
            Array.from(
              { length: kind === "large" ? 1 : Math.ceil(repeats / kinds.length) },
              () => kind,
            ),
          );
        const calls = runs.map((kind, i) => {
          if (kind === "key") return client.query(`${i}`);
          if (kind === "channel") return client.publish(`${i}`, "x");
          return kind === "large" ? client.set(`${i}`, large, TTL) : client.removeAll(`${i}`);
        });
        await Promise.all(calls);
        expect(server.names.flat()).toEqual(runs.map((_, i) => `${i}`));
        for (const { frames, body } of server.requests) {
          expect(body.length).toBeLessThanOrEqual(1 << 20);
          const kindOf = (i: number): unknown =>
            runs[Number(frames[i]!.name)]!.replace("large", "key");
          const changes = frames.filter(
            (_, i) => i === 0 || kindOf(i) === "namespace" || kindOf(i) !== kindOf(i - 1),
          );
          expect(changes.length).toBeLessThanOrEqual(100);
        }
      }),
      { seed, numRuns: 30 },
    );
  });

  it.each([
    [
      "changes between kinds",
      (client: ThrottrClient, i: number) =>
        i % 2 === 0 ? client.query(`${i}`) : client.publish(`${i}`, "x"),
    ],
    ["requests on the namespace", (client: ThrottrClient, i: number) => client.removeAll(`${i}`)],
  ])("a message has at most 100 %s", async (_, call) => {
    const { server, client } = start();
    await Promise.all(Array.from({ length: 250 }, (_, i) => call(client, i)));
    expect(server.names.map(({ length }) => length)).toEqual([100, 100, 50]);
  });

  it("one message publishes to any number of channels", async () => {
    const { server, client } = start();
    await Promise.all(Array.from({ length: 900 }, (_, i) => client.publish(`${i}`, "x")));
    expect(server.names.map(({ length }) => length)).toEqual([900]);
  });

  it("a frame of more than 1 MiB goes alone", async () => {
    const { server, client } = start();
    await Promise.all([
      client.query("a"),
      client.set("b", new Uint8Array(1_500_000), TTL),
      client.query("c"),
    ]);
    expect(server.names).toEqual([["a"], ["b"], ["c"]]);
  });
});

describe("a refusal", () => {
  it.each([
    [401, "token_expired"],
    [403, "origin_not_allowed"],
    [404, "protocol_unknown"],
    [503, "connections_max"],
    [503, "shards_mismatch"],
    [500, "config_invalid"],
  ])("the refusal %s %s is final, and every call of the message gets it", async (status, code) => {
    const { server, client } = start([problem(status, code)]);
    const calls = [client.increment("a", TTL), client.query("b")];
    expect(await codesOf(calls)).toEqual([code, code]);
    expect(server.requests).toHaveLength(1);
  });

  it.each(["scope_missing", "prefix_missing", "frame_too_large", "body_too_large", "runs_max"])(
    "after the refusal %s of a message, the calls that are allowed still pass",
    async (code) => {
      const bad = new Set(["b", "f"]);
      const strict: Answer = (request) =>
        request.frames.some(({ name }) => bad.has(name))
          ? problem(403, code)(request)
          : success(request);
      const { server, client } = start(Array.from({ length: 50 }, () => strict));
      const keys = Array.from("abcdefgh");
      const calls = keys.map((key) => client.increment(key, TTL));
      expect(await codesOf(calls)).toEqual(keys.map((key) => (bad.has(key) ? code : quotaOf(key))));
      const applied = server.requests.filter(
        ({ frames }) => !frames.some(({ name }) => bad.has(name)),
      );
      expect(applied.flatMap(({ frames }) => frames.map(({ name }) => name))).toEqual(
        Array.from("acdegh"),
      );
    },
  );

  it("a refusal by another server has none of the server's codes", async () => {
    const { client } = start([() => responseOf(429, "slow down"), () => responseOf(404, "{}")]);
    await expect(client.query("a")).rejects.toThrow(
      "response_invalid: https://throttr.example.com/throttr/edge did not answer as a Throttr server (HTTP 429: slow down)",
    );
    await expect(client.query("a")).rejects.toThrow(/^response_invalid: .*\(HTTP 404: \{\}\)/);
  });

  it("an application's own answer is not taken for one of the server", async () => {
    const limited = { type: "https://example.com/full", code: "rate_limited", detail: "try again" };
    const hello = {
      ...responseOf(200, "hello"),
      headers: new Headers({ "content-type": "text/plain" }),
    };
    const { client } = start([() => responseOf(429, JSON.stringify(limited)), () => hello]);
    await expect(client.query("a")).rejects.toThrow(/^response_invalid: .*\(HTTP 429/);
    await expect(client.query("a")).rejects.toThrow(
      /^response_invalid: .*\(HTTP 200: text\/plain\): the address of a server inside a Worker/,
    );
  });

  it("a long page of another server is a refusal as well, and the rest of it is not read", async () => {
    const page = pageOf("x".repeat(30_000), 10);
    const refused: Answer = () => ({ ...responseOf(404, ""), body: page });
    const { server, client } = start([refused]);
    const call = client.increment("a", TTL);
    await expect(call).rejects.toThrow(/^response_invalid: .*\(HTTP 404: x{100}…\)/);
    expect(server.requests).toHaveLength(1);
    expect(page.isCancelled).toBe(true);
  });

  it("the body of an answer that is not one of the server is not left open", async () => {
    const page = pageOf("hello", 1);
    const hello: Answer = () => ({
      ...responseOf(200, ""),
      headers: new Headers({ "content-type": "text/html" }),
      body: page,
    });
    const { client } = start([hello]);
    await expect(client.increment("a", TTL)).rejects.toThrow(/^response_invalid/);
    expect(page.isCancelled).toBe(true);
  });

  it("the error of a request that was redirected names where to", async () => {
    const there = { redirected: true, url: "https://login.example.com/in?to=/throttr/edge" };
    const page = { ...responseOf(200, ""), headers: new Headers({ "content-type": "text/html" }) };
    const { client } = start([
      async (request) => ({ ...(await problem(401, "token_missing")(request)), ...there }),
      () => ({ ...responseOf(404, ""), ...there }),
      () => ({ ...page, ...there }),
    ]);
    for (const code of ["token_missing", "response_invalid", "response_invalid"]) {
      await expect(client.increment("a", TTL)).rejects.toThrow(
        new RegExp(
          `^${code}: .*; the request was redirected to https://login.example.com/in: use the address of`,
        ),
      );
    }
  });

  it("a refusal without a reason is reported with the address", async () => {
    const { client } = start([() => responseOf(405, "")]);
    await expect(client.query("a")).rejects.toThrow(
      /^response_invalid: https?:\/\/[^ ]+\/throttr\/edge did not answer as a Throttr server \(HTTP 405\)/,
    );
  });
});

describe("unchecked arguments", () => {
  it.each<[string, (client: ThrottrClient) => Promise<unknown>]>([
    ["set", (client) => client.set("x", "y", undefined as never)],
    ["insert", (client) => client.insert("x", null as never)],
    ["limit", (client) => client.limit(undefined as never)],
    ["limitMany", (client) => client.limitMany({} as never)],
    ["acquire", (client) => client.acquire("x", undefined as never)],
  ])("an invalid argument of %s is refused with a code, and nothing is sent", async (_, call) => {
    const { server, client } = start();
    await expect(call(client)).rejects.toMatchObject({
      name: "ThrottrError",
      code: "argument_invalid",
    });
    expect(server.requests).toHaveLength(0);
  });
});

describe("a failure", () => {
  it.each<[string, Answer]>([
    ["503 outcome_unknown", problem(503, "outcome_unknown")],
    ["500 internal", problem(500, "internal")],
    ["a gateway", () => responseOf(520, "<html>")],
    ["the network", failure("fetch failed", "ECONNRESET")],
    ["a single word", failure("terminated")],
    ["too few replies", () => responseOf(200, "")],
    ["no replies", () => responseOf(200, "<html>")],
    [
      "too many replies",
      async (request) =>
        responseOf(
          200,
          concat([new Uint8Array(await (await success(request)).arrayBuffer()), Uint8Array.of(1)]),
        ),
    ],
    [
      "a body that breaks off",
      () => ({ ...responseOf(200, ""), arrayBuffer: () => Promise.reject(new Error("aborted")) }),
    ],
  ])(
    "a failure of %s leaves the outcome unknown, and repeats calls that may be repeated",
    async (name, answer) => {
      const { server, clock, client } = start([answer]);
      const calls = [
        client.increment("a", TTL),
        client.query("b"),
        client.increment("c", { ...TTL, idempotencyKey: "1" }),
      ];
      const seen = codesOf(calls);
      await clock.pass(200);
      if (name === "too many replies") {
        expect(server.names).toEqual([["a", "b", "c"]]);
        return;
      }
      const [a, b, c] = await seen;
      expect(a).toBe("outcome_unknown");
      expect(b).toMatchObject({ quota: quotaOf("b") });
      expect(c).toBe(quotaOf("c"));
      expect(server.names).toEqual([
        ["a", "b", "c"],
        ["b", "c"],
      ]);
    },
  );

  it("a failure behind some replies leaves those calls settled", async () => {
    const half: Answer = ({ frames }) => responseOf(200, concat(frames.slice(0, 2).map(replyTo)));
    const { server, clock, client } = start([half]);
    const seen = codesOf(["a", "b", "c"].map((key) => client.increment(key, TTL)));
    await clock.pass(1000);
    expect(await seen).toEqual([quotaOf("a"), quotaOf("b"), "outcome_unknown"]);
    expect(server.requests).toHaveLength(1);
  });

  it("calls are sent again when the server was not reached", async () => {
    const { server, clock, client } = start([failure("fetch failed", "ECONNREFUSED")]);
    const call = client.increment("a", TTL);
    await clock.pass(200);
    expect(await call).toBe(quotaOf("a"));
    expect(server.names).toEqual([["a"], ["a"]]);
  });

  it.each<[string, Partial<AggregateError> & { code?: string; syscall?: string }]>([
    ["a port that fetch never connects to", { message: "bad port" }],
    [
      "a server that Deno could not connect to",
      {
        message:
          "error sending request for url (http://localhost/): client error (Connect): tcp connect error: Connection refused (os error 111)",
      },
    ],
    [
      "a host with two addresses, neither of which can be reached",
      {
        code: "EHOSTUNREACH",
        message: "",
        errors: [
          { code: "EHOSTUNREACH", syscall: "connect" },
          { code: "ECONNREFUSED", syscall: "connect" },
        ],
      },
    ],
    ["a network without a way there", { code: "ENETUNREACH", syscall: "connect" }],
    ["a certificate that is not accepted", { code: "SELF_SIGNED_CERT_IN_CHAIN" }],
  ])("a failure for %s says that nothing was sent", async (_, cause) => {
    const unreached: Answer = () => {
      throw Object.assign(new TypeError("fetch failed"), { cause });
    };
    const { clock, client } = start(Array.from({ length: 6 }, () => unreached));
    const seen = codesOf([client.query("a"), client.increment("b", TTL)]);
    await clock.pass(2000);
    expect(await seen).toEqual(["connection_failed", "connection_failed"]);
  });

  it("a failure of Deno to send a request does not say that nothing was sent", async () => {
    const lost: Answer = () => {
      const message =
        "error sending request for url (http://localhost/): client error (SendRequest)";
      throw Object.assign(new TypeError("fetch failed"), { cause: new Error(message) });
    };
    const { clock, client } = start([lost]);
    const seen = codesOf([client.increment("a", TTL)]);
    await clock.pass(2000);
    expect(await seen).toEqual(["outcome_unknown"]);
  });

  it("a failure without a reason says of reads alone that nothing was applied", async () => {
    const offline = failure("Failed to fetch");
    const { clock, client } = start(Array.from({ length: 3 }, () => offline));
    const seen = codesOf([
      client.query("a"),
      client.list(),
      client.inspectSemaphore("c"),
      client.increment("b", TTL),
      client.increment("b", { ...TTL, idempotencyKey: "1" }),
      client.release("c", "0b7c9a4e-3f13-4d43-9d4b-111111111111"),
    ]);
    await clock.pass(2000);
    const [read, lost] = ["connection_failed", "outcome_unknown"];
    expect(await seen).toEqual([read, read, read, lost, lost, lost]);
  });

  it("a failure to get a token is an error of the calls", async () => {
    let tokens = 0;
    const token = (): string => {
      if (tokens++ === 0) throw new Error("not now");
      return "token";
    };
    const { server, clock, client } = start([], { token });
    const call = client.increment("a", TTL);
    await clock.pass(200);
    expect(await call).toBe(quotaOf("a"));
    expect(server.requests).toHaveLength(1);
  });

  it("a call fails after three failures, with growing pauses between them", async () => {
    const refused = failure("fetch failed", "ECONNREFUSED");
    const { server, clock, client } = start([refused, refused, refused]);
    const call = codesOf([client.increment("a", TTL)]);
    await turn();
    expect(clock.pendingMs[0]).toBe(199);
    await clock.pass(199);
    expect(clock.pendingMs[0]).toBe(399);
    await clock.pass(399);
    expect(await call).toEqual(["connection_failed"]);
    expect(server.requests).toHaveLength(3);
    expect(clock.pendingMs).toEqual([]);
  });

  it("a call that times out after a failure says whether something was sent", async () => {
    const unsent = start([failure("fetch failed", "ECONNREFUSED")]);
    const lost = start([failure("fetch failed")]);
    const messages = [unsent, lost].map(({ client }) =>
      messageOf(client.increment("a", { ...TTL, idempotencyKey: "1", timeoutMs: 100 })),
    );
    for (const { clock } of [unsent, lost]) await clock.pass(1000);
    expect(await messages[0]).toMatch(/^timeout: .* nothing was applied$/);
    expect(await messages[1]).toMatch(/^timeout: .* and may have been applied$/);
    for (const { server } of [unsent, lost]) expect(server.requests).toHaveLength(1);
  });

  it("a call whose time is over by the wall clock is not sent again, as the machine was suspended", async () => {
    const clock = new SuspendedClock();
    const server = new FakeHttp([
      () => {
        clock.suspendedMs = 10_000;
        throw new TypeError("fetch failed");
      },
    ]);
    const client = new ThrottrClient(http(URL, { fetch: server.fetch }), { clock });
    const message = messageOf(client.increment("a", { ...TTL, idempotencyKey: "1" }));
    await clock.pass(1000);
    expect(await message).toMatch(/^timeout: .* and may have been applied$/);
    expect(server.requests).toHaveLength(1);
    expect(clock.pendingMs).toEqual([]);
  });

  it("a refusal after a failure leaves it unknown whether the first attempt was applied", async () => {
    const { clock, client } = start([failure("fetch failed"), problem(401, "token_expired")]);
    const call = client.increment("a", { ...TTL, idempotencyKey: "1" });
    const message = messageOf(call);
    await clock.pass(1000);
    expect(await message).toMatch(
      /^outcome_unknown: an earlier attempt was lost; the last one failed with token_expired: /,
    );
  });

  it("a reply that refuses a repeated write leaves it unknown whether the lost attempt is applied later", async () => {
    const { clock, client, server } = start([failure("fetch failed")]);
    const options = { ...TTL, idempotencyKey: "1" };
    const message = messageOf(client.increment("refused:a", options));
    await clock.pass(1000);
    expect(await message).toMatch(
      /^outcome_unknown: an earlier attempt was lost; the last one failed with kind_mismatch: /,
    );
    expect(server.requests).toHaveLength(2);
    expect(await codesOf([client.increment("refused:a", options)])).toEqual(["kind_mismatch"]);
  });

  it("a reply that refuses a repeated read is the result, as a read has no effect", async () => {
    const { clock, client, server } = start([failure("fetch failed")]);
    const codes = codesOf([client.query("refused:a")]);
    await clock.pass(1000);
    expect(await codes).toEqual(["kind_mismatch"]);
    expect(server.requests).toHaveLength(2);
  });
});

describe("a call", () => {
  it("the last call to be aborted or late ends its request", async () => {
    const { server, clock, client } = start([never]);
    const aborter = new AbortController();
    const calls = codesOf([
      client.increment("a", { ...TTL, signal: aborter.signal }),
      client.increment("b", { ...TTL, timeoutMs: 500 }),
    ]);
    await turn();
    aborter.abort();
    await clock.pass(499);
    expect(server.requests[0]!.signal.aborted).toBe(false);
    await clock.pass(1);
    expect(server.requests[0]!.signal.aborted).toBe(true);
    expect(await calls).toEqual(["aborted", "timeout"]);
    expect(clock.pendingMs).toEqual([]);
  });

  it("a call aborted within its turn is not sent", async () => {
    const { server, client } = start();
    const aborter = new AbortController();
    const aborted = codesOf([client.query("a", { signal: aborter.signal })]);
    const other = client.query("b");
    aborter.abort();
    await other;
    expect(await aborted).toEqual(["aborted"]);
    expect(server.names).toEqual([["b"]]);
  });

  it("an answered call leaves no timer or listener behind", async () => {
    const { server, clock, client } = start();
    await client.query("a");
    await turn();
    expect(clock.pendingMs).toEqual([]);
    expect(server.requests[0]!.signal.aborted).toBe(false);
  });

  it.each(["is closed", "gives it up"])(
    "a call that waits for another attempt leaves no timer behind when its client %s",
    async (how) => {
      const unreachable: Answer = () => Promise.reject(new TypeError("fetch failed"));
      const { server, clock, client } = start([unreachable]);
      const aborter = new AbortController();
      const code = codesOf([client.query("a", { signal: aborter.signal })]);
      await turn();
      expect(clock.pendingMs).toHaveLength(2);
      if (how === "is closed") await client.close();
      else aborter.abort();
      expect(await code).toEqual([how === "is closed" ? "closed" : "aborted"]);
      await turn();
      expect(clock.pendingMs).toEqual([]);
      await clock.pass(60_000);
      expect(server.requests).toHaveLength(1);
    },
  );

  it("a call under way fails when the client is closed", async () => {
    const { server, client } = start([never]);
    const call = client.increment("a", TTL);
    const message = messageOf(call);
    await turn();
    await client.close();
    expect(await message).toMatch(/^closed: .* and may have been applied$/);
    expect(server.requests[0]!.signal.aborted).toBe(true);
    await expect(client.query("a")).rejects.toThrow(/^closed: /);
  });
});

describe("a service binding", () => {
  function startBinding(exchange: (frames: Uint8Array) => Promise<Uint8Array>) {
    const messages: string[][] = [];
    const binding = {
      fetch: async () => null,
      exchange: async (frames: Uint8Array) => {
        messages.push(framesOf(frames).map(({ name }) => name));
        return await exchange(frames);
      },
    };
    const clock = new FakeClock();
    return { messages, clock, client: new ThrottrClient(serviceBinding(binding), { clock }) };
  }
  const replies = async (frames: Uint8Array): Promise<Uint8Array> =>
    concat(framesOf(frames).map(replyTo));

  it("a service binding carries the calls of a turn in one call", async () => {
    const { messages, client } = startBinding(replies);
    const calls = ["a", "b"].map((key) => client.increment(key, TTL));
    expect(await Promise.all(calls)).toEqual([quotaOf("a"), quotaOf("b")]);
    expect(messages).toEqual([["a", "b"]]);
  });

  it.each([
    ["scope_missing: INCREMENT needs the scope write", "scope_missing"],
    ["Error: body_too_large: too much", "body_too_large"],
    ["props_invalid: props of the service binding", "props_invalid"],
  ])("a service binding that throws %j refuses the calls", async (message, code) => {
    const { messages, client } = startBinding(() => Promise.reject(new Error(message)));
    expect(await codesOf([client.increment("a", TTL)])).toEqual([code]);
    expect(messages).toHaveLength(1);
  });

  it.each([
    "outcome_unknown: a shard failed",
    "internal: it broke",
    "Network connection lost.",
    "disconnected: peer",
    "terminated",
  ])("a service binding that throws %j leaves the outcome unknown", async (message) => {
    let calls = 0;
    const { messages, clock, client } = startBinding(async (frames) => {
      if (calls++ === 0) throw new Error(message);
      return await replies(frames);
    });
    const seen = codesOf([client.increment("a", TTL), client.query("b")]);
    await clock.pass(200);
    expect(await seen).toMatchObject(["outcome_unknown", { quota: quotaOf("b") }]);
    expect(messages).toEqual([["a", "b"], ["b"]]);
  });

  it("a service binding with too many replies for one call is asked for fewer at once", async () => {
    const { messages, client } = startBinding(async (frames) => {
      if (framesOf(frames).length > 2) throw new ThrottrError("reply_too_large", "too much");
      return await replies(frames);
    });
    const calls = ["a", "b", "c", "d"].map((key) => client.query(key));
    const increment = client.increment("e", TTL);
    expect(await codesOf([...calls, increment])).toMatchObject([
      { quota: quotaOf("a") },
      { quota: quotaOf("b") },
      { quota: quotaOf("c") },
      { quota: quotaOf("d") },
      "outcome_unknown",
    ]);
    expect(messages).toEqual([
      ["a", "b", "c", "d", "e"],
      ["a", "b"],
      ["c", "d"],
    ]);
  });

  it("a refusal after too many replies leaves it unknown what was applied", async () => {
    const codes = ["reply_too_large", "props_invalid", "props_invalid"];
    const { client } = startBinding(() => Promise.reject(new ThrottrError(codes.shift()!, "")));
    const calls = ["a", "b"].map((idempotencyKey) =>
      client.increment("a", { ...TTL, idempotencyKey }),
    );
    expect(await codesOf(calls)).toEqual(["outcome_unknown", "outcome_unknown"]);
  });

  it("a service binding refuses a call whose reply is too large", async () => {
    const { messages, client } = startBinding(() =>
      Promise.reject(new ThrottrError("reply_too_large", "too much")),
    );
    expect(await codesOf([client.query("a")])).toEqual(["reply_too_large"]);
    expect(messages).toEqual([["a"]]);
  });
});

describe("draws", () => {
  const draw = {
    name: "api",
    key: "a",
    strategy: { strategy: "gcra", burst: 5, rate: 1 },
  } as const;

  it.each([
    ["an answer that was lost", failure("fetch failed", "UND_ERR_HEADERS_TIMEOUT")],
    ["a failure of the server", () => responseOf(502, "bad gateway")],
    ["replies that don't fit", problem(413, "reply_too_large")],
  ])("a draw may have been applied, so it is not sent again after %s", async (_, answer) => {
    const { server, clock, client } = start([answer]);
    const calls = [client.draw(draw), client.drawMany([draw, draw])];
    const ended = codesOf(calls);
    await clock.pass(60_000);
    expect(await ended).toEqual(["outcome_unknown", "outcome_unknown"]);
    expect(server.requests).toHaveLength(1);
  });
});

describe("whatever happens", () => {
  it("every call is settled once, with its own result, and none is applied twice", async () => {
    const answers = fc.array(
      fc.constantFrom<Answer | "executed">(
        success,
        "executed",
        failure("fetch failed", "ECONNREFUSED"),
        problem(403, "scope_missing"),
        problem(401, "token_expired"),
        never,
      ),
      { maxLength: 12 },
    );
    const turns = fc.array(
      fc.array(fc.constantFrom("once", "repeatable", "reading"), { minLength: 1, maxLength: 8 }),
      { minLength: 1, maxLength: 4 },
    );
    await fc.assert(
      fc.asyncProperty(turns, answers, async (turns, answers) => {
        const executions = new Map<string, number>();
        const executing =
          (answer: Answer): Answer =>
          (request) => {
            for (const { name } of request.frames)
              executions.set(name, (executions.get(name) ?? 0) + 1);
            return answer(request);
          };
        const executed = [success, never, ...answers].map((answer) => {
          if (answer === "executed") return executing(failure("fetch failed"));
          return answer === success || answer === never ? executing(answer) : answer;
        });
        const { clock, client } = start([
          ...executed.slice(2),
          ...Array.from({ length: 100 }, () => executed[0]!),
        ]);
        const made = turns.flatMap((kinds, t) =>
          kinds.map((kind, i) => ({ kind, key: `${t}:${i}` })),
        );
        const outcomes: unknown[] = [];
        for (const [t, kinds] of turns.entries()) {
          kinds.forEach((kind, i) => {
            const key = `${t}:${i}`;
            const call =
              kind === "reading"
                ? client.query(key).then((counter) => counter?.quota)
                : client.increment(key, {
                    ...TTL,
                    ...(kind === "repeatable" ? { idempotencyKey: key } : {}),
                  });
            const at = outcomes.push("pending") - 1;
            call.then(
              (quota) => (outcomes[at] = quota),
              (error: unknown) => (outcomes[at] = error),
            );
          });
          await clock.pass(100);
        }
        await clock.pass(20_000);
        // To read a body takes turns of the event loop, which the clock does not count.
        await expect.poll(() => outcomes).not.toContain("pending");
        made.forEach(({ kind, key }, at) => {
          const outcome = outcomes[at];
          const times = executions.get(key) ?? 0;
          if (kind === "once") expect(times).toBeLessThanOrEqual(1);
          if (!(outcome instanceof ThrottrError)) {
            expect(outcome).toBe(quotaOf(key));
            expect(times).toBeGreaterThan(0);
          } else if (
            outcome.code !== "outcome_unknown" &&
            !/may have (?:been applied|arrived)/.test(outcome.message)
          ) {
            expect(times).toBe(0);
          }
        });
      }),
      { seed, numRuns: runs(500) },
    );
  });
});
