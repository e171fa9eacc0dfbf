/** The HTTP door: every refusal has its status and code, and applies nothing. */
import { createExecutionContext, reset } from "cloudflare:test";
import { env, exports } from "cloudflare:workers";
import { afterEach, describe, expect, it, vi } from "vitest";
import type { Placement } from "../../src/wire/batch.ts";
import { WHOLE } from "../../src/wire/range.ts";
import worker from "../../src/worker/index.ts";
import {
  bytesOf,
  concat,
  frameOf,
  hex,
  HOURS,
  SECONDS,
  U16,
  U32,
  U64,
  U8,
  unhex,
} from "../support/frames/index.ts";
import type { ModelProtocol, ModelRequest } from "../support/models/requests.ts";
import { get, post } from "../support/pool/doors.ts";
import { expectLargeReplies, setLargeValues } from "../support/pool/large.ts";
import { shardStub } from "../support/pool/shards.ts";

const server = exports.default as unknown as Fetcher;
const INSERT = U16.insert("a", 5);
const QUERY = U16.query("a");

afterEach(async () => {
  await reset();
});

async function exchange(body: BodyInit, dialect = "7.3", size = "uint16"): Promise<string> {
  const response = await post(dialect, size, body);
  expect(response.status).toBe(200);
  return hex(new Uint8Array(await response.arrayBuffer()));
}

async function expectProblem(response: Response, status: number, code: string): Promise<string> {
  expect(response.headers.get("content-type")).toBe("application/problem+json");
  const problem = (await response.json()) as Record<string, string | number>;
  expect(problem).toMatchObject({ status, code });
  expect(response.status).toBe(status);
  // The code stands beside it, and clients put it in front.
  expect(String(problem.detail)).not.toContain(`${code}:`);
  return String(problem.detail);
}

/** Calls the Worker as a deployment with other variables would be called. */
async function fetchWith(
  variables: Record<string, unknown>,
  path: string,
  init: RequestInit = {},
): Promise<Response> {
  const request = new Request(`http://localhost${path}`, init) as Parameters<
    typeof worker.fetch
  >[0];
  return await worker.fetch(request, { ...env, ...variables } as Env, createExecutionContext());
}

describe("replies", () => {
  it("replies come back to back, in the order of the requests", async () => {
    const reply = await exchange(concat([INSERT, QUERY, U16.query("b"), U16.purge("a"), QUERY]));
    expect(reply).toMatch(/^01010500041[de]00000100$/);
  });

  it("an empty body is answered with an empty body", async () => {
    expect(await exchange("")).toBe("");
  });

  it("replies of 20,000 keys on four shards are in order", async () => {
    const protocol: ModelProtocol = { dialect: "7.3", valueSize: 4 };
    const requests = Array.from({ length: 20_000 }, (_, i): ModelRequest => ({
      type: "insert",
      key: `key:${i}`,
      quota: BigInt(i),
      ttlType: 6,
      ttl: 10n,
    }));
    const queries = requests.map(({ key }): ModelRequest => ({ type: "query", key }));
    const body = concat([...requests, ...queries].map((request) => frameOf(protocol, request)));
    const response = await post("7.3", "uint32", body);
    const replies = new Uint8Array(await response.arrayBuffer());
    expect(replies.length).toBe(20_000 * 11);
    const view = new DataView(replies.buffer);
    for (let i = 0; i < 20_000; i++)
      expect(view.getUint32(20_000 + 10 * i + 1, true) === i).toBe(true);
  });

  it("replies too large for memory are streamed in order", async () => {
    const valueOf = (i: number): Uint8Array => new Uint8Array(500_000).fill(i);
    for (let i = 0; i < 8; i++) {
      await post("7.3", "uint32", U32.set(`key:${i}`, valueOf(i), HOURS, 10n));
    }
    const order = Array.from({ length: 80 }, (_, i) => (i * 5 + Math.floor(i / 8)) % 8);
    const body = concat(order.map((i) => U32.get(`key:${i}`)));
    const response = await post("7.3", "uint32", body);
    const replies = new Uint8Array(await response.arrayBuffer());
    expect(replies.length).toBe(80 * 500_010);
    order.forEach((i, at) => {
      expect(replies[at * 500_010 + 10]).toBe(i);
      expect(replies[(at + 1) * 500_010 - 1]).toBe(i);
    });
  });

  it("replies streamed from shards in turns are in order", async () => {
    const values = await setLargeValues();
    const order = [0, 1, 1, 1, 2, 2, 2, 1, 1, 1, 2, 2, 2, 0];
    const gets = order.map((i) => U32.get(values[i]!.key));
    const replies = await (await post("7.3", "uint32", concat(gets))).arrayBuffer();
    expectLargeReplies(
      new Uint8Array(replies),
      order.map((i) => values[i]!),
    );
  });

  it("the HTTP door speaks 7.1, 5 and every size", async () => {
    const old: ModelProtocol = { dialect: "7.1", valueSize: 2 };
    const value = bytesOf("AB");
    const setAndGet: ModelRequest[] = [
      { type: "set", key: "b", ttlType: SECONDS, ttl: 30n, value },
      { type: "get", key: "b" },
    ];
    const body = concat(setAndGet.map((request) => frameOf(old, request)));
    expect(await exchange(body, "7.1")).toMatch(/^0101041[de]0002004142$/);
    const inserted = await exchange(concat([U8.insert("a", 5), U8.query("a")]), "5", "uint8");
    expect(inserted).toMatch(/^010105041[de]$/);
  });

  it("replies fit the size of the reader, so that a large quota reads as the maximum and a long value as absent", async () => {
    await exchange(U64.insert("a", 256, SECONDS, 512n), "7.3", "uint64");
    expect(await exchange(QUERY, "7.3", "uint8")).toBe("01ff04ff");
    await exchange(U32.set("b", new Uint8Array(300)), "7.3", "uint32");
    expect(await exchange(U8.get("b"), "7.3", "uint8")).toBe("00");
  });
});

