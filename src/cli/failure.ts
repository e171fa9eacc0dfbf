/** Failures: what is printed of them, and what the command line exits with. */
import { CommanderError } from "commander";
import { ThrottrError } from "../wire/edge/error.ts";
import { ExitCode } from "./exit-code.ts";
import type { Sink } from "./host.ts";
import { jsonOf } from "./output.ts";
import { shownLines } from "./text.ts";

/** The command, as messages begin with it. */
export const NAME = "throttr-edge";

/** The command, an argument or the configuration is wrong: nothing was sent. */
export class UsageError extends Error {
  override readonly name = "UsageError";
  readonly code: string;

  /**
   * @param code stable, such as `profile_unknown`
   * @param detail for people: names the field and the limit
   */
  constructor(code: string, detail: string) {
    super(detail);
    this.code = code;
  }
}

/** A failure, as it is printed. */
export interface Failure {
  readonly code: string;
  /** Without the code. */
  readonly message: string;
  readonly exitCode: ExitCode;
}

/** Codes of calls that came to nothing on the way, or whose outcome is not known. */
const OF_CONNECTIONS: ReadonlySet<string> = new Set([
  "closed",
  "connection_failed",
  "lease_lost",
  "outcome_unknown",
  "queue_full",
  "timeout",
  "web_socket_missing",
]);

/** Codes that the operations give before anything is sent. */
const OF_ARGUMENTS: ReadonlySet<string> = new Set([
  "after_invalid",
  "amount_invalid",
  "argument_invalid",
  "base_key_invalid",
  "burst_invalid",
  "by_invalid",
  "change_invalid",
  "channel_invalid",
  "combination_invalid",
  "cost_invalid",
  "expected_invalid",
  "idempotency_key_invalid",
  "key_invalid",
  "lease_invalid",
  "limit_invalid",
  "maximum_invalid",
  "name_invalid",
  "option_invalid",
  "payload_invalid",
  "prefix_invalid",
  "quota_invalid",
  "quota_name_taken",
  "quota_ratio_taken",
  "quotas_invalid",
  "rate_invalid",
  "resources_invalid",
  "strategy_unknown",
  "time_overflow",
  "ttl_invalid",
  "value_invalid",
  "window_invalid",
]);

/** What a thrown error stands for. */
export function failureOf(error: unknown): Failure {
  if (error instanceof UsageError) {
    return { code: error.code, message: error.message, exitCode: ExitCode.usage };
  }
  if (error instanceof CommanderError) {
    return {
      code: "usage_invalid",
      message: error.message.replace(/^error: /, ""),
      exitCode: ExitCode.usage,
    };
  }
  if (error instanceof ThrottrError) {
    const { code, message } = error;
    const detail = withReason(message.slice(code.length + 2), error);
    return { code, message: detail, exitCode: exitCodeOf(code) };
  }
  return { code: "internal", message: detailOf(error), exitCode: ExitCode.fault };
}

function exitCodeOf(code: string): ExitCode {
  if (code === "aborted") return ExitCode.interrupted;
  if (code === "semaphore_unavailable") return ExitCode.refused;
  if (OF_CONNECTIONS.has(code)) return ExitCode.connection;
  return OF_ARGUMENTS.has(code) ? ExitCode.usage : ExitCode.server;
}

/** What has failed first says why: `fetch` itself tells nothing. */
function withReason(detail: string, error: Error): string {
  let reason: unknown = error;
  while (reason instanceof Error && reason.cause !== undefined) reason = reason.cause;
  if (!(reason instanceof Error)) return detail;
  const { code } = reason as NodeJS.ErrnoException;
  const text = reason.message || (code ?? "");
  return text === "" || error.message.includes(text) ? detail : `${detail}: ${text}`;
}

function detailOf(error: unknown): string {
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}

/** Prints a failure on standard error. Gives its exit code. */
export function printFailure(error: unknown, stderr: Sink, isJson: boolean): ExitCode {
  const { code, message, exitCode } = failureOf(error);
  if (isJson) {
    stderr.write(`${jsonOf({ error: { code, message, exitCode } })}\n`);
  } else if (exitCode !== ExitCode.interrupted) {
    const isUsage = code === "usage_invalid";
    stderr.write(`${NAME}: ${isUsage ? "" : `${code}: `}${shownLines(message)}\n`);
  }
  return exitCode;
}
