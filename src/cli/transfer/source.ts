/** Sources of an export: a namespace of this server, or a Throttr server (native/). */
import type { ThrottrClient } from "../../client/client.ts";
import type { CallOptions } from "../../client/calls/call.ts";
import type { ExportPage, RecordKey, StoredRecord } from "../../wire/edge/transfer.ts";
import { isPair } from "./format.ts";

export interface RecordSource {
  /** Address of the source, without credentials. */
  readonly name: string;
  /** Approximate number of records, for the progress bar; null if unknown. */
  total(): Promise<number | null>;
  /** The records, a page at a time. */
  pages(): AsyncIterable<readonly StoredRecord[]>;
  /** Surprises that a person should know of, such as records that were skipped. */
  remarks(): readonly string[];
}

/** The namespace to read, and from where on. */
export interface EdgeSettings {
  readonly client: ThrottrClient;
  readonly call: CallOptions;
  /** Address of the server, without credentials. */
  readonly name: string;
  /** Only keys, and consumers of pairs, that begin with it; empty for all. */
  readonly prefix: Uint8Array;
  /** The key after which to continue; null for the start. */
  readonly after: RecordKey | null;
}

/** The records of a namespace: first those under keys, then those under pairs. */
export class EdgeSource implements RecordSource {
  readonly name: string;
  readonly #settings: EdgeSettings;

  constructor(settings: EdgeSettings) {
    this.#settings = settings;
    this.name = settings.name;
  }

  async total(): Promise<number | null> {
    if (this.#settings.prefix.length > 0) return null;
    const { keys } = await this.#settings.client.info(this.#settings.call);
    return keys;
  }

  async *pages(): AsyncGenerator<readonly StoredRecord[], void> {
    const after = this.#settings.after;
    if (after === null || !isPair(after)) yield* this.#pagesOf(false, after);
    yield* this.#pagesOf(true, after !== null && isPair(after) ? after : null);
  }

  remarks(): readonly string[] {
    return [];
  }

  /** The pages of one kind of keys. A cursor is a key: the next page goes on behind it. */
  async *#pagesOf(
    pairs: boolean,
    after: RecordKey | null,
  ): AsyncGenerator<readonly StoredRecord[], void> {
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
