/** WebSockets of any runtime as transports: addresses, tokens, openings, endings. */
import { describe, expect, it, vi } from "vitest";
import { serviceBinding } from "../../src/client/transport/binding.ts";
import { http } from "../../src/client/transport/http.ts";
import type { PlatformSocket } from "../../src/client/platform.ts";
import type { SocketEvents, Transport } from "../../src/client/transport/transport.ts";
import { webSocket } from "../../src/client/transport/web-socket.ts";
import { turn } from "../support/client/clock.ts";
import { responseOf } from "../support/client/http.ts";

type Listener = (event: never) => void;

/** A WebSocket that the test plays. */
class FakeWebSocket implements PlatformSocket {
  static made: FakeWebSocket[] = [];
  binaryType = "blob";
  readonly url: string;
  readonly protocols: readonly string[];
  readonly sent: unknown[] = [];
  readonly closes: unknown[] = [];
  isAccepted = false;
  readonly #listeners = new Map<string, Listener>();

  constructor(url: string, protocols: string[]) {
    if (protocols.some((protocol) => protocol.includes(";"))) throw new SyntaxError("protocol");
    this.url = url;
    this.protocols = protocols;
    FakeWebSocket.made.push(this);
  }

  accept(): void {
    this.isAccepted = true;
  }

  send(data: unknown): void {
    this.sent.push(data);
  }

  close(code?: number): void {
    this.closes.push(code);
    throw new Error("closed already");
  }

  addEventListener(type: string, listener: Listener): void {
    this.#listeners.set(type, listener);
  }

  emit(type: string, event: object = {}): void {
    this.#listeners.get(type)?.(event as never);
  }
}

/** Connects, and writes down what is told. */
async function connect(transport: Transport) {
  FakeWebSocket.made = [];
  const told: unknown[] = [];
  const events: SocketEvents = {
    opened: () => told.push("opened"),
    received: (bytes) => told.push([...bytes]),
    ponged: () => told.push("ponged"),
    closed: ({ error, isFinal }) => told.push(["closed", error.message, isFinal]),
  };
  const socket = transport.connect(events);
  await turn();
  const [made] = FakeWebSocket.made;
  return { told, socket, made: made! };
}

describe("addresses", () => {
  it.each([
    ["https://a.example", "wss://a.example/throttr/edge"],
    ["http://a.example:8787/", "ws://a.example:8787/throttr/edge"],
    ["https://a.example/throttr-edge", "wss://a.example/throttr-edge/throttr/edge"],
    ["https://a.example/throttr-edge/", "wss://a.example/throttr-edge/throttr/edge"],
    ["wss://a.example/throttr/edge/", "wss://a.example/throttr/edge"],
    ["wss://a.example/behind/a/proxy/throttr/edge", "wss://a.example/behind/a/proxy/throttr/edge"],
    ["ws://a.example/?x=1#y", "ws://a.example/throttr/edge?x=1"],
  ])("the address %s is read as %s", async (url, expected) => {
    const { made } = await connect(webSocket(url, { WebSocket: FakeWebSocket }));
    expect(made.url).toBe(expected);
    const { made: other } = await connect(http(url, { WebSocket: FakeWebSocket }));
    expect(other.url).toBe(expected);
  });

  it.each(["a.example", "ftp://a.example", "/throttr/edge", ""])(
    "the address %j is refused",
    (url) => {
      expect(() => webSocket(url)).toThrow(/^option_invalid: url: /);
      expect(() => http(url)).toThrow(/^option_invalid: url: /);
    },
  );

  it("the refusal of an address shows what it got, whatever that is", () => {
    const expected =
      "option_invalid: url: expected an address that begins with http, https, ws or wss";
    expect(() => http("ftp://a.example")).toThrow(`${expected}, got "ftp://a.example"`);
    expect(() => http({ url: "https://a.example" } as never)).toThrow(`${expected}, got an object`);
    expect(() => webSocket(Symbol("a") as never)).toThrow(`${expected}, got Symbol(a)`);
  });

  it("an address with a password is refused over HTTP, and its error does not show it", () => {
    for (const url of ["https://ada:secret@a.example", "https://:secret@a.example"]) {
      expect(() => http(url)).toThrow(
        /^option_invalid: url: expected an address without user and password; a token is an option$/,
      );
    }
  });

  it("addresses may be relative on web pages", async () => {
    const globals = globalThis as { location?: unknown };
    globals.location = { href: "https://page.example/news/today" };
    try {
      const { made } = await connect(webSocket("/api/throttr", { WebSocket: FakeWebSocket }));
      expect(made.url).toBe("wss://page.example/api/throttr/throttr/edge");
    } finally {
      delete globals.location;
    }
  });
});

