/** Questions to the person at the terminal. A script gets a usage error that names the flag to use instead. */
import { confirm, isCancel, password } from "@clack/prompts";
import { ExitCode } from "./exit-code.ts";
import { UsageError } from "./failure.ts";
import { isInteractive } from "./host.ts";
import type { Invocation } from "./invocation.ts";
import { ThrottrError } from "../wire/edge/error.ts";

/**
 * Asks for confirmation before something that cannot be undone. False if the answer is no.
 *
 * @param isAgreed the flag `--yes`
 * @throws UsageError `confirmation_missing` if input or output is not a terminal
 */
export async function isConfirmed(
  { host, output, signal }: Invocation,
  message: string,
  isAgreed: boolean | undefined,
): Promise<boolean> {
  if (isAgreed === true) return true;
  if (!isInteractive(host) || output.isJson) {
    throw new UsageError("confirmation_missing", `${message} Use --yes to confirm.`);
  }
  const answer = await confirm({
    message,
    initialValue: false,
    input: host.stdin,
    output: host.stdout,
    signal,
  });
  if (isCancel(answer)) throw unanswered();
  return answer;
}

/** Asks for a secret without showing it; empty if nothing was typed. */
export async function askSecret({ host, signal }: Invocation, message: string): Promise<string> {
  const answer = await password({ message, input: host.stdin, output: host.stdout, signal });
  if (isCancel(answer)) throw unanswered();
  return answer ?? "";
}

/** Ctrl-C, Ctrl-D or Escape at a question: ends the command as Ctrl-C elsewhere. */
function unanswered(): ThrottrError {
  return new ThrottrError("aborted", "the question was not answered");
}

/** Reports that the person declined, so nothing changed. */
export function declined({ output }: Invocation): ExitCode {
  output.note("nothing was changed");
  return ExitCode.refused;
}
