/** The records of a server that speaks Throttr's own protocol, ours or another. */
import { ThrottrError } from "../../../wire/edge/error.ts";
import type { ExportedRecord, StoredRecord } from "../../../wire/edge/transfer.ts";
import type { Protocol } from "../../../wire/throttr/protocol.ts";
import type { RecordSource } from "../source.ts";
import { NativeConnection, type Address, type ListedKey } from "./connection.ts";

/** Connections that ask for values, beside the one that lists. */
const CONNECTIONS = 4;
/** What a server holds at once of a connection's requests: some lose replies beyond 1,024 of them. */
const REQUESTS_MAX = 250;
/** Some read at most 8,096 bytes at once. */
const REQUEST_BYTES_MAX = 4096;
/** Bytes of a request before its key: type and length. */
const REQUEST_HEADER_BYTES = 2;

/** Which server to read from, and how. */
export interface NativeSettings {
  readonly address: Address;
  readonly protocol: Protocol;
  /** Only keys that begin with it; empty for all. The protocol has no such filter, so it is applied here. */
  readonly prefix: Uint8Array;
  /** How long the server may stay silent, in milliseconds. */
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
}

/** LIST names the records, and QUERY and GET on further connections read their values meanwhile. */
export class NativeSource implements RecordSource {
  readonly hasLeases = false;
  readonly name: string;
  readonly prefix: Uint8Array;
  readonly #settings: NativeSettings;
  /** The largest value of the protocol. */
  readonly #max: bigint;
  /** Records that expired or were removed between LIST and the request for their value. */
  #vanished = 0;
  /** Buffers whose length the size field cannot say: the server refuses to send them. */
  #tooLong = 0;
  /** Counters at the largest value: their quota may have been cut down to it. */
  #saturated = 0;

  constructor(settings: NativeSettings) {
    this.#settings = settings;
    this.#max = (1n << BigInt(8 * settings.protocol.valueSize)) - 1n;
    this.prefix = settings.prefix;
    this.name = `throttr://${settings.address.host}:${settings.address.port}`;
  }

  /** The protocol has no namespaces. */
  namespace(): Promise<string | null> {
    return Promise.resolve(null);
  }

  total(): Promise<number | null> {
    return Promise.resolve(null);
  }

  remarks(): readonly string[] {
    const most = `the maximum of uint${8 * this.#settings.protocol.valueSize}`;
    return [
      ...remark(this.#vanished, "disappeared during the export"),
      ...remark(this.#tooLong, `could not be read: their values are longer than ${most}`),
      ...remark(this.#saturated, `have a quota of ${this.#max}, ${most}: it may be more`),
    ];
  }

  async *pages(): AsyncGenerator<readonly StoredRecord[], void> {
    const [lister, ...askers] = await this.#open();
    try {
      let batches: ListedKey[][] = [];
      for await (const listed of lister!.list()) {
        // LIST is read only as fast as values arrive: its fragments may hold millions of keys.
        for (const entry of listed) this.#gather(batches, entry);
        if (batches.length <= askers.length) continue;
        // The last batch is not full yet.
        yield await this.#values(askers, batches.slice(0, -1));
        batches = batches.slice(-1);
      }
      yield await this.#values(askers, batches);
    } catch (error) {
      throw this.#explained(error);
    } finally {
      for (const connection of [lister!, ...askers]) connection.close();
    }
  }

  /** A client that expects longer fields than the server sends waits for bytes that never come. */
  #explained(error: unknown): unknown {
    if (!(error instanceof ThrottrError) || error.code !== "timeout") return error;
    const size = `uint${8 * this.#settings.protocol.valueSize}`;
    const detail = `${error.detail}: is ${size} the value size of that server (--size)?`;
    return new ThrottrError(error.code, detail, { cause: error });
  }

  /** Opens all connections, or none: one that fails closes the others. */
  async #open(): Promise<NativeConnection[]> {
    const { address, protocol, timeoutMs, signal } = this.#settings;
    const opened = await Promise.allSettled(
      Array.from({ length: 1 + CONNECTIONS }, () =>
        NativeConnection.open(address, protocol, timeoutMs, signal),
      ),
    );
    const failed = opened.find((result) => result.status === "rejected");
    const connections = opened.flatMap((result) =>
      result.status === "fulfilled" ? [result.value] : [],
    );
    if (failed === undefined) return connections;
    for (const connection of connections) connection.close();
    throw failed.reason;
  }

  /**
   * Adds a key to the last batch, or begins a new one when that is full. Keys without the prefix
   * are left out.
   */
  #gather(batches: ListedKey[][], entry: ListedKey): void {
    if (this.#settings.prefix.some((byte, i) => entry.key[i] !== byte)) return;
    const last = batches.at(-1);
    const bytes = last?.reduce((sum, { key }) => sum + REQUEST_HEADER_BYTES + key.length, 0) ?? 0;
    const hasRoom =
      last !== undefined &&
      last.length < REQUESTS_MAX &&
      bytes + REQUEST_HEADER_BYTES + entry.key.length <= REQUEST_BYTES_MAX;
    if (hasRoom) last.push(entry);
    else batches.push([entry]);
  }

  /** Asks for batches, as many at a time as there are connections. */
  async #values(
    askers: readonly NativeConnection[],
    batches: readonly ListedKey[][],
  ): Promise<ExportedRecord[]> {
    const records: ExportedRecord[] = [];
    for (let from = 0; from < batches.length; from += askers.length) {
      const asked = batches.slice(from, from + askers.length);
      const values = await Promise.all(asked.map((batch, i) => askers[i]!.values(batch)));
      records.push(...asked.flatMap((batch, i) => this.#found(batch, values[i]!)));
    }
    return records;
  }

  /** The records that were still there; counts those that were not, by reason. */
  #found(
    batch: readonly ListedKey[],
    values: readonly (ExportedRecord | null)[],
  ): ExportedRecord[] {
    return values.flatMap((record, i) => {
      if (record === null) {
        if (batch[i]!.kind === "buffer" && batch[i]!.bytesUsed === this.#max) this.#tooLong++;
        else this.#vanished++;
        return [];
      }
      // A larger quota is cut down to the largest that the size can say. With 8 bytes nothing is
      // cut.
      const isLargest = record.kind === "counter" && record.quota === this.#max;
      if (isLargest && this.#settings.protocol.valueSize < 8) this.#saturated++;
      return [record];
    });
  }
}

/** A remark for the report; none for a count of 0. */
function remark(count: number, what: string): string[] {
  return count === 0 ? [] : [`${count} records ${what}`];
}
