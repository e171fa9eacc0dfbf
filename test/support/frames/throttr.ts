/**
 * Requests of the Throttr dialects 7.1 and 7.3 as bytes, and what they push.
 *
 * `U8` to `U64` are the sizes of dialect 7.3, with a builder for each request whose numbers have that size:
 * `U16.insert("a", 5)`. Requests without such numbers are functions and constants of their own.
 */
import { encodeRequest, type Request } from "../../../src/wire/throttr/encode.ts";
import { protocolByName, type Protocol } from "../../../src/wire/throttr/protocol.ts";
import type { ModelProtocol, ModelRequest } from "../models/requests.ts";
import { bytesOf, concat, uint } from "./bytes.ts";

export function protocolOf({ dialect, valueSize }: ModelProtocol): Protocol {
  return protocolByName(dialect, `uint${8 * valueSize}`) ?? protocolByName(dialect, undefined)!;
}

export function frameOf(protocol: ModelProtocol, request: ModelRequest): Uint8Array<ArrayBuffer> {
  const typed: Request = { ...request, key: bytesOf(request.key) };
  return encodeRequest(protocolOf(protocol), typed);
}

/** Types of a time to live. */
export const MILLISECONDS = 3;
export const SECONDS = 4;
export const MINUTES = 5;
export const HOURS = 6;

/** Fields of UPDATE: what it changes. */
const QUOTA = 0;
/** Fields of UPDATE: how. */
const INCREASE = 1;

type Text = string | Uint8Array;
const asBytes = (text: Text): Uint8Array => (typeof text === "string" ? bytesOf(text) : text);

/** Dialect 7.3 with values of one size. Where a time to live is not given, it is 30 seconds. */
export class ThrottrFrames implements ModelProtocol {
  readonly dialect = "7.3";
  readonly valueSize: number;

  constructor(valueSize: number) {
    this.valueSize = valueSize;
  }

  insert(key: string, quota: bigint | number, ttlType = SECONDS, ttl = 30n) {
    return frameOf(this, { type: "insert", key, quota: BigInt(quota), ttlType, ttl });
  }

  query = (key: string) => frameOf(this, { type: "query", key });
  get = (key: string) => frameOf(this, { type: "get", key });
  purge = (key: string) => frameOf(this, { type: "purge", key });

  /** UPDATE that adds to the quota. */
  increase(key: string, by: bigint | number = 1) {
    const value = BigInt(by);
    return frameOf(this, { type: "update", key, attribute: QUOTA, change: INCREASE, value });
  }

  set(key: string, value: Text, ttlType = SECONDS, ttl = 30n) {
    return frameOf(this, { type: "set", key, ttlType, ttl, value: asBytes(value) });
  }

  publish = (channel: string, payload: Text = "m") => this.#message(0x13, channel, payload);
  /** What a subscriber is sent of a message. */
  push = (channel: string, payload: Text = "m") => this.#message(0x19, channel, payload);

  #message(type: number, channel: string, payload: Text): Uint8Array<ArrayBuffer> {
    const bytes = asBytes(payload);
    const header = concat([
      Uint8Array.of(type, channel.length),
      uint(bytes.length, this.valueSize),
    ]);
    return concat([header, bytesOf(channel), bytes]);
  }
}

export const U8 = new ThrottrFrames(1);
export const U16 = new ThrottrFrames(2);
export const U32 = new ThrottrFrames(4);
export const U64 = new ThrottrFrames(8);

/** A request that is its type, the length of a name, and the name. */
const named = (type: number, name: Text): Uint8Array<ArrayBuffer> =>
  concat([Uint8Array.of(type, name.length), asBytes(name)]);

export const LIST = Uint8Array.of(0x07);
export const INFO = Uint8Array.of(0x08);
export const STATS = Uint8Array.of(0x10);
export const CONNECTIONS = Uint8Array.of(0x14);
export const CHANNELS = Uint8Array.of(0x16);
export const WHOAMI = Uint8Array.of(0x18);
/** The status, and an id of 16 bytes. */
export const WHOAMI_REPLY_BYTES = 17;

/** STAT of one key. */
export const stat = (key: Text) => named(0x09, key);
export const subscribe = (channel: Text) => named(0x11, channel);
export const unsubscribe = (channel: Text) => named(0x12, channel);
/** CONNECTION: the row of one. */
export const connectionRow = (id: Uint8Array) => concat([Uint8Array.of(0x15), id]);
/** CHANNEL: the subscribers of one. */
export const subscribersOf = (channel: Text) => named(0x17, channel);
