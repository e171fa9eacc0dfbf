/** Questions to whoever sits at the terminal. */
import { confirm, isCancel, password } from "@clack/prompts";
import { ExitCode } from "./exit-code.ts";
import { UsageError } from "./failure.ts";
import { isInteractive } from "./host.ts";
import type { Invocation } from "./invocation.ts";
import { ThrottrError } from "../wire/edge/error.ts";

/**
 * Asks before what can't be undone. False when the answer is no.
 *
 * @param isAgreed the flag `--yes`
 * @throws UsageError `confirmation_missing` when nobody can be asked
 */
export async function isConfirmed(
  { host, output, signal }: Invocation,
  message: string,
  isAgreed: boolean | undefined,
): Promise<boolean> {
  if (isAgreed === true) return true;
  if (!isInteractive(host) || output.isJson) {
    throw new UsageError("confirmation_missing", `${message} Say --yes to go on.`);
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

/** Asks for what must not be seen; empty where nothing was typed. */
export async function askSecret({ host, signal }: Invocation, message: string): Promise<string> {
  const answer = await password({ message, input: host.stdin, output: host.stdout, signal });
  if (isCancel(answer)) throw unanswered();
  return answer ?? "";
}

function unanswered(): ThrottrError {
  return new ThrottrError("aborted", "the question was not answered");
}

/** Says that nothing was done. */
export function declined({ output }: Invocation): ExitCode {
  output.note("nothing was done");
  return ExitCode.refused;
}
