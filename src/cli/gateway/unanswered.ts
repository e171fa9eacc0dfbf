/**
 * What a client has sent that is not answered, and how much more the server may be sent.
 *
 * A WebSocket can't be told to wait: the server closes one that leaves too much unanswered, or whose
 * requests call for more replies than its peer reads. So the gateway follows requests and replies, and
 * lets the client wait. It promises, of all protocols whose replies can be followed, that the server
 * never has more than 3 MiB of requests that wait, the least that `UNANSWERED_BYTES_MAX` can be. And it
 * aims at 8 MiB of replies on their way, a quarter of what the server sends to somebody silent: that
 * holds while replies are no more than four times as large as those to such requests lately.
 */
import { COMMANDS_START } from "../../wire/edge/command.ts";
import { RequestType } from "../../wire/throttr/requests.ts";
import { Opcode } from "../../wire/yrmcds/protocol.ts";
import { ByteFifo } from "./byte-fifo.ts";
import { ReplyMismatch, replyStreamOf, type ReplyStream } from "./reply-stream.ts";
import { RequestStream } from "./request-stream.ts";
import { frameFormOf, type SpokenProtocol } from "./spoken.ts";

/**
 * Bytes of requests that may be unanswered. The server counts requests that are executed together until
 * all of them are answered: a largest frame (1.8 MB), this window behind it, and twice what is sent
 * in one go stay below 3 MiB.
 */
export const WINDOW_BYTES = 1 << 20;
/** What may be sent on where no whole request waits for its reply: the rest of a large frame. */
const PORTION_BYTES = 16 << 10;
/** Requests that may be unanswered: two bytes are kept of each. */
export const REQUESTS_MAX = 65_536;
/** Replies that may be on their way, as far as that can be told. */
export const REPLY_BYTES_AIM = 8 << 20;
/** What is expected of replies before one has come: of a fixed size, of a value, and of a listing. */
const FIXED_REPLY_BYTES = 512;
const VALUE_REPLY_BYTES = 16 << 10;
const LISTING_REPLY_BYTES = 1 << 20;
/** A value, or a listing, is never expected to be smaller: the next one may be larger than the last. */
const VARIABLE_REPLY_BYTES_MIN = 1024;
/** How soon smaller replies are expected after larger ones: of the difference, a sixteenth each time. */
const FORGET = 1 / 16;
/** Requests that are forgotten together, so that a mark for each is not needed. */
const MARK_BYTES = 4096;

/** Up to here, so many requests and bytes had been sent since the connection began. */
interface Mark {
  requests: number;
  bytes: number;
}

export class Unanswered {
  /** Kinds of the requests, and what replies are expected of them: the logarithm of their bytes. */
  readonly #asked = new ByteFifo();
  readonly #charges = new ByteFifo();
  readonly #requests: RequestStream;
  #replies: ReplyStream | null;
  /** Reply bytes that are expected, by the kind of the request. */
  readonly #expected: Float64Array;
  readonly #isVariable: readonly boolean[];
  #chargedBytes = 0;
  #sentBytes = 0;
  #sentRequests = 0;
  #answeredBytes = 0;
  readonly #marks: Mark[] = [];

