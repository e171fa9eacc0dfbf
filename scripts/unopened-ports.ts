/** TCP ports that the configuration names and `npm start` does not open. */
import { parseEnv } from "node:util";
import { tcpPortEntries } from "../src/wire/tcp-ports.ts";
import { TCP_PORTS } from "./server.ts";

/**
 * A warning that names the entries of the variable TCP_PORTS whose ports `npm start` does not open, and how to open them. Null if it
 * opens all.
 *
 * @param config text of `wrangler.toml`
 * @param localVariables text of `.dev.vars`, which wins; empty without the file
 */
export function unopenedPortsWarning(config: string, localVariables: string): string | null {
  const list = parseEnv(localVariables).TCP_PORTS ?? /^TCP_PORTS = "(.*)"/m.exec(config)?.[1] ?? "";
  const unopened = tcpPortEntries(list).filter(
    (entry) => !TCP_PORTS.includes(Number(entry.split("=")[0])),
  );
  if (unopened.length === 0) return null;
  return `npm start does not open these ports of TCP_PORTS: ${unopened.join(", ")}.
It opens ${TCP_PORTS.join(", ")}, moved by --tcp-offset. Others: npm run serve -- --tcp.
`;
}
