/** Ports and what is spoken on them, written as the server's `TCP_PORTS`. */
import { SIZED_DIALECTS, SIZELESS_DIALECTS, VALUE_SIZES } from "../../wire/throttr/protocol.ts";
import { GatewayError } from "./error.ts";
import { spokenByName, type Spoken } from "./spoken.ts";

/** A port to listen on; 0 is any free one. */
export interface GatewayPort {
  readonly port: number;
  readonly spoken: Spoken;
}

/** Those that the server has in local runs. */
export const PORTS_UNLESS_GIVEN =
  "9000=7.3, 9001=7.3/uint8, 9002=7.3/uint16, 9004=7.3/uint32, 9008=7.3/uint64, 9020=2, " +
  "11215=yrmcds, 11216=yrmcds/today";
/** The server's `TCP_DEFAULT_SIZE` unless it says otherwise. */
export const SIZE_UNLESS_GIVEN = "uint16";

const PORTS_MAX = 64;

/**
 * Reads a text like `9000=7.3, 9002=7.3/uint16, 9020=2, 11215=yrmcds`.
 *
 * @param defaultSize size of an entry without one: uint8, uint16, uint32 or uint64
 * @throws GatewayError `ports_invalid`
 */
export function parsePorts(text: string, defaultSize: string = SIZE_UNLESS_GIVEN): GatewayPort[] {
  if (!VALUE_SIZES.includes(defaultSize)) {
    throw invalid(`the default size is one of ${VALUE_SIZES.join(", ")}, not ${defaultSize}`);
  }
  const entries = text.split(",").map((entry) => entry.trim());
  if (entries.length > PORTS_MAX) throw invalid(`there may be ${PORTS_MAX} ports`);
  const ports = entries.map((entry) => parsePort(entry, defaultSize));
  const numbers = ports.map(({ port }) => port).filter((port) => port !== 0);
  const twice = numbers.find((port, index) => numbers.indexOf(port) !== index);
  if (twice !== undefined) throw invalid(`port ${twice} is there twice`);
  return ports;
}

function parsePort(entry: string, defaultSize: string): GatewayPort {
  const [, digits, name] = /^(\d{1,5})=(\S+)$/.exec(entry) ?? [];
  if (digits === undefined || name === undefined) {
    throw invalid(`an entry such as 9002=7.3/uint16 is expected, got "${entry}"`);
  }
  const port = Number(digits);
  if (port > 65_535) throw invalid(`${entry}: a port is at most 65535`);
  const spoken = spokenByName(name, defaultSize);
  if (spoken !== undefined) return { port, spoken };
  throw invalid(
    `${entry}: expected is one of ${SIZED_DIALECTS.join(", ")} with /${VALUE_SIZES.join(", /")} ` +
      `or without, ${SIZELESS_DIALECTS.join(", ")}, yrmcds, yrmcds/today`,
  );
}

const invalid = (detail: string): GatewayError => new GatewayError("ports_invalid", detail);
