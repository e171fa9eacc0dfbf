/**
 * A key-value store of the adapters for caches: keys and values of any length up to the server's limit, as records whose
 * names begin with a prefix. Many keys travel in one call, in parts that fit.
 */
import { ThrottrError } from "../../wire/edge/error.ts";
import type { OperationCalls } from "../../wire/edge/operation-calls.ts";
import type { BufferRecord } from "../../wire/edge/records.ts";
import type { BatchCall, BatchOutcome, ThrottrService } from "../../wire/edge/service.ts";
import type { RecordKey } from "../../wire/edge/transfer.ts";
import { valueIn, type Batches, type BoundedCalls } from "./bounded-calls.ts";
import {
  fitsName,
  hashedPrefix,
  mayBeginHashed,
  readRecord,
  recordName,
  storedValue,
  type RecordName,
} from "./record-names.ts";
import { decodeText } from "./text.ts";

/**
 * What a key-value store needs of a server: a client and a service binding both have it.
 *
 * @example
 * const backend: RecordBackend = env.THROTTR;
 */
export type RecordBackend = Pick<OperationCalls, "list" | "exportPage" | "removeAll"> &
  Pick<ThrottrService, "batch">;

/** A value to store. */
export interface Entry {
  readonly key: string;
  readonly value: Uint8Array;
  readonly ttlMs: number;
}

/** The call that tells of a key's change. It travels with the change, behind it. */
export type Telling = (key: string) => BatchCall;

/** Calls of one batch. */
const CALLS_MAX = 1_000;
/** Bytes of values and messages in one batch, 4 MiB, unless a single one has more: half of what a body may have. */
const BYTES_MAX = 4 << 20;
/** How often a listing begins again whose order the server has lost. */
const LISTINGS_MAX = 3;

export class RecordStore {
  readonly #throttr: RecordBackend & Batches;
  readonly #calls: BoundedCalls;

  constructor(throttr: RecordBackend, calls: BoundedCalls) {
    this.#throttr = throttr;
    this.#calls = calls;
  }

  /** The values of keys, in their order; null for an absent one. */
  async getMany(prefix: string, keys: readonly string[]): Promise<(Uint8Array | null)[]> {
    const names = await namesOf(prefix, keys);
    const records = await this.#read(names.map(({ name }) => name));
    return records.map((record, i) => {
      return record === null ? null : readRecord(prefix, names[i]!.name, record.value).value;
    });
  }

  /** Whether there are records under keys. Their values stay at the server. */
  async hasMany(prefix: string, keys: readonly string[]): Promise<boolean[]> {
    const names = await namesOf(prefix, keys);
    const outcomes = await this.#batch(names.map(({ name }) => ["query", name] as const));
    // A counter is asked for, as its reply is short: a record with a value is one of another kind.
    return outcomes.map((outcome) => {
      if (!outcome.ok && outcome.error.code === "kind_mismatch") return true;
      return valueIn(outcome) !== null;
    });
  }

  async setMany(prefix: string, entries: readonly Entry[], telling?: Telling): Promise<void> {
    const keys = entries.map(({ key }) => key);
    const names = await namesOf(prefix, keys);
    const calls = entries.map(({ value, ttlMs }, i): BatchCall => {
      return ["set", names[i]!.name, storedValue(names[i]!, value), { ttlMs }];
    });
    const { changes, told } = await this.#change(keys, calls, telling);
    for (const outcome of [...changes, ...told]) valueIn(outcome);
  }

  /** Which of the keys had a record. */
  async deleteMany(prefix: string, keys: readonly string[], telling?: Telling): Promise<boolean[]> {
    const names = await namesOf(prefix, keys);
    const calls = names.map(({ name }): BatchCall => ["purge", name]);
    const { changes, told } = await this.#change(keys, calls, telling);
    for (const outcome of told) valueIn(outcome);
    return changes.map((outcome) => valueIn(outcome) === true);
  }

  /** Removes all records whose keys begin with `base`. */
  async clear(prefix: string, base = ""): Promise<void> {
    if (base !== "" && mayBeginHashed(base)) {
      await this.deleteMany(prefix, await this.keys(prefix, base));
      return;
    }
    if (fitsName(prefix + base)) {
      await this.#calls.run(async () => await this.#throttr.removeAll(prefix + base));
    }
    if (base === "") return;
    const hashed = await this.#hashedKeys(prefix);
    await this.deleteMany(
      prefix,
      hashed.filter((key) => key.startsWith(base)),
    );
  }

  /** All keys that begin with `base`. */
  async keys(prefix: string, base = ""): Promise<string[]> {
    const names = fitsName(prefix + base) ? await this.#names(prefix + base) : [];
    const plain = names.filter((name) => !name.startsWith(hashedPrefix(prefix)));
    const hashed = await this.#hashedKeys(prefix);
    return [
      ...plain.map((name) => name.slice(prefix.length)),
      ...hashed.filter((key) => key.startsWith(base)),
    ];
  }