  constructor(protocol: SpokenProtocol) {
    this.#requests = new RequestStream(frameFormOf(protocol), {
      mayBegin: (kind) => this.#mayBegin(kind),
      ended: (kind, endBytes) => this.#asks(kind, this.#sentBytes + endBytes),
    });
    this.#replies = replyStreamOf(protocol, this.#asked, (bytes) => this.#answered(bytes));
    const sizes = protocol === "yrmcds" ? yrmcdsReplySizes() : throttrReplySizes();
    this.#expected = sizes;
    this.#isVariable = Array.from(sizes, (bytes) => bytes !== FIXED_REPLY_BYTES);
  }

  /** Whether it is known what has been answered. */
  get isFollowed(): boolean {
    return this.#replies !== null;
  }

  /** Whole requests without a reply. */
  get requests(): number {
    return this.#asked.length;
  }

  /** Bytes of requests without a reply, an unfinished one and some that are just answered included. */
  get bytes(): number {
    return this.#sentBytes - this.#answeredBytes;
  }

  /**
   * The client has sent these bytes.
   *
   * @returns how many of them, from the first on, are now to be sent to the server
   */
  admit(bytes: Uint8Array): number {
    if (this.#replies === null) return bytes.length;
    const roomBytes = this.#roomBytes;
    const read = this.#requests.read(
      bytes.length <= roomBytes ? bytes : bytes.subarray(0, roomBytes),
    );
    this.#sentBytes += read;
    return read;
  }

  /**
   * The server has sent these bytes.
   *
   * @throws ReplyMismatch once, when they are no replies to what was sent: from then on nothing is followed
   */
  received(bytes: Uint8Array): void {
    if (this.#replies === null) return;
    try {
      this.#replies.read(bytes);
    } catch (error) {
      if (error instanceof ReplyMismatch) this.#replies = null;
      throw error;
    }
    this.#forgetAnswered();
  }

  get #roomBytes(): number {
    const roomBytes = WINDOW_BYTES - this.bytes;
    return Math.max(roomBytes, this.requests === 0 ? PORTION_BYTES : 0);
  }

  #mayBegin(kind: number): boolean {
    if (this.requests === 0) return true;
    if (this.requests >= REQUESTS_MAX) return false;
    return this.#chargedBytes + 2 ** this.#chargeOf(kind) <= REPLY_BYTES_AIM;
  }

  #chargeOf(kind: number): number {
    const expected = this.#expected[kind]!;
    const bytes = this.#isVariable[kind] ? Math.max(expected, VARIABLE_REPLY_BYTES_MIN) : expected;
    return Math.ceil(Math.log2(Math.max(bytes, 1)));
  }

  #asks(kind: number, endBytes: number): void {
    const charge = this.#chargeOf(kind);
    this.#asked.push(kind);
    this.#charges.push(charge);
    this.#chargedBytes += 2 ** charge;
    this.#sentRequests++;
    const last = this.#marks.at(-1);
    const before = this.#marks.at(-2)?.bytes ?? this.#answeredBytes;
    if (last !== undefined && last.bytes - before < MARK_BYTES) {
      last.requests = this.#sentRequests;
      last.bytes = endBytes;
    } else {
      this.#marks.push({ requests: this.#sentRequests, bytes: endBytes });
    }
  }

  /** The request that waits longest has a whole reply of so many bytes. */
  #answered(bytes: number): void {
    const kind = this.#asked.shift();
    const charge = this.#charges.shift();
    this.#chargedBytes = this.requests === 0 ? 0 : this.#chargedBytes - 2 ** charge;
    const expected = this.#expected[kind]!;
    this.#expected[kind] = bytes > expected ? bytes : expected - (expected - bytes) * FORGET;
  }

  #forgetAnswered(): void {
    const answered = this.#sentRequests - this.#asked.length;
    let forgotten = 0;
    while (forgotten < this.#marks.length && this.#marks[forgotten]!.requests <= answered) {
      forgotten++;
    }
    if (forgotten === 0) return;
    this.#answeredBytes = this.#marks[forgotten - 1]!.bytes;
    this.#marks.splice(0, forgotten);
  }
}

function throttrReplySizes(): Float64Array {
  const sizes = new Float64Array(256).fill(FIXED_REPLY_BYTES);
  sizes.fill(VALUE_REPLY_BYTES, COMMANDS_START);
  sizes[RequestType.get] = VALUE_REPLY_BYTES;
  for (const listing of ["list", "stats", "connections", "channels", "channel"] as const) {
    sizes[RequestType[listing]] = LISTING_REPLY_BYTES;
  }
  return sizes;
}

function yrmcdsReplySizes(): Float64Array {
  const sizes = new Float64Array(256).fill(FIXED_REPLY_BYTES);
  sizes[Opcode.stats] = VALUE_REPLY_BYTES;
  sizes[Opcode.dump] = LISTING_REPLY_BYTES;
  return sizes;
}
