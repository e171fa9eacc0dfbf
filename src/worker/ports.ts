/** TCP ports, what is spoken on them, and for whom: the variable `TCP_PORTS`. */
import * as v from "valibot";
import { OPEN_ACCESS, type Access } from "../base/access.ts";
import { SettingsError, type Settings } from "../base/settings.ts";
import type { AnyProtocol } from "../wire/protocols.ts";
import { protocolByName } from "../wire/throttr/protocol.ts";
import { YRMCDS_PROTOCOLS } from "../wire/yrmcds/dialect.ts";
import { namespaceName } from "./token.ts";

const PORT_MAX = 65_535;

/** What `TCP_PORTS` says of a port. */
export interface TcpPort {
  readonly port: number;
  /** The protocol as it was written, such as `7.3/uint16`. */
  readonly spoken: string;
  readonly protocol: AnyProtocol;
  /** Namespace that was named for the port; null where none was. */
  readonly namespace: string | null;
}

type PortSettings = Pick<Settings, "TCP_PORTS" | "TCP_DEFAULT_SIZE">;

/**
 * A port, or undefined when nothing is spoken there.
 *
 * @throws SettingsError when `TCP_PORTS` says something for the port that can't be read
 */
export function tcpPort(port: number, settings: PortSettings): TcpPort | undefined {
  const entry = entriesOf(settings).find((candidate) => candidate.startsWith(`${port}=`));
  return entry === undefined ? undefined : portOf(entry, settings);
}

/**
 * All ports.
 *
 * @throws SettingsError when something can't be read, or a port is there twice
 */
export function tcpPorts(settings: PortSettings): TcpPort[] {
  const ports = entriesOf(settings).map((entry) => portOf(entry, settings));
  const twice = ports.find(({ port }, i) => ports.findIndex((other) => other.port === port) < i);
  if (twice === undefined) return ports;
  throw new SettingsError(`TCP_PORTS: ${twice.port} is there twice`);
}

/** Why a port is not served; null when it is. */
export function refusalOfPort(
  served: TcpPort | undefined,
  settings: Settings,
): "port_unknown" | "counter_disabled" | "access_not_open" | null {
  if (served === undefined) return "port_unknown";
  const isYrmcds = served.protocol.dialect === "yrmcds";
  if (isYrmcds && settings.YRMCDS_ENABLE !== "on") return "counter_disabled";
  return accessOfPort(served, settings) === null ? "access_not_open" : null;
}

/**
 * What whoever connects to a port may do: nothing on TCP brings a token. Null for nothing, which it is
 * unless the deployment is open, or somebody has named the namespace that the port opens.
 */
export function accessOfPort({ namespace }: TcpPort, { ACCESS }: Settings): Access | null {
  if (namespace !== null) return { ...OPEN_ACCESS, namespace };
  return ACCESS === "open" ? OPEN_ACCESS : null;
}

const entriesOf = ({ TCP_PORTS }: PortSettings): string[] =>
  TCP_PORTS.split(",")
    .map((entry) => entry.trim())
    .filter((entry) => entry !== "");

/** An entry: `port=dialect`, and perhaps `/size` and `@namespace`. */
function portOf(entry: string, settings: PortSettings): TcpPort {
  const [, digits, spoken, namespace = null] = /^([1-9]\d*)=([^@]*)(?:@(.*))?$/.exec(entry) ?? [];
  const port = Number(digits);
  if (spoken === undefined || port > PORT_MAX) {
    throw invalid(entry, `port=dialect, a port from 1 to ${PORT_MAX}, is expected`);
  }
  if (namespace !== null) {
    const { issues } = v.safeParse(namespaceName("behind the @"), namespace);
    if (issues !== undefined) throw invalid(entry, issues[0].message);
  }
  return { port, spoken, protocol: protocolOf(entry, spoken, settings), namespace };
}

function protocolOf(
  entry: string,
  spoken: string,
  { TCP_DEFAULT_SIZE }: PortSettings,
): AnyProtocol {
  if (Object.hasOwn(YRMCDS_PROTOCOLS, spoken)) return YRMCDS_PROTOCOLS[spoken]!;
  const [dialect = "", size] = spoken.split("/");
  const sizeless = size === undefined ? protocolByName(dialect, undefined) : undefined;
  const protocol = sizeless ?? protocolByName(dialect, size ?? TCP_DEFAULT_SIZE);
  if (protocol === undefined) throw invalid(entry, "names no dialect and size, nor yrmcds");
  return protocol;
}

const invalid = (entry: string, detail: string): SettingsError =>
  new SettingsError(`TCP_PORTS: ${entry}: ${detail}`);
