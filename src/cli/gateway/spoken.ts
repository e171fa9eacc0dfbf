/** What is spoken on a port: a protocol, where the server has its door, and how its frames are found. */
import { protocolByName, type Protocol } from "../../wire/throttr/protocol.ts";
import { layoutsOf } from "../../wire/throttr/requests.ts";
import { frameLength } from "../../wire/throttr/scanner.ts";
import { frameLength as yrmcdsFrameLength } from "../../wire/yrmcds/scanner.ts";

/** A Throttr protocol, or the yrmcds protocol. */
export type SpokenProtocol = Protocol | "yrmcds";

export interface Spoken {
  /** As settings of ports write it: `7.3/uint16`, `2`, `yrmcds/today`. */
  readonly name: string;
  /** Path of the server's WebSocket door. */
  readonly path: string;
  readonly protocol: SpokenProtocol;
}

/** How frames are told apart. */
export interface FrameForm {
  /** Length of the frame at `at`, header included: as the scanners have it, without a limit. */
  readonly lengthOf: (bytes: Uint8Array, at: number, end: number) => number;
  /** Which byte of a frame says what is asked. */
  readonly kindAt: number;
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
    return { name, path: YRMCDS_PATHS[name]!, protocol: "yrmcds" };
  }
  const [dialect = "", size, ...rest] = name.split("/");
  if (rest.length > 0) return undefined;
  const sizeless = size === undefined ? protocolByName(dialect, undefined) : undefined;
  if (sizeless !== undefined) return { name, path: `/throttr/${dialect}`, protocol: sizeless };
  const protocol = protocolByName(dialect, size ?? defaultSize);
  if (protocol === undefined) return undefined;
  const sized = `${dialect}/${size ?? defaultSize}`;
  return { name: sized, path: `/throttr/${sized}`, protocol };
}

export function frameFormOf(protocol: SpokenProtocol): FrameForm {
  if (protocol === "yrmcds") {
    return {
      lengthOf: (bytes, at, end) => yrmcdsFrameLength(bytes, at, end, Infinity),
      kindAt: 1,
    };
  }
  const layouts = layoutsOf(protocol);
  return {
    lengthOf: (bytes, at, end) => frameLength(layouts, bytes, at, end, Infinity),
    kindAt: 0,
  };
}
