/** The requests of a load: over a few keys in turn, or over new keys. */
import { Control } from "../../client/channels/channels.ts";
import { newRandomLeaseId } from "../../client/semaphore/lease-id.ts";
import { LEASE_TTL_MS_MAX, U32_MAX } from "../../wire/edge/command.ts";
import type { Operation } from "../../wire/edge/operation.ts";
import { EDGE } from "../../wire/edge/protocol.ts";
import { replyLength } from "../../wire/throttr/replies.ts";
import * as operations from "../../wire/edge/operations.ts";
import { encodeRequest } from "../../wire/throttr/encode.ts";
import { Attribute, Change, RequestType, STATUS_SUCCESS } from "../../wire/throttr/requests.ts";

/** Plain requests of the Throttr protocol; the other types are commands of the edge dialect. */
const PLAIN_TYPES = ["update", "query", "insert", "set", "get"] as const;
type PlainType = (typeof PLAIN_TYPES)[number];

export const LOAD_TYPES = [...PLAIN_TYPES, "increment", "limit", "acquire", "publish"] as const;
export type LoadType = (typeof LOAD_TYPES)[number];

/** The keys and values of a load. */
export interface FrameOptions {
  readonly type: LoadType;
  /** Prefix of all keys; ends with a colon. */
  readonly prefix: string;
  /** How many keys are used in turn. */
  readonly keys: number;
  /** Length of values (`set`, `get`) and of messages. */
  readonly valueBytes: number;
  /** TTL of all records that are created. */
  readonly ttlMs: number;
}

/** The TTL type of the protocol. */
const MILLISECONDS = 3;
/** So large that no load empties it: a granted check writes its state, a refused one may not. */
const STRATEGY = { strategy: "token_bucket", burst: 1_000_000_000, rate: 1_000_000_000 } as const;
const encoder = new TextEncoder();

/** True if the request was applied, found a record, or reached a subscriber. */
const isSuccess = (reply: Uint8Array): boolean => reply[0] === STATUS_SUCCESS;

/** The requests of a type of load, by number of the key. */
interface Load {
  /** Sent once per key before the measurement; null if nothing is needed. */
  readonly setUp: ((i: number) => Operation<boolean>) | null;
  readonly next: (i: number) => Operation<boolean>;
  /** Sent once per key at the end; null if closing the connection cleans up. */
  readonly cleanUp: ((i: number) => Operation<boolean>) | null;
}

/**
 * Makes the requests of one load. Those of reused keys are encoded once, so that encoding is not
 * measured.
 */
export class Frames {
  readonly #options: FrameOptions;
  /** The value of all records and messages: letters x. */
  readonly #value: Uint8Array;
  /** How the type of this load makes its requests. */
  readonly #load: Load;
  /** One request per key; empty for `insert`, which never repeats a key. */
  readonly #operations: readonly Operation<boolean>[];
  /** Requests that were made so far. */
  #made = 0;

  constructor(options: FrameOptions) {
    this.#options = options;
    this.#value = new Uint8Array(options.valueBytes).fill(0x78);
    this.#load = this.#loadOf(options.type);
    this.#operations = options.type === "insert" ? [] : this.#ofAllKeys(this.#load.next);
  }

  /** Requests that create the records and subscribe to the channels. */
  get setUp(): Operation<boolean>[] {
    return this.#ofAllKeys(this.#load.setUp);
  }

  /** Requests that remove everything the load created. */
  get cleanUp(): Operation<boolean>[] {
    const count = this.#options.type === "insert" ? this.#made : this.#options.keys;
    return this.#ofAllKeys(this.#load.cleanUp, count);
  }

  /** The next request: keys are used in turn; `insert` always uses a new one. */
  next(): Operation<boolean> {
    const i = this.#made++;
    return this.#operations[i % this.#operations.length] ?? this.#load.next(i);
  }