/** What the error of a WebSocket that never opened ends with. */
const HINT = "; is there a Throttr server at wss://a.example/throttr/edge?";

describe("a WebSocket", () => {
  const open = (token?: string | (() => string)): Transport =>
    webSocket("https://a.example", {
      WebSocket: FakeWebSocket,
      ...(token === undefined ? {} : { token }),
    });

  it("a WebSocket offers the subprotocol, and the token as another one", async () => {
    expect((await connect(open())).made.protocols).toEqual(["throttr"]);
    expect((await connect(open("abc"))).made.protocols).toEqual(["throttr", "bearer.abc"]);
    let tokens = 0;
    const transport = open(() => `t${++tokens}`);
    await connect(transport);
    expect((await connect(transport)).made.protocols).toEqual(["throttr", "bearer.t2"]);
  });

  it.each(["abc\n", () => " abc\r\n"])(
    "a WebSocket offers the token without the end of line of its file",
    async (token) => {
      expect((await connect(open(token))).made.protocols).toEqual(["throttr", "bearer.abc"]);
    },
  );

  it("a WebSocket carries bytes and pings", async () => {
    const { made, told, socket } = await connect(open());
    expect(made.binaryType).toBe("arraybuffer");
    made.emit("open");
    socket.send(Uint8Array.of(1, 2));
    socket.ping();
    made.emit("message", { data: Uint8Array.of(3, 4).buffer });
    made.emit("message", { data: "pong" });
    expect(made.sent).toEqual([Uint8Array.of(1, 2), "ping"]);
    expect(told).toEqual(["opened", [3, 4], "ponged"]);
  });

  it.each([
    ["abc", true],
    [() => "abc", false],
  ])(
    "a WebSocket ends with the code that the server gives, with a token of %s",
    async (token, isFinal) => {
      const { made, told } = await connect(open(token));
      made.emit("open");
      made.emit("close", { code: 1008, reason: "token_expired: the token has expired" });
      expect(told).toEqual(["opened", ["closed", "token_expired: the token has expired", isFinal]]);
    },
  );

  it("an error of a WebSocket names its server without the user and password of the address", async () => {
    const { made, told } = await connect(
      webSocket("wss://ada:secret@a.example?ticket=1", { WebSocket: FakeWebSocket }),
    );
    made.emit("error");
    expect(told).toEqual([["closed", `connection_failed: the connection failed${HINT}`, false]]);
  });

  it.each([
    ["close", { code: 1006, reason: "" }, "the connection was closed: 1006 "],
    [
      "close",
      { code: 1001, reason: "leaving: now" },
      "the connection was closed: 1001 leaving: now",
    ],
    ["error", {}, `the connection failed${HINT}`],
    ["error", { message: "no route" }, `the connection failed: no route${HINT}`],
    [
      "error",
      { message: "", error: { code: "ECONNREFUSED" } },
      `the connection failed: ECONNREFUSED${HINT}`,
    ],
    ["error", { message: "", error: null }, `the connection failed${HINT}`],
    ["message", { data: {} }, "a message is not an ArrayBuffer, though binaryType asks for that"],
  ])("a WebSocket ends once, with %s %j", async (type, event, detail) => {
    const { made, told } = await connect(open());
    made.emit(type, event);
    made.emit("error");
    made.emit("close", { code: 1006, reason: "" });
    made.emit("message", { data: new ArrayBuffer(1) });
    expect(told).toEqual([["closed", `connection_failed: ${detail}`, false]]);
    expect(made.closes).toEqual([1000]);
  });

  it("a page whose connection failed is pointed to CORS_ORIGINS", async () => {
    vi.stubGlobal("location", { href: "http://localhost:5173/page?a=b" });
    const hint = "does its CORS_ORIGINS list http://localhost:5173?";
    try {
      const refused = await connect(open());
      refused.made.emit("error");
      expect(String(refused.told[0])).toContain(hint);
      const lost = await connect(open());
      lost.made.emit("open");
      lost.made.emit("error");
      expect(String(lost.told.at(-1))).not.toContain("CORS_ORIGINS");
    } finally {
      vi.unstubAllGlobals();
    }
  });

  it("a closed WebSocket reports nothing", async () => {
    const { made, told, socket } = await connect(open());
    socket.close();
    made.emit("open");
    made.emit("message", { data: new ArrayBuffer(1) });
    made.emit("close", { code: 1000, reason: "" });
    expect(told).toEqual([]);
    expect(made.closes).toEqual([1000]);
  });

  it("a WebSocket closed before it opened is closed when it opens", async () => {
    FakeWebSocket.made = [];
    const told: unknown[] = [];
    const closed = (): void => void told.push("closed");
    const nothing = (): void => {};
    const socket = open().connect({ opened: nothing, received: nothing, ponged: nothing, closed });
    socket.close();
    await turn();
    expect(FakeWebSocket.made.map(({ closes }) => closes)).toEqual([[1000]]);
    expect(told).toEqual([]);
  });

  it("a WebSocket closed while its token was fetched is closed, and its error is caught", async () => {
    /** As that of `ws`: closed before it is open, it emits an error, which is thrown where no listener is. */
    const uncaught: string[] = [];
    class Strict extends FakeWebSocket {
      #hasListener = false;
      override addEventListener(type: string, listener: Listener): void {
        super.addEventListener(type, listener);
        if (type === "error") this.#hasListener = true;
      }
      override close(code?: number): void {
        this.closes.push(code);
        if (this.#hasListener) this.emit("error", { message: "closed before it was established" });
        else uncaught.push("closed before it was established");
      }
    }
    let provide = (_token: string): void => {};
    const token = new Promise<string>((resolve) => (provide = resolve));
    const { told, socket } = await connect(
      webSocket("https://a.example", { WebSocket: Strict, token: async () => await token }),
    );
    socket.close();
    provide("abc");
    await turn();
    expect(FakeWebSocket.made.map(({ closes }) => closes)).toEqual([[1000]]);
    expect([uncaught, told]).toEqual([[], []]);
  });

  it("a WebSocket that fails in the turn in which it was made reports it", async () => {
    const Failing = class extends FakeWebSocket {
      constructor(url: string, protocols: string[]) {
        super(url, protocols);
        void Promise.resolve().then(() => this.emit("error", { message: "bad port" }));
      }
    };
    const { told } = await connect(webSocket("https://a.example", { WebSocket: Failing }));
    const detail = `the connection failed: bad port${HINT}`;
    expect(told).toEqual([["closed", `connection_failed: ${detail}`, false]]);
  });

  it("a WebSocket that cannot be constructed has failed", async () => {
    expect((await connect(open("a;b"))).told).toEqual([
      ["closed", "connection_failed: SyntaxError: protocol", false],
    ]);
    const token = (): string => {
      throw new Error("not now");
    };
    expect((await connect(open(token))).told).toEqual([
      [
        "closed",
        "connection_failed: the function that returns the token failed: Error: not now",
        false,
      ],
    ]);
  });

  it("a token function that returns anything but text is refused with what is expected", async () => {
    const refused =
      "option_invalid: token: expected text, or a function that returns it, got an object";
    // As one that forgets to read the text of its response.
    const token = (() => ({ ok: true })) as object as () => string;
    expect((await connect(open(token))).told).toEqual([["closed", refused, false]]);
    const asked = http("https://a.example", { token }).exchange!(
      Uint8Array.of(1),
      AbortSignal.timeout(1),
    );
    await expect(asked).rejects.toThrow(refused);
  });

  it("a token that no header can carry is refused for good, and is in no message", async () => {
    const refused = "option_invalid: token: expected ASCII characters without line breaks";
    for (const token of ["secret\nsecret", "secret\rsecret", "secret\u0000", "secrét"]) {
      const { told } = await connect(open(token));
      expect(told).toEqual([["closed", expect.stringContaining(refused), true]]);
      expect(JSON.stringify(told)).not.toMatch(/secr.t/);
      const message = Uint8Array.of(1);
      const asked = http("https://a.example", { token }).exchange!(message, AbortSignal.timeout(1));
      const error: unknown = await asked.catch((reason: unknown) => reason);
      expect(String(error)).toContain(refused);
      expect(String(error)).not.toMatch(/secr.t/);
    }
    // The next call of a function may return a better one.
    expect((await connect(open(() => "a\nb"))).told).toEqual([
      ["closed", expect.any(String), false],
    ]);
  });

  it("a runtime without WebSocket is told to pass one", async () => {
    const globals = globalThis as { WebSocket?: unknown };
    const { WebSocket } = globals;
    globals.WebSocket = undefined;
    try {
      const { told } = await connect(webSocket("https://a.example"));
      expect(told).toMatchObject([
        ["closed", expect.stringMatching(/^web_socket_missing: /), true],
      ]);
    } finally {
      globals.WebSocket = WebSocket;
    }
  });

  it("the WebSocket is the runtime's unless one is given", async () => {
    const globals = globalThis as { WebSocket?: unknown };
    const { WebSocket } = globals;
    globals.WebSocket = FakeWebSocket;
    try {
      expect((await connect(webSocket("https://a.example"))).made.url).toContain("wss://a.example");
    } finally {
      globals.WebSocket = WebSocket;
    }
  });
});

describe("a WebSocket over a service binding", () => {
  const bindingOf = (answer: object) => {
    const requests: unknown[] = [];
    const fetch = async (...request: unknown[]): Promise<unknown> => {
      requests.push(request);
      return answer;
    };
    return { requests, transport: serviceBinding({ fetch }) };
  };

  it("a WebSocket over a service binding is requested, accepted and open at once", async () => {
    const webSocket = new FakeWebSocket("", []);
    const { requests, transport } = bindingOf({ status: 101, webSocket });
    const { told } = await connect(transport);
    expect(requests).toEqual([
      [
        "https://throttr/throttr/edge",
        { headers: { upgrade: "websocket", "sec-websocket-protocol": "throttr" } },
      ],
    ]);
    expect(webSocket).toMatchObject({ isAccepted: true, binaryType: "arraybuffer" });
    webSocket.emit("message", { data: Uint8Array.of(1).buffer });
    expect(told).toEqual(["opened", [1]]);
  });

  it.each([
    [403, "scope_missing", true],
    [503, "connections_max", false],
  ])("a WebSocket over a service binding is refused with %s %s", async (status, code, isFinal) => {
    const problem = JSON.stringify({ type: `/docs#${code}`, code, detail: "so it is" });
    const { transport } = bindingOf({ ...responseOf(status, problem), webSocket: null });
    expect((await connect(transport)).told).toEqual([["closed", `${code}: so it is`, isFinal]]);
  });

  it("a WebSocket over a service binding fails when another server answers", async () => {
    const { transport } = bindingOf({ ...responseOf(502, "<html>"), webSocket: null });
    expect((await connect(transport)).told).toEqual([
      ["closed", "connection_failed: HTTP 502", false],
    ]);
  });
});
