/**
 * What the client needs of its runtime, described by shape, so that no runtime's type library is needed: Workers, Node,
 * Deno, Bun and browsers all have it.
 */

/**
 * Ends calls and subscriptions: an `AbortSignal`, in the type that the `fetch` of the project's type library accepts.
 *
 * @example
 * const signal: Signal = AbortSignal.timeout(100);
 * const counter = await throttr.query("views", { signal });
 */
export type Signal = typeof globalThis extends {
  fetch: (input: never, init?: infer Init) => unknown;
}
  ? NonNullable<Init> extends { signal?: infer Known }
    ? NonNullable<Known>
    : SignalShape
  : SignalShape;

interface SignalShape {
  readonly aborted: boolean;
  readonly reason: unknown;
  addEventListener(type: "abort", listener: () => void): void;
  removeEventListener(type: "abort", listener: () => void): void;
}

/** A request as the client sends it. */
export interface FetchInit {
  readonly method: "POST";
  readonly headers: Record<string, string>;
  readonly body: Uint8Array<ArrayBuffer>;
  readonly signal: Signal;
}

/** The body of a response. */
interface BodyShape {
  getReader(): {
    read(): Promise<{ readonly done: boolean; readonly value?: Uint8Array | undefined }>;
    cancel(): Promise<void>;
  };
}

/** The parts of a response that the client reads. */
export interface FetchResponse {
  readonly ok: boolean;
  readonly status: number;
  /** Missing where a custom `fetch` does not say whether it has followed a redirect. */
  readonly redirected?: boolean;
  /** Where the response came from. */
  readonly url?: string;
  /** Missing where a custom `fetch` has none. */
  readonly headers?: { get(name: string): string | null };
  /** Missing where a runtime, or a custom `fetch`, has no streams. */
  readonly body?: BodyShape | null;
  arrayBuffer(): Promise<ArrayBuffer>;
  text(): Promise<string>;
}

/**
 * `fetch`, as far as the client uses it.
 *
 * @example
 * const logged: Fetch = async (url, init) => {
 *   console.log(url, init.body.length);
 *   return await fetch(url, init);
 * };
 * const throttr = new ThrottrClient(http("https://throttr.example.com", { fetch: logged }));
 */
export type Fetch = (url: string, init: FetchInit) => Promise<FetchResponse>;

/** A WebSocket, as far as the client uses it. */
export interface PlatformSocket {
  binaryType: string;
  /** Address of the server; not all classes have it. */
  readonly url?: string | null | undefined;
  send(data: string | Uint8Array<ArrayBuffer>): void;
  close(code?: number, reason?: string): void;
  addEventListener(type: "open", listener: () => void): void;
  addEventListener(type: "message", listener: (event: { readonly data: unknown }) => void): void;
  addEventListener(
    type: "close",
    listener: (event: { readonly code: number; readonly reason: string }) => void,
  ): void;
  addEventListener(type: "error", listener: (event: object) => void): void;
}

/**
 * The class `WebSocket`, or one like it.
 *
 * @example
 * class Logged extends WebSocket {
 *   constructor(url: string, protocols: string[]) {
 *     console.log(url);
 *     super(url, protocols);
 *   }
 * }
 * const transport = webSocket("https://throttr.example.com", { WebSocket: Logged });
 */
export type PlatformSocketConstructor = new (url: string, protocols: string[]) => PlatformSocket;

interface PlatformUrl {
  readonly origin: string;
  readonly host: string;
  protocol: string;
  pathname: string;
  hash: string;
  readonly username: string;
  readonly password: string;
  readonly href: string;
}

interface Platform {
  readonly AbortController: new () => { readonly signal: Signal; abort(reason?: unknown): void };
  readonly URL: new (url: string, base?: string) => PlatformUrl;
  /** In web pages only. */
  readonly location?: { readonly href: string };
  readonly crypto: { getRandomValues(bytes: Uint8Array<ArrayBuffer>): unknown };
  readonly console: { warn(text: string): void };
  readonly performance: { now(): number };
  /** Node 20 has none. */
  readonly WebSocket?: PlatformSocketConstructor;
  clearTimeout(timer: unknown): void;
  fetch(url: string, init: FetchInit): Promise<FetchResponse>;
  queueMicrotask(run: () => void): void;
  setTimeout(run: () => void, delayMs: number): unknown;
}

/**
 * What to add to the error of a connection that never opened, in a page of another origin: browsers hide the server's
 * answer from such a page, and the server refuses origins that it does not list. Empty elsewhere.
 *
 * @param url of the server
 */
export function pageHint(url: string): string {
  const { location } = platform;
  if (location === undefined) return "";
  const { origin, host } = new platform.URL(location.href);
  if (host === new platform.URL(url).host) return "";
  return `; a browser does not say why: is the server running, and does its CORS_ORIGINS list ${origin}?`;
}

/** The runtime's globals. Each is looked up when it is used, so that tests may replace it. */
export const platform = globalThis as unknown as Platform;