describe("refusals", () => {
  it.each([
    ["/throttr/9/uint16", "7.3, 7.1, 5"],
    ["/throttr/7.3/uint128", "uint8, uint16, uint32, uint64"],
    ["/throttr/toString/uint16", "7.3, 7.1, 5"],
  ])("%s is answered with 404 and a list of what there is", async (path, listed) => {
    const response = await server.fetch(`http://localhost${path}`, { method: "POST", body: "x" });
    const detail = await expectProblem(response, 404, "protocol_unknown");
    for (const name of listed.split(", ")) expect(detail).toContain(name);
  });

  it("a body that ends inside a frame is refused with 400, and nothing is applied", async () => {
    expect(
      await expectProblem(
        await post("7.3", "uint16", concat([INSERT, unhex("0205")])),
        400,
        "body_truncated",
      ),
    ).toContain("byte 8");
    expect(await exchange(QUERY)).toBe("00");
  });

  it("an unknown request type is refused with 400, and nothing is applied", async () => {
    expect(
      await expectProblem(
        await post("7.3", "uint16", concat([INSERT, unhex("77")])),
        400,
        "request_type_unknown",
      ),
    ).toContain("0x77");
    await expectProblem(
      await post("5", "uint16", concat([INSERT, U16.get("a")])),
      400,
      "request_type_unknown",
    );
    expect(await exchange(QUERY)).toBe("00");
  });

  it.each([
    ["uint64 near 2^64", "uint64", "0504" + "0100000000000000" + "01" + "ffffffffffffffff"],
    ["uint32 of 2 MiB", "uint32", "0504" + "01000000" + "01" + "00002000"],
  ])(
    "a frame that announces too much, %s, is refused with 413, and nothing is applied",
    async (_, size, frame) => {
      const insert = (size === "uint64" ? U64 : U32).insert("a", 5);
      const response = await post("7.3", size, concat([insert, unhex(frame)]));
      expect(await expectProblem(response, 413, "frame_too_large")).toContain("1048576");
      expect(await exchange(QUERY)).toBe("00");
    },
  );

  it("a body above its limit is refused with 413, and the variable that sets the limit", async () => {
    const frames = await post("7.3", "uint16", new Uint8Array(9 << 20));
    expect(await expectProblem(frames, 413, "body_too_large")).toBe(
      "a body may have at most 8388608 bytes (BODY_BYTES_MAX)",
    );
    const message = { method: "POST", body: new Uint8Array((1 << 20) + 1) };
    const published = await server.fetch("http://localhost/channels/news", message);
    expect(await expectProblem(published, 413, "body_too_large")).toBe(
      "a message may have at most 1048576 bytes (FRAME_BYTES_MAX)",
    );
  });

  it.each([
    ["the runtime's own streams", false],
    ["streams made in JavaScript", true],
  ])(
    "a body without an announced length is read whole, or refused with 413, from %s",
    async (_, isScript) => {
      const send = async (bytes: number, chunkBytes: number): Promise<Response> => {
        const script = new ReadableStream<Uint8Array>({
          start(controller) {
            const query = Uint8Array.of(2, 1, 0x61);
            const whole = Uint8Array.from({ length: bytes }, (_, i) => query[i % 3]!);
            for (let at = 0; at < bytes; at += chunkBytes)
              controller.enqueue(whole.subarray(at, at + chunkBytes));
            controller.close();
          },
        });
        const body = isScript ? script : script.pipeThrough(new IdentityTransformStream());
        return await fetchWith({ BODY_BYTES_MAX: "30000" }, "/throttr/7.3/uint64", {
          method: "POST",
          body,
        });
      };
      for (const bytes of [3, 4095, 4098, 12_288, 30_000]) {
        for (const chunkBytes of [1000, 4096, 30_000]) {
          const response = await send(bytes, chunkBytes);
          expect(response.status).toBe(200);
          expect((await response.arrayBuffer()).byteLength).toBe(bytes / 3);
        }
      }
      await expectProblem(await send(30_003, 4096), 413, "body_too_large");
    },
  );

  it("other methods get 405, a GET without upgrade 426, and other paths 404", async () => {
    const put = await server.fetch("http://localhost/throttr/7.3/uint16", { method: "PUT" });
    expect(put.headers.get("allow")).toBe("GET, POST");
    await expectProblem(put, 405, "method_not_allowed");
    await expectProblem(await get("/throttr/7.3/uint16"), 426, "upgrade_required");
    await expectProblem(await get("/nothing"), 404, "not_found");
  });

  it.each([
    ["/throttr/7.3/uint16", "GET, POST"],
    ["/channels/news", "GET, POST"],
    ["/yrmcds/counter", "GET"],
    ["/yrmcds/counter/today", "GET"],
    ["/v1/overview/live", "GET"],
  ])("HEAD and PUT of %s get 405 with the methods of the route", async (path, methods) => {
    for (const method of ["HEAD", "PUT"]) {
      const response = await server.fetch(`http://localhost${path}`, { method });
      expect([response.status, response.headers.get("allow")]).toEqual([405, methods]);
    }
  });

  it.each(["/", "/docs", "/favicon.ico", "/health", "/metrics", "/openapi.json"])(
    "POST of %s, which exists for GET alone, gets 405 and not 404",
    async (path) => {
      const response = await server.fetch(`http://localhost${path}`, { method: "POST" });
      expect(response.headers.get("allow")).toBe("GET");
      await expectProblem(response, 405, "method_not_allowed");
    },
  );

  it.each([
    ["/throttr/7.3/uint128", "protocol_unknown"],
    ["/throttr/8", "protocol_unknown"],
    ["/yrmcds/counter/tomorrow", "protocol_unknown"],
    ["/channels/", "not_found"],
  ])("GET, HEAD and PUT of %s get 404", async (path, code) => {
    for (const method of ["GET", "PUT"]) {
      await expectProblem(await server.fetch(`http://localhost${path}`, { method }), 404, code);
    }
    const head = await server.fetch(`http://localhost${path}`, { method: "HEAD" });
    expect(head.status).toBe(404);
  });

  it.each(["/v1/counters/", "/v1/counters//increment", "/v1/limits/api/"])(
    "a 404 of %s, whose name is empty, says where to read how to write one",
    async (path) => {
      const detail = await expectProblem(await get(path), 404, "not_found");
      expect(detail).toContain("/docs lists the routes, and how to write an empty name");
      const other = await expectProblem(await get("/v1/nothing"), 404, "not_found");
      expect(other).toMatch(/\/docs lists the routes$/);
    },
  );

  it("a variable out of its range is a 500 that names it", async () => {
    const response = await fetchWith({ SHARDS: "1000" }, "/throttr/7.3/uint16", {
      method: "POST",
      body: bytesOf("x"),
    });
    expect(await expectProblem(response, 500, "config_invalid")).toContain(
      "SHARDS: expected an integer from 1 to 128",
    );
  });

  it("a deployment without access settings refuses every request, and says what to set", async () => {
    for (const path of ["/health", "/throttr/7.3/uint16"]) {
      const init = path === "/health" ? {} : { method: "POST", body: QUERY };
      const response = await fetchWith({ ACCESS: "token", TOKEN_SECRET: undefined }, path, init);
      expect(await expectProblem(response, 503, "access_not_configured")).toContain("TOKEN_SECRET");
    }
  });
});

