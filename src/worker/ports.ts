/** TCP ports and what is spoken on them. `wrangler.toml` opens the same ports in local runs. */
import { protocolByName, type Protocol } from "../wire/throttr/protocol.ts";

const PORTS: Readonly<Record<number, string | null>> = {
  9000: null,
  9001: "uint8",
  9002: "uint16",
  9004: "uint32",
  9008: "uint64",
};

/**
 * The protocol of a port, or undefined when nothing is spoken there.
 *
 * @param defaultSize value size of port 9000, see `TCP_DEFAULT_SIZE`
 */
export function protocolOfPort(port: number, defaultSize: string): Protocol | undefined {
  const size = PORTS[port];
  return size === undefined ? undefined : protocolByName("7.3", size ?? defaultSize);
}
