/** Records over a TCP port that speaks 7.3/uint64: frames, and what comes back. */
import { HOURS, U64 } from "../frames/index.ts";
import type { SocketClient } from "./socket-client.ts";

export const insertFrame = (key: string, quota: bigint): Uint8Array =>
  U64.insert(key, quota, HOURS, 24n);
/** Status, quota, type of the time to live, time to live. */
export const FOUND_BYTES = 1 + 8 + 1 + 8;

/** The quota of a counter; null where there is none. */
export async function quotaOf(client: SocketClient, key: string): Promise<bigint | null> {
  const status = await client.exchange(U64.query(key), 1);
  if (status[0] !== 1) return null;
  const rest = await client.take(FOUND_BYTES - 1);
  return new DataView(rest.buffer, rest.byteOffset).getBigUint64(0, true);
}
