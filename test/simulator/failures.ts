/** What went wrong in a run without a fault that explains it: errors that are mistakes, and codes that a call can't end with. */
import { isExpected, type CallKind, type CodeTerms } from "./checks/codes.ts";
import { isMistake } from "./checks/errors.ts";
import type { Violation } from "./checks/history.ts";
import { ThrottrError } from "../../src/wire/edge/error.ts";

const ERRORS = "Errors";
const CODES = "Codes";
const NO_CODE = "";

/** The log event of a door for a request that failed because of a mistake in the server. */
const OWN_FAULT = "request_failed";
/** The beginning of `String(error)`, which tells a thrown error from a reason in words. */
const THROWN = /^\w*Error\b/;
/** How a WebSocket ended: its close code, and the reason. */
const CLOSED = /^(\d{4}) (.*)$/s;
/** How WebSockets end without the server: connections are lost, and clients close them or send invalid frames. */
const OF_PLATFORM: readonly string[] = [
  "1000 ",
  "1006 ",
  "1006 WebSocket disconnected without sending Close frame.",
  "1002 Unknown opcode 3",
];

export class Failures {
  readonly violations: Violation[] = [];
  readonly #terms: CodeTerms;
  /** Subjects with a violation: each gets only one, however many calls of a place fail by the same mistake. */
  readonly #told = new Set<string>();

  constructor(terms: CodeTerms) {
    this.#terms = terms;
  }

  /**
   * Notes an error that something has thrown.
   *
   * @param place for messages, such as `Shard.apply`
   */
  noteError(place: string, error: unknown): void {
    if (isMistake(error, this.#terms.hasReleases)) {
      this.#tell(ERRORS, place, `has failed: ${describe(error)}`);
    }
  }

  /** Notes the code that a call has ended with. */
  noteCode(code: string, detail: string, ...kinds: readonly CallKind[]): void {
    if (isExpected(code, kinds, this.#terms)) return;
    const subject = `${code} of ${kinds.join(", ")}`;
    this.#tell(CODES, subject, `nothing explains the code: ${detail}`);
  }

  /** Notes the error that a call has failed with; it has a code unless the platform has thrown it. */
  noteFailure(place: string, error: unknown, ...kinds: readonly CallKind[]): void {
    this.noteError(place, error);
    const { code, message } = ThrottrError.from(error, NO_CODE);
    if (code !== NO_CODE) this.noteCode(code, `${place}: ${message}`, ...kinds);
  }

  /** Notes the error of a call of the package's client: of the call itself, or of the message that contained it. */
  noteCall(place: string, error: unknown, kind: CallKind): void {
    this.noteFailure(place, error, kind, "message", "package");
  }

  /**
   * Reads the reply to a frame, and notes the code of a failure that it reports.
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

  /** Notes that a WebSocket has ended. @param reason close code and reason; any other text says that it was lost or given up */
  noteEnd(reason: string): void {
    const text = CLOSED.exec(reason)?.[2];
    if (text === undefined || OF_PLATFORM.includes(reason)) return;
    this.noteCode(ThrottrError.from(text).code, reason, "connection");
  }

  /** Notes a line of the log of today's release. */
  noteLog(text: string): void {
    const { event, error } = JSON.parse(text) as { event?: string; error?: string };
    if (event === undefined) return;
    // In some events `error` is a reason in words, not an error.
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
