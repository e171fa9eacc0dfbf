/**
 * `throttr-edge gateway`: TCP ports for clients that speak TCP only, in front of a deployed server.
 *
 * Cloudflare accepts no TCP from the internet, so these ports need a process near the clients. This file reads flags and
 * signals; `gateway.ts` listens, and `link.ts` carries a connection.
 */
import { Option, type Command } from "commander";
import type { TcpPort } from "../../wire/tcp-ports.ts";
import { outliveReaders } from "../closed-output.ts";
import { durationMsOf } from "../duration.ts";
import { UsageError } from "../failure.ts";
import { aborted } from "../interruption.ts";
import { action, type Invocation } from "../invocation.ts";
import { addJsonOption, wholeArgument } from "../options.ts";
import type { CertificateFiles } from "./certificate.ts";
import { checkServer } from "./check.ts";
import { startGateway, type Gateway } from "./gateway.ts";
import { GatewayLog } from "./log.ts";
import {
  hostOf,
  LIMITS,
  limitsOf,
  LOOPBACK,
  type GatewayLimits,
  type GatewayOptions,
} from "./options.ts";
import { parsePorts, PORTS_UNLESS_GIVEN, SIZE_UNLESS_GIVEN } from "./ports.ts";
import { givenToken, tokenOfFile, type TokenSource } from "./token.ts";

/** The flags as commander has parsed them; times are in milliseconds. */
interface GatewayFlags extends Partial<GatewayLimits> {
  readonly ports: string;
  readonly defaultSize: string;
  readonly host: string;
  readonly tokenFile?: string;
  readonly tlsCert?: string;
  readonly tlsKey?: string;
  readonly metricsPort?: number;
  readonly quiet?: boolean;
}

/** The largest port of TCP: 16 bits. */
const PORT_MAX = 65_535;

/** Adds `gateway`. It has no `--timeout`: its limits have names of their own. */
export function addGateway(program: Command): void {
  const command = program
    .command("gateway")
    .description(
      "listen on the TCP ports of Throttr and yrmcds, and carry each connection to the server",
    )
    .option("--url <url>", "server address: http, https, ws or wss")
    .option("--token <token>", "token for the server; safer as THROTTR_TOKEN or in a file")
    .option("--profile <name>", "profile with address and token")
    .option("--ports <list>", "ports, each with its dialect and size", PORTS_UNLESS_GIVEN)
    .option("--default-size <size>", "size for ports without one", SIZE_UNLESS_GIVEN)
    .option(
      "--host <address>",
      "address to listen on; TCP has no tokens, so every client gets the rights of the gateway's token",
      "127.0.0.1",
    )
    .addOption(
      new Option("--token-file <file>", "file with the token, read for each connection").conflicts(
        "token",
      ),
    )
    .option(
      "--tls-cert <file>",
      "certificate chain (PEM): clients must use TLS; SIGHUP reads it again",
    )
    .option("--tls-key <file>", "key of the certificate (PEM)")
    .option(
      "--metrics-port <port>",
      "/metrics for Prometheus and /health, on loopback",
      wholeArgument(1, PORT_MAX),
    )
    .addOption(
      limit("--connections-max <n>", "connectionsMax", "most connections, on all ports together"),
    )
    .addOption(limit("--connect-timeout-ms <ms>", "connectTimeoutMs", "time to reach the server"))
    .addOption(
      limit(
        "--idle-timeout-ms <ms>",
        "idleTimeoutMs",
        "silence after which a connection is closed; 0: never",
      ),
    )
    .addOption(
      limit(
        "--stall-timeout-ms <ms>",
        "stallTimeoutMs",
        "time after which a client that does not read is closed",
      ),
    )
    .addOption(limit("--ping-ms <ms>", "pingMs", "how often to ping the server"))
    .addOption(limit("--drain-ms <ms>", "drainMs", "time for connections to finish after SIGTERM"))
    .option("--quiet", "log warnings and errors only")
    .action(action<GatewayFlags, []>(run));
  addJsonOption(command);
}

