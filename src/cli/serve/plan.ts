/** What flags and environment ask for, checked before anything starts: workerd's own messages would name no flag. */
import { resolve } from "node:path";
import {
  oldNamesIn,
  parseSettings,
  RENAMED_VARIABLES,
  SettingsError,
  type Settings,
} from "../../base/settings.ts";
import type { TcpPort } from "../../wire/tcp-ports.ts";
import { refusalOfPort, tcpPorts } from "../../worker/ports.ts";
import { UsageError } from "../failure.ts";
import { textUpTo } from "../files.ts";
import { assertKnown, assignmentOf } from "../variables.ts";
import type { Host } from "../host.ts";
import { connectionsWithin } from "./open-files.ts";
import { addressOf, addressText, hostOf, isLoopback, type Address } from "./address.ts";

/** The flags of `serve`, as they are written. */
export interface ServeFlags {
  /** Addresses such as `127.0.0.1:8787`; port 0 is any free one. */
  readonly http: readonly string[];
  /** Ports in the grammar of `TCP_PORTS`; several flags are joined. */
  readonly tcp: readonly string[];
  /** Address of all TCP ports. */
  readonly tcpHost: string;
  /** Allows addresses beyond loopback where no token is needed. */
  readonly openToNetwork: boolean;
  /** `token` or `open`: the variable `ACCESS`. */
  readonly access: string;
  /** Paths of files with secrets. A flag with the secret itself would show in process lists. */
  readonly tokenSecretFile?: string;
  readonly tokenSecretPreviousFile?: string;
  readonly shardSecretFile?: string;
  /** Variables as `NAME=value`. */
  readonly var: readonly string[];
  /** Folder for the data; may be relative. */
  readonly data: string;
  /** Whether headers that only a proxy may set are believed. */
  readonly behindProxy: boolean;
}

/** What to serve. */
export interface ServePlan {
  readonly http: readonly Address[];
  readonly tcpHost: string;
  readonly tcp: readonly TcpPort[];
  /** Variables by name, without secrets. */
  readonly variables: Readonly<Record<string, string>>;
  readonly secrets: Readonly<Record<string, string>>;
  readonly isBehindProxy: boolean;
  /** How many files workerd may open; null where there is no limit. */
  readonly openFiles: number | null;
  /** Absolute. */
  readonly dataFolder: string;
  readonly warnings: readonly string[];
}

/** Secrets by variable, with the flag that names a file, and its option. */
const SECRETS = {
  TOKEN_SECRET: { flag: "--token-secret-file", option: "tokenSecretFile" },
  TOKEN_SECRET_PREVIOUS: {
    flag: "--token-secret-previous-file",
    option: "tokenSecretPreviousFile",
  },
  SHARD_SECRET: { flag: "--shard-secret-file", option: "shardSecretFile" },
} as const;
type SecretName = keyof typeof SECRETS;

/** Variables that have flags of their own. */
const FLAGS: Readonly<Record<string, string>> = { ACCESS: "--access", TCP_PORTS: "--tcp" };

/** Variables for features of Cloudflare's platform: with one of them workerd would fail every request. */
const OF_THE_PLATFORM: readonly string[] = ["JURISDICTION"];

/** One thread serves all shards here: more of them take no load off each other. */
const ON_ONE_THREAD: Readonly<Record<string, string>> = { SPLIT_CALLS_PER_SECOND: "0" };

/** HS256 requires a key of at least 256 bits: RFC 7518, 3.2. */
const SECRET_BYTES_MIN = 32;
/** No secret is longer. A wrong path, such as that of a log, shows at once. */
const SECRET_BYTES_MAX = 4096;
/** A pipe without a writer must not hold the start, which no signal ends meanwhile. A person may have to type a password. */
const SECRET_TIMEOUT_MS = 30_000;
/** What bytes that are not UTF-8 are decoded to, in files and in the environment alike. */
const REPLACEMENT = "\uFFFD";
/**
 * The most sockets, HTTP and TCP together. Each is a line of configuration and a file descriptor.
 */
const SOCKETS_MAX = 64;

/**
 * Reads flags and environment.
 *
 * @param openFiles how many files workerd may open; null where there is no limit
 * @throws UsageError that names the flag: `address_invalid`, `sockets_max`, `variable_invalid`,
 * `variable_unknown`, `config_invalid`, `secret_invalid`, `token_secret_missing`, `tcp_not_open`,
 * `network_not_allowed`, `open_files_max`
 */
