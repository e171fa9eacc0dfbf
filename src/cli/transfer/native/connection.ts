/**
 * A connection to a server that speaks Throttr's own protocol: LIST, QUERY and GET.
 *
 * Sources: protocol reference, "7.3 layouts" and "7.1 to the letter".
 */
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { ThrottrError } from "../../../wire/edge/error.ts";
import type { ExportedRecord, TtlUnit } from "../../../wire/edge/transfer.ts";
import { encodeRequest } from "../../../wire/throttr/encode.ts";
import { listRowBytes } from "../../../wire/throttr/fragments.ts";
import type { Protocol } from "../../../wire/throttr/protocol.ts";
import { RequestType, STATUS_FAILURE, STATUS_SUCCESS } from "../../../wire/throttr/requests.ts";
import { failureOf, SocketReader, uintAt } from "./socket-reader.ts";

/** By TTL type, from 1 on (protocol reference, "TTL types"). */
const UNITS: readonly TtlUnit[] = ["ns", "us", "ms", "s", "min", "h"];
/** Servers that take any TTL type take an unknown one as this. */
const UNIT_UNLESS_KNOWN: TtlUnit = "s";
/** What 7.1 pushes with; 7.3 has EVENT. */
const PUSH_7_1 = 0x03;
/** Everybody is subscribed to it. */
const EVERYBODY = 0x2a;
/** Servers send fragments of 2 KiB; a far larger count is not a fragment. */
const FRAGMENT_ROWS_MAX = 1 << 20;
/** No server of ours takes more than a part of it. */
const VALUE_BYTES_MAX = 32 << 20;

/** A row of LIST. */
export interface ListedKey {
  readonly key: Uint8Array;
  readonly kind: "counter" | "buffer";
  readonly unit: TtlUnit;
  readonly expiresAtNs: bigint;
  /** Of a buffer: length of its value, or the most that the value size can say. */
  readonly bytesUsed: bigint;
}

/** Where a server listens. */
export interface Address {
  readonly host: string;
  readonly port: number;
}

/** One TCP connection. Requests may be sent ahead: replies come in their order. */
export class NativeConnection {
  /** Written to directly; only the reader reads it. */
  readonly #socket: Socket;
  /** Reads replies field by field, as their lengths are only known from their first bytes. */
  readonly #reader: SocketReader;
  /** Dialect and value size: both ends must agree, as nothing on the wire names them. */
  readonly #protocol: Protocol;

  private constructor(socket: Socket, protocol: Protocol, timeoutMs: number) {
    this.#socket = socket;
    this.#reader = new SocketReader(socket, timeoutMs);
    this.#protocol = protocol;
  }

  /**
   * Connects, and has the server say nothing unasked.
   *
   * @param timeoutMs how long the server may say nothing
   * @throws ThrottrError `connection_failed`, `timeout`, `aborted`, `reply_invalid`
   */
  static async open(
    { host, port }: Address,
    protocol: Protocol,
    timeoutMs: number,
    signal: AbortSignal,
  ): Promise<NativeConnection> {
    // Requests are small and pipelined; Nagle's algorithm would hold them back.
    const socket = connect({ host, port, noDelay: true, signal });
    const connection = new NativeConnection(socket, protocol, timeoutMs);
    socket.setTimeout(timeoutMs);
    try {
      await once(socket, "connect");
      // Some servers push every message of `*` to each connection, between the replies that we read.
      socket.write(Uint8Array.of(RequestType.unsubscribe, 1, EVERYBODY));
      await connection.#status();
      return connection;
    } catch (error) {
      // An open socket would keep the process alive after the command has failed.
      socket.destroy();
      throw failureOf(error);
    }
  }

  close(): void {
    this.#socket.destroy();
  }

