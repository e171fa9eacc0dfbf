/** TCP ports and what is spoken on them: the variable `TCP_PORTS`. */
import { SettingsError, type Settings } from "../objects/settings.ts";
import { protocolByName, type Protocol } from "../wire/throttr/protocol.ts";

/**
 * The protocol of a port, or undefined when nothing is spoken there.
 *
 * @throws SettingsError when `TCP_PORTS` says something for the port that can't be read
 */
export function protocolOfPort(port: number, settings: Settings): Protocol | undefined {
  const entries = settings.TCP_PORTS.split(",").map((entry) => entry.trim());
  const entry = entries.find((candidate) => candidate.startsWith(`${port}=`));
  if (entry === undefined) return undefined;
  const [dialect = "", size] = entry.split("=")[1]!.split("/");
  const sizeless = size === undefined ? protocolByName(dialect, undefined) : undefined;
  const protocol = sizeless ?? protocolByName(dialect, size ?? settings.TCP_DEFAULT_SIZE);
  if (protocol === undefined) {
    throw new SettingsError(`config_invalid: TCP_PORTS: ${entry} names no dialect and size`);
  }
  return protocol;
}