describe("shards", () => {
  /** So many keys that some belong to each shard. */
  const LETTERS = Array.from("abcdefghijklmnopqrstuvwxyz");
  const send = (variables: Record<string, unknown>, body: BodyInit = INSERT): Promise<Response> =>
    fetchWith(variables, "/throttr/7.3/uint16", { method: "POST", body });

  it.each([
    ["fewer", "2"],
    ["more", "8"],
  ])("a deployment with %s shards than its data serves the data as it is", async (_, shards) => {
    const inserts = concat(LETTERS.map((letter) => U16.insert(letter, 1)));
    const queries = concat(LETTERS.map(U16.query));
    const bytesOfQueries = async (variables: Record<string, unknown>): Promise<string> =>
      hex(new Uint8Array(await (await send(variables, queries)).arrayBuffer()));
    expect((await send({}, inserts)).status).toBe(200);
    const whole = await bytesOfQueries({});
    expect(await bytesOfQueries({ SHARDS: shards })).toBe(whole);
    const purge = U16.purge(LETTERS[0]!);
    expect((await send({ SHARDS: shards }, purge)).status).toBe(200);
    expect(await bytesOfQueries({})).toBe(`00${whole.slice(whole.length / LETTERS.length)}`);
  });

  it("a shard that the namespace did not begin with stays empty", async () => {
    expect((await send({})).status).toBe(200);
    for (const letter of LETTERS) {
      expect((await send({ SHARDS: "128" }, U16.insert(letter, 1))).status).toBe(200);
    }
    expect(await shardStub(5, "default").hasData()).toBe(false);
  });

  it("shards are created where LOCATION_HINT says, and found again without it", async () => {
    expect((await send({ LOCATION_HINT: "weur" })).status).toBe(200);
    expect(await exchange(QUERY)).toMatch(/^010500/);
  });

  it("another SHARD_SECRET is refused", async () => {
    expect((await send({})).status).toBe(200);
    expect(
      await expectProblem(await send({ SHARD_SECRET: "other" }), 503, "shards_mismatch"),
    ).toContain("SHARD_SECRET");
  });
});

