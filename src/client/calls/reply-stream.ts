/**
 * The stream of bytes from a server: replies in the order of the calls, and pushes between them. Chunks may be cut
 * anywhere.
 */
import { ByteWriter } from "../../wire/bytes.ts";
import { COMMANDS_START, STATUS_ERROR } from "../../wire/edge/command.ts";
import { ThrottrError } from "../../wire/edge/error.ts";
import { readMessageFrame } from "../../wire/edge/message-frame.ts";
import { operationReplyLength, type Operation } from "../../wire/edge/operation.ts";
import { RequestType, STATUS_FAILURE, STATUS_SUCCESS } from "../../wire/throttr/request-types.ts";
import { Fifo } from "./fifo.ts";

/** A reply or push with more bytes counts as an error of the server. */
const REPLY_BYTES_MAX = 32 << 20;
const INCOMPLETE = 0;

/** Takes one reply. */
export interface Expected {
  readonly operation: Operation<unknown>;
  /** @param bytes the whole reply; they belong to the stream: copy them to keep them */
  reply(bytes: Uint8Array): void;
}

/** Takes a push. The bytes belong to the stream: copy them to keep them. */
export type OnPush = (channel: Uint8Array, payload: Uint8Array) => void;

export class ReplyStream<Entry extends Expected> {
  readonly #onPush: OnPush;
  readonly #expected = new Fifo<Entry>();
  #unansweredBytes = 0;
  /** The beginning of a reply or push that is not complete. */
  readonly #rest = new ByteWriter(0);

  constructor(onPush: OnPush) {
    this.#onPush = onPush;
  }

  /** Calls without a reply, in order. */
  get unanswered(): readonly Entry[] {
    return [...this.#expected];
  }

  /** Bytes of the calls without a reply. */
  get unansweredBytes(): number {
    return this.#unansweredBytes;
  }

  /** Expects one more reply, behind all that are expected already. */
  expect(entry: Entry): void {
    this.#expected.push(entry);
    this.#unansweredBytes += entry.operation.frame.length;
  }

  /**
   * Reads the next bytes.
   *
   * @throws ThrottrError `reply_invalid` when they are not replies to the calls
   */
  read(chunk: Uint8Array): void {
    const rest = this.#rest;
    if (rest.length === 0) {
      const at = this.#readWhole(chunk);
      rest.copy(chunk, at);
    } else {
      rest.copy(chunk);
      const bytes = rest.bytes.subarray(0, rest.length);
      const at = this.#readWhole(bytes);
      if (at > 0) {
        rest.reset();
        rest.copy(bytes, at);
      }
    }
    if (rest.length > REPLY_BYTES_MAX) {
      throw replyInvalid(`a reply or push has more than ${REPLY_BYTES_MAX} bytes`);
    }
  }

  /** Reads all complete replies and pushes. Returns where the rest begins. */
  #readWhole(bytes: Uint8Array): number {
    let at = 0;
    while (at < bytes.length) {
      const length =
        bytes[at] === RequestType.event ? this.#readPush(bytes, at) : this.#readReply(bytes, at);
      if (length === INCOMPLETE) break;
      at += length;
    }
    return at;
  }

  #readPush(bytes: Uint8Array, at: number): number {
    const push = readMessageFrame(bytes, at);
    if (push === null) return INCOMPLETE;
    this.#onPush(push.channel, push.payload);
    return push.end - at;
  }

  #readReply(bytes: Uint8Array, at: number): number {
    const entry = this.#expected.peek();
    if (entry === undefined) throw replyInvalid("a reply came without a request");
    const { type, frame, replyLength } = entry.operation;
    const status = bytes[at]!;
    const failure = type >= COMMANDS_START ? STATUS_ERROR : STATUS_FAILURE;
    if (status !== STATUS_SUCCESS && status !== failure) {
      throw replyInvalid(`a reply to 0x${type.toString(16)} begins with ${status}`);
    }
    const end = bytes.length;
    const length = replyLength?.(bytes, at, end) ?? operationReplyLength(type, bytes, at, end);
    if (length === INCOMPLETE) return INCOMPLETE;
    this.#expected.shift();
    this.#unansweredBytes -= frame.length;
    entry.reply(bytes.subarray(at, at + length));
    return length;
  }
}

function replyInvalid(detail: string): ThrottrError {
  return new ThrottrError("reply_invalid", detail);
}
