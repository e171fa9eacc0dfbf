/** Tokens: what they open, and what is said of those that don't. */
import { createExecutionContext, reset } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, describe, expect, it } from "vitest";
import worker from "../../src/worker/index.ts";
import { concat, hex, U16 } from "../support/frames/index.ts";
import { get, openSocket, post } from "../support/pool/doors.ts";
import { bearerOf, nowS, tokenOf } from "../support/pool/tokens.ts";

const INSERT = U16.insert("a", 5);
const QUERY = U16.query("a");
const PATH = "/throttr/7.3/uint16";

afterEach(async () => {
  await reset();
});

async function problemOf(
  response: Response,
): Promise<{ status: number; code: string; detail: string }> {
  return await response.json();
}

describe("over HTTP", () => {
  it("a token opens its own namespace over HTTP, and no other", async () => {
    const one = await bearerOf({ ns: "one" });
    const two = await bearerOf({ ns: "two" });
    const statusOf = async (headers: HeadersInit, body: BodyInit): Promise<string> =>
      hex(new Uint8Array(await (await post("7.3", "uint16", body, headers)).arrayBuffer())).slice(
        0,
        2,
      );
    expect(await statusOf(one, INSERT)).toBe("01");
    expect(await statusOf(one, QUERY)).toBe("01");
    expect(await statusOf(two, QUERY)).toBe("00");
    expect(await statusOf({}, QUERY)).toBe("00");
  });

  it.each([
    ["expired", { exp: nowS() - 10 }, "test-secret", "token_expired"],
    ["badly signed", {}, "other-secret", "token_invalid"],
    ["without a namespace", { ns: undefined }, "test-secret", "token_invalid"],
    ["for a namespace with a slash", { ns: "a/0" }, "test-secret", "token_invalid"],
    ["with an unknown scope", { scopes: ["root"] }, "test-secret", "token_invalid"],
    ["without an end", { exp: undefined }, "test-secret", "token_invalid"],
    ["with a prefix too long", { keyPrefixes: ["x".repeat(256)] }, "test-secret", "token_invalid"],
  ])("a token is refused with 401: %s", async (_, claims, secret, code) => {
    const response = await post("7.3", "uint16", QUERY, await bearerOf(claims as object, secret));
    expect(response.headers.get("www-authenticate")).toBe("Bearer");
    expect(await problemOf(response)).toMatchObject({ status: 401, code });
  });

  it.each([
    ["without a namespace", { ns: undefined }, "ns: missing"],
    ["without an end", { exp: undefined }, "exp: missing"],
    ["without scopes", { scopes: undefined }, "scopes: missing"],
    ["with an end in text", { exp: "soon" }, "exp: expected seconds since the epoch"],
    ["with a prefix in place of a list", { keyPrefixes: "a:" }, "keyPrefixes: expected a list"],
    ["with a number as a prefix", { channelPrefixes: [7] }, "channelPrefixes: expected texts"],
    [
      "with a misspelt claim, which would restrict nothing",
      { key_prefix: ["a:"] },
      "key_prefix: expected keyPrefixes or channelPrefixes",
    ],
    [
      "with a prefix too long",
      { channelPrefixes: ["x".repeat(256)] },
      "channelPrefixes: expected at most 255 bytes in each",
    ],
    [
      "with two wrong claims",
      { exp: undefined, keyPrefixes: Array.from({ length: 17 }, () => "a:") },
      "exp: missing; keyPrefixes: expected at most 16",
    ],
  ])("the refusal of a token names the wrong claim: %s", async (_, claims, detail) => {
    const response = await get("/v1/access", await bearerOf(claims as object));
    expect(await problemOf(response)).toMatchObject({ code: "token_invalid", detail });
  });

  it.each([
    ["alg none", `${btoa('{"alg":"none","typ":"JWT"}')}.${btoa('{"ns":"x"}')}.`],
    ["garbage", "garbage"],
    ["two dots", ".."],
  ])("a malformed token is refused with 401: %s", async (_, token) => {
    const response = await post("7.3", "uint16", QUERY, { authorization: `Bearer ${token}` });
    expect(await problemOf(response)).toMatchObject({ status: 401, code: "token_invalid" });
  });

  it("an Authorization header without a bearer token is refused with 401, though access is open", async () => {
    for (const authorization of ["Basic dXNlcjpwYXNz", "a-token", "Bearer ", "Bearer a b"]) {
      const response = await post("7.3", "uint16", QUERY, { authorization });
      expect(await problemOf(response)).toMatchObject({
        status: 401,
        code: "token_invalid",
        detail: "expected Authorization: Bearer TOKEN, where TOKEN has no space",
      });
    }
  });

  it("an open server without a secret refuses tokens with 401, and says to send none", async () => {
    const init = { method: "POST", body: QUERY, headers: await bearerOf({}) };
    const request = new Request(`http://localhost${PATH}`, init) as Parameters<
      typeof worker.fetch
    >[0];
    const open = { ...env, ACCESS: "open", TOKEN_SECRET: "" } as Env;
    const problem = await problemOf(await worker.fetch(request, open, createExecutionContext()));
    expect(problem).toMatchObject({ status: 401, code: "token_invalid" });
    expect(problem.detail).toMatch(/open .* send the request without one$/);
  });

  it("a request without a token is refused with 401 when access is not open", async () => {
    const request = new Request(`http://localhost${PATH}`, {
      method: "POST",
      body: QUERY,
    }) as Parameters<typeof worker.fetch>[0];
    const closed = { ...env, ACCESS: "token" } as Env;
    const response = await worker.fetch(request, closed, createExecutionContext());
    expect(await problemOf(response)).toMatchObject({ status: 401, code: "token_missing" });
  });

  describe("a namespace in place of a token", () => {
    async function sent(
      body: Uint8Array<ArrayBuffer> | null,
      token: string,
      variables: object,
    ): Promise<Response> {
      const headers: HeadersInit =
        body === null
          ? { upgrade: "websocket", "sec-websocket-protocol": `throttr, bearer.${token}` }
          : { authorization: `Bearer ${token}` };
      const init = body === null ? { headers } : { method: "POST", body, headers };
      const request = new Request(`http://localhost${PATH}`, init) as Parameters<
        typeof worker.fetch
      >[0];
      return await worker.fetch(request, { ...env, ...variables }, createExecutionContext());
    }
    const LOCAL = { ACCESS: "open", OPEN_NAMESPACES: "any" };

    it("a namespace in place of a token opens that namespace, and no other, where any may be named", async () => {
      const statusOf = async (token: string, body: Uint8Array<ArrayBuffer>): Promise<string> =>
        hex(new Uint8Array(await (await sent(body, token, LOCAL)).arrayBuffer())).slice(0, 2);
      expect(await statusOf("namespace.my-app", INSERT)).toBe("01");
      expect(await statusOf("namespace.my-app", QUERY)).toBe("01");
      expect(await statusOf(await tokenOf({ ns: "my-app" }), QUERY)).toBe("01");
      expect(await statusOf("namespace.other", QUERY)).toBe("00");
      expect(await statusOf("namespace.default", QUERY)).toBe("00");
      const opened = await sent(null, "namespace.my-app", LOCAL);
      expect(opened.status).toBe(101);
      opened.webSocket!.accept();
      opened.webSocket!.close();
    });

    it.each([
      ["that says nothing of namespaces", "namespace.my-app", { ACCESS: "open" }],
      ["with tokens", "namespace.my-app", { ACCESS: "token", OPEN_NAMESPACES: "any" }],
      ["for a name with a slash", "namespace.a/0", LOCAL],
      ["for no name", "namespace.", LOCAL],
    ])(
      "a namespace in place of a token is refused with 401 by a server %s",
      async (_, token, variables) => {
        const response = await sent(QUERY, token, variables);
        expect(await problemOf(response)).toMatchObject({ status: 401, code: "token_invalid" });
      },
    );
  });

  it("the previous secret is accepted while tokens are rotated", async () => {
    const rotated = {
      ...env,
      TOKEN_SECRET: "new-secret",
      TOKEN_SECRET_PREVIOUS: "test-secret",
    } as Env;
    for (const [secret, status] of [
      ["test-secret", 200],
      ["new-secret", 200],
      ["third", 401],
    ] as const) {
      const init = { method: "POST", body: QUERY, headers: await bearerOf({}, secret) };
      const request = new Request(`http://localhost${PATH}`, init) as Parameters<
        typeof worker.fetch
      >[0];
      expect((await worker.fetch(request, rotated, createExecutionContext())).status).toBe(status);
    }
  });

  it.each(["nbf", "iat"])("the claim %s may be 5 s ahead of the server's clock", async (claim) => {
    const near = await bearerOf({ [claim]: nowS() + 3 });
    expect((await post("7.3", "uint16", QUERY, near)).status).toBe(200);
    const far = await post("7.3", "uint16", QUERY, await bearerOf({ [claim]: nowS() + 60 }));
    const problem = await problemOf(far);
    expect(problem).toMatchObject({ status: 401, code: "token_not_yet_valid" });
    expect(problem.detail).toMatch(new RegExp(`${claim} is \\d+ s ahead`));
    const foreign = await bearerOf({ [claim]: nowS() + 60 }, "of another deployment");
    expect(await problemOf(await post("7.3", "uint16", QUERY, foreign))).toMatchObject({
      code: "token_invalid",
    });
  });

  it("a missing scope is refused with 403 and its name, and nothing is applied", async () => {
    const reader = await bearerOf({ scopes: ["read"] });
    const problem = await problemOf(await post("7.3", "uint16", concat([QUERY, INSERT]), reader));
    expect(problem).toMatchObject({ status: 403, code: "scope_missing" });
    expect(problem.detail).toMatch(/INSERT at byte 3 needs the scope write/);
    expect((await post("7.3", "uint16", QUERY, reader)).status).toBe(200);
  });

  it("a key outside the token's prefixes is refused with 403, and nothing is applied", async () => {
    const headers = await bearerOf({ keyPrefixes: ["user:", "ab"] });
    const inserts = (...keys: string[]) => concat(keys.map((key) => U16.insert(key, 5)));
    expect((await post("7.3", "uint16", inserts("ab", "abc"), headers)).status).toBe(200);
    const problem = await problemOf(await post("7.3", "uint16", inserts("abd", "a"), headers));
    expect(problem).toMatchObject({ status: 403, code: "prefix_missing" });
    const response = await post("7.3", "uint16", U16.query("abd"), headers);
    expect(hex(new Uint8Array(await response.arrayBuffer()))).toBe("00");
  });
});

