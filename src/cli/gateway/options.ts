/** What a gateway is told: options, their defaults and ranges. */
import type { TcpPort } from "../../wire/tcp-ports.ts";
import type { CertificateFiles } from "./certificate.ts";
import { GatewayError } from "./error.ts";
import type { TokenSource } from "./token.ts";

export interface GatewayOptions {
  /** Address of the server: http, https, ws or wss; a path comes before those of the doors. */
  readonly url: string;
  /** No token is shown unless given. */
  readonly token?: TokenSource;
  readonly ports: readonly TcpPort[];
  /** Address to listen on; `127.0.0.1` unless given. */
  readonly host?: string;
  /** Files of PEM: then clients come with TLS. */
  readonly tls?: CertificateFiles;
  /** Port of the figures, on loopback; 0 is any free one. None unless given. */
  readonly metricsPort?: number;
  /** Connections of all ports together, 1 to 1,000,000; 10,000 unless given. */
  readonly connectionsMax?: number;
  /** How long a WebSocket, or TLS, may take to open, 100 to 600,000 ms; 10,000 unless given. */
  readonly connectTimeoutMs?: number;
  /** Silence of both sides after which a connection is ended, up to 86,400,000 ms; 0, never, unless given. */
  readonly idleTimeoutMs?: number;
  /** How long a client may take nothing of what waits for it, 100 to 600,000 ms; 30,000 unless given. */
  readonly stallTimeoutMs?: number;
  /** How often the server is asked whether it is there, 100 to 600,000 ms; 15,000 unless given. */
  readonly pingMs?: number;
  /** How long connections may go on while the gateway ends, up to 3,600,000 ms; 10,000 unless given. */
  readonly drainMs?: number;
  /** Takes log lines; standard error unless given. */
  readonly writeLog?: (line: string) => void;
  /** Only warnings and errors are logged. */
  readonly isQuiet?: boolean;
}

/** Numbers of `GatewayOptions`. */
export interface GatewayLimits {
  readonly connectionsMax: number;
  readonly connectTimeoutMs: number;
  readonly idleTimeoutMs: number;
  readonly stallTimeoutMs: number;
  readonly pingMs: number;
  readonly drainMs: number;
}

/** Default, least and most. */
export const LIMITS: Readonly<
  Record<keyof GatewayLimits, readonly [unlessGiven: number, min: number, max: number]>
> = {
  connectionsMax: [10_000, 1, 1_000_000],
  connectTimeoutMs: [10_000, 100, 600_000],
  idleTimeoutMs: [0, 0, 86_400_000],
  stallTimeoutMs: [30_000, 100, 600_000],
  pingMs: [15_000, 100, 600_000],
  drainMs: [10_000, 0, 3_600_000],
};

/** @throws GatewayError `option_invalid` */
export function limitsOf(options: GatewayOptions): GatewayLimits {
  const valueOf = (name: keyof GatewayLimits): number => {
    const [unlessGiven, min, max] = LIMITS[name];
    const value = options[name] ?? unlessGiven;
    if (Number.isInteger(value) && value >= min && value <= max) return value;
    throw invalid(`${name}: an integer from ${min} to ${max} is expected, got ${value}`);
  };
  return {
    connectionsMax: valueOf("connectionsMax"),
    connectTimeoutMs: valueOf("connectTimeoutMs"),
    idleTimeoutMs: valueOf("idleTimeoutMs"),
    stallTimeoutMs: valueOf("stallTimeoutMs"),
    pingMs: valueOf("pingMs"),
    drainMs: valueOf("drainMs"),
  };
}

/**
 * The server's address for WebSockets, without a slash at its end.
 *
 * @throws GatewayError `option_invalid`
 */
export function upstreamUrl(url: string): URL {
  if (!URL.canParse(url)) throw invalid(`url: an address such as wss://host is expected`);
  const parsed = new URL(url);
  const protocols: Readonly<Record<string, string>> = {
    "http:": "ws:",
    "https:": "wss:",
    "ws:": "ws:",
    "wss:": "wss:",
  };
  const protocol = protocols[parsed.protocol];
  if (protocol === undefined || parsed.hostname === "") {
    throw invalid("url: http, https, ws or wss is expected");
  }
  // What stands there would end in logs, or be sent with every request.
  if (parsed.username !== "" || parsed.password !== "" || parsed.search !== "") {
    throw invalid("url: no name, password or query is expected; a token is given as the token");
  }
  return new URL(`${protocol}//${parsed.host}${parsed.pathname.replace(/\/+$/, "")}`);
}

/** The address of a door. */
export function doorUrl(base: URL, path: string): URL {
  return new URL(`${base.href.replace(/\/+$/, "")}${path}`);
}

/** Nobody from outside comes, or listens, there. */
export function isLoopback(host: string): boolean {
  return host === "localhost" || host === "::1" || host === "[::1]" || /^127\.[\d.]+$/.test(host);
}

const invalid = (detail: string): GatewayError => new GatewayError("option_invalid", detail);