  /** All keys with their values, a page after the other. */
  async *entries(prefix: string): AsyncGenerator<[key: string, value: Uint8Array], void> {
    let cursor: RecordKey | null = null;
    do {
      const from: { cursor?: RecordKey } = cursor === null ? {} : { cursor };
      const page = await this.#calls.run(
        async () => await this.#throttr.exportPage({ prefix, ...from }),
      );
      for (const record of page.records) {
        if (!("value" in record)) continue;
        const name = decodeText(record.key as Uint8Array);
        const { key, value } = readRecord(prefix, name, record.value);
        yield [key, value];
      }
      ({ cursor } = page);
    } while (cursor !== null);
  }

  async #hashedKeys(prefix: string): Promise<string[]> {
    const names = await this.#names(hashedPrefix(prefix));
    const records = await this.#read(names);
    return records.flatMap((record, i) =>
      record === null ? [] : [readRecord(prefix, names[i]!, record.value).key],
    );
  }

  /** Names of records with values. A listing whose order was lost begins again. */
  async #names(prefix: string): Promise<string[]> {
    for (let listing = 1; ; listing++) {
      try {
        return await this.#list(prefix);
      } catch (error) {
        const isLost = error instanceof ThrottrError && error.code === "cursor_lost";
        if (!isLost || listing === LISTINGS_MAX) throw error;
      }
    }
  }

  async #list(prefix: string): Promise<string[]> {
    const names: string[] = [];
    let cursor: Uint8Array | null = null;
    do {
      const from: { cursor?: Uint8Array } = cursor === null ? {} : { cursor };
      const page = await this.#calls.run(async () => await this.#throttr.list({ prefix, ...from }));
      for (const { key, kind } of page.records) {
        if (kind === "buffer") names.push(decodeText(key));
      }
      ({ cursor } = page);
    } while (cursor !== null);
    return names;
  }

  /** Reads records. Where their replies are too large for one call, they come in halves. */
  async #read(names: readonly string[]): Promise<(BufferRecord | null)[]> {
    try {
      const outcomes = await this.#batch(names.map((name) => ["get", name] as const));
      return outcomes.map((outcome) => valueIn(outcome) as BufferRecord | null);
    } catch (error) {
      const isTooLarge = error instanceof ThrottrError && error.code === "reply_too_large";
      if (!isTooLarge || names.length < 2) throw error;
      const half = names.length >> 1;
      return [
        ...(await this.#read(names.slice(0, half))),
        ...(await this.#read(names.slice(half))),
      ];
    }
  }

  /**
   * Changes keys. Where not all fit into one batch, each batch tells of its own changes, so that a later one that fails
   * leaves none untold.
   */
  async #change(
    keys: readonly string[],
    calls: readonly BatchCall[],
    telling: Telling | undefined,
  ): Promise<{ changes: BatchOutcome<unknown>[]; told: BatchOutcome<unknown>[] }> {
    const groups = calls.map((call, i) => (telling ? [call, telling(keys[i]!)] : [call]));
    const changes: BatchOutcome<unknown>[] = [];
    const told: BatchOutcome<unknown>[] = [];
    for (const part of partsOf(groups)) {
      const own = part.map(([change]) => change!);
      // Calls of one kind side by side: a body may change between kinds a limited number of times.
      const outcomes = await this.#send([...own, ...part.flatMap(([, ...rest]) => rest)]);
      changes.push(...outcomes.slice(0, own.length));
      told.push(...outcomes.slice(own.length));
    }
    return { changes, told };
  }

  /** Executes calls in order, as many at a time as may go together. */
  async #batch(calls: readonly BatchCall[]): Promise<BatchOutcome<unknown>[]> {
    const outcomes: BatchOutcome<unknown>[] = [];
    for (const part of partsOf(calls.map((call) => [call]))) {
      outcomes.push(...(await this.#send(part.flat())));
    }
    return outcomes;
  }

  async #send(calls: BatchCall[]): Promise<BatchOutcome<unknown>[]> {
    return await this.#calls.run(async (ending) => await this.#throttr.batch(calls, ...ending));
  }
}

async function namesOf(prefix: string, keys: readonly string[]): Promise<RecordName[]> {
  return await Promise.all(keys.map((key) => recordName(prefix, key)));
}

/** Groups of calls that go together, in parts that fit into a batch. */
function partsOf(groups: readonly BatchCall[][]): BatchCall[][][] {
  const parts: BatchCall[][][] = [];
  let calls = Infinity;
  let bytes = Infinity;
  for (const group of groups) {
    const groupBytes = group.reduce((sum, call) => sum + payloadBytes(call), 0);
    calls += group.length;
    bytes += groupBytes;
    const last = parts.at(-1);
    if (last === undefined || calls > CALLS_MAX || bytes > BYTES_MAX) {
      parts.push([group]);
      calls = group.length;
      bytes = groupBytes;
    } else last.push(group);
  }
  return parts;
}

/** Bytes of the value that a call sets, or of the message that it publishes. */
function payloadBytes(call: BatchCall): number {
  const payload: unknown = call[2];
  return payload instanceof Uint8Array ? payload.length : 0;
}