  /** All records, a fragment at a time. */
  async *list(): AsyncGenerator<ListedKey[], void> {
    const reader = this.#reader;
    this.#socket.write(Uint8Array.of(RequestType.list));
    // 7.1 has no status, so there is no way to say no either.
    if (this.#protocol.dialect !== "7.1" && (await this.#status()) !== STATUS_SUCCESS) {
      throw new ThrottrError("scope_missing", "the server has refused LIST");
    }
    const fragments = await reader.uint(8);
    for (let i = 1n; i <= fragments; i++) {
      const index = await reader.uint(8);
      const count = await reader.uint(8);
      if (index !== i || count > FRAGMENT_ROWS_MAX) {
        throw replyInvalid(`fragment ${i} of LIST says that it is ${index}, of ${count} rows`);
      }
      yield await this.#fragment(Number(count));
    }
  }

  /**
   * Asks for the values of records; null for a record that has ended since.
   *
   * @param listed few enough that the server holds their requests at once
   */
  async values(listed: readonly ListedKey[]): Promise<(ExportedRecord | null)[]> {
    const frames = listed.map(({ key, kind }) =>
      encodeRequest(this.#protocol, { type: kind === "counter" ? "query" : "get", key }),
    );
    this.#socket.write(Buffer.concat(frames));
    const values: (ExportedRecord | null)[] = [];
    for (const entry of listed) values.push(await this.#value(entry));
    return values;
  }

  /** The rows of a fragment, and behind them their keys. */
  async #fragment(count: number): Promise<ListedKey[]> {
    const rowBytes = listRowBytes(this.#protocol.valueSize);
    const rows = Buffer.from(await this.#reader.read(count * rowBytes));
    const listed: ListedKey[] = [];
    for (let at = 0; at < rows.length; at += rowBytes) {
      listed.push({
        key: Uint8Array.from(await this.#reader.read(rows[at]!)),
        kind: rows[at + 1] === 0 ? "counter" : "buffer",
        unit: UNITS[rows[at + 2]! - 1] ?? UNIT_UNLESS_KNOWN,
        expiresAtNs: uintAt(rows, at + 3, 8),
        bytesUsed: uintAt(rows, at + 11, this.#protocol.valueSize),
      });
    }
    return listed;
  }

  /** The reply to QUERY or GET for a listed record; null if the record is gone. */
  async #value({ key, kind, unit, expiresAtNs }: ListedKey): Promise<ExportedRecord | null> {
    if ((await this.#status()) !== STATUS_SUCCESS) return null;
    const { valueSize } = this.#protocol;
    if (kind === "counter") {
      const fields = await this.#reader.read(2 * valueSize + 1);
      return { key, kind, quota: uintAt(fields, 0, valueSize), unit, expiresAtNs };
    }
    const fields = await this.#reader.read(1 + 2 * valueSize);
    const valueBytes = sizeOf(uintAt(fields, 1 + valueSize, valueSize));
    const value = Uint8Array.from(await this.#reader.read(valueBytes));
    return { key, kind, value, unit, expiresAtNs };
  }

  /** The status of the next reply; pushes before it are passed over. */
  async #status(): Promise<number> {
    const push = this.#protocol.dialect === "7.1" ? PUSH_7_1 : RequestType.event;
    while ((await this.#reader.peek()) === push) await this.#passPush();
    const status = await this.#reader.u8();
    if (status === STATUS_SUCCESS || status === STATUS_FAILURE) return status;
    throw replyInvalid(
      `a reply begins with ${status}: is that the size and the dialect of the server?`,
    );
  }

  /**
   * Reads a push of a channel and drops it: servers subscribe each connection to `*` by themselves.
   */
  async #passPush(): Promise<void> {
    const { valueSize, dialect } = this.#protocol;
    await this.#reader.u8();
    const channelBytes = dialect === "7.1" ? 0 : await this.#reader.u8();
    await this.#reader.read(channelBytes + sizeOf(await this.#reader.uint(valueSize)));
  }
}

/** A size of what is about to be read. */
function sizeOf(bytes: bigint): number {
  if (bytes <= BigInt(VALUE_BYTES_MAX)) return Number(bytes);
  throw replyInvalid(`a value of ${bytes} bytes is announced, at most ${VALUE_BYTES_MAX} are read`);
}

/**
 * The error for bytes that are not in this protocol, most often as the size or the dialect is
 * wrong.
 */
function replyInvalid(detail: string): ThrottrError {
  return new ThrottrError("reply_invalid", detail);
}
