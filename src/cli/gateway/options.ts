/** Options of a gateway: types, defaults and ranges. The command's flags and the tests both go through these checks. */
import type { TcpPort } from "../../wire/tcp-ports.ts";
import type { CertificateFiles } from "./certificate.ts";
import { UsageError } from "../failure.ts";
import type { TokenSource } from "./token.ts";

export interface GatewayOptions extends Partial<GatewayLimits> {
  /** Address of the server: http, https, ws or wss. A path, if any, is a prefix of the server's own paths. */
  readonly url: string;
  /** Where the token comes from; without one the gateway sends none. */
  readonly token?: TokenSource;
  /** The ports and their protocols; port 0 is any free one. */
  readonly ports: readonly TcpPort[];
  /** Address to listen on; `127.0.0.1` unless given. */
  readonly host?: string;
  /** PEM files. With them clients must use TLS. */
  readonly tls?: CertificateFiles;
  /** Port of `/metrics` and `/health`, on loopback; 0 is any free one. Neither is served unless given. */
  readonly metricsPort?: number;
  /** Writes log lines; to standard error unless given. */
  readonly writeLog?: (line: string) => void;
  /** Logs warnings and errors only. */
  readonly isQuiet?: boolean;
}

/** The options that are numbers, with their defaults filled in. */
export interface GatewayLimits {
  /** Most connections, on all ports together, 1 to 1,000,000; 10,000 unless given. */
  readonly connectionsMax: number;
  /** How long a WebSocket, or TLS, may take to open, 100 to 600,000 ms; 10,000 unless given. */
  readonly connectTimeoutMs: number;
  /** Silence of both sides after which a connection is closed, up to 86,400,000 ms; 0, never, unless given. */
  readonly idleTimeoutMs: number;
  /** How long a client may read nothing while bytes wait for it, 100 to 600,000 ms; 30,000 unless given. */
  readonly stallTimeoutMs: number;
  /** How often the server is pinged, 100 to 600,000 ms; 15,000 unless given. */
  readonly pingMs: number;
  /** How long connections may go on after the gateway was told to stop, up to 3,600,000 ms; 10,000 unless given. */
  readonly drainMs: number;
}

/** The address that a gateway listens on by default, and the only one for its metrics. */
export const LOOPBACK = "127.0.0.1";
/** Default, minimum and maximum of each. */
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

/** @throws UsageError `option_invalid` */
export function limitsOf(options: Partial<GatewayLimits>): GatewayLimits {
  // The value of a limit, or its default. The name of the field, not of the flag, begins the
  // message.
  const valueOf = (name: keyof GatewayLimits): number => {
    const [unlessGiven, min, max] = LIMITS[name];
    const value = options[name] ?? unlessGiven;
    if (Number.isInteger(value) && value >= min && value <= max) return value;
    throw invalid(`${name}: expected an integer from ${min} to ${max}, got ${value}`);
  };
  const names = Object.keys(LIMITS) as (keyof GatewayLimits)[];
  return Object.fromEntries(names.map((name) => [name, valueOf(name)])) as Record<
    keyof GatewayLimits,
    number
  >;
}

/**
 * The address to listen on.
 *
 * @throws UsageError `option_invalid` for an empty one, with which Node listens on all interfaces
 */
export function hostOf({ host = LOOPBACK }: Pick<GatewayOptions, "host">): string {
  if (host !== "") return host;
  throw invalid("host: expected an address or a name; 0.0.0.0 or :: are all interfaces");
}

/**
 * The server's address for WebSockets, without a slash at its end.
 *
 * @throws UsageError `option_invalid`
 */
export function upstreamUrl(url: string): URL {
  if (!URL.canParse(url)) throw invalid(`url: expected an address such as wss://host`);
  const parsed = new URL(url);
  const [, isSecure] = /^(?:http|ws)(s?):$/.exec(parsed.protocol) ?? [];
  if (isSecure === undefined || parsed.hostname === "") {
    throw invalid("url: expected http, https, ws or wss");
  }
  // The address is logged with every listening port: it must hold no secret.
  if (parsed.username !== "" || parsed.password !== "" || parsed.search !== "") {
    throw invalid(
      "url: expected an address without user name, password or query; the token is an option of its own",
    );
  }
  return new URL(`ws${isSecure}://${parsed.host}${parsed.pathname.replace(/\/+$/, "")}`);
}

/** The address of one of the server's doors. */
export function doorUrl(base: URL, path: string): URL {
  return new URL(`${base.href.replace(/\/+$/, "")}${path}`);
}

/** Whether only this machine can reach a host: no warning is needed then. */
export function isLoopback(host: string): boolean {
  return host === "localhost" || host === "::1" || host === "[::1]" || /^127\.[\d.]+$/.test(host);
}

/** All errors of this file have one code; the message names the field. */
const invalid = (detail: string): UsageError => new UsageError("option_invalid", detail);
