/** The secondary storage of better-auth: sessions, verification values and counters as records of the server. */
import type { FieldNames } from "../../wire/edge/argument.ts";
import { ThrottrError } from "../../wire/edge/error.ts";
import type { OperationCalls } from "../../wire/edge/operation-calls.ts";
import type { BufferRecord, CounterRecord } from "../../wire/edge/records.ts";
import type { ThrottrService } from "../../wire/edge/service.ts";
import { optionsOf } from "../../ratelimit/known-options.ts";
import {
  BoundedCalls,
  checkBackend,
  valueIn,
  type Batches,
  type CallLimits,
  type Ending,
} from "../shared/bounded-calls.ts";
import { ttlMsOf } from "../shared/lifetime.ts";
import { checkPrefix, recordKey } from "../shared/prefix.ts";
import { decodeText } from "../shared/text.ts";

/**
 * What the storage needs of a server: a client and a service binding both have it.
 *
 * @example
 * const backend: StorageBackend = env.THROTTR;
 */
export type StorageBackend = Pick<OperationCalls, "get" | "query" | "set" | "purge" | "increment"> &
  Pick<ThrottrService, "batch">;

/**
 * Options of `secondaryStorage`.
 *
 * @example
 * const options: SecondaryStorageOptions = { throttr: env.THROTTR, prefix: "auth:" };
 */
export interface SecondaryStorageOptions extends CallLimits {
  readonly throttr: StorageBackend;
  /**
   * Keys of records begin with it: 1 to 128 bytes; `better-auth:` unless given. No prefix of one namespace may begin with another one:
   * nothing ends it, so that `a` with the key `bc` and `ab` with `c` are one record.
   */
  readonly prefix?: string | undefined;
}

const OPTIONS: FieldNames<SecondaryStorageOptions> = {
  throttr: true,
  prefix: true,
  timeoutMs: true,
  clock: true,
};

const PREFIX = "better-auth:";

/**
 * `SecondaryStorage` of better-auth 1.7. Its functions need no `this`.
 *
 * @example
 * const storage: SecondaryStorage = secondaryStorage({ throttr: env.THROTTR });
 * const isFirst = (await storage.increment("invitation:7", 3_600)) === 1;
 */
export interface SecondaryStorage {
  /** The text under a key, or the count in decimal digits; null for a key without a record. */
  readonly get: (key: string) => Promise<string | null>;
  /** Removes what is under a key, and gives it: of several callers to one of them only. */
  readonly getAndDelete: (key: string) => Promise<string | null>;
  /** Adds 1 to a counter, or creates it with 1 and the TTL in seconds, 0 being 1; a counter that exists keeps its end. */
  readonly increment: (key: string, ttl: number) => Promise<number>;
  /** Sets a text for a TTL in seconds, 0 being 1; for a hundred years without one. */
  readonly set: (key: string, value: string, ttl?: number) => Promise<void>;
  readonly delete: (key: string) => Promise<void>;
}

/**
 * `secondaryStorage` of better-auth 1.7. Each function is one call to the server, but for `get` of a counter, which is two.
 * A text has at most 1,800,000 bytes, or fewer where the server's `FRAME_BYTES_MAX`, 1 MiB unless set, says so.
 *
 * A key holds text or a counter: `set` of a counter, and `increment` of text, reject with `kind_mismatch`.
 *
 * @example
 * import { betterAuth } from "better-auth";
 * import { secondaryStorage } from "throttr-edge/better-auth";
 *
 * const auth = betterAuth({ secondaryStorage: secondaryStorage({ throttr: env.THROTTR }) });
 *
 * @throws RateLimitError `configuration_invalid`, ThrottrError `option_invalid`
 */
export function secondaryStorage(options: SecondaryStorageOptions): SecondaryStorage {
  const { prefix: given = PREFIX, ...limits } = optionsOf(options, OPTIONS);
  const throttr: StorageBackend & Batches = checkBackend(options.throttr);
  const prefix = checkPrefix(given);
  const calls = new BoundedCalls(throttr, limits);

  async function call<Result>(
    key: string,
    run: (record: string, ending: Ending) => Promise<Result>,
  ): Promise<Result> {
    const record = await recordKey(prefix, key);
    return await calls.run(async (ending) => await run(record, ending));
  }

  async function read(record: string): Promise<string | null> {
    try {
      return textOf(await throttr.get(record));
    } catch (error) {
      if (!isMismatch(ThrottrError.from(error))) throw error;
    }
    return countOf(await throttr.query(record));
  }

  /** The three run in order in the shard, and only one caller finds that its call has removed the record. */
  async function take(record: string, ending: Ending): Promise<string | null> {
    const [text, count, removed] = await throttr.batch(
      [
        ["get", record],
        ["query", record],
        ["purge", record],
      ],
      ...ending,
    );
    if (!valueIn(removed)) return null;
    if (!text.ok && isMismatch(text.error)) return countOf(valueIn(count));
    return textOf(valueIn(text));
  }

  return {
    get: async (key) => await call(key, read),
    getAndDelete: async (key) => await call(key, take),
    increment: async (key, ttl) => {
      const ttlMs = lifetimeMsOf(ttl);
      const count = await call(key, async (record, [ending]) => {
        return await throttr.increment(record, { ttlMs, ...ending });
      });
      return Number(count);
    },
    set: async (key, value, ttl) => {
      const ttlMs = lifetimeMsOf(ttl);
      await call(key, async (record, [ending]) => {
        await throttr.set(record, value, { ttlMs, ...ending });
      });
    },
    delete: async (key) => {
      await call(key, async (record) => await throttr.purge(record));
    },
  };
}

/** better-auth rounds what is left of a lifetime down to seconds: 0 ends within a second, and is not a value that stays. */
function lifetimeMsOf(ttl: number | null | undefined): number {
  return ttlMsOf(ttl != null && ttl <= 0 ? 1 : ttl);
}

function isMismatch({ code }: { readonly code: string }): boolean {
  return code === "kind_mismatch";
}

function textOf(buffer: BufferRecord | null): string | null {
  return buffer === null ? null : decodeText(buffer.value);
}

function countOf(counter: CounterRecord | null): string | null {
  return counter === null ? null : String(counter.quota);
}
