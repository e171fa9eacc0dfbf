/** Sessions of an application at the doors of `routeThrottr`, on a server whose variables open it to anyone. */
import { createExecutionContext } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, describe, expect, it, vi } from "vitest";
import { routeThrottr, type RouteOptions, type Session } from "../../src/embedded/route.ts";
import type { Pages } from "../../src/embedded/pages.ts";
import { tokenOf } from "../support/pool/tokens.ts";

/** As `npm run dev` of a new project sets them; the test deployment has a TOKEN_SECRET, too. */
const OPEN = { ACCESS: "open", OPEN_NAMESPACES: "any" };

afterEach(() => {
  vi.restoreAllMocks();
});

/** The answer to a request whose session gives some rights. */
async function answerTo(
  path: string,
  session: Session,
  headers: Readonly<Record<string, string>> = {},
  options: RouteOptions = {},
): Promise<{ readonly status: number; readonly json: unknown }> {
  const request = new Request(`http://localhost/throttr-edge${path}`, { headers });
  const variables = { ...env, ...OPEN };
  const context = createExecutionContext();
  const response = await routeThrottr(request, variables, context, {
    ...options,
    access: () => session,
  });
  return { status: response!.status, json: await response!.json() };
}

describe("an application that gives the rights, on a server that is open to any namespace", () => {
  it("the name of a namespace in place of a token lets in no request without a session", async () => {
    const name = "namespace.other";
    const all = [
      answerTo("/v1/access", null, { authorization: `Bearer ${name}` }),
      answerTo(`/v1/access?ticket=${name}`, null),
      answerTo("/v1/namespaces", null, { authorization: `Bearer ${name}` }),
      answerTo("/v1/namespaces", { namespace: "app" }, { authorization: `Bearer ${name}` }),
    ];
    for (const { status, json } of await Promise.all(all)) {
      expect([status, json]).toEqual([401, expect.objectContaining({ code: "token_invalid" })]);
    }
    const signed = { authorization: `Bearer ${await tokenOf({ ns: "app" })}` };
    expect(await answerTo("/v1/access", null, signed)).toMatchObject({ status: 200 });
  });

  it("a session is for one namespace, and says so", async () => {
    const { json } = await answerTo("/v1/access", { namespace: "app" });
    expect(json).toMatchObject({ namespace: "app", isForAllNamespaces: false });
  });
});

describe("a page of another origin", () => {
  const LISTED = "https://app.example";

  it.each([
    ["may send cookies, also in preflights, where its origin is listed by name", LISTED, "true"],
    ["may send no cookies where only * allows its origin", "*", null],
  ])("it %s", async (_, listed, allowed) => {
    const asked = { origin: LISTED, "access-control-request-method": "PUT" };
    for (const method of ["GET", "OPTIONS"]) {
      const request = new Request("http://localhost/throttr-edge/v1/access", {
        method,
        headers: asked,
      });
      const access = (): Session => ({ namespace: "app" });
      const variables = { ...env, CORS_ORIGINS: listed };
      const response = await routeThrottr(request, variables, createExecutionContext(), { access });
      expect(response!.headers.get("access-control-allow-origin")).toBe(LISTED);
      expect(response!.headers.get("access-control-allow-credentials")).toBe(allowed);
      await response!.body?.cancel();
    }
  });

  it("it opens a WebSocket with the session of its user where its origin is listed by name", async () => {
    const headers = { origin: LISTED, upgrade: "websocket" };
    const request = new Request("http://localhost/throttr-edge/throttr/edge", { headers });
    const access = (): Session => ({ namespace: "app" });
    const variables = { ...env, CORS_ORIGINS: LISTED };
    const response = await routeThrottr(request, variables, createExecutionContext(), { access });
    expect(response!.status).toBe(101);
    response!.webSocket!.accept();
    response!.webSocket!.close();
  });
});

describe("the rights of a session", () => {
  it("a session has the scope admin only where the application names it", async () => {
    const { json } = await answerTo("/v1/access", { namespace: "app" });
    expect(json).toMatchObject({ scopes: ["read", "write", "publish", "subscribe"] });
    expect(await answerTo("/v1/overview", { namespace: "app" })).toMatchObject({
      status: 403,
      json: { code: "scope_missing" },
    });
    const operator = await answerTo("/v1/access", { namespace: "app", scopes: ["read", "admin"] });
    expect(operator.json).toMatchObject({ scopes: ["read", "admin"] });
  });

  it.each([
    { keyPrefixes: [] },
    { keyPrefixes: ["ada:", ""] },
    { keyPrefixes: ["ada:"], channelPrefixes: [] },
  ])("prefixes that restrict nothing are an error, and not all names: %j", async (prefixes) => {
    const logged = vi.spyOn(console, "error").mockImplementation(() => {});
    const { status, json } = await answerTo("/v1/access", { namespace: "app", ...prefixes });
    expect([status, json]).toEqual([500, expect.objectContaining({ code: "internal" })]);
    expect(String(logged.mock.calls)).toContain("would allow any name");
  });
});

