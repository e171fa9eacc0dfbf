/** What went wrong in a run without a fault that explains it: errors that are mistakes, and codes that a call can't end with. */
import { isExpected, type CallKind, type CodeTerms } from "./checks/codes.ts";
import { isMistake } from "./checks/errors.ts";
import type { Violation } from "./checks/history.ts";
import { ThrottrError } from "../../src/wire/edge/error.ts";

const ERRORS = "Errors";
const CODES = "Codes";
const NO_CODE = "";

/** The event with which a door says that a request has failed by its own fault. */
const OWN_FAULT = "request_failed";
/** What `String(error)` begins with. */
const THROWN = /^\w*Error\b/;
/** Why a WebSocket has ended: its close code, and the reason. */
const CLOSED = /^(\d{4}) (.*)$/s;
/** Reasons of the simulated platform, whose connections are lost, and whose clients break frames. */
const OF_PLATFORM: readonly string[] = [
  "1000 ",
  "1006 ",
  "1006 WebSocket disconnected without sending Close frame.",
  "1002 Unknown opcode 3",
];

export class Failures {
  readonly violations: Violation[] = [];
  readonly #terms: CodeTerms;
  /** A mistake that shows in each call of a place is told once. */
  readonly #told = new Set<string>();

  constructor(terms: CodeTerms) {
    this.#terms = terms;
  }

  /**
   * Something has thrown an error.
   *
   * @param place for messages, such as `Shard.apply`
   */
  noteError(place: string, error: unknown): void {
    if (isMistake(error, this.#terms.hasReleases)) {
      this.#tell(ERRORS, place, `has failed: ${describe(error)}`);
    }
  }

  /** A call has ended with a code. */
  noteCode(code: string, detail: string, ...kinds: readonly CallKind[]): void {
    if (isExpected(code, kinds, this.#terms)) return;
    const subject = `${code} of ${kinds.join(", ")}`;
    this.#tell(CODES, subject, `nothing explains the code: ${detail}`);
  }

  /** A call has failed with an error, which has a code unless the platform has thrown it. */
  noteFailure(place: string, error: unknown, ...kinds: readonly CallKind[]): void {
    this.noteError(place, error);
    const { code, message } = ThrottrError.from(error, NO_CODE);
    if (code !== NO_CODE) this.noteCode(code, `${place}: ${message}`, ...kinds);
  }

  /** A call of the package's client has failed: by itself, or with the message that it travelled in. */
  noteCall(place: string, error: unknown, kind: CallKind): void {
    this.noteFailure(place, error, kind, "message", "package");
  }

  /**
   * What a reply to a frame says.
   *
   * @throws what `read` throws
   */
  read<Result>(kind: CallKind, read: () => Result): Result {
    try {
      return read();
    } catch (error) {
      if (error instanceof ThrottrError) this.noteCode(error.code, error.message, kind);
      throw error;
    }
  }

  /** A WebSocket has ended. @param reason close code and reason; any other text says that it was lost or given up */
  noteEnd(reason: string): void {
    const text = CLOSED.exec(reason)?.[2];
    if (text === undefined || OF_PLATFORM.includes(reason)) return;
    this.noteCode(ThrottrError.from(text).code, reason, "connection");
  }

  /** A line of the log of today's release. */
  noteLog(text: string): void {
    const { event, error } = JSON.parse(text) as { event?: string; error?: string };
    if (event === undefined) return;
    // Some events have a reason here that nothing has thrown.
    const isThrown = error !== undefined && THROWN.test(error);
    const isWrong = event === OWN_FAULT || (isThrown && isMistake(error, this.#terms.hasReleases));
    if (isWrong) this.#tell(ERRORS, `the log, ${event}`, text);
  }

  #tell(promise: string, subject: string, message: string): void {
    if (this.#told.has(subject)) return;
    this.#told.add(subject);
    this.violations.push({ promise, subject, message });
  }
}

function describe(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const { cause } = error;
  const stack = error.stack ?? String(error);
  return cause === undefined ? stack : `${stack}, because of ${describe(cause)}`;
}
