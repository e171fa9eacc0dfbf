/** The ports of a gateway: the grammar of the server's `TCP_PORTS`, without namespaces, which the token decides. */
import { VALUE_SIZES } from "../../wire/throttr/protocol.ts";
import { parseTcpPorts, TcpPortError, type TcpPort } from "../../wire/tcp-ports.ts";
import { UsageError } from "../failure.ts";

/** Those that the server has in local runs. */
export const PORTS_UNLESS_GIVEN =
  "9000=7.3, 9001=7.3/uint8, 9002=7.3/uint16, 9004=7.3/uint32, 9008=7.3/uint64, 9020=2, " +
  "11215=yrmcds, 11216=yrmcds/today";
/** The server's `TCP_DEFAULT_SIZE` unless it says otherwise. */
export const SIZE_UNLESS_GIVEN = "uint16";

/**
 * Each port costs a listening socket and some series of metrics; more than this is a mistake in the
 * list.
 */
const PORTS_MAX = 64;

/**
 * Reads a text like `9000=7.3, 9002=7.3/uint16, 9020=2, 11215=yrmcds`. Port 0 is any free one.
 *
 * @param defaultSize size of an entry without one: uint8, uint16, uint32 or uint64
 * @throws UsageError `ports_invalid`
 */
export function parsePorts(text: string, defaultSize: string = SIZE_UNLESS_GIVEN): TcpPort[] {
  if (!VALUE_SIZES.includes(defaultSize)) {
    throw invalid(`the default size is one of ${VALUE_SIZES.join(", ")}, not ${defaultSize}`);
  }
  const ports = readPorts(text, defaultSize);
  if (ports.length === 0 || ports.length > PORTS_MAX) {
    throw invalid(`expected 1 to ${PORTS_MAX} ports, got ${ports.length}`);
  }
  const named = ports.find(({ namespace }) => namespace !== null);
  if (named === undefined) return ports;
  throw invalid(
    `${named.port}=${named.spoken}@${named.namespace}: the token decides the namespace of a gateway's clients`,
  );
}

/**
 * Reads the grammar that gateway and server share, and reports its errors as errors of an option.
 */
function readPorts(text: string, defaultSize: string): TcpPort[] {
  try {
    return parseTcpPorts(text, defaultSize, 0);
  } catch (error) {
    throw error instanceof TcpPortError ? invalid(error.message) : error;
  }
}

/** The code of all errors of this file. */
const invalid = (detail: string): UsageError => new UsageError("ports_invalid", detail);
