/** The storage adapter of Keyv 5, which Keyv 6 takes as it is. */
import type { FieldNames } from "../../wire/edge/argument.ts";
import { bytesOf, invalid } from "../../wire/edge/argument.ts";
import { optionsOf } from "../../ratelimit/known-options.ts";
import { BoundedCalls, checkBackend, type CallLimits } from "../shared/bounded-calls.ts";
import { FOREVER_MS } from "../shared/lifetime.ts";
import { checkPrefix } from "../shared/prefix.ts";
import { HASHABLE_PREFIX_BYTES_MAX } from "../shared/record-names.ts";
import { RecordStore, type Entry, type RecordBackend } from "../shared/record-store.ts";
import { decodeText } from "../shared/text.ts";

/**
 * Options of `KeyvThrottr`.
 *
 * @example
 * const options: KeyvThrottrOptions = { throttr: env.THROTTR, prefix: "cache:" };
 */
export interface KeyvThrottrOptions extends CallLimits {
  /** The server: a client, or the service binding of a Worker. */
  readonly throttr: RecordBackend;
  /**
   * Keys of records begin with it: 1 to 128 bytes; `keyv:` unless given. No prefix of one namespace may begin with another one:
   * nothing ends it, so that `a` with the key `bc` and `ab` with `c` are one record.
   */
  readonly prefix?: string | undefined;
}

const OPTIONS: FieldNames<KeyvThrottrOptions> = {
  throttr: true,
  prefix: true,
  timeoutMs: true,
  clock: true,
};

/** An entry as Keyv gives it. */
interface KeyvEntry {
  readonly key: string;
  readonly value: unknown;
  readonly ttl?: number | undefined;
}

const encoder = new TextEncoder();

/**
 * A store for Keyv 5 and 6. Values are the text that Keyv makes of them, up to the server's limit; they end on time, at the
 * server. A method takes one call, the iterator one for each MiB; many values go in calls of 4 MiB.
 *
 * Create one for each Keyv, which writes its namespace into the store and adds a listener that the store keeps.
 *
 * A call that fails rejects with a ThrottrError, which Keyv emits as `error`; `getMany`, `has`, `hasMany` and `iterator` of
 * Keyv 5 reject with it instead. `clear` needs the scope `admin`.
 *
 * @example
 * import { Keyv } from "keyv";
 * import { KeyvThrottr } from "throttr-edge/keyv";
 *
 * const cache = new Keyv({ store: new KeyvThrottr({ throttr: env.THROTTR }), namespace: "pages" });
 * await cache.set("/home", html, 60_000);
 */
export class KeyvThrottr {
  /** Set by Keyv. */
  namespace: string | undefined = undefined;
  readonly #prefix: string;
  readonly #store: RecordStore;
  readonly #errorListeners: ((error: unknown) => void)[] = [];
  #isOfKeyv5 = false;

  /** @throws RateLimitError `configuration_invalid`, ThrottrError `option_invalid` */
  constructor(options: KeyvThrottrOptions) {
    const { throttr, prefix = "keyv:", ...limits } = optionsOf(options, OPTIONS);
    this.#prefix = checkPrefix(prefix);
    checkBackend(throttr);
    this.#store = new RecordStore(throttr, new BoundedCalls(throttr, limits));
  }

  /**
   * Keyv 5 offers `iterator` for stores with a dialect that it knows only, so this store names one. Keyv 6 never reads this,
   * and that is all that tells the two from each other.
   */
  get opts(): Record<string, unknown> {
    this.#isOfKeyv5 = true;
    return { dialect: "redis", url: "" };
  }

  async get<Value>(key: string): Promise<Value | undefined> {
    try {
      return (await this.getMany<Value>([key]))[0];
    } catch (error) {
      // Keyv 5 takes a `get` that rejects for a miss, and relies on the store to emit the error. Keyv 6 emits it itself.
      if (this.#isOfKeyv5) for (const listener of this.#errorListeners) listener(error);
      throw error;
    }
  }

  async getMany<Value>(keys: string[]): Promise<(Value | undefined)[]> {
    const values = await this.#store.getMany(this.#prefixOf(this.namespace), keys);
    return values.map((value) => (value === null ? undefined : (decodeText(value) as Value)));
  }

  /** @param ttl in ms; for ever without one */
  async set(key: string, value: unknown, ttl?: number): Promise<boolean> {
    await this.setMany([{ key, value, ttl }]);
    return true;
  }

  async setMany(entries: KeyvEntry[]): Promise<void> {
    await this.#store.setMany(this.#prefixOf(this.namespace), entries.map(entryOf));
  }

  /** True if there was such a record. */
  async delete(key: string): Promise<boolean> {
    return await this.deleteMany([key]);
  }

  /** True if there was a record of each key. */
  async deleteMany(keys: string[]): Promise<boolean> {
    const deleted = await this.#store.deleteMany(this.#prefixOf(this.namespace), keys);
    return deleted.every(Boolean);
  }

  /** Removes the records of the namespace; those of all namespaces when none is set. */
  async clear(): Promise<void> {
    const { namespace } = this;
    await this.#store.clear(namespace == null ? this.#prefix : this.#prefixOf(namespace));
  }

  async has(key: string): Promise<boolean> {
    return (await this.hasMany([key]))[0]!;
  }

  async hasMany(keys: string[]): Promise<boolean[]> {
    return await this.#store.hasMany(this.#prefixOf(this.namespace), keys);
  }

  /** Keys and values of a namespace: that of the store unless given. */
  async *iterator<Value>(
    namespace = this.namespace,
  ): AsyncGenerator<(string | Awaited<Value> | undefined)[], void> {
    for await (const [key, value] of this.#store.entries(this.#prefixOf(namespace))) {
      yield [key, decodeText(value) as Awaited<Value>];
    }
  }

  /** Keyv listens for `error`, which `get` emits for Keyv 5. There are no other events. */
  on(event: string, listener: (...given: unknown[]) => void): this {
    if (event === "error") this.#errorListeners.push(listener);
    return this;
  }

  /**
   * No namespace begins like another one: its colons are escaped.
   *
   * @throws ThrottrError `namespace_invalid` where it leaves no room for the hash of a key
   */
  #prefixOf(given: string | null | undefined): string {
    const namespace = given ?? "";
    const bytesMax = HASHABLE_PREFIX_BYTES_MAX - byteLengthOf(`${this.#prefix}:`);
    if (typeof namespace === "string" && namespace.isWellFormed()) {
      const escaped = namespace.replaceAll("%", "%25").replaceAll(":", "%3A");
      if (byteLengthOf(escaped) <= bytesMax) return `${this.#prefix}${escaped}:`;
    }
    const expected = `well-formed text of at most ${bytesMax} bytes, 3 for each % and colon`;
    throw invalid("namespace", expected, namespace);
  }
}

const byteLengthOf = (text: string): number => encoder.encode(text).length;

/** @throws ThrottrError `value_invalid` */
function entryOf({ key, value, ttl }: KeyvEntry): Entry {
  if (typeof value !== "string") {
    throw invalid("value", "text: let Keyv serialize values", value);
  }
  return { key, value: bytesOf(value, "value"), ttlMs: ttlMsOf(ttl) };
}

function ttlMsOf(ttl: number | undefined): number {
  if (ttl === undefined || ttl === 0) return FOREVER_MS;
  return Math.min(Math.max(1, Math.ceil(ttl)), FOREVER_MS);
}
