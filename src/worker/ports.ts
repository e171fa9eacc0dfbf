/** TCP ports, what is spoken on them, and for whom: the variable `TCP_PORTS`. */
import { variableName } from "../base/deployment.ts";
import * as v from "valibot";
import { OPEN_ACCESS, type Access } from "../base/access.ts";
import { SettingsError, type Settings } from "../base/settings.ts";
import {
  parseTcpPort,
  parseTcpPorts,
  TcpPortError,
  tcpPortEntries,
  type TcpPort,
} from "../wire/tcp-ports.ts";
import { namespaceName } from "./token.ts";

/** The settings that name ports. */
type PortSettings = Pick<Settings, "TCP_PORTS" | "TCP_DEFAULT_SIZE">;

/**
 * A port, or undefined when nothing is spoken there. Asked for each connection, so other entries are not read.
 *
 * @throws SettingsError when `TCP_PORTS` says something for the port that can't be read
 */
export function tcpPort(port: number, settings: PortSettings): TcpPort | undefined {
  const { TCP_PORTS, TCP_DEFAULT_SIZE } = settings;
  const entry = tcpPortEntries(TCP_PORTS).find((candidate) => candidate.startsWith(`${port}=`));
  if (entry === undefined) return undefined;
  return checked(() => [parseTcpPort(entry, TCP_DEFAULT_SIZE, 1)])[0];
}

/**
 * All ports.
 *
 * @throws SettingsError when something can't be read, or a port is there twice
 */
export function tcpPorts({ TCP_PORTS, TCP_DEFAULT_SIZE }: PortSettings): TcpPort[] {
  return checked(() => parseTcpPorts(TCP_PORTS, TCP_DEFAULT_SIZE, 1));
}

/** Why a port is not served; null when it is. */
export function refusalOfPort(
  served: TcpPort | undefined,
  settings: Settings,
): "port_unknown" | "counter_disabled" | "access_not_open" | null {
  if (served === undefined) return "port_unknown";
  // The port stays known, so that the log says why it is closed.
  const isYrmcds = served.protocol.dialect === "yrmcds";
  if (isYrmcds && settings.YRMCDS_ENABLE !== "on") return "counter_disabled";
  return accessOfPort(served, settings) === null ? "access_not_open" : null;
}

/**
 * The access of every client of a port, as no client of TCP brings a token. Null, so none gets in, unless the deployment
 * is open, or its operator has named the namespace that the port opens.
 */
export function accessOfPort({ namespace }: TcpPort, { ACCESS }: Settings): Access | null {
  if (namespace !== null) return { ...OPEN_ACCESS, namespace };
  return ACCESS === "open" ? OPEN_ACCESS : null;
}

/**
 * Parses ports and checks their namespaces.
 *
 * @throws SettingsError that names the variable
 */
function checked(parse: () => TcpPort[]): TcpPort[] {
  try {
    const ports = parse();
    for (const { port, spoken, namespace } of ports) {
      if (namespace === null) continue;
      const { issues } = v.safeParse(namespaceName, namespace);
      if (issues !== undefined)
        throw new TcpPortError(
          `${port}=${spoken}@${namespace}: behind the @: ${issues[0].message}`,
        );
    }
    return ports;
  } catch (error) {
    if (!(error instanceof TcpPortError)) throw error;
    throw new SettingsError(`${variableName("TCP_PORTS")}: ${error.message}`);
  }
}