describe("on a WebSocket", () => {
  it("a WebSocket takes its token from a header, a subprotocol or a ticket", async () => {
    const token = await tokenOf({ ns: "shared", iat: nowS(), exp: nowS() + 60 });
    const byHeader = await openSocket(PATH, { authorization: `Bearer ${token}` });
    expect(hex(await byHeader.exchange(INSERT, 1))).toBe("01");
    const bySubprotocol = await openSocket(PATH, {
      "sec-websocket-protocol": `throttr, bearer.${token}`,
    });
    expect(hex(await bySubprotocol.exchange(INSERT, 1))).toBe("00");
    const byTicket = await openSocket(`${PATH}?ticket=${token}`);
    expect(hex(await byTicket.exchange(INSERT, 1))).toBe("00");
    for (const door of [byHeader, bySubprotocol, byTicket]) await door.close();
  });

  it("a token of a WebSocket may end in the far future", async () => {
    const door = await openSocket(PATH, await bearerOf({ ns: "far", exp: 9_999_999_999 }));
    expect(hex(await door.exchange(QUERY, 1))).toBe("00");
    await door.close();
  });

  it("the subprotocol throttr is confirmed, and the token is not sent back", async () => {
    const token = await tokenOf();
    const response = await get(PATH, {
      upgrade: "websocket",
      "sec-websocket-protocol": `bearer.${token}, throttr`,
    });
    expect(response.headers.get("sec-websocket-protocol")).toBe("throttr");
    response.webSocket!.accept();
    response.webSocket!.close();
  });

  it("a ticket that lives too long is refused with 401", async () => {
    const token = await tokenOf({ iat: nowS(), exp: nowS() + 3600 });
    const response = await get(`${PATH}?ticket=${token}`, { upgrade: "websocket" });
    expect(await problemOf(response)).toMatchObject({ status: 401, code: "ticket_too_long" });
  });

  it("a bad token gets 401 instead of a WebSocket", async () => {
    const headers = { upgrade: "websocket", ...(await bearerOf({}, "other")) };
    expect((await get(PATH, headers)).status).toBe(401);
  });

  it("frames without scope or prefix are answered 0x00 in their order, and not applied", async () => {
    const door = await openSocket(
      PATH,
      await bearerOf({ scopes: ["read", "write"], keyPrefixes: ["b"] }),
    );
    expect(
      hex(await door.exchange(concat([INSERT, U16.insert("b", 5), QUERY, U16.insert("b", 5)]), 4)),
    ).toBe("00010000");
    await door.close();
    const reader = await openSocket(PATH, await bearerOf({ scopes: ["read"] }));
    expect(
      hex(await reader.exchange(concat([U16.insert("c", 5), U16.query("c"), U16.purge("b")]), 3)),
    ).toBe("000000");
    await reader.close();
    const all = await openSocket(PATH, await bearerOf());
    expect(hex(await all.exchange(concat([QUERY, U16.query("c")]), 2))).toBe("0000");
    expect(hex(await all.exchange(U16.query("b"), 6)).slice(0, 2)).toBe("01");
    await all.close();
  });

  it("an expired token ends its WebSocket, even an idle one", async () => {
    const door = await openSocket(PATH, await bearerOf({ ns: "idle", exp: nowS() + 2 }));
    const lasting = await openSocket(PATH, await bearerOf({ ns: "idle", exp: nowS() + 1000 }));
    expect(await door.closed).toMatchObject({
      code: 1008,
      reason: expect.stringMatching(/^token_expired/) as string,
    });
    expect(hex(await lasting.exchange(QUERY, 1))).toBe("00");
    await lasting.close();
  });
});