export function planOf(
  flags: ServeFlags,
  environment: Host["environment"],
  openFiles: number | null,
): ServePlan {
  const http = httpAddresses(flags.http);
  const tcpHost = hostOf(flags.tcpHost);
  if (tcpHost === null) {
    throw new UsageError(
      "address_invalid",
      `--tcp-host: expected an IP address, got ${flags.tcpHost}`,
    );
  }
  const variables = {
    ...ON_ONE_THREAD,
    ...hostsOf(flags, http),
    ...variablesOf(flags.var),
    ACCESS: flags.access,
    TCP_PORTS: flags.tcp.join(", "),
  };
  const secrets = secretsOf(flags, environment);
  const { settings, tcp } = checked({ ...variables, ...secrets });
  if (http.length + tcp.length > SOCKETS_MAX) {
    throw new UsageError("sockets_max", `--http and --tcp: at most ${SOCKETS_MAX} in all`);
  }
  assertApart(http, tcpHost, tcp);
  assertOpened(settings, tcp);
  if (!flags.openToNetwork) assertPrivate(settings, http, tcpHost, tcp);
  return {
    http,
    tcpHost,
    tcp,
    variables: { ...connectionsVariable(openFiles, settings, tcp), ...variables },
    secrets,
    isBehindProxy: flags.behindProxy,
    openFiles,
    dataFolder: resolve(flags.data),
    warnings: warningsOf({ ...variables, ...secrets }),
  };
}

/**
 * The host names that the server answers to, unless a flag sets others. Without this any web page in a browser on this
 * machine could reach an open server, by a name that resolves to loopback (DNS rebinding). A proxy in front checks names
 * itself.
 */
function hostsOf(
  { access, behindProxy }: ServeFlags,
  http: readonly Address[],
): Record<string, string> {
  const isOnLoopback = http.every(({ host }) => isLoopback(host));
  return access === "open" && isOnLoopback && !behindProxy ? { HOSTS: "localhost" } : {};
}

/** As many connections as the open files allow, unless a flag says otherwise. */
function connectionsVariable(
  openFiles: number | null,
  settings: Settings,
  tcp: readonly TcpPort[],
): Record<string, string> {
  if (openFiles === null) return {};
  const namespaces = new Set(["default", ...tcp.map(({ namespace }) => namespace ?? "default")]);
  return { CONNECTIONS_MAX: String(connectionsWithin(openFiles, settings, namespaces.size)) };
}

/**
 * Reads all addresses of `--http`. One that is listed twice would fail in workerd, with a message
 * about a socket.
 */
function httpAddresses(texts: readonly string[]): Address[] {
  const addresses = texts.map(httpAddress);
  const names = addresses.map(addressText);
  // The first address that stands before its own repetition.
  const twice = names.find((name, i) => names.indexOf(name) < i);
  if (twice === undefined) return addresses;
  throw new UsageError("address_invalid", `--http: ${twice} is listed twice`);
}

/**
 * Refuses an address that both flags name, as `httpAddresses` does for one of them. The system decides whether `0.0.0.0` and
 * another address may share a port.
 */
function assertApart(http: readonly Address[], tcpHost: string, tcp: readonly TcpPort[]): void {
  const names = new Set(http.map(addressText));
  const twice = tcp
    .map(({ port }) => addressText({ host: tcpHost, port }))
    .find((name) => names.has(name));
  if (twice === undefined) return;
  throw new UsageError(
    "address_invalid",
    `--http and --tcp: both name ${twice}: choose another port for one of them`,
  );
}

/** Reads one address. @throws UsageError `address_invalid` */
function httpAddress(text: string): Address {
  const address = addressOf(text);
  if (address !== null) return address;
  throw new UsageError(
    "address_invalid",
    `--http: expected an IP address and a port, such as 127.0.0.1:8787 or [::1]:8787, got ${text}`,
  );
}

/**
 * Reads `--var`. Each mistake has its own message: a name that is misspelled, one that has a flag,
 * and a secret.
 */
function variablesOf(assignments: readonly string[]): Record<string, string> {
  const variables: Record<string, string> = {};
  for (const assignment of assignments) {
    const { name, value } = assignmentOf(assignment);
    if (name in FLAGS)
      throw new UsageError("variable_invalid", `--var: ${name} is set with ${FLAGS[name]}`);
    if (name in SECRETS) {
      throw new UsageError(
        "variable_invalid",
        `--var: other users could read ${name} on the command line: set it in the environment, or name a file with ${SECRETS[name as SecretName].flag}`,
      );
    }
    assertKnown(name);
    if (OF_THE_PLATFORM.includes(name) && value !== "") {
      throw new UsageError("variable_invalid", `--var: ${name} is for Cloudflare's network only`);
    }
    // An empty number counts as missing: it must not take the place of one that `serve` computes.
    if (value !== "" || !isNumber(name)) variables[name] = value;
  }
  return variables;
}

/** Whether a variable is a number. */
function isNumber(name: string): boolean {
  const settings: Readonly<Record<string, unknown>> = parseSettings({});
  return typeof settings[RENAMED_VARIABLES[name] ?? name] === "number";
}

/**
 * Secrets from files, else from the environment. An empty one counts as missing, as an unset
 * variable in Compose files is.
 */
