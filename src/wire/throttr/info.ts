/**
 * The answer to INFO.
 *
 * Source: protocol reference, "INFO, u64 i at offset 1 + 8i".
 */
import { Command } from "../edge/command.ts";
import { RequestType } from "./requests.ts";

const FIGURES = 52;
const VERSION_BYTES = 16;
export const INFO_BYTES = FIGURES * 8 + VERSION_BYTES;

/** Request types in the order in which INFO counts them. */
export const INFO_TYPES: readonly number[] = [
  RequestType.insert,
  RequestType.query,
  RequestType.update,
  RequestType.purge,
  RequestType.get,
  RequestType.set,
  RequestType.list,
  RequestType.info,
  RequestType.stats,
  RequestType.stat,
  RequestType.subscribe,
  RequestType.unsubscribe,
  RequestType.publish,
  RequestType.channel,
  RequestType.channels,
  RequestType.whoami,
  RequestType.connection,
  RequestType.connections,
];

/** A total, and the last 60 seconds of it. */
export type Rate = readonly [total: number, perMinute: number];

export interface Info {
  readonly nowMs: number;
  /** By request type. */
  readonly requests: (type: number) => Rate;
  readonly readBytes: Rate;
  readonly writeBytes: Rate;
  readonly counters: number;
  readonly buffers: number;
  readonly counterBytes: number;
  readonly bufferBytes: number;
  readonly subscriptions: number;
  readonly channels: number;
  readonly runningSinceMs: number;
  readonly connections: number;
  /** At most 16 ASCII characters. */
  readonly version: string;
}

/** The answer, without the status of 7.3. */
export function encodeInfo(info: Info): Uint8Array {
  const bytes = new Uint8Array(INFO_BYTES);
  const view = new DataView(bytes.buffer);
  const rates = INFO_TYPES.map(info.requests);
  const others = [RequestType.event, ...Object.values(Command)].map(info.requests);
  const all = [...rates, ...others].reduce<Rate>(
    (sum, rate) => [sum[0] + rate[0], sum[1] + rate[1]],
    [0, 0],
  );
  const figures = [
    Math.floor(info.nowMs / 1000),
    ...all,
    ...rates.flat(),
    ...info.readBytes,
    ...info.writeBytes,
    info.counters + info.buffers,
    info.counters,
    info.buffers,
    info.counterBytes,
    info.bufferBytes,
    info.subscriptions,
    info.channels,
    BigInt(Math.floor(info.runningSinceMs)) * 1_000_000n,
    info.connections,
  ];
  figures.forEach((figure, i) => view.setBigUint64(8 * i, BigInt(figure), true));
  for (let i = 0; i < info.version.length; i++) {
    bytes[FIGURES * 8 + i] = info.version.charCodeAt(i);
  }
  return bytes;
}

/** The figures of INFO, by name. Figures per minute are estimates. */
export interface InfoFigures {
  /** The server's clock, s since the epoch. */
  readonly nowSeconds: number;
  readonly requests: number;
  readonly requestsPerMinute: number;
  /**
   * By request type of the Throttr protocol, in lowercase. `other` are those that INFO has no place for, together: the
   * commands that the calls of `ThrottrClient` are made of, and EVENT. `GET /v1/info` tells them apart.
   */
  readonly requestsByType: Readonly<Record<string, { total: number; perMinute: number }>>;
  readonly readBytes: number;
  readonly readBytesPerMinute: number;
  readonly writeBytes: number;
  readonly writeBytesPerMinute: number;
  readonly keys: number;
  readonly counters: number;
  readonly buffers: number;
  readonly counterBytes: number;
  readonly bufferBytes: number;
  readonly subscriptions: number;
  readonly channels: number;
  /** Since when requests and bytes count, ms since the epoch. */
  readonly runningSinceMs: number;
  readonly connections: number;
  readonly version: string;
}

const TYPE_NAMES = new Map<number, string>(
  Object.entries(RequestType).map(([name, type]) => [type, name]),
);

/** Reads the answer to INFO, without the status of 7.3. */
export function decodeInfo(bytes: Uint8Array): InfoFigures {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const figure = (i: number): number => Number(view.getBigUint64(8 * i, true));
  const requestsByType = Object.fromEntries(
    INFO_TYPES.map((type, i) => [
      TYPE_NAMES.get(type)!,
      { total: figure(3 + 2 * i), perMinute: figure(4 + 2 * i) },
    ]),
  );
  const told = Object.values(requestsByType);
  requestsByType["other"] = {
    total: told.reduce((rest, { total }) => rest - total, figure(1)),
    perMinute: told.reduce((rest, { perMinute }) => rest - perMinute, figure(2)),
  };
  const version = new TextDecoder().decode(bytes.subarray(FIGURES * 8)).replace(/\0+$/, "");
  return {
    nowSeconds: figure(0),
    requests: figure(1),
    requestsPerMinute: figure(2),
    requestsByType,
    readBytes: figure(39),
    readBytesPerMinute: figure(40),
    writeBytes: figure(41),
    writeBytesPerMinute: figure(42),
    keys: figure(43),
    counters: figure(44),
    buffers: figure(45),
    counterBytes: figure(46),
    bufferBytes: figure(47),
    subscriptions: figure(48),
    channels: figure(49),
    runningSinceMs: Math.round(figure(50) / 1e6),
    connections: figure(51),
    version,
  };
}
