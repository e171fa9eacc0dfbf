/**
 * STAT and STATS: how often records are read and written.
 *
 * The client library has no method for these two requests, so single frames of dialect 7.3 are sent over HTTP. Source:
 * docs/protocol.md, "7.3 layouts".
 */
import { ThrottrError } from "../wire/edge/error.ts";
import { nameOf } from "../wire/edge/argument.ts";
import { RequestType, STATUS_SUCCESS } from "../wire/throttr/requests.ts";
import { httpTransportOf } from "./connection.ts";
import { inTime } from "./server-request.ts";
import type { ConnectionSettings } from "./settings.ts";
import { readFragments } from "../wire/throttr/fragments.ts";

/** How often a record was read and written: in the last minute, and since its shard started. */
export interface Usage {
  /** Since the shard started; it forgets them when it is evicted. */
  readonly reads: number;
  readonly writes: number;
  /** Estimated by the shard. */
  readonly readsPerMinute: number;
  readonly writesPerMinute: number;
}

/** A row of STATS. */
export interface RecordUsage {
  /** A copy: the row's bytes belong to the reply. */
  readonly key: Uint8Array;
  readonly usage: Usage;
}

/** A row of STATS: key size 1, then four u64. */
const ROW_BYTES = 33;

/** The usage of a record; null if there is none. */
export async function askUsage(
  settings: ConnectionSettings,
  key: Uint8Array,
  signal: AbortSignal,
): Promise<Usage | null> {
  const name = nameOf(key, "key");
  const frame = Uint8Array.of(RequestType.stat, name.length, ...name);
  const reply = await exchange(settings, frame, signal);
  if (reply[0] !== STATUS_SUCCESS) return null;
  return usageAt(viewOf(reply), 1);
}

/** The usage of every record. */
export async function askUsages(
  settings: ConnectionSettings,
  signal: AbortSignal,
): Promise<RecordUsage[]> {
  // The reply holds all records at once: the protocol has no pages for STATS.
  const reply = await exchange(settings, Uint8Array.of(RequestType.stats), signal);
  if (reply[0] !== STATUS_SUCCESS) throw new ThrottrError("reply_invalid", "STATS was refused");
  return decodeUsages(reply.subarray(1));
}

/** Reads the reply to STATS after its status. @throws ThrottrError `reply_invalid` */
export function decodeUsages(bytes: Uint8Array): RecordUsage[] {
  const view = viewOf(bytes);
  const usages: RecordUsage[] = [];
  try {
    for (const { rowAt, name } of readFragments(bytes, ROW_BYTES)) {
      usages.push({ key: name.slice(), usage: usageAt(view, rowAt + 1) });
    }
    return usages;
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
  }
  throw new ThrottrError("reply_invalid", "the answer to STATS is cut off");
}

/** Four u64 in the order of the protocol: the last minute first, then the totals. */
function usageAt(view: DataView, at: number): Usage {
  const figure = (i: number): number => Number(view.getBigUint64(at + 8 * i, true));
  return {
    reads: figure(2),
    writes: figure(3),
    readsPerMinute: figure(0),
    writesPerMinute: figure(1),
  };
}

/** A view on exactly these bytes, which may be a part of a larger buffer. */
function viewOf({ buffer, byteOffset, byteLength }: Uint8Array): DataView {
  return new DataView(buffer, byteOffset, byteLength);
}

/** Sends a frame that only reads, so it can be sent over HTTP without an idempotency key, and returns its reply. */
function exchange(
  settings: ConnectionSettings,
  frame: Uint8Array<ArrayBuffer>,
  signal: AbortSignal,
): Promise<Uint8Array> {
  const transport = httpTransportOf(settings);
  return inTime(settings.timeoutMs, signal, (ending) => transport.exchange!(frame, ending));
}
