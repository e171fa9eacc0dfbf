/** Requests of dialect 2 as bytes, written from the text of their format. */
import { bytesOf, concat, uint } from "./bytes.ts";

/** A consumer or a resource: one character a byte. */
export type Pair = readonly [consumer: string, resource: string];

export type PairRequest =
  | { type: "insert"; pair: Pair; quota: bigint; ttlType: number; ttl: bigint }
  | { type: "query" | "purge"; pair: Pair }
  | { type: "update"; pair: Pair; attribute: number; change: number; value: bigint };

const TYPES = { insert: 1, query: 2, update: 3, purge: 4 } as const;

/** The frame of a request with an id. */
export function pairFrame(id: number, request: PairRequest): Uint8Array<ArrayBuffer> {
  const [consumer, resource] = request.pair;
  return concat([
    Uint8Array.of(TYPES[request.type]),
    uint(id, 4),
    fieldsOf(request),
    Uint8Array.of(consumer.length, resource.length),
    bytesOf(consumer + resource),
  ]);
}

function fieldsOf(request: PairRequest): Uint8Array {
  switch (request.type) {
    case "insert":
      return concat([uint(request.quota, 8), Uint8Array.of(request.ttlType), uint(request.ttl, 8)]);
    case "update":
      return concat([Uint8Array.of(request.attribute, request.change), uint(request.value, 8)]);
    default:
      return new Uint8Array(0);
  }
}
