/** Failures: what is printed of them, and what the command line exits with. */
import { CommanderError } from "commander";
import { Phase, phaseOf } from "../wire/edge/codes.ts";
import { ThrottrError } from "../wire/edge/error.ts";
import { ExitCode } from "./exit-code.ts";
import type { Sink } from "./host.ts";
import { jsonOf } from "./output.ts";
import { shownLines } from "./text.ts";

/** The command, as messages begin with it. */
export const NAME = "throttr-edge";

/** An error of the command line itself, which knows with what the process exits. */
abstract class CommandError extends Error {
  /** Stable, such as `profile_unknown`: scripts compare it. */
  readonly code: string;
  abstract readonly exitCode: ExitCode;

  /**
   * @param code stable, such as `profile_unknown`
   * @param detail for people: names the field and the limit, or what the command needs and why the system refuses it
   */
  constructor(code: string, detail: string) {
    super(detail);
    this.code = code;
  }
}

/** The command, an argument or the configuration is wrong: nothing was sent. */
export class UsageError extends CommandError {
  override readonly name = "UsageError";
  readonly exitCode = ExitCode.usage;
}

/** The system refuses for now what the command needs, such as a port that is taken: a later start may succeed. */
export class UnavailableError extends CommandError {
  override readonly name = "UnavailableError";
  readonly exitCode = ExitCode.refused;
}

/** A failure, as it is printed. */
export interface Failure {
  readonly code: string;
  /** Without the code. */
  readonly message: string;
  readonly exitCode: ExitCode;
}

/** Messages in place of the server's own, which are for those who make requests. */
const OWN_WORDS: ReadonlyMap<string, string> = new Map([
  ["token_missing", "the server needs a token: give one with --token, THROTTR_TOKEN or a profile"],
  ["namespace_missing", "the token is for all namespaces: name one with --namespace"],
]);

/** What a thrown error stands for. */
export function failureOf(error: unknown): Failure {
  if (error instanceof CommandError) {
    return { code: error.code, message: error.message, exitCode: error.exitCode };
  }
  if (error instanceof CommanderError) {
    return {
      code: "usage_invalid",
      message: error.message.replace(/^error: /, ""),
      exitCode: ExitCode.usage,
    };
  }
  if (error instanceof ThrottrError) {
    const { code, detail } = error;
    const message = OWN_WORDS.get(code) ?? withReason(detail, error);
    return { code, message, exitCode: exitCodeOf(code) };
  }
  return { code: "internal", message: detailOf(error), exitCode: ExitCode.fault };
}

/** Exit codes by phase: how far a call got before it failed. */
const EXIT_CODES: Readonly<Record<Phase, ExitCode>> = {
  argument: ExitCode.usage,
  refusal: ExitCode.server,
  fault: ExitCode.server,
  transport: ExitCode.connection,
  unknown: ExitCode.connection,
};

/**
 * The exit code of a code. Two codes have their own, as scripts of `acquire` and of Ctrl-C expect
 * them.
 */
function exitCodeOf(code: string): ExitCode {
  if (code === "aborted") return ExitCode.interrupted;
  if (code === "semaphore_unavailable") return ExitCode.refused;
  // A server of a later release may have codes that this one does not know.
  return EXIT_CODES[phaseOf(code) ?? Phase.refusal];
}

/** What has failed first says why: `fetch` itself tells nothing. */
function withReason(detail: string, error: Error): string {
  let reason: unknown = error;
  while (reason instanceof Error && reason.cause !== undefined) reason = reason.cause;
  if (!(reason instanceof Error)) return detail;
  // `connect` to several addresses fails with an empty message and a code.
  const { code } = reason as NodeJS.ErrnoException;
  const text = reason.message || (code ?? "");
  return text === "" || error.message.includes(text) ? detail : `${detail}: ${text}`;
}

/** A fault of ours, with its stack: the person who reports it has nothing else. */
function detailOf(error: unknown): string {
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}

/** Prints a failure on standard error. Gives its exit code. */
export function printFailure(error: unknown, stderr: Sink, isJson: boolean): ExitCode {
  const { code, message, exitCode } = failureOf(error);
  if (isJson) {
    stderr.write(`${jsonOf({ error: { code, message, exitCode } })}\n`);
  } else if (exitCode !== ExitCode.interrupted) {
    // Commander's messages name the option themselves; a code before them would say nothing.
    const isUsage = code === "usage_invalid";
    stderr.write(`${NAME}: ${isUsage ? "" : `${code}: `}${shownLines(message)}\n`);
  }
  return exitCode;
}
