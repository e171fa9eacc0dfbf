/** The flags of `npm start`. */
import { parseArgs } from "node:util";
import { TCP_PORTS } from "./server.ts";

const HTTP_PORT = 8787;
const PORT_MAX = 65_535;
export const USAGE = `npm start -- [--port <port>] [--tcp-offset <number> | --no-tcp]

  --port <port>          port of HTTP (default: ${HTTP_PORT})
  --tcp-offset <number>  is added to every TCP port: 100 moves 9000 to 9100
  --no-tcp               opens no TCP ports
  --help                 prints this`;

export interface StartOptions {
  readonly httpPort: number;
  /** By the port of `wrangler.toml` that they stand in for. */
  readonly tcpPorts: Readonly<Record<number, number>>;
}

/** A flag is wrong; the message says which there are. */
export class UsageError extends Error {}

/** @throws UsageError */
export function startOptions(args: string[]): StartOptions {
  const flags = readFlags(args);
  const httpPort = wholeNumber("--port", flags.port ?? String(HTTP_PORT), 1, PORT_MAX);
  const offsetMax = PORT_MAX - Math.max(...TCP_PORTS);
  const offset = wholeNumber("--tcp-offset", flags["tcp-offset"] ?? "0", 0, offsetMax);
  if (flags["no-tcp"] && flags["tcp-offset"] !== undefined) {
    throw new UsageError(`--tcp-offset and --no-tcp exclude each other\n\n${USAGE}`);
  }
  const ports = flags["no-tcp"] ? [] : TCP_PORTS;
  const tcpPorts = Object.fromEntries(ports.map((port) => [port, port + offset]));
  return { httpPort, tcpPorts };
}

function readFlags(args: string[]) {
  try {
    return parseArgs({
      args,
      options: {
        port: { type: "string" },
        "tcp-offset": { type: "string" },
        "no-tcp": { type: "boolean", default: false },
      },
    }).values;
  } catch (error) {
    throw new UsageError(`${(error as Error).message}\n\n${USAGE}`, { cause: error });
  }
}

function wholeNumber(flag: string, text: string, min: number, max: number): number {
  const number = Number(text);
  if (/^\d+$/.test(text) && number >= min && number <= max) return number;
  const message = `${flag}: expected a whole number from ${min} to ${max}, got ${text}`;
  throw new UsageError(`${message}\n\n${USAGE}`);
}
