/** Transport over HTTP: a message is the body of a request, and its replies are the body of the response. */
import { checkOptions, type FieldNames } from "../../wire/edge/argument.ts";
import { ThrottrError } from "../../wire/edge/error.ts";
import { NoAnswer, outcomeUnknown } from "../calls/call.ts";
import { checkFunction } from "../options.ts";
import { doorOf, tokenOf } from "./door.ts";
import { errorOfAnswer, notThrottr } from "./failure.ts";
import { pageHint, platform, type Fetch, type FetchResponse } from "../platform.ts";
import { discard, readBeginning, readWhole } from "./read-whole.ts";
import type { Transport } from "./transport.ts";
import { WEB_SOCKET, webSocket, type WebSocketOptions } from "./web-socket.ts";

/**
 * Options for requests over HTTP. Subscriptions open a WebSocket.
 *
 * @example
 * const throttr = new ThrottrClient(http("https://throttr.example.com", { token: env.TOKEN }));
 */
export interface HttpOptions extends WebSocketOptions {
  /** The `fetch` of the runtime unless given. */
  readonly fetch?: Fetch | undefined;
}

const HTTP: FieldNames<HttpOptions> = { ...WEB_SOCKET, fetch: true };

/** Content type of messages and replies. */
const REPLY_TYPE = "application/octet-stream";
/** Largest body of replies; servers send shorter ones. */
const REPLY_BYTES_MAX = 128 << 20;
/** How much of an error is read: those of the server are shorter, a page of another server may be longer. */
const PROBLEM_BYTES_MAX = 64 << 10;

const decoder = new TextDecoder();

/** System calls that come before anything is sent. */
const BEFORE_SENDING: readonly unknown[] = ["connect", "getaddrinfo"];
/** The message of ports that `fetch` never connects to, by its standard, and what Deno says of a connection that was not opened. */
const NOT_CONNECTED = /^bad port$|\(Connect\)/;
/** Beginnings of codes of runtimes that could not reach a server, or rejected its certificate: nothing was sent. */
const NOT_SENT =
  /^(?:ECONNREFUSED|ENOTFOUND|EAI_AGAIN|UND_ERR_CONNECT_TIMEOUT|ConnectionRefused|CERT_|SELF_SIGNED_CERT|DEPTH_ZERO_SELF_SIGNED|UNABLE_TO_|ERR_TLS_CERT_)/;

/**
 * Carries calls over HTTP, those of one turn in one request.
 *
 * @param url of the server, with the path that it is below where it has one, as a server inside a Worker does
 * @throws ThrottrError `option_invalid`
 *
 * @example
 * const throttr = new ThrottrClient(http("https://throttr.example.com", { token }));
 * const views = await throttr.increment("views", { ttlMs: 60_000 });
 */
export function http(url: string, options: HttpOptions = {}): Transport {
  checkOptions(options, HTTP, "http");
  const { fetch, ...socketOptions } = options;
  checkFunction("fetch", fetch);
  const door = doorOf(url, "http");
  const socket = webSocket(url, socketOptions);
  const send: Fetch = fetch ?? ((url, init) => platform.fetch(url, init));
  return {
    exchange: async (message, signal) => {
      const token = await tokenOf(socketOptions.token);
      const headers: Record<string, string> = { "content-type": REPLY_TYPE };
      if (token !== null) headers["authorization"] = `Bearer ${token}`;
      const response = await reach(door, () =>
        send(door, { method: "POST", headers, body: message, signal }),
      );
      if (!response.ok) throw await refusalOf(door, response);
      const type = response.headers?.get("content-type") ?? REPLY_TYPE;
      if (type === REPLY_TYPE) return await readWhole(response, REPLY_BYTES_MAX);
      discard(response);
      throw new ThrottrError(
        "response_invalid",
        notThrottr(door, response.status, type) + redirectHint(response),
      );
    },
    connect: (events) => socket.connect(events),
  };
}

/** Node's codes for a peer that closed the connection instead of answering, or within its answer. */
const CLOSED: readonly unknown[] = ["UND_ERR_SOCKET", "ECONNRESET"];
/** The name of Node's error for an answer that is not HTTP. */
const UNREADABLE = "HTTPParserError";

/** Returns the response. @throws ThrottrError that says what is known, where nothing answers */
export async function reach<Response>(
  door: string,
  send: () => Promise<Response>,
): Promise<Response> {
  try {
    return await send();
  } catch (error) {
    const { origin } = new platform.URL(door);
    const why = reasonOf(error);
    const { code, name, reason } = why;
    if (wasNotSent(why)) {
      const detail = `is the server running at ${origin}? ${reason}`;
      throw new ThrottrError("connection_failed", detail, { cause: error });
    }
    if (CLOSED.includes(code) || name === UNREADABLE) {
      throw outcomeUnknown(`${origin} sent no HTTP answer: does it speak HTTP? ${reason}`, error);
    }
    throw new NoAnswer(`the request failed: ${reason}${pageHint(door)}`, error);
  }
}

interface Reason {
  readonly code: unknown;
  /** The system call that failed. */
  readonly syscall: unknown;
  readonly name: unknown;
  /** A text for people. */
  readonly reason: string;
}

/** Whether the server was never reached, and nothing was applied. */
function wasNotSent({ code, syscall, reason }: Reason): boolean {
  return (
    BEFORE_SENDING.includes(syscall) || NOT_CONNECTED.test(reason) || NOT_SENT.test(String(code))
  );
}

interface Cause {
  readonly [field: string]: unknown;
  readonly errors?: readonly Cause[];
}

/** The first cause: the message of `fetch` itself says nothing. */
function reasonOf(error: unknown): Reason {
  const { code, cause } = error as { code?: unknown; cause?: Cause };
  const reason = cause?.["message"] || cause?.["code"];
  return {
    code: cause?.["code"] ?? code,
    // Of a host with several addresses, none of which could be reached: an AggregateError has no system call of its own.
    syscall: (cause?.errors?.[0] ?? cause)?.["syscall"],
    name: cause?.["name"],
    reason: typeof reason === "string" ? reason : String(error),
  };
}

/** The error of a response without success. The server's own problems say when nothing was applied. */
export async function refusalOf(door: string, response: FetchResponse): Promise<ThrottrError> {
  const { status } = response;
  const { bytes } = await readBeginning(response, PROBLEM_BYTES_MAX);
  const text = decoder.decode(bytes);
  const hint = redirectHint(response);
  const error = errorOfAnswer(text);
  if (error !== null)
    return hint === "" ? error : new ThrottrError(error.code, error.detail + hint);
  const detail = notThrottr(door, status, text) + hint;
  return status >= 500 ? outcomeUnknown(detail) : new ThrottrError("response_invalid", detail);
}

/** What to add to the error of a request that was redirected: `fetch` goes there without the token, or without the calls. */
function redirectHint({ redirected, url }: FetchResponse): string {
  if (redirected !== true) return "";
  return `; the request was redirected to ${url?.split("?")[0]}: use the address of the server itself`;
}
