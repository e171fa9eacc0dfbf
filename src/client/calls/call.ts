/** A call: an operation on its way, from when it is made until it is settled. */
import { ThrottrError } from "../../wire/edge/error.ts";
import { settleOne, type Operation } from "../../wire/edge/operation.ts";
import type { Signal } from "../platform.ts";
import type { Expected } from "./reply-stream.ts";

/**
 * What any call may be given.
 *
 * @example
 * const counter = await throttr.query("views", { timeoutMs: 500, signal: request.signal });
 */
export interface CallOptions {
  /** Ends the call with `aborted`. One that was sent may be applied all the same. */
  readonly signal?: Signal | undefined;
  /** How long it may take, in ms: 1 to 2^31 - 1; that of the client unless given. */
  readonly timeoutMs?: number | undefined;
}

/** Holds calls, and is told when one of them is settled by somebody else. */
export interface CallOwner {
  released(call: Call): void;
}

const UNSENT = "the call was not sent, nothing was applied";
const UNKNOWN = "the call was sent, whether it was applied is unknown";

export class Call implements Expected {
  readonly operation: Operation<unknown>;
  readonly promise: Promise<unknown>;
  readonly deadlineMs: number;
  owner: CallOwner | null = null;
  /** It is on its way. */
  isSent = false;
  /** It was on its way when a connection was lost: it may have been applied. */
  isLost = false;
  /** Attempts that came to nothing. */
  failures = 0;
  isSettled = false;
  readonly #timeoutMs: number;
  readonly #signal: Signal | null;
  #resolve!: (value: unknown) => void;
  #reject!: (error: ThrottrError) => void;

  constructor(
    operation: Operation<unknown>,
    nowMs: number,
    timeoutMs: number,
    signal: Signal | undefined,
  ) {
    this.operation = operation;
    this.deadlineMs = nowMs + timeoutMs;
    this.#timeoutMs = timeoutMs;
    this.promise = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
    this.#signal = signal ?? null;
    if (signal === undefined) return;
    if (signal.aborted) this.#abort();
    else signal.addEventListener("abort", this.#abort);
  }

  reply(bytes: Uint8Array): void {
    if (this.isSettled) return;
    this.#settle();
    const settled = settleOne(this.operation, bytes);
    if (settled.ok) this.#resolve(settled.value);
    else this.#reject(settled.error);
  }

  fail(error: ThrottrError): void {
    if (this.isSettled) return;
    this.#settle();
    this.#reject(error);
  }

  /** Fails it as it may have been applied, if it changes anything at all. */
  lose(error: ThrottrError): void {
    const { isRead = false } = this.operation;
    this.fail(
      isRead && error instanceof NoAnswer
        ? new ThrottrError(
            "connection_failed",
            `${error.detail}; whether it has arrived is unknown`,
            {
              cause: error.cause,
            },
          )
        : error,
    );
  }

  /** Fails it as this attempt was refused: which says nothing of an earlier one that was lost. */
  refuse(error: ThrottrError): void {
    this.fail(
      this.isLost
        ? outcomeUnknown(`an earlier attempt was lost, then ${error.message}`, error)
        : error,
    );
  }

  /** Fails it if its time is up. */
  expire(nowMs: number): void {
    if (nowMs < this.deadlineMs) return;
    this.fail(
      new ThrottrError("timeout", `no answer within ${this.#timeoutMs} ms: ${this.#whatIsKnown}`),
    );
  }

  close(): void {
    this.fail(new ThrottrError("closed", `the client was closed: ${this.#whatIsKnown}`));
  }

  readonly #abort = (): void => {
    this.fail(
      new ThrottrError("aborted", `the signal of the call was aborted: ${this.#whatIsKnown}`, {
        cause: this.#signal!.reason,
      }),
    );
  };

  get #whatIsKnown(): string {
    return this.isSent || this.isLost ? UNKNOWN : UNSENT;
  }

  #settle(): void {
    this.isSettled = true;
    this.#signal?.removeEventListener("abort", this.#abort);
    this.owner?.released(this);
    this.owner = null;
  }
}

/**
 * No answer has come, and it is not known whether the request has left: runtimes don't say. What changes
 * something may have been applied; what only reads has not, whatever became of it.
 */
export class NoAnswer extends ThrottrError {
  constructor(detail: string, cause: unknown) {
    super("outcome_unknown", detail, { cause });
  }
}

/** What a call fails with that may have been applied. */
export function outcomeUnknown(detail: string, cause?: unknown): ThrottrError {
  return new ThrottrError("outcome_unknown", detail, cause === undefined ? {} : { cause });
}
