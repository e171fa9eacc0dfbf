/** The driver of unstorage 1.17: values as records of the server, and changes of them over a channel. */
import { bytesOf, invalid, integerOf, nameOf, type FieldNames } from "../../wire/edge/argument.ts";
import type { OperationCalls } from "../../wire/edge/operation-calls.ts";
import type { ThrottrClient } from "../../client/client.ts";
import { checkFunction } from "../../client/options.ts";
import { optionsOf } from "../../ratelimit/known-options.ts";
import { BoundedCalls, checkBackend, type CallLimits } from "../shared/bounded-calls.ts";
import { ttlMsOf } from "../shared/lifetime.ts";
import { checkPrefix } from "../shared/prefix.ts";
import {
  RecordStore,
  type Entry,
  type RecordBackend,
  type Telling,
} from "../shared/record-store.ts";
import { decodeText } from "../shared/text.ts";
import { Watches, writeChange, type WatchCallback, type WatchEvent } from "./changes.ts";

/**
 * What the driver needs of a server: a client and a service binding both have it.
 *
 * @example
 * const backend: DriverBackend = env.THROTTR;
 */
export type DriverBackend = RecordBackend & Pick<OperationCalls, "publish">;

/**
 * Options of `throttrDriver`.
 *
 * @example
 * const options: ThrottrDriverOptions = { throttr: env.THROTTR, base: "cache", ttl: 3_600 };
 */
export interface ThrottrDriverOptions extends CallLimits {
  /** The server: a client, or the service binding of a Worker. */
  readonly throttr: DriverBackend;
  /** Keys of records begin with it and a colon: 1 to 127 bytes; `unstorage` unless given. */
  readonly base?: string | undefined;
  /** TTL in seconds of values that are set without one: from 1; for ever unless given. */
  readonly ttl?: number | undefined;
  /** Each change is published there, for drivers of the same base that watch: 1 to 255 bytes; nothing is published unless given. */
  readonly channel?: string | undefined;
  /** The client that watches `channel`: service bindings don't subscribe. Without it the storage hears of itself alone. */
  readonly subscriber?: Pick<ThrottrClient, "subscribe"> | undefined;
  /** Called when a watch ends before it was unwatched, such as when its token has expired; unless given, it throws. */
  readonly onWatchError?: ((error: unknown) => void) | undefined;
}

const OPTIONS: FieldNames<ThrottrDriverOptions> = {
  throttr: true,
  base: true,
  ttl: true,
  channel: true,
  subscriber: true,
  onWatchError: true,
  timeoutMs: true,
  clock: true,
};

/** Options of a call; unstorage passes on whatever its caller gives. */
interface TransactionOptions {
  /** In seconds. 0 means that the value has no end, as in the library's driver for Redis; a negative one has ended. */
  readonly ttl?: number | undefined;
}

interface Item {
  readonly key: string;
  readonly options?: TransactionOptions;
}

/**
 * The driver: what `createStorage` and `mount` of unstorage take.
 *
 * @example
 * const driver: ThrottrDriver = throttrDriver({ throttr: env.THROTTR });
 */
export interface ThrottrDriver {
  readonly name: string;
  readonly flags: { readonly ttl: boolean };
  readonly options: ThrottrDriverOptions;
  getInstance(): DriverBackend;
  hasItem(key: string): Promise<boolean>;
  getItem(key: string): Promise<string | null>;
  getItems(items: readonly Item[]): Promise<{ key: string; value: string | null }[]>;
  /** The bytes of a value. */
  getItemRaw(key: string): Promise<Uint8Array | null>;
  setItem(key: string, value: string, options?: TransactionOptions): Promise<void>;
  setItems(
    items: readonly (Item & { readonly value: string })[],
    options?: TransactionOptions,
  ): Promise<void>;
  /** Takes bytes, as an ArrayBuffer or a view of one, or text. */
  setItemRaw(key: string, value: unknown, options?: TransactionOptions): Promise<void>;
  removeItem(key: string): Promise<void>;
  getKeys(base?: string): Promise<string[]>;
  clear(base?: string): Promise<void>;
  /** Absent without `channel` and `subscriber`. */
  watch?: (callback: WatchCallback) => Promise<() => Promise<void>>;
  /** Ends all watches. The client and the other methods stay usable. */
  dispose(): Promise<void>;
}

/** TTL of a value that has ended, as one with a negative TTL in seconds: the shortest. */
const ENDED_MS = 1;

const encoder = new TextEncoder();

