/**
 * What the load generator sends, and how it tells the replies apart: blocks of equal frames over a few
 * thousand keys.
 */
import { encodeRequest, type Request } from "../../src/wire/throttr/encode.ts";
import { protocolByName } from "../../src/wire/throttr/protocol.ts";
import { encodeRequest as encodeCounterRequest } from "../../test/support/yrmcds/codec.ts";
import { HEADER_BYTES, REPLY_MAGIC } from "../../src/wire/yrmcds/protocol.ts";

/** `yrmcds`: the yrmcds protocol, of which an Acquire and its Release count as one request. */
export type Protocol = "throttr" | "redis" | "echo" | "yrmcds";
export type Operation = "UPDATE" | "QUERY" | "INSERT" | "SET";

export const OPERATIONS: readonly Operation[] = ["UPDATE", "QUERY", "INSERT", "SET"];

/** How replies are told apart, as cheaply as can be. */
export type ReplyShape =
  /** One byte: 0x00 is a failure. */
  | { readonly kind: "status" }
  /** So many bytes each. The first one is `firstByte`, unless that is null: then anything goes. */
  | { readonly kind: "fixed"; readonly bytes: number; readonly firstByte: number | null }
  /** So many lines each. None has a minus sign, unless it is an error. */
  | { readonly kind: "lines"; readonly lines: number };

export interface Block {
  readonly bytes: Buffer;
  readonly frames: number;
  readonly frameBytes: number;
  readonly reply: ReplyShape;
  /** Offset in each frame of a u32 that makes its key a new one, to be filled in before each use. */
  readonly freshAt: number | null;
}

/** Keys of a connection; the same count for every server measured. */
export const KEYS = 4096;
/** No fewer than the largest depth: a frame is filled in again only when its last use is answered. */
export const FRAMES = 8192;

/** The value size that all doors are measured with. */
const protocol = protocolByName("7.3", "uint16")!;

const TTL_S = 10_000;
/** Inserted records go soon: millions a second are made of them. */
const FRESH_TTL_MS = 200;
const QUOTA = 1000;
/** Large enough that no run counts it down to zero. */
const REDIS_VALUE = "1000000";
const BUFFER = Buffer.from("0123456789abcdef");
const TTL_SECONDS = 4;
const TTL_MILLISECONDS = 3;
const FRESH_BYTES = 4;

/** Nine bytes, so that an UPDATE in uint16 has 15. Each kind of record has keys of its own. */
function keyOf(operation: Operation, connection: number, index: number): Buffer {
  const owner = String(connection).padStart(4, "0");
  if (operation === "INSERT") return Buffer.from(`i${owner}${"\0".repeat(FRESH_BYTES)}`);
  const kind = operation === "SET" ? "b" : "c";
  return Buffer.from(`${kind}${owner}${String(index % KEYS).padStart(4, "0")}`);
}

function requestOf(operation: Operation, key: Uint8Array, index: number): Request {
  switch (operation) {
    case "UPDATE":
      // Up and down in turns: the quota never leaves its range, and every update changes something.
      return updateRequest(key, Math.floor(index / KEYS) % 2 === 0);
    case "QUERY":
      return { type: "query", key };
    case "INSERT":
      return insertRequest(key, TTL_MILLISECONDS, FRESH_TTL_MS);
    case "SET":
      return { type: "set", key, ttlType: TTL_SECONDS, ttl: BigInt(TTL_S), value: BUFFER };
  }
}

function insertRequest(key: Uint8Array, ttlType: number, ttl: number): Request {
  return { type: "insert", key, quota: BigInt(QUOTA), ttlType, ttl: BigInt(ttl) };
}

function updateRequest(key: Uint8Array, isUp: boolean): Request {
  return { type: "update", key, attribute: 0, change: isUp ? 1 : 2, value: 1n };
}

/** A command as Redis reads it. */
export function redisCommand(...words: (string | Uint8Array)[]): Buffer {
  const parts = words.flatMap((word) => [`$${word.length}\r\n`, word, "\r\n"]);
  const encoder = new TextEncoder();
  return Buffer.concat(
    [`*${words.length}\r\n`, ...parts].map((part) =>
      typeof part === "string" ? encoder.encode(part) : part,
    ),
  );
}

function redisFrame(operation: Operation, key: Buffer): Buffer {
  switch (operation) {
    case "UPDATE":
      return redisCommand("DECRBY", key, "1");
    case "QUERY":
      return redisCommand("GET", key);
    case "INSERT":
      return redisCommand("SET", key, REDIS_VALUE, "PX", String(FRESH_TTL_MS));
    case "SET":
      return redisCommand("SET", key, BUFFER, "EX", String(TTL_S));
  }
}

