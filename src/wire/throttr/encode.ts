/**
 * Requests as values: the client's side of the protocol.
 *
 * Source: protocol reference, "7.3 layouts" and "7.1 to the letter".
 */
import type { Protocol } from "./protocol.ts";
import { layoutsOf, RequestType } from "./requests.ts";
import { writeUint } from "../bytes.ts";

/** A request of the six types that both counters and buffers are made of. Values are u64, keys at most 255 bytes. */
export type Request =
  | { type: "insert"; key: Uint8Array; quota: bigint; ttlType: number; ttl: bigint }
  | { type: "query" | "purge" | "get"; key: Uint8Array }
  | { type: "update"; key: Uint8Array; attribute: number; change: number; value: bigint }
  | { type: "set"; key: Uint8Array; ttlType: number; ttl: bigint; value: Uint8Array };

/**
 * The frame of a request.
 *
 * @throws RangeError with the field's name when a number, a key or a value does not fit the protocol
 * @throws TypeError when the dialect does not have the request
 */
export function encodeRequest(protocol: Protocol, request: Request): Uint8Array<ArrayBuffer> {
  const type = RequestType[request.type];
  const layout = layoutsOf(protocol)[type];
  if (layout === undefined) {
    throw new TypeError(`dialect ${protocol.dialect} has no ${request.type.toUpperCase()}`);
  }
  const { key } = request;
  const value = request.type === "set" ? request.value : undefined;
  const valueBytes = value?.length ?? 0;
  if (key.length > 255) throw new RangeError(`key: ${key.length} bytes, at most 255`);
  if (valueBytes >= 2 ** (8 * layout.valueSizeBytes)) {
    throw new RangeError(
      `value: a length of ${valueBytes} bytes does not fit a size field of ${layout.valueSizeBytes} bytes`,
    );
  }
  const frame = new Uint8Array(layout.headerBytes + key.length + valueBytes);
  frame[0] = type;
  frame[layout.keySizeAt] = key.length;
  frame.set(key, layout.headerBytes);
  const n = protocol.valueSize;
  switch (request.type) {
    case "insert":
      putUint(frame, 1, n, request.quota, "quota");
      frame[1 + n] = request.ttlType;
      putUint(frame, 2 + n, n, request.ttl, "ttl");
      break;
    case "update":
      frame[1] = request.attribute;
      frame[2] = request.change;
      putUint(frame, 3, n, request.value, "value");
      break;
    case "set":
      frame[1] = request.ttlType;
      putUint(frame, 2, n, request.ttl, "ttl");
      writeUint(frame, layout.valueSizeAt, layout.valueSizeBytes, 0, valueBytes);
      frame.set(request.value, layout.headerBytes + key.length);
      break;
  }
  return frame;
}

function putUint(frame: Uint8Array, at: number, width: number, value: bigint, field: string): void {
  if (value < 0n || value >= 1n << BigInt(8 * width)) {
    throw new RangeError(`${field}: ${value} does not fit ${width} bytes`);
  }
  writeUint(frame, at, width, Number(value >> 32n), Number(value & 0xffffffffn));
}