  #ofAllKeys(
    make: ((i: number) => Operation<boolean>) | null,
    count = this.#options.keys,
  ): Operation<boolean>[] {
    return make === null ? [] : Array.from({ length: count }, (_, i) => make(i));
  }

  /** The requests of a type. */
  #loadOf(type: LoadType): Load {
    const purge = (i: number): Operation<boolean> => operations.purge(this.#keyOf(i));
    const { ttlMs } = this.#options;
    switch (type) {
      case "increment":
        return {
          setUp: null,
          next: (i) => answered(operations.increment(this.#keyOf(i), { ttlMs })),
          cleanUp: purge,
        };
      case "limit":
        return { setUp: null, next: (i) => this.#limit(i), cleanUp: purge };
      case "acquire":
        return this.#leases();
      case "publish":
        return {
          // The connections share the channels out, so each channel has one subscriber.
          setUp: (i) => new Control("subscribe", this.#keyOf(i)).operation,
          next: (i) => operations.publish(this.#keyOf(i), this.#value),
          cleanUp: null,
        };
      case "insert":
        return { setUp: null, next: (i) => this.#plain(type, i), cleanUp: purge };
      default: {
        const maker = type === "set" || type === "get" ? "set" : "insert";
        const setUp = (i: number): Operation<boolean> => this.#plain(maker, i);
        return { setUp, next: (i) => this.#plain(type, i), cleanUp: purge };
      }
    }
  }

  /** A check of a rate limit that never refuses. */
  #limit(i: number): Operation<boolean> {
    const name = this.#options.prefix.slice(0, -1);
    const limit = operations.limit({ name, key: String(i), strategy: STRATEGY });
    return { ...limit, read: (reply) => limit.read(reply).success };
  }

  /**
   * One lease per semaphore: the first request acquires it, the others renew it. The server keeps a semaphore's
   * largest use for a day, so all loads use the same names: otherwise each run would leave new semaphores behind.
   */
  #leases(): Load {
    const ids = Array.from({ length: this.#options.keys }, newRandomLeaseId);
    const ttlMs = Math.min(LEASE_TTL_MS_MAX, this.#options.ttlMs);
    return {
      setUp: null,
      next: (i) => {
        const options = { maximum: U32_MAX, ttlMs, leaseId: ids[i]! };
        const acquire = operations.acquire(semaphoreOf(i), options);
        return { ...acquire, read: (reply) => acquire.read(reply) !== null };
      },
      cleanUp: (i) => operations.release(semaphoreOf(i), ids[i]!),
    };
  }

  /** A request of the Throttr protocol itself. */
  #plain(type: PlainType, i: number): Operation<boolean> {
    const code = RequestType[type];
    return {
      type: code,
      isRepeatable: false,
      frame: this.#frameOf(type, i),
      read: isSuccess,
      replyLength: (bytes, at, end) => replyLength(EDGE, code, bytes, at, end),
    };
  }

  #frameOf(type: PlainType, i: number): Uint8Array<ArrayBuffer> {
    const key = this.#keyOf(i);
    const lifetime = { ttlType: MILLISECONDS, ttl: BigInt(this.#options.ttlMs) };
    switch (type) {
      case "insert":
        return encodeRequest(EDGE, { type, key, quota: 0n, ...lifetime });
      case "set":
        return encodeRequest(EDGE, { type, key, value: this.#value, ...lifetime });
      case "update":
        return encodeRequest(EDGE, {
          type,
          key,
          attribute: Attribute.quota,
          change: Change.increase,
          value: 1n,
        });
      default:
        return encodeRequest(EDGE, { type, key });
    }
  }

  #keyOf(i: number): Uint8Array {
    return encoder.encode(`${this.#options.prefix}${i}`);
  }
}

const semaphoreOf = (i: number): string => `bench:acquire:${i}`;

/** Makes an operation's reply a boolean: true unless it is an error. */
function answered(operation: Operation<unknown>): Operation<boolean> {
  return { ...operation, read: isSuccess };
}
