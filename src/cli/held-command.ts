/**
 * Runs a program while a lease is held: `throttr-edge acquire NAME -- PROGRAM`.
 *
 * The program must not outlive its lease, because another holder may start then. So losing the lease ends it, and
 * the lease is released as soon as it exits, however it exits.
 */
import { spawn, type ChildProcess } from "node:child_process";
import type { HeldLease } from "../client/semaphore/leases.ts";
import { ThrottrError } from "../wire/edge/error.ts";
import { failureOf } from "./failure.ts";
import { childExitCode, type ExitCode } from "./exit-code.ts";
import type { Invocation } from "./invocation.ts";

/** The exit codes of shells for a program that does not exist, and for one that cannot be executed. */
const NOT_FOUND = 127;
const NOT_RUNNABLE = 126;
/** How long a program may take to exit after SIGTERM, once its lease is lost. */
const GRACE_MS = 10_000;

/**
 * Runs a program and releases the lease when it exits.
 *
 * The program receives SIGINT, SIGTERM and SIGHUP and decides what to do. If the lease is lost, it gets SIGTERM, and SIGKILL
 * 10 s later.
 *
 * @returns the program's exit code, 128 plus the number of the signal that ended it, 127 if there is no such
 * program, or 126 if it cannot be executed
 */
export async function runHolding(
  invocation: Invocation,
  lease: HeldLease,
  [program, ...args]: readonly string[],
): Promise<ExitCode> {
  // With the terminal of this process: the program may ask questions. No shell, so arguments stay
  // as they are.
  const child = spawn(program!, args, {
    stdio: "inherit",
    env: { ...invocation.host.environment, THROTTR_LEASE_ID: lease.leaseId },
  });
  const ended = endOf(child);
  const killer = endAtLoss(child, lease, invocation);
  const stopPassing = passSignals(child, invocation);
  try {
    const exitCode = await ended;
    // A lost lease is the result, whatever the program's own exit code is: its work was not
    // protected.
    const { reason } = lease.signal;
    return lease.signal.aborted ? invocation.report(reason) : exitCode;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    const detail = `${program}: ${(error as Error).message}`;
    invocation.report(new ThrottrError("command_failed", detail));
    return code === "ENOENT" ? NOT_FOUND : NOT_RUNNABLE;
  } finally {
    stopPassing();
    killer();
    await release(invocation, lease);
  }
}

/** The exit code of a process. Rejects if it could not be started. */
function endOf(child: ChildProcess): Promise<ExitCode> {
  return new Promise((resolve, reject) => {
    child.once("error", reject);
    child.once("exit", (exitCode, signal) => {
      resolve(childExitCode(exitCode, signal));
    });
  });
}

/** Ends the program when its lease is lost. Returns a function that stops watching. */
function endAtLoss(child: ChildProcess, lease: HeldLease, { output }: Invocation): () => void {
  let timer: NodeJS.Timeout | undefined;
  const onLoss = (): void => {
    output.note(output.bad("the lease was lost; ending the command"));
    child.kill("SIGTERM");
    // The lease is lost already: another holder may have started.
    timer = setTimeout(() => child.kill("SIGKILL"), GRACE_MS);
  };
  if (lease.signal.aborted) onLoss();
  else lease.signal.addEventListener("abort", onLoss);
  return () => {
    lease.signal.removeEventListener("abort", onLoss);
    clearTimeout(timer);
  };
}

/**
 * Passes SIGINT, SIGTERM and SIGHUP on to the program. What a terminal sends, at Ctrl-C and when it is closed, is not passed on:
 * the whole process group gets it, so the program has received it already, and a second one would kill many programs.
 */
function passSignals(child: ChildProcess, { run, host }: Invocation): () => void {
  const isOfTerminal = (name: NodeJS.Signals): boolean =>
    name !== "SIGTERM" && host.stdin.isTTY === true;
  const pass = (name: NodeJS.Signals): void => {
    if (!isOfTerminal(name)) child.kill(name);
  };
  let signal: AbortSignal;
  const onAbort = (): void => {
    pass(signal.reason as NodeJS.Signals);
    listen();
  };
  const listen = (): void => {
    signal = run.renewSignal();
    signal.addEventListener("abort", onAbort, { once: true });
  };
  listen();
  // Without a listener it would end this process, and the program would go on without its lease.
  process.on("SIGHUP", pass);
  return () => {
    signal.removeEventListener("abort", onAbort);
    process.off("SIGHUP", pass);
  };
}

/** Releases the lease. If that fails the lease expires by itself, so the program's exit code stays as it is. */
async function release({ output }: Invocation, lease: HeldLease): Promise<void> {
  if (!lease.isHeld) return;
  try {
    await lease.release();
  } catch (error) {
    const { code, message } = failureOf(error);
    output.note(`the lease could not be released and will expire by itself: ${code}: ${message}`);
  }
}
