/** The frames that a load is made of: plain requests of the protocol, over a few keys or new ones. */
import { EDGE, type Operation } from "../../wire/edge/operation.ts";
import { encodeRequest } from "../../wire/throttr/encode.ts";
import { Attribute, Change, RequestType, STATUS_SUCCESS } from "../../wire/throttr/requests.ts";

export const LOAD_TYPES = ["update", "query", "insert", "set", "get"] as const;
export type LoadType = (typeof LOAD_TYPES)[number];

/** What requests are about. */
export interface FrameOptions {
  readonly type: LoadType;
  /** In front of all keys. */
  readonly prefix: string;
  readonly keys: number;
  /** Of `set` and `get`. */
  readonly valueBytes: number;
  /** Of all records that are made. */
  readonly ttlMs: number;
}

const MILLISECONDS = 3;
const encoder = new TextEncoder();

/** True where it was applied, or there is something to read. */
const isSuccess = (reply: Uint8Array): boolean => reply[0] === STATUS_SUCCESS;

export class Frames {
  readonly #options: FrameOptions;
  readonly #value: Uint8Array;
  readonly #frames: readonly Uint8Array<ArrayBuffer>[];
  #made = 0;

  constructor(options: FrameOptions) {
    this.#options = options;
    this.#value = new Uint8Array(options.valueBytes).fill(0x78);
    this.#frames =
      options.type === "insert"
        ? []
        : Array.from({ length: options.keys }, (_, i) => this.#frameOf(options.type, i));
  }

  /** What makes the records that requests are about. */
  get setUp(): Operation<boolean>[] {
    const { type, keys } = this.#options;
    if (type === "insert") return [];
    const maker = type === "set" || type === "get" ? "set" : "insert";
    return Array.from({ length: keys }, (_, i) => operationOf(maker, this.#frameOf(maker, i)));
  }

  /** What removes all records that there are of it. */
  get cleanUp(): Operation<boolean>[] {
    const { type, keys } = this.#options;
    return Array.from({ length: type === "insert" ? this.#made : keys }, (_, i) => {
      const frame = encodeRequest(EDGE, { type: "purge", key: this.#keyOf(i) });
      return { type: RequestType.purge, isRepeatable: false, frame, read: isSuccess };
    });
  }

  /** The next request: keys take turns, and those of `insert` are new. */
  next(): Operation<boolean> {
    const { type } = this.#options;
    const i = this.#made++;
    const frame = this.#frames[i % this.#frames.length] ?? this.#frameOf(type, i);
    return operationOf(type, frame);
  }

  #frameOf(type: LoadType, i: number): Uint8Array<ArrayBuffer> {
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

function operationOf(type: LoadType, frame: Uint8Array<ArrayBuffer>): Operation<boolean> {
  return { type: RequestType[type], isRepeatable: false, frame, read: isSuccess };
}
