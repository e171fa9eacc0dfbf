/**
 * Executes what comes whole from a caller who waits for all of it: operations, or a message of frames.
 *
 * RPC and the JSON door are made of it. Replies are held until the last one has come: a call between Workers returns one
 * value of at most 32 MiB, and cannot be streamed to.
 */
import { missingRightError, missingRightOfFrame, type Access } from "../base/access.ts";
import { reportFailure } from "../base/failure.ts";
import type { Frames } from "../dispatch/sink.ts";
import { joinBytes } from "../wire/bytes.ts";
import { ThrottrError } from "../wire/edge/error.ts";
import { settle, type Operation, type Settled } from "../wire/edge/operation.ts";
import { EDGE } from "../wire/edge/protocol.ts";
import { layoutsOf } from "../wire/throttr/requests.ts";
import type { Caller } from "./caller.ts";
import { isTraced, withLimitSpan } from "./limit-span.ts";
import { sendRuns, type RunSink } from "./run-sequence.ts";
import { rowsOf } from "./page-rows.ts";
import { findRuns, runsOfOperations } from "./runs.ts";
import { RPC_CALL_REPLY_BYTES_MAX, RPC_REPLY_BYTES_MAX } from "../engine/sizes.ts";

/** What a row of a page counts beside its bytes: one of 11 to 37 bytes and a name becomes an object of 65 to 105, and the name. */
const ROW_BYTES = 64;

/**
 * Executes operations in order, each shard's in one call, and gives what became of each. One that the
 * access does not allow is refused by itself.
 *
 * @throws ThrottrError when there is too much of it; nothing was applied
 * @throws ThrottrError `outcome_unknown` when a shard failed, `reply_too_large`: what was applied is unknown
 */
export async function execute<Result>(
  caller: Caller,
  operations: readonly Operation<Result>[],
): Promise<Settled<Result>[]> {
  const refused = operations.map((operation) => refusalError(operation, caller.access));
  const allowed = operations.filter((_, i) => refused[i] === null);
  // Refused operations were never sent, so the replies are those of the others, in their order.
  const replies = settle(allowed, await send(caller, allowed));
  let next = 0;
  return refused.map((error) => (error === null ? replies[next++]! : { ok: false, error }));
}

/**
 * Executes one operation.
 *
 * @throws ThrottrError that the operation is refused with; or as `execute`
 */
export async function executeOne<Result>(
  caller: Caller,
  operation: Operation<Result>,
): Promise<Result> {
  const error = refusalError(operation, caller.access);
  if (error !== null) throw error;
  const decide = async (): Promise<Result> => operation.read(await send(caller, [operation]));
  return isTraced(operation) ? await withLimitSpan(caller, operation, decide) : await decide();
}

/**
 * Executes a message of frames of the edge dialect and gives their replies.
 *
 * @throws ThrottrError when a frame can't be read or is not allowed; then nothing has been applied
 * @throws ThrottrError as `execute`
 */
export async function exchange(caller: Caller, message: Uint8Array): Promise<Uint8Array> {
  const { settings, access } = caller;
  const runs = findRuns(EDGE, message, settings.FRAME_BYTES_MAX, access);
  return await collect(caller, runs, () => 0);
}

/**
 * Sends operations that the access allows, and gives their replies as one run of bytes.
 *
 * @throws ThrottrError as `execute`
 */
async function send(
  caller: Caller,
  operations: readonly Operation<unknown>[],
): Promise<Uint8Array> {
  const runs = runsOfOperations(operations, caller.settings.FRAME_BYTES_MAX);
  return await collect(caller, runs, (type, reply) => ROW_BYTES * rowsOf(type, reply));
}

/** What a reply counts beside its bytes, by the type of its request. */
type Weigh = (type: number, reply: Uint8Array) => number;

/**
 * Sends runs and waits for all their replies. Without runs no object is called: an empty batch costs nothing.
 */
async function collect(caller: Caller, runs: readonly Frames[], weigh: Weigh): Promise<Uint8Array> {
  if (runs.length === 0) return new Uint8Array(0);
  const collected = new Collected(weigh);
  sendRuns(caller, runs, collected, RPC_CALL_REPLY_BYTES_MAX);
  return await collected.replies;
}

/** Collects replies. Its doors are not told that a caller has gone, so it has a reader for as long as it lives. */
class Collected implements RunSink {
  /** All replies, joined, when the last has come. */
  readonly replies: Promise<Uint8Array>;
  readonly #resolve: (replies: Uint8Array) => void;
  readonly #reject: (error: unknown) => void;
  readonly #parts: Uint8Array[] = [];
  readonly hasReader = true;
  readonly #weigh: Weigh;
  /** Bytes in `#parts`, and what they count beside. They only grow: nothing is passed on before the end. */
  #heldBytes = 0;

  constructor(weigh: Weigh) {
    this.#weigh = weigh;
    const { promise, resolve, reject } = Promise.withResolvers<Uint8Array>();
    this.replies = promise;
    this.#resolve = resolve;
    this.#reject = reject;
  }

  /** The limit is looked at only here and in `room`, between runs: one call's replies have a limit of their own. */
  reply(replies: Uint8Array, isLast: boolean, type: number): void {
    this.#parts.push(replies);
    this.#heldBytes += replies.length + this.#weigh(type, replies);
    if (!isLast) return;
    if (this.isFull) this.#reject(replyTooLarge());
    else this.#resolve(joinBytes(this.#parts));
  }

  /** Never more room: held replies stay until the end, so a full collection fails rather than waits. */
  room(): Promise<void> | null {
    return this.isFull ? Promise.reject(replyTooLarge()) : null;
  }

  fail(error: unknown): void {
    // `room()` has rejected: not a failure of an object, and nothing for the log.
    const isTooLarge = error instanceof ThrottrError && error.code === "reply_too_large";
    this.#reject(isTooLarge ? error : reportFailure(error));
  }

  get isFull(): boolean {
    return this.#heldBytes > RPC_REPLY_BYTES_MAX;
  }
}

/** Too many bytes to return at once. Runs before it were applied, so a caller must not just send it again. */
const replyTooLarge = (): ThrottrError =>
  new ThrottrError(
    "reply_too_large",
    `the replies to a call may have at most ${RPC_REPLY_BYTES_MAX} bytes: request less at once`,
  );

/**
 * The error for a missing right; null when the access allows the operation. Rights are checked at the frame: it is what
 * a shard will see, whatever the arguments were.
 */
function refusalError({ type, frame }: Operation<unknown>, access: Access): ThrottrError | null {
  const layout = layoutsOf(EDGE)[type]!;
  const missing = missingRightOfFrame(access, layout, frame, 0);
  return missing === null ? null : missingRightError(missing, layout, access);
}
