/**
 * The grammar of TCP ports, as `TCP_PORTS`, `serve --tcp` and `gateway --ports` write it:
 *
 *     9000=7.3, 9002=7.3/uint16@orders, 9020=2, 11215=yrmcds
 *
 * A port, what is spoken there, and behind an `@` whatever the door makes of it. Which ports a door may open, and which
 * names it takes behind the `@`, it checks itself.
 */
import type { AnyProtocol } from "./protocols.ts";
import {
  protocolByName,
  SIZED_DIALECTS,
  SIZELESS_DIALECTS,
  VALUE_SIZES,
} from "./throttr/protocol.ts";
import { YRMCDS_PROTOCOLS } from "./yrmcds/dialect.ts";

const PORT_MAX = 65_535;

export interface TcpPort {
  readonly port: number;
  /** What is spoken there, as it was written: `7.3`, `7.3/uint16`, `yrmcds/today`. */
  readonly spoken: string;
  readonly protocol: AnyProtocol;
  /** The same in full: `7.3/uint16` for `7.3` where that is the default size. */
  readonly name: string;
  /** Path of the WebSocket door where the same is spoken. */
  readonly path: string;
  /** What stands behind the `@`, unchecked; null without one. */
  readonly namespace: string | null;
}

/** Says which entry can't be read, and what was expected. */
export class TcpPortError extends Error {
  override readonly name = "TcpPortError";
}

/** The entries of a list. A comma too many does no harm. */
export function tcpPortEntries(list: string): string[] {
  return list
    .split(",")
    .map((entry) => entry.trim())
    .filter((entry) => entry !== "");
}

/**
 * Reads a list.
 *
 * @param defaultSize of the values of an entry that names none: `uint8`, `uint16`, `uint32` or `uint64`
 * @param portMin the least port: 1, or 0 where that means any free one
 * @throws TcpPortError
 */
export function parseTcpPorts(list: string, defaultSize: string, portMin: 0 | 1): TcpPort[] {
  const ports = tcpPortEntries(list).map((entry) => parseTcpPort(entry, defaultSize, portMin));
  const seen = new Set<number>();
  for (const { port } of ports) {
    if (port !== 0 && seen.has(port)) throw new TcpPortError(`${port} is listed twice`);
    seen.add(port);
  }
  return ports;
}

/** Reads one entry, as `parseTcpPorts` does. */
export function parseTcpPort(entry: string, defaultSize: string, portMin: 0 | 1): TcpPort {
  const parts = /^(0|[1-9]\d{0,4})=([^@\s]*)(?:@(.*))?$/.exec(entry);
  const [, digits, spoken = "", namespace = null] = parts ?? [];
  const port = Number(digits);
  if (parts === null || port < portMin || port > PORT_MAX) {
    throw new TcpPortError(
      `${entry}: expected port=dialect, a port from ${portMin} to ${PORT_MAX}, such as 9002=7.3/uint16`,
    );
  }
  return { port, spoken, ...protocolOf(entry, spoken, defaultSize), namespace };
}

function protocolOf(
  entry: string,
  spoken: string,
  defaultSize: string,
): Pick<TcpPort, "protocol" | "name" | "path"> {
  if (Object.hasOwn(YRMCDS_PROTOCOLS, spoken)) {
    const path = spoken.replace("yrmcds", "/yrmcds/counter");
    return { protocol: YRMCDS_PROTOCOLS[spoken]!, name: spoken, path };
  }
  const [dialect = "", size, ...rest] = spoken.split("/");
  const isSizeless = size === undefined && protocolByName(dialect, undefined) !== undefined;
  const sized = isSizeless ? undefined : (size ?? defaultSize);
  const protocol = rest.length > 0 ? undefined : protocolByName(dialect, sized);
  if (protocol === undefined) {
    throw new TcpPortError(
      `${entry}: expected one of ${SIZED_DIALECTS.join(", ")} with /${VALUE_SIZES.join(", /")} or without, ` +
        `${SIZELESS_DIALECTS.join(", ")}, ${Object.keys(YRMCDS_PROTOCOLS).join(", ")}`,
    );
  }
  const name = sized === undefined ? dialect : `${dialect}/${sized}`;
  return { protocol, name, path: `/throttr/${name}` };
}