describe("web pages", () => {
  const page = { origin: "https://page.example" };

  it("pages of other origins are refused unless listed", async () => {
    const refused = await post("7.3", "uint16", INSERT, page);
    await expectProblem(refused, 403, "origin_not_allowed");
    expect(await exchange(QUERY)).toBe("00");
    await expectProblem(
      await get("/throttr/7.3/uint16", { ...page, upgrade: "websocket" }),
      403,
      "origin_not_allowed",
    );
  });

  it.each([
    ["as browsers name them", "https://other.example, https://page.example"],
    ["with a slash or capitals, as an address bar shows them", "HTTPS://Page.Example/"],
  ])(
    "pages of origins that are listed %s may call, after a preflight too",
    async (_, CORS_ORIGINS) => {
      const variables = { CORS_ORIGINS };
      const response = await fetchWith(variables, "/throttr/7.3/uint16", {
        method: "POST",
        body: QUERY,
        headers: page,
      });
      expect(response.status).toBe(200);
      expect(response.headers.get("access-control-allow-origin")).toBe("https://page.example");
      const preflight = await fetchWith(variables, "/throttr/7.3/uint16", {
        method: "OPTIONS",
        headers: {
          ...page,
          "access-control-request-method": "POST",
          "access-control-request-headers": "authorization",
        },
      });
      expect(preflight.status).toBe(204);
      expect(preflight.headers.get("access-control-allow-headers")).toContain("authorization");
    },
  );

  it("pages of the server's own origin may call", async () => {
    expect((await post("7.3", "uint16", QUERY, { origin: "http://localhost" })).status).toBe(200);
  });
});

