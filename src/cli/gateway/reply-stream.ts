/** The stream of replies from a server: which requests have been answered, whatever way it is cut. */
import { COMMANDS_START, STATUS_ERROR } from "../../wire/edge/command.ts";
import { CONNECTION_ROW_BYTES } from "../../wire/throttr/connection-row.ts";
import { listRowBytes } from "../../wire/throttr/fragments.ts";
import { INFO_BYTES } from "../../wire/throttr/info.ts";
import type { Protocol } from "../../wire/throttr/protocol.ts";
import { RequestType, STATUS_FAILURE, STATUS_SUCCESS } from "../../wire/throttr/requests.ts";
import { HEADER_BYTES, Opcode, REPLY_MAGIC, Status } from "../../wire/yrmcds/protocol.ts";
import { readU32 } from "../../wire/yrmcds/big-endian.ts";
import type { ByteFifo } from "./byte-fifo.ts";
import { Pieces } from "./pieces.ts";
import type { SpokenProtocol } from "./spoken.ts";

export interface ReplyStream {
  /**
   * Reads the next bytes.
   *
   * @throws ReplyMismatch when they are no replies to what was asked
   */
  read(bytes: Uint8Array): void;
}

/** A whole reply has come, of so many bytes: its request is to be taken from the queue. */
export type OnReply = (bytes: number) => void;

export class ReplyMismatch extends Error {
  override readonly name = "ReplyMismatch";
}

/**
 * Can replies be followed? Not those of 7.1: some have no status, and may begin like a push.
 *
 * @param asked kinds of the requests without a reply
 */
export function replyStreamOf(
  protocol: SpokenProtocol,
  asked: ByteFifo,
  onReply: OnReply,
): ReplyStream | null {
  if (protocol === "yrmcds") return new YrmcdsReplies(asked, onReply);
  return protocol.dialect === "7.1" ? null : new ThrottrReplies(protocol, asked, onReply);
}

const U64_BYTES = 8;
const U32_BYTES = 4;
const STAT_BYTES = 4 * U64_BYTES;
const ID_BYTES = 16;
const STATS_ROW_BYTES = 1 + STAT_BYTES;
const CHANNELS_ROW_BYTES = 1 + 3 * U64_BYTES;
const SUBSCRIBER_ROW_BYTES = ID_BYTES + 3 * U64_BYTES;
/** Index and rows of a fragment. */
const FRAGMENT_HEADER_BYTES = 2 * U64_BYTES;

/** Rows of an answer in fragments. Names stand behind the rows; the first byte of a row says how long. */
interface Rows {
  readonly rowBytes: number;
  readonly hasNames: boolean;
}

/** The header that comes next. */
const Next = {
  reply: 0,
  push: 1,
  value: 2,
  body: 3,
  subscribers: 4,
  fragments: 5,
  fragment: 6,
  row: 7,
  /** None: the reply ends. */
  end: 8,
} as const;
type Next = (typeof Next)[keyof typeof Next];

/** Source: protocol reference, "7.3 layouts"; of commands, `wire/edge/command.ts`. */
class ThrottrReplies implements ReplyStream {
  readonly #asked: ByteFifo;
  readonly #onReply: OnReply;
  readonly #valueSize: number;
  readonly #statusAt: number;
  /** Bytes behind the status of a success, by the type of the request, where they are always as many. */
  readonly #fixedBytes = new Uint16Array(256);
  readonly #rows: readonly (Rows | undefined)[];
  readonly #pieces: Pieces;
  #next: Next = Next.reply;
  /** Of the reply under way, as far as it is known. */
  #replyBytes: number;
  #fragments = 0;
  #rowsOfFragment: Rows = { rowBytes: 1, hasNames: false };
  #rowsLeft = 0;
  #nameBytes = 0;

  constructor({ valueSize, requestIdBytes }: Protocol, asked: ByteFifo, onReply: OnReply) {
    this.#asked = asked;
    this.#onReply = onReply;
    this.#valueSize = valueSize;
    this.#statusAt = requestIdBytes;
    this.#replyBytes = requestIdBytes + 1;
    this.#pieces = new Pieces((bytes, at) => this.#take(bytes, at), requestIdBytes + 1);
    this.#fixedBytes[RequestType.query] = 1 + 2 * valueSize;
    this.#fixedBytes[RequestType.stat] = STAT_BYTES;
    this.#fixedBytes[RequestType.info] = INFO_BYTES;
    this.#fixedBytes[RequestType.whoami] = ID_BYTES;
    this.#fixedBytes[RequestType.connection] = CONNECTION_ROW_BYTES;
    const rows: (Rows | undefined)[] = [];
    rows[RequestType.list] = { rowBytes: listRowBytes(valueSize), hasNames: true };
    rows[RequestType.stats] = { rowBytes: STATS_ROW_BYTES, hasNames: true };
    rows[RequestType.channels] = { rowBytes: CHANNELS_ROW_BYTES, hasNames: true };
    rows[RequestType.connections] = { rowBytes: CONNECTION_ROW_BYTES, hasNames: false };
    this.#rows = rows;
  }

  read(bytes: Uint8Array): void {
    this.#pieces.read(bytes);
  }