/** A frame that makes a counter which outlives every measurement. */
export function counterFrame(key: Uint8Array): Buffer {
  return Buffer.from(encodeRequest(protocol, insertRequest(key, TTL_SECONDS, TTL_S)));
}

export function updateFrame(key: Uint8Array, isUp: boolean): Buffer {
  return Buffer.from(encodeRequest(protocol, updateRequest(key, isUp)));
}

export function queryFrame(key: Uint8Array): Buffer {
  return Buffer.from(encodeRequest(protocol, { type: "query", key }));
}

function frameOf(server: Protocol, operation: Operation, key: Buffer, index: number): Buffer {
  if (server === "redis") return redisFrame(operation, key);
  return Buffer.from(encodeRequest(protocol, requestOf(operation, key, index)));
}

function replyShapeOf(server: Protocol, operation: Operation, frameBytes: number): ReplyShape {
  if (server === "echo") return { kind: "fixed", bytes: frameBytes, firstByte: null };
  if (server === "redis") return { kind: "lines", lines: operation === "QUERY" ? 2 : 1 };
  if (operation !== "QUERY") return { kind: "status" };
  return { kind: "fixed", bytes: 2 + 2 * protocol.valueSize, firstByte: 1 };
}

/** The block that a connection sends again and again. */
export function blockOf(server: Protocol, operation: Operation, connection: number): Block {
  if (server === "yrmcds") return pairBlockOf(connection);
  const frames = Array.from({ length: FRAMES }, (_, index) =>
    frameOf(server, operation, keyOf(operation, connection, index), index),
  );
  const first = frames[0]!;
  const isFresh = operation === "INSERT" && server !== "echo";
  const keyAt = first.indexOf(keyOf(operation, connection, 0));
  return {
    bytes: Buffer.concat(frames),
    frames: FRAMES,
    frameBytes: first.length,
    reply: replyShapeOf(server, operation, first.length),
    freshAt: isFresh ? keyAt + keyOf(operation, connection, 0).length - FRESH_BYTES : null,
  };
}

/** Nobody else holds anything of the counters: no Acquire is refused. */
const SEMAPHORE_MAXIMUM = 1000;

/** An Acquire and its Release, on counters of the connection's own, one after the other. */
function pairBlockOf(connection: number): Block {
  const owner = String(connection).padStart(4, "0");
  const pairs = Array.from({ length: FRAMES }, (_, index) => {
    const name = Buffer.from(`s${owner}${String(index % KEYS).padStart(4, "0")}`);
    return Buffer.concat([
      encodeCounterRequest(
        { type: "acquire", resources: 1, maximum: SEMAPHORE_MAXIMUM, name },
        index,
      ),
      encodeCounterRequest({ type: "release", resources: 1, name }, index),
    ]);
  });
  return {
    bytes: Buffer.concat(pairs),
    frames: FRAMES,
    frameBytes: pairs[0]!.length,
    // The first has the acquired resources. A refusal has a text, and all behind it would look wrong.
    reply: { kind: "fixed", bytes: HEADER_BYTES + 4 + HEADER_BYTES, firstByte: REPLY_MAGIC },
    freshAt: null,
  };
}

/** Frames that make the keys of a connection, `KEYS` of them; none when the operation needs none. */
export function setUpBytes(server: Protocol, operation: Operation, connection: number): Buffer {
  const isBare = server === "echo" || server === "yrmcds";
  if (isBare || operation === "INSERT") return Buffer.alloc(0);
  const frames = Array.from({ length: KEYS }, (_, index) => {
    const key = keyOf(operation, connection, index);
    if (operation === "SET") return frameOf(server, operation, key, index);
    if (server === "redis") return redisCommand("SET", key, REDIS_VALUE, "EX", String(TTL_S));
    return counterFrame(key);
  });
  return Buffer.concat(frames);
}

/** How the replies to `setUpBytes` are told apart. */
export function setUpReply(server: Protocol): ReplyShape {
  return server === "redis" ? { kind: "lines", lines: 1 } : { kind: "status" };
}

/** First byte of an answer of Redis that is an error: a minus sign. */
export const REDIS_ERROR = 0x2d;

/** Makes Redis forget everything. */
export const REDIS_FLUSH = redisCommand("FLUSHALL", "SYNC");