/** What `GET /health` of an isolate that knows no shards answers, where these are the shards. */
async function healthOver(
  shard: object,
  variables: Readonly<Record<string, string>> = {},
): Promise<number> {
  const SHARD = { getByName: () => shard, jurisdiction: () => SHARD };
  const changed = { ...env, ACCESS: "open", ...variables, SHARD } as unknown as Env;
  const request = new Request("http://localhost/health") as Parameters<typeof worker.fetch>[0];
  return (await worker.fetch(request, changed, createExecutionContext())).status;
}

describe("GET /health", () => {
  it.each([
    ["serves four shards, as release 0.4 made by default", "4", 4, 200],
    ["serves four shards though SHARDS is 1 now", "1", 4, 200],
    ["serves as many shards as SHARDS says", "3", 3, 200],
    ["has another number of shards, and refuses all requests", "1", 3, 503],
  ])(
    "GET /health says whether a shard of an earlier release %s",
    async (_title, SHARDS, shards, status) => {
      const warn = vi.spyOn(console, "warn").mockReturnValue();
      const lack = (method: string) => async () => {
        throw new TypeError(`The RPC receiver does not implement the method "${method}".`);
      };
      const old = {
        ranges: lack("ranges"),
        shardState: lack("shardState"),
        summary: async (placement: Placement) => {
          if (placement.shards !== shards) throw new Error("shards_mismatch: another number");
          return {};
        },
      };
      expect(await healthOver(old, { SHARDS })).toBe(status);
      warn.mockRestore();
      // A call that is served ends what the isolate remembers of a refusal.
      expect(await exchange(QUERY)).toBe("00");
    },
  );

  it("GET /health shows why the data of default, or of any called namespace, is refused", async () => {
    const health = async (variables: Record<string, unknown>): Promise<Response> =>
      await fetchWith(variables, "/health");
    expect(await exchange(INSERT)).toBe("01");
    const other = { SHARD_SECRET: "other" };
    const detail = await expectProblem(await health(other), 503, "shards_mismatch");
    expect(detail).toContain("docs/moving.md");
    // Nothing is called: the isolate still knows.
    const tokens = { ACCESS: "token", TOKEN_SECRET: "test-secret" };
    await expectProblem(await health(tokens), 503, "shards_mismatch");
    expect(await exchange(QUERY)).toMatch(/^01/);
    expect((await health(tokens)).status).toBe(200);
    expect((await health({})).status).toBe(200);
  });

  it("GET /health asks a shard once a minute at most", async () => {
    let calls = 0;
    const SHARD = {
      getByName: () => ({
        ranges: async () => {
          calls++;
          return { shards: 0, range: WHOLE, begins: [] };
        },
      }),
      jurisdiction: () => SHARD,
    };
    const changed = { ...env, ACCESS: "open", SHARD } as unknown as Env;
    for (let i = 0; i < 10; i++) {
      const request = new Request("http://localhost/health") as Parameters<typeof worker.fetch>[0];
      const response = await worker.fetch(request, changed, createExecutionContext());
      expect(response.status).toBe(200);
    }
    expect(calls).toBe(1);
  });

  it.each([
    ["five seconds after a call that failed, as of a shard that restarts", "Network lost", 5000],
    ["a minute after a refusal, which comes again", "shards_mismatch: another number", 60_000],
  ])("GET /health asks a shard again %s", async (_title, message, rememberedMs) => {
    const warn = vi.spyOn(console, "warn").mockReturnValue();
    let calls = 0;
    const shard = {
      ranges: async () => {
        calls++;
        throw new Error(message);
      },
    };
    const SHARD = { getByName: () => shard, jurisdiction: () => SHARD };
    const changed = { ...env, ACCESS: "open", SHARD } as unknown as Env;
    const startMs = Date.now();
    for (const [ms, asked] of [
      [0, 1],
      [rememberedMs - 1, 1],
      [rememberedMs, 2],
    ] as const) {
      vi.useFakeTimers({ now: startMs + ms, toFake: ["Date"] });
      const request = new Request("http://localhost/health") as Parameters<typeof worker.fetch>[0];
      const { status } = await worker.fetch(request, changed, createExecutionContext());
      expect([status, calls]).toEqual([503, asked]);
    }
    vi.useRealTimers();
    warn.mockRestore();
    // A call that is served ends what the isolate remembers of a refusal.
    expect(await exchange(QUERY)).toBe("00");
  });
});

