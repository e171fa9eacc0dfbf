/**
 * What a group of channels has on disk: tables of joins, numbers and kept messages, and a head.
 *
 * Nothing is written before there is something to keep: a group that is only published to stays empty.
 */
import { binaryString } from "../../wire/bytes.ts";
import { ThrottrError } from "../../wire/edge/error.ts";

// Another format is refused: an older or newer release may be deployed for it.
const FORMAT = 1;
const HEAD = "group";

/** What is stored of the group as a whole, under one key. */
interface Head {
  readonly format: number;
  /** No number above this one has been used. */
  readonly high: number;
  /** The stored numbers of all channels are exact; else each may have been used up to `high`. */
  readonly isSettled: boolean;
}

/** Names are bytes; one in front, as a blob must not be empty to be told from null. */
const TABLES = `
  CREATE TABLE IF NOT EXISTS joins (name BLOB, hub TEXT, PRIMARY KEY (name, hub)) WITHOUT ROWID;
  CREATE TABLE IF NOT EXISTS numbers
    (name BLOB PRIMARY KEY, sequence INTEGER, used_at_ms INTEGER) WITHOUT ROWID;
  CREATE TABLE IF NOT EXISTS messages
    (name BLOB, slot INTEGER, first INTEGER, count INTEGER, bytes INTEGER, at_ms INTEGER,
     messages BLOB, PRIMARY KEY (name, slot)) WITHOUT ROWID;
`;

/** Of one group. It knows tables, and not what they are for. */
export class GroupStore {
  readonly storage: DurableObjectStorage;
  #head: Head | null;

  /** @throws Error `format_unknown` when a newer release has written the data */
  constructor(storage: DurableObjectStorage) {
    this.storage = storage;
    this.#head = storage.kv.get<Head>(HEAD) ?? null;
    if (this.#head !== null && this.#head.format !== FORMAT) {
      throw new ThrottrError(
        "format_unknown",
        `the group has format ${this.#head.format}, and this release reads format ${FORMAT}: run the release that wrote it`,
      );
    }
  }

  /** The high mark that is stored; 0 where nothing is. */
  get high(): number {
    return this.#head?.high ?? 0;
  }

  /** The stored numbers are exact; true where nothing is stored. */
  get isSettled(): boolean {
    return this.#head?.isSettled ?? true;
  }

  /** The head is a key of the key-value store, so that reading it makes no tables in an object that stays empty. */
  storeHead(high: number, isSettled: boolean): void {
    this.#prepare();
    this.#putHead({ format: FORMAT, high, isSettled });
  }

  /** Rows of a table; none where nothing has been stored. */
  rows<Row extends Record<string, SqlStorageValue>>(
    query: string,
    ...bindings: (ArrayBuffer | string | number)[]
  ): Row[] {
    return this.#head === null ? [] : this.storage.sql.exec<Row>(query, ...bindings).toArray();
  }

  /** Executes a statement that writes, and creates missing tables first. */
  write(query: string, ...bindings: (ArrayBuffer | string | number)[]): void {
    this.#prepare();
    this.storage.sql.exec(query, ...bindings);
  }

  /**
   * Deletes what the group has stored.
   *
   * @param isAll deletes everything else, too: an object without storage costs nothing while it sleeps
   */
  async clear(isAll: boolean): Promise<void> {
    if (isAll) {
      await this.storage.deleteAll();
    } else if (this.#head !== null) {
      // All or nothing: a group with a head and without its tables could not start again.
      this.storage.transactionSync(() => {
        for (const table of ["joins", "numbers", "messages"])
          this.storage.sql.exec(`DROP TABLE ${table}`);
        this.storage.kv.delete(HEAD);
      });
    }
    this.#head = null;
  }

  /** Makes the tables and the head with the first write: an object without storage is not billed for any. */
  #prepare(): void {
    if (this.#head !== null) return;
    this.storage.sql.exec(TABLES);
    this.#putHead({ format: FORMAT, high: 0, isSettled: true });
  }

  /** Known only once it is written: a full disk refuses it, and a group without a head takes its rows for none after a restart. */
  #putHead(head: Head): void {
    this.storage.kv.put(HEAD, head);
    this.#head = head;
  }
}

/** @param channel as a binary string */
export function blobOf(channel: string): ArrayBuffer {
  const bytes = new Uint8Array(channel.length + 1);
  for (let i = 0; i < channel.length; i++) bytes[i + 1] = channel.charCodeAt(i);
  return bytes.buffer;
}

/** The channel of a blob that `blobOf` has made, as a binary string. */
export function channelOfBlob(blob: ArrayBuffer): string {
  return binaryString(new Uint8Array(blob), 1, blob.byteLength - 1);
}
