/** The frames that a load is made of: requests over a few keys or new ones. */
import { Control } from "../../client/channels.ts";
import { newRandomLeaseId } from "../../client/lease-id.ts";
import { LEASE_TTL_MS_MAX, U32_MAX } from "../../wire/edge/command.ts";
import { EDGE, type Operation } from "../../wire/edge/operation.ts";
import * as operations from "../../wire/edge/operations.ts";
import { encodeRequest } from "../../wire/throttr/encode.ts";
import { Attribute, Change, RequestType, STATUS_SUCCESS } from "../../wire/throttr/requests.ts";

/** Plain requests of the protocol, which other servers answer, too. */
const PLAIN_TYPES = ["update", "query", "insert", "set", "get"] as const;
type PlainType = (typeof PLAIN_TYPES)[number];

export const LOAD_TYPES = [...PLAIN_TYPES, "increment", "limit", "acquire", "publish"] as const;
export type LoadType = (typeof LOAD_TYPES)[number];

/** What requests are about. */
export interface FrameOptions {
  readonly type: LoadType;
  /** In front of all keys; ends with a colon. */
  readonly prefix: string;
  readonly keys: number;
  /** Of `set` and `get`, and of messages. */
  readonly valueBytes: number;
  /** Of all records that are made. */
  readonly ttlMs: number;
}

const MILLISECONDS = 3;
/** No load ever empties it: what is measured is the decision, not the refusal. */
const STRATEGY = { strategy: "token_bucket", burst: 1_000_000_000, rate: 1_000_000_000 } as const;
const encoder = new TextEncoder();

/** True where it was applied, or there is something to read, or somebody listens. */
const isSuccess = (reply: Uint8Array): boolean => reply[0] === STATUS_SUCCESS;

/** What a type of load asks about its i-th key. */
interface Load {
  /** Once for each key, before anything is measured; null where nothing is needed. */
  readonly setUp: ((i: number) => Operation<boolean>) | null;
  readonly next: (i: number) => Operation<boolean>;
  /** Once for each key, behind everything; null where the end of the connection does it. */
  readonly cleanUp: ((i: number) => Operation<boolean>) | null;
}

export class Frames {
  readonly #options: FrameOptions;
  readonly #value: Uint8Array;
  readonly #load: Load;
  readonly #operations: readonly Operation<boolean>[];
  #made = 0;

  constructor(options: FrameOptions) {
    this.#options = options;
    this.#value = new Uint8Array(options.valueBytes).fill(0x78);
    this.#load = this.#loadOf(options.type);
    this.#operations = options.type === "insert" ? [] : this.#ofAllKeys(this.#load.next);
  }

  /** What makes the records that requests are about, and joins the channels. */
  get setUp(): Operation<boolean>[] {
    return this.#ofAllKeys(this.#load.setUp);
  }

  /** What removes all that there is of it. */
  get cleanUp(): Operation<boolean>[] {
    const count = this.#options.type === "insert" ? this.#made : this.#options.keys;
    return this.#ofAllKeys(this.#load.cleanUp, count);
  }

  /** The next request: keys take turns, and those of `insert` are new. */
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
          // The connections share them: each channel has one subscriber.
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

  #limit(i: number): Operation<boolean> {
    const name = this.#options.prefix.slice(0, -1);
    const limit = operations.limit({ name, key: String(i), strategy: STRATEGY });
    return { ...limit, read: (reply) => limit.read(reply).success };
  }

  /**
   * A lease for each semaphore: the first request takes it, all others renew it. The server keeps the largest
   * use of a semaphore for a day, so all loads use the same ones: else each would leave as many behind.
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

  #plain(type: PlainType, i: number): Operation<boolean> {
    const frame = this.#frameOf(type, i);
    return { type: RequestType[type], isRepeatable: false, frame, read: isSuccess };
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

/** True where there is an answer which is no error. */
function answered(operation: Operation<unknown>): Operation<boolean> {
  return { ...operation, read: isSuccess };
}
