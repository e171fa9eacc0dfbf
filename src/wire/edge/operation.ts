/**
 * An operation: one call as a frame to be sent, and its reply as a result.
 *
 * Operations know no transport. A sender puts any number of them into one message. The replies come in the same
 * order.
 */
import { joinBytes, type ByteWriter } from "../bytes.ts";
import { INFO_BYTES } from "../throttr/info.ts";
import { commandReplyLength } from "../throttr/replies.ts";
import { RequestType, STATUS_SUCCESS } from "../throttr/request-types.ts";
import { COMMAND_HEADER_BYTES, COMMANDS_START, Flag, REPLY_HEADER_BYTES } from "./command.ts";
import { ThrottrError } from "./error.ts";

export interface Operation<Result> {
  /** Request type of the frame. */
  readonly type: number;
  /** Executing it twice is as good as once: it only reads, or has an idempotency key, or a lease. */
  readonly isRepeatable: boolean;
  /** So long after it was sent first, in ms, a repeat would be taken for another call: it must have ended by then. */
  readonly repeatableMs?: number;
  /** It changes nothing. */
  readonly isRead?: boolean;
  readonly frame: Uint8Array<ArrayBuffer>;
  /**
   * The result of a reply, whole and without what follows.
   *
   * @throws ThrottrError when the reply is an error
   */
  readonly read: (reply: Uint8Array) => Result;
  /**
   * Length of the reply that begins at `at`, 0 while it is not complete; for requests other than those of
   * `operationReplyLength`.
   */
  readonly replyLength?: (bytes: Uint8Array, at: number, end: number) => number;
}

const decoder = new TextDecoder();

/** What a command is made of. */
export interface CommandParts {
  readonly type: number;
  readonly key: Uint8Array;
  readonly idempotencyKey?: Uint8Array | null;
  /** Executing it twice is as good as once, even without an idempotency key. */
  readonly isRepeatable?: boolean;
  /** It changes nothing, and so may be repeated. */
  readonly isRead?: boolean;
  /** Writes the body, without the idempotency key. */
  readonly body?: (out: ByteWriter) => void;
}

/** The reply of a command behind its status and size. */
export interface CommandReply {
  readonly bytes: Uint8Array;
  readonly view: DataView;
}

/**
 * An operation that is a command.
 *
 * @param scratch is written to, and left empty
 */
export function commandOf<Result>(
  scratch: ByteWriter,
  { type, key, idempotencyKey = null, isRead = false, isRepeatable = isRead, body }: CommandParts,
  read: (reply: CommandReply) => Result,
): Operation<Result> {
  const out = scratch;
  out.reset();
  out.u8(type);
  out.u8(idempotencyKey === null ? 0 : Flag.isOnce);
  out.u8(key.length);
  out.u32(0);
  out.copy(key);
  if (idempotencyKey !== null) {
    out.u8(idempotencyKey.length);
    out.copy(idempotencyKey);
  }
  body?.(out);
  out.view.setUint32(3, out.length - COMMAND_HEADER_BYTES - key.length, true);
  return {
    type,
    isRepeatable: isRepeatable || idempotencyKey !== null,
    isRead,
    frame: out.take(),
    read: (reply) => read(replyOf(reply)),
  };
}

/** The operation without a wait for the disk: for commands on limits, except DRAW. */
export function relaxed<Result>(operation: Operation<Result>): Operation<Result> {
  operation.frame[1]! |= Flag.isRelaxed;
  return operation;
}

/** @throws ThrottrError when the reply is an error */
export function replyOf(reply: Uint8Array): CommandReply {
  const bytes = reply.subarray(REPLY_HEADER_BYTES);
  if (reply[0] !== STATUS_SUCCESS) throw ThrottrError.from(decoder.decode(bytes));
  return { bytes, view: new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength) };
}

/**
 * Makes operations. What their functions trip over, because plain JavaScript knows no types, is a wrong argument.
 *
 * @throws ThrottrError that of an argument, else `argument_invalid`
 */
export function make<Made>(operations: () => Made): Made {
  try {
    return operations();
  } catch (error) {
    if (error instanceof ThrottrError) throw error;
    throw new ThrottrError("argument_invalid", String(error), { cause: error });
  }
}

/** The outcome of one operation of several. */
export type Settled<Result> =
  | { readonly ok: true; readonly value: Result }
  | { readonly ok: false; readonly error: ThrottrError };

/** The message that operations are sent in: their frames back to back. */
export function messageOf(operations: readonly Operation<unknown>[]): Uint8Array<ArrayBuffer> {
  return joinBytes(operations.map(({ frame }) => frame));
}

/**
 * Length of the reply that begins at `at`, to a command, PUBLISH, SUBSCRIBE, UNSUBSCRIBE or INFO.
 *
 * @returns 0 when it is not complete
 */
export function operationReplyLength(
  type: number,
  bytes: Uint8Array,
  at: number,
  end: number,
): number {
  if (type >= COMMANDS_START) return commandReplyLength(bytes, at, end);
  if (at >= end) return 0;
  const length = type === RequestType.info && bytes[at] === STATUS_SUCCESS ? 1 + INFO_BYTES : 1;
  return at + length > end ? 0 : length;
}

/**
 * The results of the replies to operations, in the same order.
 *
 * @throws ThrottrError `reply_invalid` when there are fewer or more replies than operations
 */
export function settle<Result>(
  operations: readonly Operation<Result>[],
  replies: Uint8Array,
): Settled<Result>[] {
  let at = 0;
  const settled = operations.map((operation): Settled<Result> => {
    const length = operationReplyLength(operation.type, replies, at, replies.length);
    if (length === 0) throw new ThrottrError("reply_invalid", "replies are missing");
    const reply = replies.subarray(at, at + length);
    at += length;
    return settleOne(operation, reply);
  });
  if (at !== replies.length) throw new ThrottrError("reply_invalid", "there are too many replies");
  return settled;
}

/** The result of one reply. */
export function settleOne<Result>(
  operation: Operation<Result>,
  reply: Uint8Array,
): Settled<Result> {
  try {
    return { ok: true, value: operation.read(reply) };
  } catch (error) {
    return { ok: false, error: ThrottrError.from(error) };
  }
}