/** An option with the range and the default of `LIMITS`. Times also take units, such as 30s. */
function limit(flags: string, name: keyof GatewayLimits, description: string): Option {
  const [unlessGiven, min, max] = LIMITS[name];
  const option = new Option(flags, `${description} (default: ${unlessGiven})`);
  const whole = wholeArgument(min, max);
  return option.argParser(
    name.endsWith("Ms") ? (text) => whole(String(durationMsOf(text))) : whole,
  );
}

/** Runs until SIGINT or SIGTERM, and drains then. A second signal ends the process (`interruption.ts`). */
async function run(invocation: Invocation, flags: GatewayFlags): Promise<void> {
  const { signal } = invocation;
  outliveReaders(invocation.host);
  const options = optionsOf(invocation, flags);
  let gateway: Gateway | null = null;
  // The convention of servers for reading files again. Without a listener SIGHUP would end the process, also while the
  // server is asked.
  const reload = (): void => void gateway?.reload();
  process.on("SIGHUP", reload);
  try {
    await assertAccepted(options, signal);
    if (signal.aborted) return;
    gateway = await startGateway(options);
    await aborted(signal);
    await gateway.close();
  } finally {
    process.off("SIGHUP", reload);
  }
}

/**
 * Stops the start when the server refuses the gateway; warns when the server can't be asked.
 *
 * Without this check a wrong token would show only with the first client, under a log that says `listening`.
 *
 * @throws UsageError for options that are wrong, ThrottrError with the code of the server
 */
async function assertAccepted(options: GatewayOptions, signal: AbortSignal): Promise<void> {
  const unchecked = await checkServer(options, signal);
  if (unchecked === null || signal.aborted) return;
  const log = new GatewayLog(options.writeLog!, options.isQuiet === true);
  log.warning("token_unchecked", unchecked);
}

/** @throws UsageError that names the flag */
function optionsOf(invocation: Invocation, flags: GatewayFlags): GatewayOptions {
  const { host } = invocation;
  const tls = tlsOf(flags);
  const ports = parsePorts(flags.ports, flags.defaultSize);
  assertApart(ports, flags);
  return {
    ...limitsOf(flags),
    url: invocation.settings.url,
    token: tokenOf(invocation, flags),
    ports,
    host: hostOf(flags),
    ...(tls !== null && { tls }),
    ...(flags.metricsPort !== undefined && { metricsPort: flags.metricsPort }),
    writeLog: (line) => void host.stderr.write(line),
    isQuiet: flags.quiet === true,
  };
}

/**
 * Refuses a port for metrics that is also one for clients: it would be reported as taken, which a later start could mend.
 *
 * @throws UsageError
 */
function assertApart(ports: readonly TcpPort[], { host, metricsPort }: GatewayFlags): void {
  if (host !== LOOPBACK || !ports.some(({ port }) => port === metricsPort)) return;
  throw new UsageError(
    "option_invalid",
    `--ports and --metrics-port: both name ${metricsPort}: choose another port for one of them`,
  );
}

/** The file wins over profile and environment; commander has refused it together with `--token`. */
function tokenOf(invocation: Invocation, { tokenFile }: GatewayFlags): TokenSource {
  return tokenFile === undefined ? givenToken(invocation.settings.token) : tokenOfFile(tokenFile);
}

/** The two files of a certificate; null for plain TCP. @throws UsageError when only one is named */
function tlsOf({ tlsCert, tlsKey }: GatewayFlags): CertificateFiles | null {
  if (tlsCert === undefined && tlsKey === undefined) return null;
  if (tlsCert !== undefined && tlsKey !== undefined) {
    return { certificateFile: tlsCert, keyFile: tlsKey };
  }
  throw new UsageError(
    "option_invalid",
    "--tls-cert and --tls-key need each other: give both, or neither",
  );
}
