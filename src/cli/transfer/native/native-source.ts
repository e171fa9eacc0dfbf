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
/** And some read no more than 8,096 bytes at once. */
const REQUEST_BYTES_MAX = 4096;
const REQUEST_HEADER_BYTES = 2;

export class NativeSource implements RecordSource {
  readonly name: string;
  readonly #address: Address;
  readonly #protocol: Protocol;
  readonly #prefix: Uint8Array;
  readonly #timeoutMs: number;
  readonly #signal: AbortSignal;
  /** The largest value of the protocol. */
  readonly #max: bigint;
  #vanished = 0;
  #tooLong = 0;
  #saturated = 0;

  constructor(
    address: Address,
    protocol: Protocol,
    prefix: Uint8Array,
    timeoutMs: number,
    signal: AbortSignal,
  ) {
    this.#address = address;
    this.#protocol = protocol;
    this.#prefix = prefix;
    this.#timeoutMs = timeoutMs;
    this.#signal = signal;
    this.#max = (1n << BigInt(8 * protocol.valueSize)) - 1n;
    this.name = `throttr://${address.host}:${address.port}`;
  }

  total(): Promise<number | null> {
    return Promise.resolve(null);
  }

  remarks(): readonly string[] {
    const most = `the most that uint${8 * this.#protocol.valueSize} can say`;
    return [
      ...remark(this.#vanished, "went while the export ran"),
      ...remark(this.#tooLong, `could not be read: their values are longer than ${most}`),
      ...remark(this.#saturated, `have a quota of ${this.#max}, ${most}: it may be more`),
    ];
  }

  async *pages(): AsyncGenerator<readonly StoredRecord[], void> {
    const [lister, ...askers] = await this.#open();
    try {
      let batches: ListedKey[][] = [];
      for await (const listed of lister!.list()) {
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

  /** Whoever expects longer fields than the server sends waits for what never comes. */
  #explained(error: unknown): unknown {
    if (!(error instanceof ThrottrError) || error.code !== "timeout") return error;
    const size = `uint${8 * this.#protocol.valueSize}`;
    const detail = `${error.detail}: is ${size} the value size of that server (--size)?`;
    return new ThrottrError(error.code, detail, { cause: error });
  }

  async #open(): Promise<NativeConnection[]> {
    const opened = await Promise.allSettled(
      Array.from({ length: 1 + CONNECTIONS }, () =>
        NativeConnection.open(this.#address, this.#protocol, this.#timeoutMs, this.#signal),
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

  #gather(batches: ListedKey[][], entry: ListedKey): void {
    if (this.#prefix.some((byte, i) => entry.key[i] !== byte)) return;
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
      const isLargest = record.kind === "counter" && record.quota === this.#max;
      if (isLargest && this.#protocol.valueSize < 8) this.#saturated++;
      return [record];
    });
  }
}

function remark(count: number, what: string): string[] {
  return count === 0 ? [] : [`${count} records ${what}`];
}