describe("refusals of a caller without a token", () => {
  it("a refused key is answered with the prefixes that the session allows", async () => {
    const keyPrefixes = ["user:ada:", "shared:"];
    const { json } = await answerTo("/v1/counters/a", { namespace: "app", keyPrefixes });
    expect(json).toMatchObject({
      code: "prefix_missing",
      detail: expect.stringMatching(
        / may only use keys that begin with user:ada: or shared:$/,
      ) as string,
    });
    const many = Array.from({ length: 16 }, (_, i) => `user:${i}:`);
    const refused = await answerTo("/v1/counters/a", { namespace: "app", keyPrefixes: many });
    expect(refused.json).toMatchObject({
      detail: expect.stringMatching(
        / may only use keys that begin with one of 16 keyPrefixes$/,
      ) as string,
    });
    expect(JSON.stringify([json, refused.json])).not.toMatch(/token/i);
  });

  it.each([
    ["", "Session", "the application gives this request no rights: sign in there"],
    [
      "secret",
      "Bearer",
      "the application gives this request no rights: sign in there, or send a token as Authorization: Bearer",
    ],
  ])(
    "without a session the challenge says whether a token would do, with the secret '%s'",
    async (TOKEN_SECRET, challenge, detail) => {
      const request = new Request("http://localhost/throttr-edge/v1/access");
      const variables = { ...env, TOKEN_SECRET };
      const access = () => null;
      const response = await routeThrottr(request, variables, createExecutionContext(), { access });
      expect(response!.headers.get("www-authenticate")).toBe(challenge);
      expect(await response!.json()).toMatchObject({ code: "token_missing", detail });
    },
  );
});

describe("an application with and without the API reference", () => {
  const docs: Pages = { files: {}, detours: {} };

  it("the `type` of a problem and the rights lead to the API reference only where it is given", async () => {
    const refused = await answerTo("/v1/access", null, {}, { docs });
    expect(refused.json).toMatchObject({ type: "/throttr-edge/docs#token_missing" });
    const granted = await answerTo("/v1/access", { namespace: "app" }, {}, { docs });
    expect(granted.json).toMatchObject({ hasReference: true });
  });

  it("without the API reference the `type` of a problem leads to the project's documentation", async () => {
    expect((await answerTo("/v1/access", null)).json).toMatchObject({
      type: expect.stringMatching(/^https:\/\/.+\/docs\/reference\.md#token_missing$/),
      code: "token_missing",
    });
    const granted = await answerTo("/v1/access", { namespace: "app" });
    expect(granted.json).toMatchObject({ hasReference: false });
  });
});

describe("the prefix itself", () => {
  const dashboard: Pages = { files: {}, detours: {} };
  const answer = async (path: string, options: RouteOptions): Promise<Response | null> =>
    await routeThrottr(
      new Request(`http://localhost${path}`),
      env,
      createExecutionContext(),
      options,
    );

  it.each(["/throttr-edge", "/throttr-edge/"])("%s leads to the dashboard", async (path) => {
    const response = await answer(`${path}?namespace=app`, { dashboard });
    expect(response!.status).toBe(307);
    expect(response!.headers.get("location")).toBe("/throttr-edge/dashboard?namespace=app");
  });

  it("the prefix itself is the application's without the dashboard, and where it is the root", async () => {
    for (const path of ["/throttr-edge", "/throttr-edge/"]) {
      expect(await answer(path, {})).toBe(null);
    }
    expect(await answer("/", { dashboard, prefix: "/" })).toBe(null);
    expect(await answer("/throttr-edges", { dashboard })).toBe(null);
  });

  it("an option that routeThrottr does not have is refused, and not ignored", async () => {
    const options = { acces: () => null } as object;
    await expect(answer("/", options)).rejects.toThrow(
      "option_invalid: acces: routeThrottr has no such option; its options are prefix, access, dashboard, docs",
    );
  });

  it.each([
    ["/ключ", "/%D0%BA%D0%BB%D1%8E%D1%87"],
    ["/a b/", "/a%20b/"],
    ["/a/../b", "/b"],
    ["/a\\b", "/a/b"],
  ])(
    "a prefix that no URL has, such as %s, is refused with the one that a URL has",
    async (prefix, path) => {
      const options = { dashboard, prefix };
      await expect(answer(path, options)).rejects.toThrow(
        `option_invalid: prefix: expected the path as a URL has it, ${path}, got ${prefix}`,
      );
      const response = await answer(path, { dashboard, prefix: path });
      expect(response!.headers.get("location")).toBe(`${path.replace(/\/$/, "")}/dashboard`);
    },
  );
});