/**
 * A driver of unstorage 1.17. Values are text or bytes up to the server's limit. A method takes one call; `getKeys` one for
 * each thousand keys. `clear` needs the scope `admin`.
 *
 * @example
 * import { createStorage } from "unstorage";
 * import { throttrDriver } from "throttr-edge/unstorage";
 *
 * const storage = createStorage({ driver: throttrDriver({ throttr: env.THROTTR }) });
 * await storage.setItem("user:7", { name: "Ada" }, { ttl: 3_600 });
 *
 * @throws RateLimitError `configuration_invalid`, ThrottrError `option_invalid`, `channel_invalid`
 */
export function throttrDriver(options: ThrottrDriverOptions): ThrottrDriver {
  const known = optionsOf(options, OPTIONS);
  const { throttr, base = "unstorage", ttl, ...others } = known;
  const { channel, subscriber, onWatchError = rethrow, ...limits } = others;
  const prefix = checkPrefix(base, "base", ":");
  if (channel !== undefined && nameOf(channel, "channel").length === 0) {
    throw invalid("channel", "1 to 255 bytes", channel);
  }
  checkFunction("onWatchError", onWatchError);
  if (subscriber !== undefined && typeof subscriber?.subscribe !== "function") {
    throw invalid("subscriber", "a ThrottrClient", subscriber, "option_invalid");
  }
  if (ttl !== undefined) integerOf(ttl, "ttl", 1, Number.MAX_SAFE_INTEGER, "option_invalid");
  checkBackend(throttr);
  const store = new RecordStore(throttr, new BoundedCalls(throttr, limits));

  const entryOf = (key: string, value: Uint8Array, given?: TransactionOptions): Entry => {
    const seconds = given?.ttl ?? ttl;
    return {
      key,
      value,
      ttlMs: seconds !== undefined && seconds < 0 ? ENDED_MS : ttlMsOf(seconds),
    };
  };
  const telling = (event: WatchEvent): Telling | undefined => {
    if (channel === undefined) return undefined;
    return (key) => ["publish", channel, encoder.encode(writeChange(event, prefix, key))];
  };
  const watches = new Watches(prefix);
  const set = async (entries: readonly Entry[]): Promise<void> => {
    await store.setMany(prefix, entries, telling("update"));
  };
  const getRaw = async (keys: readonly string[]) => await store.getMany(prefix, keys);

  return {
    name: "throttr",
    flags: { ttl: true },
    options,
    getInstance: () => throttr,
    hasItem: async (key) => (await store.hasMany(prefix, [key]))[0]!,
    getItem: async (key) => textOf((await getRaw([key]))[0]!),
    getItems: async (items) => {
      const values = await getRaw(items.map(({ key }) => key));
      return items.map(({ key }, i) => ({ key, value: textOf(values[i]!) }));
    },
    getItemRaw: async (key) => (await getRaw([key]))[0]!,
    setItem: async (key, value, given) => await set([entryOf(key, bytesOf(value, "value"), given)]),
    setItems: async (items, common) => {
      await set(
        items.map(({ key, value, options: own }) => {
          return entryOf(key, bytesOf(value, "value"), { ...common, ...own });
        }),
      );
    },
    setItemRaw: async (key, value, given) => await set([entryOf(key, rawBytesOf(value), given)]),
    removeItem: async (key) => {
      await store.deleteMany(prefix, [key], telling("remove"));
    },
    getKeys: async (under = "") => await store.keys(prefix, under),
    clear: async (under = "") => {
      if (channel === undefined) await store.clear(prefix, under);
      else {
        // Each key gets a message of its own for watchers, so keys that are set meanwhile stay.
        const keys = await store.keys(prefix, under);
        await store.deleteMany(prefix, keys, telling("remove"));
      }
    },
    ...(channel !== undefined &&
      subscriber !== undefined && {
        watch: async (callback) => {
          // A driver that falls behind learns of the latest changes rather than of none.
          const changes = subscriber.subscribe(channel, { overflow: "drop_oldest" });
          return await watches.open(changes, { callback, onError: onWatchError });
        },
      }),
    dispose: async () => await watches.endAll(),
  };
}

function textOf(value: Uint8Array | null): string | null {
  return value === null ? null : decodeText(value);
}

/**
 * A copy of the bytes: the call is made when the name is known, which may be a hash, and the caller may use its buffer again
 * by then.
 *
 * @throws ThrottrError `value_invalid`
 */
function rawBytesOf(value: unknown): Uint8Array {
  if (typeof value === "string") return bytesOf(value, "value");
  if (value instanceof ArrayBuffer) return new Uint8Array(value).slice();
  if (ArrayBuffer.isView(value)) {
    return new Uint8Array(value.buffer, value.byteOffset, value.byteLength).slice();
  }
  throw invalid("value", "text, an ArrayBuffer or a view of one", value);
}

/** In a turn of its own: the platform reports it as an error that nothing has caught. */
function rethrow(error: unknown): void {
  queueMicrotask(() => {
    throw error;
  });
}
