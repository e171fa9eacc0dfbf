/** What is spoken on a port: a protocol, and where the server has its door. */
import { protocolByName } from "../../wire/throttr/protocol.ts";

export interface Spoken {
  /** As settings of ports write it: `7.3/uint16`, `2`, `yrmcds/today`. */
  readonly name: string;
  /** Path of the server's WebSocket door. */
  readonly path: string;
}

const YRMCDS_PATHS: Readonly<Record<string, string>> = {
  yrmcds: "/yrmcds/counter",
  "yrmcds/today": "/yrmcds/counter/today",
};

/**
 * What a name stands for.
 *
 * @param defaultSize size of a dialect that has sizes, where the name has none
 * @returns undefined when it stands for nothing
 */
export function spokenByName(name: string, defaultSize: string): Spoken | undefined {
  if (Object.hasOwn(YRMCDS_PATHS, name)) {
    return { name, path: YRMCDS_PATHS[name]! };
  }
  const [dialect = "", size, ...rest] = name.split("/");
  if (rest.length > 0) return undefined;
  const sizeless = size === undefined ? protocolByName(dialect, undefined) : undefined;
  if (sizeless !== undefined) return { name, path: `/throttr/${dialect}` };
  if (protocolByName(dialect, size ?? defaultSize) === undefined) return undefined;
  const sized = `${dialect}/${size ?? defaultSize}`;
  return { name: sized, path: `/throttr/${sized}` };
}