  #take(bytes: Uint8Array, at: number): void {
    const n = this.#valueSize;
    switch (this.#next) {
      case Next.reply:
        return this.#begin(bytes, at);
      case Next.push:
        return this.#expect(bytes[at]! + uint(bytes, at + 1, n), Next.reply, this.#statusAt + 1);
      case Next.value:
        return this.#end(uint(bytes, at + 1 + n, n));
      case Next.body:
        return this.#end(uint(bytes, at, U32_BYTES));
      case Next.subscribers:
        return this.#end(uint(bytes, at, U64_BYTES) * SUBSCRIBER_ROW_BYTES);
      case Next.fragments:
        this.#fragments = uint(bytes, at, U64_BYTES);
        return this.#nextFragment(0);
      case Next.fragment:
        return this.#beginFragment(uint(bytes, at + U64_BYTES, U64_BYTES));
      case Next.row:
        return this.#row(bytes[at]!);
      case Next.end:
        this.#onReply(this.#replyBytes);
        return this.#expect(0, Next.reply, this.#statusAt + 1);
    }
  }

  /** A reply, or a push, begins. */
  #begin(bytes: Uint8Array, at: number): void {
    const status = bytes[at + this.#statusAt]!;
    if (status === RequestType.event && this.#statusAt === 0) {
      return this.#expect(0, Next.push, 1 + this.#valueSize);
    }
    const type = this.#asked.peek();
    if (type === undefined) throw new ReplyMismatch("a reply that nobody asked for");
    if (type >= COMMANDS_START && (status === STATUS_SUCCESS || status === STATUS_ERROR)) {
      return this.#expect(0, Next.body, U32_BYTES);
    }
    if (status === STATUS_FAILURE) return this.#end(0);
    if (status !== STATUS_SUCCESS) {
      throw new ReplyMismatch(`a reply to 0x${type.toString(16)} with status ${status}`);
    }
    if (type === RequestType.get) return this.#expect(0, Next.value, 1 + 2 * this.#valueSize);
    if (type === RequestType.channel) return this.#expect(0, Next.subscribers, U64_BYTES);
    const rows = this.#rows[type];
    if (rows === undefined) return this.#end(this.#fixedBytes[type]!);
    this.#rowsOfFragment = rows;
    this.#expect(0, Next.fragments, U64_BYTES);
  }

  #nextFragment(skipBytes: number): void {
    if (this.#fragments-- > 0) this.#expect(skipBytes, Next.fragment, FRAGMENT_HEADER_BYTES);
    else this.#end(skipBytes);
  }

  #beginFragment(rows: number): void {
    const { rowBytes, hasNames } = this.#rowsOfFragment;
    if (!hasNames || rows === 0) return this.#nextFragment(rows * rowBytes);
    this.#rowsLeft = rows;
    this.#nameBytes = 0;
    this.#expect(0, Next.row, 1);
  }

  #row(nameBytes: number): void {
    this.#nameBytes += nameBytes;
    const restBytes = this.#rowsOfFragment.rowBytes - 1;
    if (--this.#rowsLeft > 0) this.#expect(restBytes, Next.row, 1);
    else this.#nextFragment(restBytes + this.#nameBytes);
  }

  /** The reply ends behind so many bytes. */
  #end(skipBytes: number): void {
    this.#expect(skipBytes, Next.end, 0);
  }

  #expect(skipBytes: number, next: Next, headerBytes: number): void {
    this.#next = next;
    this.#replyBytes =
      next === Next.reply ? headerBytes : this.#replyBytes + skipBytes + headerBytes;
    this.#pieces.expect(skipBytes, headerBytes);
  }
}

/** Source: yrmcds protocol reference, "General format of a packet", "Dump". */
class YrmcdsReplies implements ReplyStream {
  readonly #asked: ByteFifo;
  readonly #onReply: OnReply;
  readonly #pieces: Pieces;
  /** Of the replies to the request that waits longest. */
  #replyBytes = 0;
  /** The body that is skipped is the last one of its request. */
  #isEnding = false;

  constructor(asked: ByteFifo, onReply: OnReply) {
    this.#asked = asked;
    this.#onReply = onReply;
    this.#pieces = new Pieces((bytes, at) => this.#take(bytes, at), HEADER_BYTES);
  }

  read(bytes: Uint8Array): void {
    this.#pieces.read(bytes);
  }

  #take(bytes: Uint8Array, at: number): void {
    if (this.#isEnding) {
      this.#isEnding = false;
      this.#onReply(this.#replyBytes);
      this.#replyBytes = 0;
      return this.#pieces.expect(0, HEADER_BYTES);
    }
    if (bytes[at] !== REPLY_MAGIC) throw new ReplyMismatch(`a reply with magic ${bytes[at]}`);
    if (this.#asked.length === 0) throw new ReplyMismatch("a reply that nobody asked for");
    const bodyBytes = readU32(bytes, at + 4);
    this.#replyBytes += HEADER_BYTES + bodyBytes;
    const isEntry = bytes[at + 1] === Opcode.dump && bytes[at + 2] === Status.success;
    // Dump has a reply for each semaphore, and one without a body at the end.
    this.#isEnding = !isEntry || bodyBytes === 0;
    this.#pieces.expect(bodyBytes, this.#isEnding ? 0 : HEADER_BYTES);
  }
}

function uint(bytes: Uint8Array, at: number, size: number): number {
  let value = 0;
  for (let i = size - 1; i >= 0; i--) value = value * 256 + bytes[at + i]!;
  return value;
}
