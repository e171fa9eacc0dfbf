/** Sources of an export: a namespace of this server, or a Throttr server (native/). */
import type { ThrottrClient } from "../../client/client.ts";
import type { CallOptions } from "../../client/calls/call.ts";
import type { ExportedKey, ExportPage, RecordKey, StoredRecord } from "../../wire/edge/transfer.ts";
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

/** The records of a namespace: first those under keys, then those under pairs. */
export class EdgeSource implements RecordSource {
  readonly name: string;
  readonly #client: ThrottrClient;
  readonly #call: CallOptions;
  readonly #prefix: Uint8Array;
  readonly #after: RecordKey | null;

  /** @param after the key after which to continue; null for the start */
  constructor(
    client: ThrottrClient,
    call: CallOptions,
    name: string,
    prefix: Uint8Array,
    after: RecordKey | null,
  ) {
    this.#client = client;
    this.#call = call;
    this.name = name;
    this.#prefix = prefix;
    this.#after = after;
  }

  async total(): Promise<number | null> {
    if (this.#prefix.length > 0) return null;
    const { keys } = await this.#client.info(this.#call);
    return keys;
  }

  async *pages(): AsyncGenerator<readonly StoredRecord[], void> {
    const after = this.#after;
    if (after === null || !isPair(after)) yield* this.#pagesOf(false, after);
    yield* this.#pagesOf(true, after !== null && isPair(after) ? after : null);
  }

  remarks(): readonly string[] {
    return [];
  }

  async *#pagesOf(
    pairs: boolean,
    after: RecordKey | null,
  ): AsyncGenerator<readonly StoredRecord[], void> {
    let next: Promise<ExportPage> | null = this.#page(pairs, after);
    while (next !== null) {
      const { records, cursor }: { records: readonly StoredRecord[]; cursor: ExportedKey | null } =
        await next;
      // Ask for the next page while this one is written to disk.
      next = cursor === null ? null : this.#page(pairs, cursor);
      next?.catch(() => {});
      if (records.length > 0) yield records;
    }
  }

  #page(pairs: boolean, after: RecordKey | null): Promise<ExportPage> {
    const cursor = after === null ? {} : { cursor: after };
    return this.#client.exportPage({ ...this.#call, prefix: this.#prefix, pairs, ...cursor });
  }
}
