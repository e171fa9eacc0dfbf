/** What the load generator sends: blocks of equal frames over a few thousand keys. */
import { encodeRequest, type Request } from "../../src/wire/throttr/encode.ts";
import { protocolByName } from "../../src/wire/throttr/protocol.ts";

export type Protocol = "throttr" | "redis" | "echo";
export type Operation = "UPDATE" | "QUERY" | "INSERT" | "SET";

export interface Block {
  readonly bytes: Buffer;
  readonly frames: number;
  readonly frameBytes: number;
  /** Bytes of a reply, or 0 when replies are told by lines. */
  readonly replyBytes: number;
  readonly replyLines: number;
}

/** Keys of a connection; the same count for every server measured. */
export const KEYS = 4096;
const FRAMES = 8192;
const throttr = protocolByName("7.3", "uint16")!;
const encoder = new TextEncoder();

/** Nine bytes, so that an UPDATE in uint16 has 15. */
function keyOf(connection: number, index: number): string {
  return `${String(connection).padStart(3, "k")}${String(index % KEYS).padStart(6, "0")}`;
}

const TTL_S = 10_000n;
const VALUE = "0123456789abcdef";

function requestOf(operation: Operation, key: Uint8Array, index: number): Request {
  switch (operation) {
    case "UPDATE":
      // Up and down in turns: the quota never leaves its range, and every update changes something.
      return { type: "update", key, attribute: 0, change: 1 + (Math.floor(index / KEYS) % 2), value: 1n };
    case "QUERY":
      return { type: "query", key };
    case "INSERT":
      return { type: "insert", key, quota: 1000n, ttlType: 4, ttl: TTL_S };
    case "SET":
      return { type: "set", key, ttlType: 4, ttl: TTL_S, value: encoder.encode(VALUE) };
  }
}

function redisCommand(...words: string[]): Buffer {
  return Buffer.from(`*${words.length}\r\n${words.map((word) => `$${word.length}\r\n${word}\r\n`).join("")}`);
}

function redisRequest(operation: Operation, key: string): Buffer {
  switch (operation) {
    case "UPDATE":
      return redisCommand("DECRBY", key, "1");
    case "QUERY":
      return redisCommand("GET", key);
    case "INSERT":
      return redisCommand("SET", key, "1000", "EX", String(TTL_S), "NX");
    case "SET":
      return redisCommand("SET", key, VALUE, "EX", String(TTL_S));
  }
}

/** The block that a connection sends again and again. */
export function blockOf(protocol: Protocol, operation: Operation, connection: number): Block {
  const frames = Array.from({ length: FRAMES }, (_, index) => {
    const key = keyOf(connection, index);
    return protocol === "redis"
      ? redisRequest(operation, key)
      : Buffer.from(encodeRequest(throttr, requestOf(operation, encoder.encode(key), index)));
  });
  const frameBytes = frames[0]!.length;
  const throttrReplyBytes = operation === "QUERY" ? 6 : 1;
  return {
    bytes: Buffer.concat(frames),
    frames: FRAMES,
    frameBytes,
    replyBytes: protocol === "redis" ? 0 : protocol === "echo" ? frameBytes : throttrReplyBytes,
    replyLines: protocol !== "redis" ? 0 : operation === "QUERY" ? 2 : 1,
  };
}

/** Frames that create every key of a connection, for operations that need them. */
export function setUpBytes(protocol: Protocol, connection: number): Buffer {
  const { bytes, frameBytes } = blockOf(protocol, "INSERT", connection);
  return bytes.subarray(0, KEYS * frameBytes);
}