function secretsOf(flags: ServeFlags, environment: Host["environment"]): Record<string, string> {
  const secrets: Record<string, string> = {};
  for (const [name, { flag, option }] of Object.entries(SECRETS)) {
    const file = flags[option];
    const secret = file === undefined ? environment[name] : secretIn(file, flag);
    if (secret !== undefined && secret !== "") secrets[name] = secret;
  }
  return secrets;
}

/** A secret in a file; the line break that editors leave behind it is not part of it. */
function secretIn(file: string, flag: string): string {
  let secret: string;
  try {
    // A byte more than the longest secret and its line break shows that a file is too long.
    const bytesMax = SECRET_BYTES_MAX + "\r\n".length + 1;
    secret = textUpTo(file, bytesMax, SECRET_TIMEOUT_MS).replace(/\r?\n$/, "");
  } catch (error) {
    throw new UsageError("secret_invalid", `${flag}: ${(error as Error).message}`);
  }
  const bytes = Buffer.byteLength(secret);
  if (bytes > 0 && bytes <= SECRET_BYTES_MAX && !secret.includes("\0")) return secret;
  throw new UsageError(
    "secret_invalid",
    `${flag}: ${file}: expected 1 to ${SECRET_BYTES_MAX} bytes of text`,
  );
}

/**
 * Checks the variables exactly as the Worker does at its start, and gives its errors the code of a
 * flag.
 */
function checked(variables: object): { settings: Settings; tcp: TcpPort[] } {
  try {
    const settings = parseSettings(variables);
    return { settings, tcp: tcpPorts(settings) };
  } catch (error) {
    if (!(error instanceof SettingsError)) throw error;
    throw new UsageError(error.code, error.detail);
  }
}

/** Refuses a configuration that lets no caller in: better at the start than with the first request. */
function assertOpened(settings: Settings, tcp: readonly TcpPort[]): void {
  if (settings.ACCESS === "token" && settings.TOKEN_SECRET === "") {
    throw new UsageError(
      "token_secret_missing",
      "TOKEN_SECRET is missing, and tokens cannot be checked without it: set it in the environment, or name a file with --token-secret-file; --access open needs no tokens",
    );
  }
  for (const served of tcp) {
    const refusal = refusalOfPort(served, settings);
    if (refusal === null) continue;
    const { port, spoken } = served;
    throw new UsageError(
      "tcp_not_open",
      refusal === "counter_disabled"
        ? `--tcp: ${port}=${spoken} needs --var YRMCDS_ENABLE=on`
        : `--tcp: TCP has no tokens: name the namespace that port ${port} opens to anyone who connects, such as ${port}=${spoken}@orders`,
    );
  }
}

/** Refuses to open to other machines what needs no token, unless a flag asks for it. */
function assertPrivate(
  { ACCESS }: Settings,
  http: readonly Address[],
  tcpHost: string,
  tcp: readonly TcpPort[],
): void {
  const shown = ACCESS === "open" ? http.find(({ host }) => !isLoopback(host)) : undefined;
  if (shown !== undefined) {
    throw new UsageError(
      "network_not_allowed",
      `--http: with --access open, anyone who reaches ${addressText(shown)} gets in without a token: add --open-to-network if you want that`,
    );
  }
  if (tcp.length === 0 || isLoopback(tcpHost)) return;
  throw new UsageError(
    "network_not_allowed",
    `--tcp-host: TCP has no tokens, and other machines reach ${tcpHost}: add --open-to-network if you want that`,
  );
}

/** Warnings about variables and secrets that are valid, but should be changed. */
export function warningsOf(variables: Readonly<Record<string, unknown>>): string[] {
  const renamed = oldNamesIn(variables).map(
    ({ variable, name }) =>
      `${variable} is now called ${name}; the next release does not read ${variable}`,
  );
  const garbled = Object.keys(SECRETS)
    .filter((name) => textIn(variables, name).includes(REPLACEMENT))
    .map(
      (name) =>
        `${name} has bytes that are not text in UTF-8, and all of them count as the same character: take text, such as that of \`openssl rand -base64 48\``,
    );
  const spaced = Object.keys(SECRETS)
    .filter((name) => textIn(variables, name) !== textIn(variables, name).trim())
    .map(
      (name) =>
        `${name} has white space or a line break around it, which is part of the secret: what reads it without, such as $(cat file), has another one`,
    );
  const bytes = Buffer.byteLength(textIn(variables, "TOKEN_SECRET"));
  const warnings = [...renamed, ...garbled, ...spaced];
  if (bytes === 0 || bytes >= SECRET_BYTES_MIN) return warnings;
  return [...warnings, `TOKEN_SECRET has ${bytes} bytes: ${SECRET_BYTES_MIN} or more are advised`];
}

/** A variable that is text; empty for any other. */
function textIn(variables: Readonly<Record<string, unknown>>, name: string): string {
  const value = variables[name];
  return typeof value === "string" ? value : "";
}
