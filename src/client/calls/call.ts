/** A call: one operation from the moment a caller asks for it until its promise is settled. */
import { ThrottrError } from "../../wire/edge/error.ts";
import { settleOne, type Operation } from "../../wire/edge/operation.ts";
import type { Signal } from "../platform.ts";
import type { Moment } from "../timing/clock.ts";
import type { AbortListeners } from "./abort-listeners.ts";
import type { Expected } from "./reply-stream.ts";

/**
 * Options of every call.
 *
 * @example
 * const counter = await throttr.query("views", { timeoutMs: 500, signal: request.signal });
 */
export interface CallOptions {
  /** Ends the call with `aborted`. A call that was sent already may still be applied. */
  readonly signal?: Signal | undefined;
  /** How long the call may take, in ms: 1 to 2^31 - 1; the client's `timeoutMs` unless given. */
  readonly timeoutMs?: number | undefined;
}

/** Holds calls, and learns when one of them was settled elsewhere: by its signal, or its timeout. */
export interface CallOwner {
  released(call: Call): void;
}

const UNSENT = "the call was not sent, so nothing was applied";
const UNKNOWN = "the call was sent and may have been applied";

/**
 * Refusals for what was there when the call came. The server keeps none of them for an idempotency key, so an earlier attempt that
 * comes late may still be applied.
 */
const PASSING: readonly string[] = [
  "shard_full",
  "kind_mismatch",
  "state_invalid",
  "lease_conflict",
  "reservation_conflict",
  "reservation_ended",
  "scope_missing",
  "prefix_missing",
];

export class Call implements Expected {
  readonly operation: Operation<unknown>;
  readonly promise: Promise<unknown>;
  readonly deadlineMs: number;
  readonly #deadlineWallMs: number;
  owner: CallOwner | null = null;
  /** It was sent, and is not answered. */
  isSent = false;
  /** It was sent when a connection was lost: it may have been applied. */
  isLost = false;
  /** Failed attempts. */
  failures = 0;
  isSettled = false;
  readonly #timeoutMs: number;
  readonly #ending: AbortListeners | null;
  #resolve!: (value: unknown) => void;
  #reject!: (error: ThrottrError) => void;

  constructor(
    operation: Operation<unknown>,
    { nowMs, wallMs }: Moment,
    timeoutMs: number,
    ending: AbortListeners | null,
  ) {
    this.operation = operation;
    this.deadlineMs = nowMs + timeoutMs;
    this.#deadlineWallMs = wallMs + timeoutMs;
    this.#timeoutMs = timeoutMs;
    this.promise = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
    this.#ending = ending;
    if (ending === null) return;
    if (ending.signal.aborted) this.#abort();
    else ending.add(this.#abort);
  }

  reply(bytes: Uint8Array): void {
    if (this.isSettled) return;
    const settled = settleOne(this.operation, bytes);
    if (settled.ok) {
      this.#settle();
      this.#resolve(settled.value);
    } else if (this.operation.isRead !== true && PASSING.includes(settled.error.code)) {
      this.refuse(settled.error);
    } else {
      this.fail(settled.error);
    }
  }

  fail(error: ThrottrError): void {
    if (this.isSettled) return;
    this.#settle();
    this.#reject(error);
  }

  /** Fails a call that may have been applied, where that makes a difference: a read has no effect. */
  lose(error: ThrottrError): void {
    if (this.operation.isRead !== true || !(error instanceof NoAnswer)) return this.fail(error);
    const detail = `${error.detail}; the request may have arrived`;
    this.fail(connectionFailed(detail, error.cause));
  }

  /** Fails a call that the server refused. The refusal says nothing about an earlier attempt that was lost. */
  refuse(error: ThrottrError): void {
    this.fail(
      this.isLost
        ? outcomeUnknown(
            `an earlier attempt was lost; the last one failed with ${error.message}`,
            error,
          )
        : error,
    );
  }

  /** Fails the call when its time is over. */
  expire(nowMs: number): void {
    if (nowMs < this.deadlineMs) return;
    this.fail(
      new ThrottrError("timeout", `no answer within ${this.#timeoutMs} ms: ${this.#whatIsKnown}`),
    );
  }

  /**
   * Fails a call that is about to be sent again when its time is over by either clock. While a machine was suspended
   * `nowMs` stood still, and the server may have forgotten that it applied the call.
   */
  expireLost({ nowMs, wallMs }: Moment): void {
    if (this.isLost) this.expire(wallMs < this.#deadlineWallMs ? nowMs : Infinity);
  }

  close(): void {
    this.fail(new ThrottrError("closed", `the client was closed: ${this.#whatIsKnown}`));
  }

  readonly #abort = (): void => {
    this.fail(
      new ThrottrError("aborted", `the signal of the call was aborted: ${this.#whatIsKnown}`, {
        cause: this.#ending!.signal.reason,
      }),
    );
  };

  get #whatIsKnown(): string {
    return this.isSent || this.isLost ? UNKNOWN : UNSENT;
  }

  #settle(): void {
    this.isSettled = true;
    this.#ending?.delete(this.#abort);
    this.owner?.released(this);
    this.owner = null;
  }
}

/**
 * No answer came, and whether the request was sent is unknown, as runtimes don't say. A call that writes may have been
 * applied; a call that only reads had no effect in any case.
 */
export class NoAnswer extends ThrottrError {
  constructor(detail: string, cause: unknown) {
    super("outcome_unknown", detail, { cause });
  }
}

/** The error of a connection that is lost, or was never there. */
export function connectionFailed(detail: string, cause?: unknown): ThrottrError {
  return new ThrottrError("connection_failed", detail, cause === undefined ? {} : { cause });
}

/** The error of a call that may have been applied. */
export function outcomeUnknown(detail: string, cause?: unknown): ThrottrError {
  return new ThrottrError("outcome_unknown", detail, cause === undefined ? {} : { cause });
}
