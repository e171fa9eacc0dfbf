/**
 * The globals of an isolate, or of a client: time from its life's clock, chance from its seed, and nothing that Node's event
 * loop settles.
 */
import type { Random } from "../kernel/random.ts";
import type { Life } from "./life.ts";
import { FixedLengthStream, IdentityTransformStream } from "./net/byte-stream.ts";
import { cryptoOf, SimCryptoKey } from "./net/crypto.ts";
import { RequestResponsePair } from "./net/hibernation.ts";
import { SimBlob, SimRequest, SimResponse, type SimRequestInit } from "./net/messages.ts";
import type { Network } from "./net/network.ts";
import { SimWebSocket } from "./net/web-socket.ts";

export type LogLevel = "debug" | "log" | "info" | "warn" | "error";

export interface GlobalsOptions {
  /** The life whose event runs now: an isolate may have several, one after the other. */
  readonly life: () => Life;
  readonly network: Network;
  readonly random: Random;
  /** Of a Worker's isolate, `Date.now()` is the only clock; a client has a `performance` that never goes back. */
  readonly kind: "worker" | "client";
  readonly onLog: (level: LogLevel, life: Life, text: string) => void;
  /** How long a timer of 0 ms takes, in ms: code waits for a turn by it. Nothing happens before unless given. */
  readonly turnMs?: () => number;
  /** Requests that leave; none may unless given. */
  readonly fetch?: (request: SimRequest) => Promise<SimResponse>;
  /** The class for connections that code opens by itself; that of Workers unless given. */
  readonly WebSocket?: unknown;
}

/** Values by the names of globals. */
export type Globals = Readonly<Record<string, unknown>>;

export function globalsOf(options: GlobalsOptions): Globals {
  const { network, random, kind } = options;
  const life = options.life;
  const timers = timersOf(life, options.turnMs);
  const isClient = kind === "client";
  const globals: Record<string, unknown> = {
    ...timers,
    Date: dateOf(() => life().clockMs),
    Math: mathOf(random.fork("Math")),
    scheduler: { wait: waitOf(life) },
    crypto: cryptoOf(random.fork("crypto")),
    CryptoKey: SimCryptoKey,
    performance: performanceOf(life, network, isClient),
    console: consoleOf(options),
    AbortSignal: abortSignalOf(life),
    Blob: SimBlob,
    Request: SimRequest,
    Response: SimResponse,
    IdentityTransformStream,
    FixedLengthStream,
    WebSocket: options.WebSocket ?? SimWebSocket,
    WebSocketPair: pairOf(life, network),
    WebSocketRequestResponsePair: RequestResponsePair,
    fetch: fetchOf(options),
    navigator: { userAgent: isClient ? "Simulator" : "Cloudflare-Workers", language: "en" },
    caches: undefined,
    // What would settle outside of virtual time.
    setImmediate: undefined,
    clearImmediate: undefined,
    CompressionStream: undefined,
    DecompressionStream: undefined,
    MessageChannel: undefined,
    BroadcastChannel: undefined,
    FileReader: undefined,
  };
  // Code that looks for a global in `globalThis` finds the same as code that names it.
  Object.setPrototypeOf(globals, globalThis);
  globals.globalThis = globals;
  globals.self = globals;
  return globals;
}

interface Timers {
  setTimeout(run: (...args: unknown[]) => void, delayMs?: number, ...args: unknown[]): number;
  setInterval(run: (...args: unknown[]) => void, delayMs?: number, ...args: unknown[]): number;
  clearTimeout(timer: unknown): void;
  clearInterval(timer: unknown): void;
}

/** The shortest interval: one of 0 would never let virtual time pass. */
const INTERVAL_MS_MIN = 1;

function timersOf(life: () => Life, turnMs: () => number = () => 0): Timers {
  const cancels = new Map<number, () => void>();
  let made = 0;
  const clear = (timer: unknown): void => {
    cancels.get(timer as number)?.();
    cancels.delete(timer as number);
  };
  return {
    setTimeout(run, delayMs, ...args) {
      const timer = ++made;
      const ring = (): void => {
        cancels.delete(timer);
        run(...args);
      };
      cancels.set(timer, life().later(delayOf(delayMs) || turnMs(), "timer", ring));
      return timer;
    },
    setInterval(run, delayMs, ...args) {
      const timer = ++made;
      const owner = life();
      const intervalMs = Math.max(INTERVAL_MS_MIN, delayOf(delayMs));
      const plan = (): void => {
        cancels.set(timer, owner.later(intervalMs, "interval", ring));
      };
      const ring = (): void => {
        plan();
        run(...args);
      };
      plan();
      return timer;
    },
    clearTimeout: clear,
    clearInterval: clear,
  };
}