describe("GET /", () => {
  const ask = async (accept?: string): Promise<Response> =>
    await server.fetch("http://localhost/", {
      redirect: "manual",
      headers: accept === undefined ? {} : { accept },
    });

  it("GET / sends a browser to the dashboard", async () => {
    const response = await ask("text/html,application/xhtml+xml,*/*;q=0.8");
    expect([response.status, response.headers.get("location")]).toEqual([302, "/dashboard"]);
  });

  it("GET / lists the doors to other clients", async () => {
    for (const accept of [undefined, "*/*", "application/json"]) {
      const response = await ask(accept);
      expect(response.status).toBe(200);
      const text = await response.text();
      for (const door of ["/docs", "/v1/", "/throttr/", "/channels/", "/health"])
        expect(text).toContain(door);
    }
  });

  it("GET / and /favicon.ico are not errors", async () => {
    expect((await get("/favicon.ico")).status).toBe(204);
  });
});

it("GET /health says ok", async () => {
  expect(await (await get("/health")).json()).toEqual({ status: "ok" });
});

describe("hosts", () => {
  const HOSTS = "localhost, api.example:8787";
  const ask = async (
    host: string,
    variables: Record<string, unknown> = { HOSTS },
    headers: Record<string, string> = {},
  ): Promise<Response> => {
    const request = new Request(`http://${host}/openapi.json`, { headers });
    return await worker.fetch(
      request as Parameters<typeof worker.fetch>[0],
      { ...env, ...variables } as Env,
      createExecutionContext(),
    );
  };

  it.each([
    "localhost:8787",
    "LOCALHOST",
    "app.localhost",
    "127.0.0.1:8787",
    "127.8.9.10",
    "127.1",
    "[::1]:8787",
    "api.example:8787",
  ])("the host %s is served where HOSTS lists localhost and api.example:8787", async (host) => {
    expect((await ask(host)).status).toBe(200);
  });

  it.each([
    "evil.example:8787",
    "localhost.evil.example",
    "evillocalhost",
    "127.0.0.1.evil.example",
    "api.example",
    "api.example:8788",
    "0.0.0.0:8787",
    "192.168.0.1",
    "[::]",
  ])("the host %s is refused where HOSTS lists localhost and api.example:8787", async (host) => {
    const detail = await expectProblem(await ask(host), 421, "host_not_allowed");
    expect(detail).toContain("HOSTS");
  });

  it("any host is served where HOSTS is empty, as on Cloudflare, and where it is *", async () => {
    expect((await ask("throttr.example", {})).status).toBe(200);
    expect((await ask("throttr.example", { HOSTS: " , " })).status).toBe(200);
    expect((await ask("throttr.example", { HOSTS: "*" })).status).toBe(200);
  });

  it("hosts of CORS_ORIGINS are served, as their pages may call anyway", async () => {
    const CORS_ORIGINS = "https://page.example, http://other.example:3000";
    const variables = { HOSTS: "localhost", CORS_ORIGINS };
    expect((await ask("page.example", variables)).status).toBe(200);
    expect((await ask("other.example:3000", variables)).status).toBe(200);
    await expectProblem(await ask("other.example", variables), 421, "host_not_allowed");
    const all = { HOSTS: "localhost", CORS_ORIGINS: "*" };
    expect((await ask("evil.example", all)).status).toBe(200);
  });

  it("a page that points its own name to the server is not a page of the server", async () => {
    const headers = { origin: "http://evil.example:8787", upgrade: "websocket" };
    const request = new Request("http://evil.example:8787/throttr/7.3/uint16", { headers });
    const response = await worker.fetch(
      request as Parameters<typeof worker.fetch>[0],
      { ...env, HOSTS } as Env,
      createExecutionContext(),
    );
    await expectProblem(response, 421, "host_not_allowed");
  });

  it("refused hosts and origins are logged once, with the variable that would list them", async () => {
    const warn = vi.spyOn(console, "warn").mockImplementation(() => {});
    for (let i = 0; i < 3; i++) {
      await ask("seen-once.example");
      await ask("localhost", {}, { origin: "https://seen-once.example" });
    }
    const lines = warn.mock.calls.map(([line]) => JSON.parse(line as string) as unknown);
    warn.mockRestore();
    expect(lines).toEqual([
      { event: "host_refused", host: "seen-once.example", variable: "HOSTS" },
      { event: "origin_refused", origin: "https://seen-once.example", variable: "CORS_ORIGINS" },
    ]);
  });
});
