/**
 * The answer to INFO.
 *
 * Source: protocol reference, "INFO, u64 i at offset 1 + 8i".
 */
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
  const all = rates.reduce<Rate>((sum, rate) => [sum[0] + rate[0], sum[1] + rate[1]], [0, 0]);
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
