/** Sources of an export: a namespace of this server, or a Throttr server (native/). */
import type { ThrottrClient } from "../../client/client.ts";
import type { CallOptions } from "../../client/calls/call.ts";
import { ThrottrError } from "../../wire/edge/error.ts";
import type { LeasePage, StoredLease } from "../../wire/edge/lease-transfer.ts";
import type { ExportPage, RecordKey } from "../../wire/edge/transfer.ts";
import { isLease, isPair, type Entry } from "./format.ts";

export interface RecordSource {
  /** Address of the source, without credentials. */
  readonly name: string;
  /** Only keys, consumers of pairs and names of semaphores that begin with it; empty for all. */
  readonly prefix: Uint8Array;
  /** Leases follow the records. */
  readonly hasLeases: boolean;
  /** The namespace of the records; null where it is not known. @throws ThrottrError */
  namespace(): Promise<string | null>;
  /** Approximate number of records, for the progress bar; null if unknown. */
  total(): Promise<number | null>;
  /** The records and then the leases, a page at a time. */
  pages(): AsyncIterable<readonly Entry[]>;
  /** Surprises that a person should know of, such as records that were skipped. */
  remarks(): readonly string[];
}

/** The namespace to read, and from where on. */
export interface EdgeSettings {
  readonly client: ThrottrClient;
  readonly call: CallOptions;
  /** Address of the server, without credentials. */
  readonly name: string;
  /** Only keys, consumers of pairs and names of semaphores that begin with it; empty for all. */
  readonly prefix: Uint8Array;
  /** Tells the namespace; null where it is not known. */
  readonly namespace: () => Promise<string | null>;
  /** The record or lease after which to continue; null for the start. */
  readonly after: Entry | null;
  /** Whether leases follow. */
  readonly hasLeases: boolean;
}

/** The records of a namespace: first those under keys, then those under pairs, then leases if they are asked for. */
export class EdgeSource implements RecordSource {
  readonly name: string;
  readonly prefix: Uint8Array;
  readonly hasLeases: boolean;
  readonly #settings: EdgeSettings;

  constructor(settings: EdgeSettings) {
    this.#settings = settings;
    this.name = settings.name;
    this.prefix = settings.prefix;
    this.hasLeases = settings.hasLeases;
  }

  namespace(): Promise<string | null> {
    return this.#settings.namespace();
  }

  async total(): Promise<number | null> {
    if (this.#settings.prefix.length > 0) return null;
    const { keys } = await this.#settings.client.info(this.#settings.call);
    return keys;
  }

  async *pages(): AsyncGenerator<readonly Entry[], void> {
    const { after } = this.#settings;
    // Before the records, so that a missing scope, or a server that has no such call, is found at once.
    if (this.hasLeases) await this.#assertLeases();
    if (after === null || !isLease(after)) {
      const key = after?.key ?? null;
      if (key === null || !isPair(key)) yield* this.#pagesOf(false, key);
      yield* this.#pagesOf(true, key !== null && isPair(key) ? key : null);
    }
    if (this.hasLeases) yield* this.#leases(after !== null && isLease(after) ? after : null);
  }

  /** @throws ThrottrError if the server can't or must not export leases to this caller */
  async #assertLeases(): Promise<void> {
    try {
      await this.#settings.client.exportLeases({ ...this.#settings.call, limit: 1 });
    } catch (error) {
      throw unlessUnknown(error, "export leases: update it to 0.5, or leave out --leases");
    }
  }

  async *#leases(after: StoredLease | null): AsyncGenerator<readonly Entry[], void> {
    const { client, call, prefix } = this.#settings;
    const pageAfter = (lease: StoredLease | null): Promise<LeasePage> =>
      client.exportLeases({ ...call, prefix, ...(lease !== null && { cursor: lease }) });
    let next: Promise<LeasePage> | null = pageAfter(after);
    while (next !== null) {
      const { leases, cursor }: LeasePage = await next;
      next = cursor === null ? null : pageAfter(cursor);
      next?.catch(() => {});
      if (leases.length > 0) yield leases;
    }
  }

  remarks(): readonly string[] {
    return [];
  }

  /** The pages of one kind of keys. A cursor is a key: the next page goes on behind it. */
  async *#pagesOf(pairs: boolean, after: RecordKey | null): AsyncGenerator<readonly Entry[], void> {
    let next: Promise<ExportPage> | null = this.#page(pairs, after);
    while (next !== null) {
      const { records, cursor }: ExportPage = await next;
      // Ask for the next page while this one is written to disk.
      next = cursor === null ? null : this.#page(pairs, cursor);
      next?.catch(() => {});
      if (records.length > 0) yield records;
    }
  }

  /** Asks for the page after a key. */
  #page(pairs: boolean, after: RecordKey | null): Promise<ExportPage> {
    const { client, call, prefix } = this.#settings;
    return client.exportPage({ ...call, prefix, pairs, ...(after !== null && { cursor: after }) });
  }
}

/** The error of a call that a server may lack, in words of the command line; any other error as it is. */
export function unlessUnknown(error: unknown, what: string): ThrottrError {
  const failure = ThrottrError.from(error);
  if (failure.code !== "request_type_unknown") return failure;
  return new ThrottrError("request_type_unknown", `the server cannot ${what}`);
}
