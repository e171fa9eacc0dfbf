/** `crypto` of an isolate: random numbers from its seed, and a `subtle` whose promises are settled when they are returned. */
import { createHash, createHmac, timingSafeEqual } from "node:crypto";
import type { Random } from "../../kernel/random.ts";

type Bytes = ArrayBuffer | ArrayBufferView;
type Algorithm =
  string | { readonly name: string; readonly hash?: string | { readonly name: string } };

/** What `getRandomValues` fills at once, as in every runtime. */
const RANDOM_BYTES_MAX = 65_536;

export class SimCryptoKey {
  readonly type = "secret";
  readonly extractable: boolean;
  readonly algorithm: { readonly name: string; readonly hash: { readonly name: string } };
  readonly usages: readonly string[];
  readonly #bytes: Uint8Array;

  constructor(bytes: Uint8Array, hash: string, extractable: boolean, usages: readonly string[]) {
    this.#bytes = bytes;
    this.extractable = extractable;
    this.algorithm = { name: "HMAC", hash: { name: hash } };
    this.usages = usages;
  }

  static bytesOf(key: SimCryptoKey): Uint8Array {
    return key.#bytes;
  }
}

const bytesOf = (bytes: Bytes): Uint8Array =>
  bytes instanceof ArrayBuffer
    ? new Uint8Array(bytes)
    : new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength);

const nameOf = (algorithm: Algorithm): string =>
  typeof algorithm === "string" ? algorithm : algorithm.name;

/** Node's name of a hash: `SHA-256` is `sha256` there. */
const nodeHash = (name: string): string => name.toLowerCase().replace("-", "");

const bufferOf = (buffer: Uint8Array): ArrayBuffer => new Uint8Array(buffer).buffer;

/** Only what the server uses: SHA and HMAC. */
const subtle = {
  async digest(algorithm: Algorithm, data: Bytes): Promise<ArrayBuffer> {
    return bufferOf(
      createHash(nodeHash(nameOf(algorithm)))
        .update(bytesOf(data))
        .digest(),
    );
  },

  async importKey(
    format: string,
    data: Bytes,
    algorithm: Algorithm,
    extractable: boolean,
    usages: readonly string[],
  ): Promise<SimCryptoKey> {
    if (format !== "raw" || nameOf(algorithm) !== "HMAC" || typeof algorithm === "string") {
      throw new TypeError(`the simulator has no key of format ${format} for ${nameOf(algorithm)}`);
    }
    return new SimCryptoKey(bytesOf(data).slice(), nameOf(algorithm.hash!), extractable, usages);
  },

  async sign(_algorithm: Algorithm, key: SimCryptoKey, data: Bytes): Promise<ArrayBuffer> {
    return bufferOf(hmac(key, data));
  },

  async verify(
    _algorithm: Algorithm,
    key: SimCryptoKey,
    signature: Bytes,
    data: Bytes,
  ): Promise<boolean> {
    const given = bytesOf(signature);
    const right = hmac(key, data);
    return given.length === right.length && timingSafeEqual(given, right);
  },

  timingSafeEqual: (a: Bytes, b: Bytes): boolean => timingSafeEqual(bytesOf(a), bytesOf(b)),
};

function hmac(key: SimCryptoKey, data: Bytes): Uint8Array {
  const hash = nodeHash(key.algorithm.hash.name);
  return createHmac(hash, SimCryptoKey.bytesOf(key)).update(bytesOf(data)).digest();
}

export interface SimCrypto {
  readonly subtle: typeof subtle;
  getRandomValues<T extends ArrayBufferView>(view: T): T;
  randomUUID(): string;
}

export function cryptoOf(random: Random): SimCrypto {
  return {
    subtle,
    getRandomValues(view) {
      if (view.byteLength > RANDOM_BYTES_MAX) {
        throw new DOMException(
          "getRandomValues() fills at most 65536 bytes.",
          "QuotaExceededError",
        );
      }
      random.randomize(bytesOf(view));
      return view;
    },
    randomUUID() {
      const bytes = random.bytes(16);
      bytes[6] = (bytes[6]! & 0x0f) | 0x40;
      bytes[8] = (bytes[8]! & 0x3f) | 0x80;
      const hex = Buffer.from(bytes).toString("hex");
      return [
        hex.slice(0, 8),
        hex.slice(8, 12),
        hex.slice(12, 16),
        hex.slice(16, 20),
        hex.slice(20),
      ].join("-");
    },
  };
}
