/** Replies to QUERY and GET as values. */
import type { Protocol } from "../../src/wire/throttr/protocol.ts";
import { STATUS_SUCCESS } from "../../src/wire/throttr/requests.ts";

/** A successful QUERY: quota and TTL in the record's own unit. */
interface QueryReply {
  quota: bigint;
  ttlType: number;
  ttl: bigint;
}

/** A successful GET. */
interface GetReply {
  ttlType: number;
  ttl: bigint;
  value: Uint8Array;
}

/** Reads a whole reply of QUERY; null when its status is failure. */
export function decodeQuery(protocol: Protocol, reply: Uint8Array): QueryReply | null {
  if (reply[0] !== STATUS_SUCCESS) return null;
  const n = protocol.valueSize;
  return {
    quota: getUint(reply, 1, n),
    ttlType: reply[1 + n]!,
    ttl: getUint(reply, 2 + n, n),
  };
}

/** Reads a whole reply of GET; null when its status is failure. */
export function decodeGet(protocol: Protocol, reply: Uint8Array): GetReply | null {
  if (reply[0] !== STATUS_SUCCESS) return null;
  const n = protocol.valueSize;
  return { ttlType: reply[1]!, ttl: getUint(reply, 2, n), value: reply.subarray(2 + 2 * n) };
}

function getUint(bytes: Uint8Array, at: number, width: number): bigint {
  let value = 0n;
  for (let i = width - 1; i >= 0; i--) value = (value << 8n) | BigInt(bytes[at + i]!);
  return value;
}