const delayOf = (delayMs: number | undefined): number =>
  Math.max(0, Math.trunc(Number(delayMs) || 0));

function waitOf(
  life: () => Life,
): (delayMs: number, options?: { signal?: AbortSignal }) => Promise<void> {
  return (delayMs, { signal } = {}) => {
    if (signal?.aborted === true) return Promise.reject(signal.reason as Error);
    return new Promise((resolve, reject) => {
      const abort = (): void => {
        cancel();
        reject(signal!.reason as Error);
      };
      const cancel = life().later(delayOf(delayMs), "scheduler.wait", () => {
        signal?.removeEventListener("abort", abort);
        resolve();
      });
      signal?.addEventListener("abort", abort);
    });
  };
}

/** `Date` by another clock. It stands still within an event, as virtual time does. */
function dateOf(clockMs: () => number): DateConstructor {
  class SimDate extends Date {
    constructor(...args: unknown[]) {
      if (args.length === 0) super(Math.floor(clockMs()));
      else super(...(args as [number]));
    }

    static override now(): number {
      return Math.floor(clockMs());
    }

    /** Dates that crossed the network are of Node's own class. */
    static override [Symbol.hasInstance](value: unknown): boolean {
      return Object.prototype.toString.call(value) === "[object Date]";
    }
  }
  return SimDate as unknown as DateConstructor;
}

function mathOf(random: Random): Math {
  const math = Object.create(Object.prototype, Object.getOwnPropertyDescriptors(Math)) as Math;
  math.random = () => random.next();
  return math;
}

/** In workerd `performance.now()` is `Date.now()`, of which the origin is 0. */
function performanceOf(life: () => Life, network: Network, isClient: boolean): object {
  if (!isClient) return { timeOrigin: 0, now: () => Math.floor(life().clockMs) };
  const { time } = network.world;
  const timeOrigin = time.nowMs;
  const { stoodStillMs } = life();
  const now = (): number => time.nowMs - timeOrigin - (life().stoodStillMs - stoodStillMs);
  return { timeOrigin, now };
}

function consoleOf({ life, onLog }: GlobalsOptions): object {
  const logOf =
    (level: LogLevel) =>
    (...parts: unknown[]): void => {
      const speaker = life();
      // What a life says when it is over was never printed.
      if (!speaker.isOver) onLog(level, speaker, parts.map(String).join(" "));
    };
  const levels: LogLevel[] = ["debug", "log", "info", "warn", "error"];
  return Object.fromEntries(levels.map((level) => [level, logOf(level)]));
}

/** Node's, but for what its timers and its garbage collector have a part in. */
function abortSignalOf(life: () => Life): unknown {
  return Object.create(AbortSignal, {
    timeout: {
      value: (delayMs: number): AbortSignal => {
        const controller = new AbortController();
        life().later(delayMs, "AbortSignal.timeout", () => {
          controller.abort(
            new DOMException("The operation was aborted due to timeout", "TimeoutError"),
          );
        });
        return controller.signal;
      },
    },
    any: {
      value: (signals: readonly AbortSignal[]): AbortSignal => {
        const controller = new AbortController();
        for (const signal of signals) {
          const abort = (): void => controller.abort(signal.reason);
          if (signal.aborted) abort();
          else signal.addEventListener("abort", abort, { once: true, signal: controller.signal });
        }
        return controller.signal;
      },
    },
    [Symbol.hasInstance]: { value: (value: unknown) => value instanceof AbortSignal },
  });
}

function pairOf(life: () => Life, network: Network): unknown {
  return class WebSocketPair {
    readonly 0: SimWebSocket;
    readonly 1: SimWebSocket;

    constructor() {
      const [client, server] = network.pair(life());
      this[0] = client;
      this[1] = server;
    }
  };
}

function fetchOf({ fetch }: GlobalsOptions): unknown {
  return async (input: string | URL | SimRequest, init?: SimRequestInit): Promise<SimResponse> => {
    const request = new SimRequest(input, init);
    if (fetch === undefined) throw new TypeError(`the simulator has no way out: ${request.url}`);
    return await fetch(request);
  };
}
